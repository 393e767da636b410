"""Only so many members of a host ask another host at a time, and every member gets its turn."""

from collections.abc import Callable, Hashable

from holdfast.model.ids import GroupId, HostId
from holdfast.model.ports import TimerId
from holdfast.sequence.catchup_limiter import STAY_NS, CatchupLimiter

B, C = HostId("b"), HostId("c")


class Host:
    """A host whose members ask, and whose time passes on command."""

    def __init__(self, asking_max: int) -> None:
        self.time_ns = 0
        self.gone: list[int] = []
        self._number = 0
        self._due: dict[TimerId, tuple[int, Hashable]] = {}
        self.catchup_limiter = CatchupLimiter(self, self._timers, asking_max=asking_max)

    def now(self) -> int:
        return self.time_ns

    def wall(self) -> int:
        raise AssertionError("nobody needs to know what time it is")

    def _timers(self, on_timer: Callable[[Hashable], None]) -> "Host":
        self._on_timer = on_timer
        return self

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        self._number += 1
        self._due[TimerId(self._number)] = (self.time_ns + delay_ns, tag)
        return TimerId(self._number)

    def cancel(self, timer: TimerId) -> None:
        del self._due[timer]

    def passes(self, ns: int) -> None:
        """Let time pass, and fire the timers that are due by then."""
        until = self.time_ns + ns
        while self._due and min(self._due.values())[0] <= until:
            self.time_ns = max(self.time_ns, min(self._due.values())[0])
            self.fire()
        self.time_ns = until

    def fire(self) -> None:
        """Fire the next timer, whether it is due or not."""
        assert len(self._due) == 1, "one timer for all"
        _, tag = self._due.popitem()[1]
        self._on_timer(tag)

    def ask(self, group: int, host: HostId = B) -> bool:
        return self.catchup_limiter.enter(host, GroupId(group), lambda: self.gone.append(group))

    def leave(self, group: int) -> None:
        self.catchup_limiter.leave(GroupId(group))


def test_so_many_ask_at_a_time_and_the_next_when_one_is_fed() -> None:
    """Members that wait are called once there is room, in order of arrival, and not before."""
    host = Host(asking_max=2)
    assert [host.ask(group) for group in range(5)] == [True, True, False, False, False]
    assert host.ask(0), "who is inside may ask again"
    host.passes(STAY_NS // 2)
    assert host.gone == []
    host.leave(1)
    host.passes(0)
    assert host.gone == [2]
    host.leave(0)
    host.leave(2)
    host.passes(0)
    assert host.gone == [2, 3, 4]


def test_who_is_not_fed_makes_room_for_who_waits() -> None:
    """A primary that does not answer holds up nobody else for long. A member that was put out waits at the
    end."""
    host = Host(asking_max=1)
    assert host.ask(0)
    assert not host.ask(1)
    host.passes(STAY_NS)
    assert host.gone == [1]
    assert not host.ask(0)
    host.passes(STAY_NS)
    assert host.gone == [1, 0]


def test_a_timer_that_comes_early_is_set_again() -> None:
    """The machine's timers may fire a moment early; no member may wait forever because of that."""
    host = Host(asking_max=1)
    host.ask(0)
    host.ask(1)
    host.passes(STAY_NS - 1)
    host.fire()
    assert host.gone == []
    host.passes(1)
    assert host.gone == [1]


def test_nobody_is_put_out_for_nobody() -> None:
    """While nobody else waits, a member may ask for as long as it likes, and there is no timer."""
    host = Host(asking_max=1)
    assert host.ask(0)
    host.passes(10 * STAY_NS)
    assert host.ask(0)
    assert not host._due


def test_each_host_has_its_own() -> None:
    """A host that does not answer keeps nobody from asking another. A member that follows another host asks
    there."""
    host = Host(asking_max=1)
    assert host.ask(0, B)
    assert host.ask(1, C)
    assert not host.ask(2, B)
    assert not host.ask(2, C), "it has gone to the other, and waits there"
    host.leave(0)
    host.passes(0)
    assert host.gone == []
    host.leave(1)
    host.passes(0)
    assert host.gone == [2]


def test_who_is_called_may_go_elsewhere() -> None:
    """When its turn comes, a member may follow a primary on another host that nobody has asked before."""
    host = Host(asking_max=1)
    host.ask(0, B)
    assert not host.catchup_limiter.enter(B, GroupId(1), lambda: host.gone.append(host.ask(1, C)))
    host.leave(0)
    host.passes(0)
    assert host.gone == [True]
    assert host.ask(2, B), "it has made room"


def test_who_leaves_while_it_waits_is_not_called() -> None:
    host = Host(asking_max=1)
    host.ask(0)
    host.ask(1)
    host.ask(2)
    host.leave(1)
    host.leave(1)
    host.leave(0)
    host.passes(0)
    assert host.gone == [2]


def test_thousands_have_their_turn_though_nobody_answers() -> None:
    """All members that ask an unreachable host are called, within a time proportional to their number."""
    host, groups, room = Host(asking_max=16), 1_000, 16
    let = sum(host.ask(group) for group in range(groups))
    assert let == room
    host.passes((groups // room + 1) * STAY_NS)
    assert sorted(host.gone) == list(range(room, groups))
