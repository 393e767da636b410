"""A host's time does not jump, and a host whose time differs from most others' is off (X4)."""

import pytest

from holdfast.clock.offsets import SteadyClock
from holdfast.model.ids import HOUR, MILLISECOND, SECOND, HostId
from holdfast.sequence.peer_clocks import FRESH_NS, PeerClocks
from holdfast.sim.engine.clocks import ClockOptions, SimClock

A, B, C = HostId("a"), HostId("b"), HostId("c")
LIMIT_NS = 60 * SECOND


class Machine:
    """One host's clock, and the true time."""

    def __init__(self, ahead_ns: int = 0) -> None:
        self.time_ns = 0
        self.right = SimClock(lambda: self.time_ns, ClockOptions())
        self.clock = SimClock(lambda: self.time_ns, ClockOptions(wall_offset_ns=ahead_ns))
        self.steady = SteadyClock(self.clock, LIMIT_NS)
        self.peers = PeerClocks(self.steady)

    def ahead_ns(self) -> int:
        return self.steady.wall() - self.right.wall()

    def hear(self, **ahead_ns: int) -> None:
        for host, ahead in ahead_ns.items():
            self.peers.heard(HostId(host), self.right.wall() + ahead)


@pytest.mark.parametrize("jump_ns", [2 * HOUR, -2 * HOUR])
def test_a_jump_is_not_followed_and_time_goes_on(jump_ns: int) -> None:
    machine = Machine()
    machine.clock.jump_wall(jump_ns)
    assert machine.ahead_ns() == 0
    machine.time_ns += 10 * SECOND
    assert machine.ahead_ns() == 0
    assert machine.steady.jump_ns == jump_ns
    machine.clock.jump_wall(-jump_ns)
    assert (machine.ahead_ns(), machine.steady.jump_ns) == (0, 0)


def test_small_steps_and_drift_are_followed() -> None:
    machine = Machine()
    for _ in range(100):
        machine.clock.jump_wall(30 * SECOND)
        assert machine.steady.jump_ns == 0
    assert machine.ahead_ns() == 3000 * SECOND


def test_time_that_goes_by_between_two_looks_is_no_jump() -> None:
    """On a busy machine a process may be paused anywhere, also between reading the two clocks."""
    machine = Machine()
    looks = iter(range(1_000))

    def busy_ns() -> int:
        machine.time_ns += next(looks) % 7 * MILLISECOND
        return machine.time_ns

    machine.clock = SimClock(busy_ns, ClockOptions())
    steady = SteadyClock(machine.clock, LIMIT_NS)
    assert [steady.jump_ns for _ in range(50)] == [0] * 50


def test_a_clock_that_was_set_right_is_followed_once_the_others_agree() -> None:
    """The clock was two hours ahead when its host started."""
    machine = Machine(ahead_ns=2 * HOUR)
    machine.hear(b=0, c=5 * MILLISECOND)
    assert machine.peers.is_off
    machine.clock.jump_wall(-2 * HOUR)
    assert machine.ahead_ns() == 2 * HOUR, "nobody has said yet that this is right"
    machine.hear(b=0)
    assert machine.ahead_ns() == 0
    machine.hear(b=0, c=0)
    assert not machine.peers.is_off


def test_a_clock_that_was_set_wrong_is_not_followed_though_one_other_agrees() -> None:
    machine = Machine()
    machine.hear(b=0, c=2 * HOUR)
    machine.clock.jump_wall(2 * HOUR)
    machine.hear(b=0, c=2 * HOUR)
    assert machine.ahead_ns() == 0


def test_who_differs_from_most_is_off_and_from_one_is_not() -> None:
    machine = Machine()
    machine.hear(b=2 * HOUR)
    assert not machine.peers.is_off, "one of two is wrong, and nobody knows which"
    machine.hear(c=0)
    assert not machine.peers.is_off
    machine.hear(c=-2 * HOUR)
    assert machine.peers.is_off
    machine.time_ns += FRESH_NS
    assert not machine.peers.is_off, "those were heard too long ago"


def test_how_far_it_is_off_is_known() -> None:
    """The skew is the median of the peers' clocks, else the jump of its own clock; 0 while all is well."""
    machine = Machine()
    machine.hear(a=0, b=0, c=0)
    assert machine.peers.skew_ns == 0
    machine.clock.jump_wall(2 * HOUR)
    assert machine.peers.skew_ns == 2 * HOUR
    behind = Machine(-3 * HOUR)
    behind.hear(a=0, b=0, c=HOUR)
    assert behind.peers.skew_ns == -3 * HOUR
