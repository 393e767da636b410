"""How old a backup's state is, as far as its primary has said: the right to answer stale reads (S7).

A backup asks its primary how far the group has come; a primary answers only if it may read (R1, R2), so
everything that anybody was told before the question was asked lies within the answer. Once the backup's state
holds that much, it is as fresh as the question is young. No two clocks are compared, and a group that nobody
reads from its backups costs nothing. One answer serves all reads that its age satisfies.
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
"""How long a read may wait here to be answered; then it is turned away, to be asked of the primary."""
WAITING_MAX: Final = 10_000
"""Reads of one group that wait."""


@dataclass(frozen=True, slots=True)
class Read:
    """A read that a backup may answer."""

    not_before_ns: int
    """It needs all that was acknowledged by then, by this host's clock."""
    seen: Position
    """And all that its client has seen."""
    answer: Callable[[], None]
    """Answer it from the state as it is, or turn it away."""
    turn_away: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Known:
    """What one group's primary has said."""

    asked_ns: int
    position: Position
    """Everything acknowledged by *asked_ns* is within this."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    read: Read
    until_ns: int


_NOTHING: Final = _Known(-1, Position(0))


class StaleReads:
    """The reads that wait at the backups of one host."""

    def __init__(
        self, housed: Mapping[GroupId, HostedGroup], clock: Clock, timers: MakeTimers, network: Network
    ) -> None:
        self._housed = housed
        self._clock = clock
        self._timers = timers(self._on_timer)
        self._network = network
        self._known: dict[GroupId, _Known] = {}
        self._waiting: dict[GroupId, list[_Waiting]] = {}
        self._asked: dict[GroupId, tuple[int, int]] = {}
        """The question under way: its number, and when it was asked."""
        self._number = 0

    def read(self, housed: HostedGroup, read: Read) -> None:
        """Answer *read* as soon as the state of *housed* is fresh enough, or turn it away. Raises
        ``Unavailable``, ``Overloaded``."""
        housed.replica.keep_up()
        if self._is_ripe(housed, read):
            read.answer()
            return
        waiting = self._waiting.setdefault(housed.group, [])
        if len(waiting) >= WAITING_MAX:
            raise Overloaded(f"group {housed.group}: {len(waiting)} reads wait at this member")
        waiting.append(_Waiting(read, self._clock.now() + WAIT_NS))
        self._timers.set(WAIT_NS, housed.group)
        self._ask(housed)

    def is_awaited(self, group: GroupId) -> bool:
        """Whether reads wait for what the group commits."""
        return group in self._waiting

    def on_turn(self, housed: HostedGroup) -> None:
        """Something has happened to the group."""
        if housed.group in self._waiting:
            self._serve(housed)

    def on_message(self, peer: HostId, message: HowFar | ThisFar) -> None:
        housed = self._housed.get(message.group)
        if housed is None:
            return
        if isinstance(message, HowFar):
            self._say_how_far(housed, message, partial(self._network.send, peer))
        else:
            self._learn(housed, message)

    def _say_how_far(self, housed: HostedGroup, asked: HowFar, tell: Callable[[ThisFar], None]) -> None:
        member = housed.member
        answer = ThisFar(housed.group, asked.number, member.committed)
        if member.is_serving and member.may_read():
            tell(answer)
        elif member.is_serving:
            member.confirm_read(lambda may_read: tell(answer) if may_read else None)

    def _learn(self, housed: HostedGroup, message: ThisFar) -> None:
        number, asked_ns = self._asked.get(housed.group, (0, 0))
        if number != message.number:
            return
        del self._asked[housed.group]
        self._known[housed.group] = _Known(asked_ns, message.position)
        self._serve(housed)
        if any(each.read.not_before_ns > asked_ns for each in self._waiting.get(housed.group, ())):
            self._ask(housed)

    def forget(self, group: GroupId) -> None:
        """The group has left this host."""
        self._known.pop(group, None)
        self._asked.pop(group, None)
        for each in self._waiting.pop(group, ()):
            each.read.turn_away("the group has left this host")

    def _ask(self, housed: HostedGroup) -> None:
        view = housed.view
        if housed.group not in self._asked and view is not None:
            self._number += 1
            self._asked[housed.group] = (self._number, self._clock.now())
            question = HowFar(housed.group, self._number)
            if housed.is_primary:
                self._say_how_far(housed, question, partial(self._learn, housed))
            else:
                self._network.send(view.primary, question)

    def _serve(self, housed: HostedGroup) -> None:
        with suppress(Unavailable):  # it may have been primary when the read came, and hold no object now
            housed.replica.keep_up()
        waiting = self._waiting.pop(housed.group, [])
        left = [each for each in waiting if not self._is_ripe(housed, each.read)]
        if left:
            self._waiting[housed.group] = left
        for each in waiting:
            if self._is_ripe(housed, each.read):
                each.read.answer()

    def _is_ripe(self, housed: HostedGroup, read: Read) -> bool:
        known = self._known.get(housed.group, _NOTHING)
        is_young = known.asked_ns >= read.not_before_ns
        return is_young and housed.replica.reached >= max(known.position, read.seen)

    def _on_timer(self, tag: Hashable) -> None:
        group = GroupId(tag) if isinstance(tag, int) else GroupId(0)
        now = self._clock.now()
        waiting = self._waiting.pop(group, [])
        late = [each for each in waiting if each.until_ns <= now]
        left = [each for each in waiting if each.until_ns > now]
        if left:
            self._waiting[group] = left
            if not late:
                self._timers.set(left[0].until_ns - now, group)  # it fired a little early
        if late:
            self._asked.pop(group, None)  # the answer may be lost: whoever comes next asks again
        for each in late:
            each.read.turn_away("this member cannot tell in time that its state is fresh enough")
