"""Two masters compared: what is on its way is no difference, and what stays is one."""

import pytest

from holdfast.clock.errors import DifferentGeneration
from holdfast.clock.vector import Vector
from holdfast.directory.interchange.comparing import Comparing, Facts, Moment, facts
from holdfast.model.csn import Csn
from holdfast.model.ids import ReplicaId


def has(*seconds: int, generation: str = "g") -> Vector:
    """Replica 1 up to the first second, replica 2 up to the next ..."""
    return Vector.of(
        generation, [Csn(second, 0, ReplicaId(number)) for number, second in enumerate(seconds, start=1)]
    )


def shows(text: str) -> dict[str, Facts]:
    return {"id": facts("cn=it", {"cn": [text.encode()]})}


def moment(text: str, before: Vector, after: Vector | None = None) -> Moment:
    return Moment(shows(text), before, before if after is None else after)


def test_equal_vectors_decide_at_once() -> None:
    assert Comparing().look(moment("a", has(1, 1)), moment("a", has(1, 1))).real == ()
    (found,) = Comparing().look(moment("a", has(1, 1)), moment("b", has(1, 1))).real
    assert "has other attributes" in str(found)
    with pytest.raises(DifferentGeneration):
        Comparing().look(moment("a", has(1)), moment("a", has(1, generation="h")))


def test_what_changes_while_it_is_read_decides_nothing() -> None:
    found = Comparing().look(moment("a", has(1), has(2)), moment("b", has(1), has(2)))
    assert (found.real, len(found.open)) == ((), 1)


def test_a_difference_that_outlasts_what_could_explain_it_is_real() -> None:
    """The same before, and after both have caught up with what either had then."""
    comparing = Comparing()
    assert comparing.look(moment("a", has(2, 1)), moment("b", has(1, 2))).real == ()
    # One of them has not caught up: its change may be the explanation.
    assert comparing.look(moment("a", has(3, 1)), moment("b", has(2, 3))).real == ()
    (found,) = comparing.look(moment("a", has(4, 3)), moment("b", has(3, 4))).real
    assert found.entry == "id"


def test_a_difference_that_is_another_one_each_time_stays_open() -> None:
    comparing = Comparing()
    for second in range(1, 6):
        found = comparing.look(
            moment(f"a{second}", has(second + 1, second)), moment("b", has(second, second + 1))
        )
        assert found.real == ()
        assert len(found.open) == 1


def test_the_order_of_attributes_and_values_does_not_count() -> None:
    assert facts("cn=it", {"CN": [b"b", b"a"], "sn": [b"x"]}) == facts(
        "cn=it", {"sn": [b"x"], "cn": [b"a", b"b"]}
    )
    assert facts("cn=it", {"cn": [b"ab"]}) != facts("cn=it", {"cn": [b"a", b"b"]})
