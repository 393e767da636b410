"""Cycles of waiting groups (E10): where a path closes, and which of its calls gives way."""

from holdfast.model.deadlock import Root, Waits, circle_in, victim
from holdfast.model.ids import ClientId, GroupId


def waits(group: int, time_ns: int, *, call: int = 1, is_unbegun: bool = True) -> Waits:
    root = Root(time_ns, f"g{group}", ClientId("c"), group)
    return Waits(GroupId(group), f"g{group}", ClientId("c"), group, call, root, 60, is_unbegun)


def test_a_path_that_comes_back_is_a_circle_without_what_led_to_it() -> None:
    path = (waits(1, 10), waits(2, 20), waits(3, 30))
    assert circle_in(path, waits(2, 20)) == path[1:]
    assert circle_in(path, waits(4, 40)) == ()


def test_an_operation_that_waits_for_another_call_by_now_closes_nothing() -> None:
    """The probe was slow: the call by which it left has been answered meanwhile."""
    path = (waits(1, 10, call=1), waits(2, 20))
    assert circle_in(path, waits(1, 10, call=2)) == ()


def test_the_youngest_root_gives_way_wherever_the_circle_is_entered() -> None:
    circle = (waits(1, 10), waits(2, 30), waits(3, 20))
    for turn in range(3):
        turned = (*circle[turn:], *circle[:turn])
        index = victim(turned)
        assert index is not None
        assert turned[index] == circle[1]


def test_requests_of_one_moment_are_told_apart() -> None:
    circle = (waits(1, 10), waits(2, 10))
    turned = circle[::-1]
    one, other = victim(circle), victim(turned)
    assert one is not None
    assert other is not None
    assert circle[one] == turned[other]


def test_only_a_call_that_has_not_begun_gives_way() -> None:
    """The youngest call has begun in the group it was made to, which waits for the third group."""
    circle = (waits(1, 30, is_unbegun=False), waits(2, 20))
    assert victim(circle) == 1
    assert victim((waits(1, 30, is_unbegun=False),)) is None
