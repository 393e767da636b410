"""Lets backups answer stale reads, by finding out how old their state is (S7).

A backup asks its primary how far the group has come. A primary answers only if it may read (R1, R2), so the
answer covers everything that anybody was told before the question was asked. Once the backup's state has
reached that position, it is as fresh as the question is young. No two clocks are compared, and groups whose
backups nobody reads cost nothing. One answer serves all reads that its age satisfies.
"""

from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.ports import MakeTimers
from holdfast.model.errors import Overloaded, Unavailable
from holdfast.model.ids import MILLISECOND, GroupId, HostId, Position
from holdfast.model.ports import Clock, Network
from holdfast.sequence.messages import HowFar, ThisFar

WAIT_NS: Final = 100 * MILLISECOND
"""How long a read may wait here. Then it is turned away, and the client asks the primary."""
WAITING_MAX: Final = 10_000
"""How many reads of one group may wait."""


@dataclass(frozen=True, slots=True)
class Read:
    """A read that a backup may answer."""

    not_before_ns: int
    """The read needs everything that was acknowledged by this time on this host's clock."""
    seen: Position
    """The read also needs everything up to this position, which its client has seen."""
    answer: Callable[[], None]
    """Answers the read from the current state, or turns it away."""
    turn_away: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Known:
    """What the primary of one group has answered."""

    asked_ns: int
    position: Position
    """Includes everything acknowledged by *asked_ns*."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    read: Read
    until_ns: int


_NOTHING: Final = _Known(-1, Position(0))


class StaleReads:
    """The reads that wait at the members of one host until their state is fresh enough."""

    def __init__(
        self, hosted: Mapping[GroupId, HostedGroup], clock: Clock, timers: MakeTimers, network: Network
    ) -> None:
        self._hosted = hosted
        self._clock = clock
        self._timers = timers(self._on_timer)
        self._network = network
        self._known: dict[GroupId, _Known] = {}
        self._waiting: dict[GroupId, list[_Waiting]] = {}
        self.is_awaited = self._waiting.__contains__
        """Whether reads wait for the group's next commits. Every commit asks, and C code answers."""
        self._asked: dict[GroupId, tuple[int, int]] = {}
        """The pending question of each group: its number, and when it was asked."""
        self._number = 0

    def read(self, hosted: HostedGroup, read: Read) -> None:
        """Answer *read* as soon as the state of *hosted* is fresh enough, or turn it away. Raises
        ``Unavailable``, ``Overloaded``."""
        hosted.replica.keep_up()
        if self._is_ripe(hosted, read):
            read.answer()
            return
        waiting = self._waiting.setdefault(hosted.group, [])
        if len(waiting) >= WAITING_MAX:
            raise Overloaded(f"group {hosted.group}: {len(waiting)} reads wait at this member")
        waiting.append(_Waiting(read, self._clock.now() + WAIT_NS))
        self._timers.set(WAIT_NS, hosted.group)
        self._ask(hosted)

    def on_turn(self, hosted: HostedGroup) -> None:
        """Answer the waiting reads that have become possible, after a turn of the group."""
        if hosted.group in self._waiting:
            self._serve(hosted)

    def on_message(self, peer: HostId, message: HowFar | ThisFar) -> None:
        hosted = self._hosted.get(message.group)
        if hosted is None:
            return
        if isinstance(message, HowFar):
            self._say_how_far(hosted, message, partial(self._network.send, peer))
        else:
            self._learn(hosted, message)

    def _say_how_far(self, hosted: HostedGroup, asked: HowFar, tell: Callable[[ThisFar], None]) -> None:
        member = hosted.member
        answer = ThisFar(hosted.group, asked.number, member.committed)
        if member.is_serving and member.may_read():
            tell(answer)
        elif member.is_serving:
            member.confirm_read(lambda may_read: tell(answer) if may_read else None)

    def _learn(self, hosted: HostedGroup, message: ThisFar) -> None:
        number, asked_ns = self._asked.get(hosted.group, (0, 0))
        if number != message.number:
            return
        del self._asked[hosted.group]
        self._known[hosted.group] = _Known(asked_ns, message.position)
        self._serve(hosted)
        if any(each.read.not_before_ns > asked_ns for each in self._waiting.get(hosted.group, ())):
            self._ask(hosted)

    def forget(self, group: GroupId) -> None:
        """Turn away the waiting reads of a group that has left this host."""
        self._known.pop(group, None)
        self._asked.pop(group, None)
        for each in self._waiting.pop(group, ()):
            each.read.turn_away("the group has left this host")

    def _ask(self, hosted: HostedGroup) -> None:
        view = hosted.view
        if hosted.group not in self._asked and view is not None:
            self._number += 1
            self._asked[hosted.group] = (self._number, self._clock.now())
            question = HowFar(hosted.group, self._number)
            if hosted.is_primary:
                self._say_how_far(hosted, question, partial(self._learn, hosted))
            else:
                self._network.send(view.primary, question)

    def _serve(self, hosted: HostedGroup) -> None:
        # the member may have been primary when the read came, and have no object now
        with suppress(Unavailable):
            hosted.replica.keep_up()
        waiting = self._waiting.pop(hosted.group, [])
        left = [each for each in waiting if not self._is_ripe(hosted, each.read)]
        if left:
            self._waiting[hosted.group] = left
        for each in waiting:
            if self._is_ripe(hosted, each.read):
                each.read.answer()

    def _is_ripe(self, hosted: HostedGroup, read: Read) -> bool:
        known = self._known.get(hosted.group, _NOTHING)
        is_young = known.asked_ns >= read.not_before_ns
        return is_young and hosted.replica.reached >= max(known.position, read.seen)

    def _on_timer(self, tag: Hashable) -> None:
        group = GroupId(tag) if isinstance(tag, int) else GroupId(0)
        now = self._clock.now()
        waiting = self._waiting.pop(group, [])
        late = [each for each in waiting if each.until_ns <= now]
        left = [each for each in waiting if each.until_ns > now]
        if left:
            self._waiting[group] = left
            if not late:
                self._timers.set(left[0].until_ns - now, group)  # the timer fired a little early
        if late:
            self._asked.pop(group, None)  # the answer may be lost, so the next read asks again
        for each in late:
            each.read.turn_away("this member cannot tell in time that its state is fresh enough")
