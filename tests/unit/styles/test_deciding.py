"""What styles base decisions on: time, numbers, and the cost of execution."""

from itertools import pairwise

import pytest
from fake_group import FakeClock
from group_classes import Spy
from style_groups import CONFIG

from holdfast.execution.definition import Definition
from holdfast.model.csn import ZERO, Csn
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import MILLISECOND, SECOND, ReplicaId
from holdfast.model.properties import Style, UnsupportedProperty
from holdfast.styles.by_name import make_member, style_named
from holdfast.styles.stamping import Stamper
from holdfast.styles.warm import Step, next_step


@pytest.mark.parametrize(
    ("spent_ms", "since_s", "state_bytes", "is_updateable", "has_base", "step"),
    [
        (0, 100, None, False, False, Step.NOTHING),
        (24, 1, None, False, False, Step.NOTHING),
        (25, 1, None, False, False, Step.STATE),
        (1, 10, None, False, False, Step.STATE),
        (25, 1, 64 * 1024, False, False, Step.STATE),
        (25, 1, 64 * 1024 + 1, False, False, Step.REPLAY),
        (25, 1, 100_000_000, True, True, Step.UPDATE),
        (25, 1, 10, True, False, Step.REPLAY),
    ],
)
def test_backups_are_brought_forward_by_the_time_spent_on_execution(
    spent_ms: int, since_s: int, state_bytes: int | None, is_updateable: bool, has_base: bool, step: Step
) -> None:
    """E5."""
    found = next_step(
        spent_ms * MILLISECOND,
        since_s * SECOND,
        state_bytes=state_bytes,
        is_updateable=is_updateable,
        has_base=has_base,
        config=CONFIG,
    )
    assert found is step


def test_a_turn_has_one_csn_and_time_never_goes_back() -> None:
    """S1: a clock that goes back or stands still does not turn back the group's time."""
    clock, issued = FakeClock(), []

    def next_csn(after: Csn, now_s: int) -> Csn:
        issued.append(Csn(max(1000, after.timestamp), after.sequence + 1, ReplicaId(1)))
        return issued[-1]

    stamping = Stamper(clock, next_csn, clock.wall)
    stamping.resume(ZERO, 0)
    first, second = stamping.next(3), stamping.next(2)
    assert (first.csn, second.csn) == (issued[0], issued[0].part(3))
    stamping.end_turn()
    clock.time_ns -= 5 * SECOND
    third = stamping.next()
    assert third.csn == issued[1] > second.csn
    assert third.time_ns >= second.time_ns
    many = [stamping.next(4096) for _ in range(20)]
    assert all(one.csn < other.csn for one, other in pairwise(many))


def test_the_time_of_a_group_far_ahead_of_its_host_goes_on() -> None:
    """The fractions of a second between two stamps are not lost, however often something is ordered (E6)."""
    clock = FakeClock()
    ahead_ns = clock.wall() + 7200 * SECOND

    def next_csn(after: Csn, now_s: int) -> Csn:
        return (
            Csn(now_s, 0, ReplicaId(1)) if now_s > after.timestamp else Csn(after.timestamp, 1, after.replica)
        )

    stamping = Stamper(clock, next_csn, clock.wall)
    stamping.resume(Csn(ahead_ns // SECOND, 0, ReplicaId(2)), ahead_ns)
    for _ in range(50):
        clock.time_ns += 100 * MILLISECOND
        last = stamping.next()
        stamping.end_turn()
    assert ahead_ns + 4 * SECOND <= last.time_ns <= ahead_ns + 5 * SECOND


def test_a_timer_is_stamped_no_earlier_than_it_is_due() -> None:
    """E6: also where the host's CSNs lag by more than two seconds, and the time of stamps with them."""
    clock = FakeClock()
    began_s = clock.wall() // SECOND

    def next_csn(after: Csn, now_s: int) -> Csn:
        return Csn(began_s, after.sequence + 1, ReplicaId(1))

    stamping = Stamper(clock, next_csn, clock.wall)
    stamping.resume(ZERO, 0)
    clock.time_ns += 5 * SECOND
    due_ns = stamping.now_ns() - 1
    assert stamping.next().time_ns < due_ns
    assert stamping.next(least_ns=due_ns).time_ns == due_ns
    assert stamping.next().time_ns >= due_ns


@pytest.mark.covers("FTC-125", "FTC-131", "FTC-321")
def test_styles_have_the_numbers_of_the_standard_and_voting_is_refused() -> None:
    assert [(style.name, style.value) for style in Style] == [
        ("STATELESS", 0),
        ("COLD_PASSIVE", 1),
        ("WARM_PASSIVE", 2),
        ("ACTIVE", 3),
        ("ACTIVE_WITH_VOTING", 4),
    ]
    assert style_named("warm_passive") is Style.WARM_PASSIVE
    assert style_named("voting") is Style.ACTIVE_WITH_VOTING
    with pytest.raises(InvalidRequest, match=r"are stateless, cold_passive, warm_passive, active$"):
        style_named("lukewarm")
    with pytest.raises(UnsupportedProperty):
        make_member(Style.ACTIVE_WITH_VOTING, Definition("g", Spy, Spy), None, CONFIG)  # type: ignore[arg-type]
