"""Tests that a backup answers a read once its state is known to be fresh enough and has what the client saw
(S7)."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import cast

import pytest

from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.stale_reads import WAIT_NS, WAITING_MAX, Read, StaleReads
from holdfast.model.errors import Overloaded, Unavailable
from holdfast.model.ids import GroupId, HostId, Position
from holdfast.model.ports import TimerId
from holdfast.sequence.messages import HowFar, ThisFar

GROUP, PRIMARY, BACKUP = GroupId(1), HostId("a"), HostId("b")


@dataclass
class View:
    primary: HostId = PRIMARY


@dataclass
class Member:
    is_serving: bool = False
    may: bool = True
    confirms: list[Callable[[bool], None]] = field(default_factory=list)
    committed: Position = Position(0)  # noqa: RUF009 - a distinct int

    def may_read(self) -> bool:
        return self.may

    def confirm_read(self, then: Callable[[bool], None]) -> None:
        self.confirms.append(then)


@dataclass
class Replica:
    reached: Position = Position(0)  # noqa: RUF009 - a distinct int
    asked_to_keep_up: int = 0

    has_object: bool = True

    def keep_up(self) -> None:
        self.asked_to_keep_up += 1
        if not self.has_object:
            raise Unavailable("a cold backup holds no object")


@dataclass
class Group:
    """The parts of a hosted group that stale reads use."""

    group: GroupId = GROUP
    view: View = field(default_factory=View)
    member: Member = field(default_factory=Member)
    replica: Replica = field(default_factory=Replica)
    is_primary: bool = False


class World:
    """A host with one group: its clock, its timer, and what it sends."""

    def __init__(self) -> None:
        self.time_ns = 1_000_000
        self.sent: list[tuple[str, object]] = []
        self.fire: Callable[[Hashable], None] = lambda tag: None
        self.told: list[str] = []
        self.delays: list[int] = []
        self.group = Group()
        self.stale_reads = StaleReads(
            {GROUP: cast(HostedGroup, self.group)},
            self,
            self.make_timers,  # type: ignore[arg-type]  # a stand-in
            self,
        )

    def now(self) -> int:
        return self.time_ns

    def wall(self) -> int:
        return self.time_ns

    def make_timers(self, on_timer: Callable[[Hashable], None]) -> "World":
        self.fire = on_timer
        return self

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        self.delays.append(delay_ns)
        return TimerId(1)

    def cancel(self, timer: TimerId) -> None:
        return None

    def send(self, peer: str, message: object) -> None:
        self.sent.append((peer, message))

    def read(self, name: str, *, stale_ns: int = 0, seen: int = 0) -> None:
        read = Read(
            self.time_ns - stale_ns,
            Position(seen),
            lambda: self.told.append(name),
            lambda why: self.told.append(f"{name} turned away"),
        )
        self.stale_reads.read(cast(HostedGroup, self.group), read)

    def answer(self, number: int, position: int) -> None:
        self.stale_reads.on_message(PRIMARY, ThisFar(GROUP, number, Position(position)))

    def reach(self, position: int) -> None:
        self.group.replica.reached = Position(position)
        self.stale_reads.on_turn(cast(HostedGroup, self.group))


def test_a_backup_asks_its_primary_and_answers_when_it_has_come_so_far() -> None:
    world = World()
    world.read("one")
    assert world.sent == [(PRIMARY, HowFar(GROUP, 1))]
    world.reach(6)
    assert world.told == []
    world.answer(1, 7)
    assert world.told == []
    world.reach(7)
    assert world.told == ["one"]


def test_an_answer_serves_every_read_that_its_age_satisfies() -> None:
    world = World()
    world.reach(7)
    world.read("one")
    world.answer(1, 7)
    world.time_ns += 500
    world.read("two", stale_ns=500)
    assert world.told == ["one", "two"]
    world.read("three", stale_ns=499)
    assert world.told == ["one", "two"]
    assert world.sent[-1] == (PRIMARY, HowFar(GROUP, 2))


def test_a_question_that_was_asked_before_a_read_came_does_not_do_for_it() -> None:
    """Something may have been acknowledged in between."""
    world = World()
    world.reach(7)
    world.read("one")
    world.time_ns += 10
    world.read("two")
    world.answer(1, 7)
    assert world.told == ["one"]
    assert world.sent[-1] == (PRIMARY, HowFar(GROUP, 2))
    world.answer(2, 8)
    world.reach(8)
    assert world.told == ["one", "two"]


def test_a_client_reads_what_it_has_seen() -> None:
    world = World()
    world.reach(7)
    world.read("one", seen=8)
    world.answer(1, 7)
    assert world.told == []
    world.reach(8)
    assert world.told == ["one"]


def test_a_read_that_waits_too_long_is_turned_away() -> None:
    """The primary may be gone. The next read asks again."""
    world = World()
    world.read("one")
    world.time_ns += WAIT_NS - 1
    world.fire(GROUP)  # a little early, as timers are
    assert world.told == []
    world.time_ns += world.delays[-1]
    world.fire(GROUP)
    assert world.told == ["one turned away"]
    world.answer(1, 0)
    world.read("two")
    assert world.sent[-1] == (PRIMARY, HowFar(GROUP, 2))


def test_only_a_primary_that_may_read_says_how_far_the_group_is() -> None:
    """A primary that was replaced would not know (R1)."""
    world = World()
    member = world.group.member
    member.committed = Position(9)
    world.stale_reads.on_message(BACKUP, HowFar(GROUP, 3))
    assert world.sent == []
    member.is_serving = True
    world.stale_reads.on_message(BACKUP, HowFar(GROUP, 3))
    assert world.sent == [(BACKUP, ThisFar(GROUP, 3, Position(9)))]


def test_without_leases_the_authority_is_asked_and_what_was_committed_before_is_told() -> None:
    """R2: the answer confirms what was committed when the authority was asked, and no more."""
    world = World()
    member = world.group.member
    member.is_serving, member.may, member.committed = True, False, Position(9)
    world.stale_reads.on_message(BACKUP, HowFar(GROUP, 3))
    world.stale_reads.on_message(BACKUP, HowFar(GROUP, 4))
    assert world.sent == []
    member.committed = Position(11)
    member.confirms[0](True)
    member.confirms[1](False)
    assert world.sent == [(BACKUP, ThisFar(GROUP, 3, Position(9)))]


def test_a_primary_without_leases_asks_the_authority_for_itself() -> None:
    world = World()
    world.group.is_primary = True
    member = world.group.member
    member.is_serving, member.may, member.committed = True, False, Position(9)
    world.reach(9)
    world.read("one")
    assert world.told == world.sent == []
    member.confirms[0](True)
    assert world.told == ["one"]


def test_a_member_without_an_object_says_so_at_once_and_to_those_who_wait_in_time() -> None:
    """A cold primary has become a backup."""
    world = World()
    world.read("one")
    world.group.replica.has_object = False
    world.reach(0)
    with pytest.raises(Unavailable):
        world.read("two")
    world.time_ns += WAIT_NS
    world.fire(GROUP)
    assert world.told == ["one turned away"]


def test_the_reads_that_wait_are_bounded_and_end_with_the_group() -> None:
    world = World()
    for number in range(WAITING_MAX):
        world.read(str(number))
    with pytest.raises(Overloaded):
        world.read("one more")
    world.stale_reads.forget(GROUP)
    assert len(world.told) == WAITING_MAX
