"""The calls that a group's primary makes to other groups.

:class:`OutgoingCalls` tracks the calls that operations wait for (E3). :func:`held_up` tells which of these
calls another request waits for, as the primary of the called group knows it; deadlocks are found with it
(E10). :class:`Outbox` sends the group's one-way calls: one at a time to each receiver, in order (E13, E14).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from holdfast.execution.effects import Outgoing
from holdfast.execution.execution import Execution
from holdfast.execution.queue import OperationQueue
from holdfast.execution.sends import Send, Sends
from holdfast.model.calls import Request
from holdfast.model.deadlock import Root
from holdfast.model.errors import NoSuchGroup, Overloaded
from holdfast.model.ids import MILLISECOND, SECOND, Position
from holdfast.model.outcome import (
    NestedNotExecuted,
    Outcome,
    Poisoned,
    Raised,
    Refused,
    Returned,
    Unknown,
    raised_in_words,
)
from holdfast.model.ports import Clock

Key = tuple[Request, int]


class OutgoingCalls:
    """The nested calls of one replica, and whether a copy of each may have been sent before. An operation
    waits for one call at a time; many interleaved operations may wait at once."""

    def __init__(self) -> None:
        self._sent: set[Key] = set()
        """The calls that were sent and have no outcome. Sending them again would be harmless but useless."""
        self._line: OperationQueue | None = None
        self._turn = 0
        """The queue's waits up to this number have been sent."""
        self.term_began_at = Position(0)
        """Calls caused by positions up to this one may have been sent by an earlier primary."""
        self._again: dict[Key, None] = {}
        """The calls that this primary sent and must send again."""

    def take_up(self, committed: Position) -> None:
        """Start over as the primary."""
        self._line = None
        self._sent.clear()
        self._again.clear()
        self.term_began_at = committed

    def is_awaited(self, caller: Request, call: int) -> bool:
        return (caller, call) in self._sent

    def came_back(self, caller: Request, call: int) -> None:
        """Record that the call's outcome has been ordered."""
        self._sent.discard((caller, call))

    def send_again(self, caller: Request, call: int) -> None:
        """Record that the call's outcome arrived but could not be ordered: it is sent again once calls are
        taken again."""
        self._sent.discard((caller, call))
        self._again[caller, call] = None

    def to_send(self, line: OperationQueue, committed: Position) -> Iterator[Outgoing]:
        """The calls that operations wait for and that may be sent now, because everything that led to them is
        committed."""
        if line is not self._line:
            self._line, self._turn = line, 0
            self._sent.clear()
            self._again.clear()
        if self._again:
            yield from self._once_more(line)
        for turn, waits in line.outgoing_since(self._turn):
            if waits.position > committed:
                return  # the later ones are not committed either
            self._turn = turn
            self._sent.add((waits.caller, waits.call))
            yield replace(waits, may_have_left=waits.position <= self.term_began_at)

    def for_old_code(self, waits: Outgoing) -> Outgoing | None:
        """The call that a method of other code waits for outside this process (E7), if it is to be sent now;
        None if it has been sent."""
        key = (waits.caller, waits.call)
        if key in self._sent:
            return None
        self._sent.add(key)
        is_again = key in self._again
        self._again.pop(key, None)
        return replace(waits, may_have_left=is_again or waits.position <= self.term_began_at)

    def _once_more(self, line: OperationQueue) -> Iterator[Outgoing]:
        again, self._again = self._again, {}
        for caller, call in again:
            waits = line.outgoing_of(caller)
            if waits is not None and waits.call == call:
                self._sent.add((caller, call))
                yield replace(waits, may_have_left=True)


HELD_UP_BY_MAX: Final = 64
"""How many of the operations that hold up a queue are examined: the oldest."""


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Why a call has not ended."""

    is_unbegun: bool
    """Whether it is queued, or refused for lack of room, until the operations in *by* have ended. Otherwise
    it is one of them itself."""
    by: list[Outgoing]
    """The calls to other groups that these operations wait for and that have been sent."""


def held_up(
    execution: Execution, committed: Position, request: Request, *, has_room: bool = True
) -> HeldUp | None:
    """What *request* waits for; None if it is not known here, has ended, or waits for no other group.

    In a class with interleaved operations few are queued: while a checkpoint waits for the object to be at
    rest, until all waiting operations have ended; and if too many wait already, until any has ended. In the
    second case a cycle may resolve by itself, but it is broken anyway, because nobody knows whether it will.

    Without room a call is refused: until a checkpoint frees some of the log, and that waits until all waiting
    operations have ended; or until the queue is shorter, which waits for them as the queued calls do. Such a
    call is not queued here, and can give way all the same.
    """
    line = execution.line
    own = line.outgoing_of(request)
    if own is not None:
        return HeldUp(False, [own]) if own.position <= committed else None
    is_in_line = line.is_in_line(request)
    if not is_in_line and (has_room or execution.retention.reply_to(*request) is not None):
        return None
    by = [each for each in islice(line.outgoings(), HELD_UP_BY_MAX) if each.position <= committed]
    return HeldUp(True, by) if by else None


AGAIN_NS: Final = 1 * SECOND
"""The pause before a call is sent again that its receiver could not accept."""
ROOM_NS: Final = 200 * MILLISECOND
"""How often it is seen whether the log has room again for the ends of one-way calls."""


class Outbox:
    """Sends the one-way calls of one replica of *group*. Nobody knows whether a call has been sent before;
    its receiver executes it only once anyway."""

    def __init__(self, group: str, clock: Clock) -> None:
        self._group = group
        self._clock = clock
        self._in_flight: dict[int, tuple[str, Request]] = {}
        """The sends in flight, with their receiver and calling operation, until their ends have been
        executed."""
        self._ended: dict[str, tuple[Request, Position]] = {}
        """For each receiver, the operation whose send ended last and the position of that record, until it is
        committed."""
        self._not_before: dict[str, int] = {}
        """Receivers that could not accept a send, and when to try again."""
        self._seen = 0
        self._final_at: list[tuple[int, Position]] = []
        """Pairs of a number and a position not yet committed: sends up to that number were put by positions
        up to that one."""
        self._final = 0
        """Sends up to this number may leave."""
        self._may_have_left = 0
        """Sends up to this number may have been sent by another primary, unknown to this one."""
        self._in_doubt: set[int] = set()
        """Sends of this primary that may have been executed."""
        self.failed: list[tuple[Position, str]] = []
        """Calls that came to nothing, in words, each with the position of the record that says so. Nobody is
        told before that is committed. *Without it:* a primary that was replaced sends a call once more, is
        told that nobody awaits it, and reports a failure of a call that was executed."""

    def take_up(self, sends: Sends) -> None:
        """Start as the primary; everything in the outbox now is committed."""
        self._in_flight.clear()
        self._ended.clear()
        self._not_before.clear()
        self._final_at.clear()
        self._in_doubt.clear()
        self.failed.clear()
        self._seen = self._final = self._may_have_left = sends.issued

    def to_send(self, sends: Sends, reached: Position, committed: Position) -> Iterator[Outgoing]:
        """The sends that may leave now. *reached* is the position up to which the outbox is current."""
        self._take_final(sends, reached, committed)
        if not len(sends):
            return
        self._note_ends(sends, reached, committed)
        self._in_doubt = {number for number in self._in_doubt if sends.has(number)}
        busy, now = {to for to, _ in self._in_flight.values()}, self._clock.now()
        for send in list(sends.first_to_each()):
            if send.number > self._final or send.group in busy or now < self._not_before.get(send.group, 0):
                continue
            if send.group in self._ended and self._ended[send.group][0] == send.caller:
                continue
            self._in_flight[send.number] = (send.group, send.caller)
            yield self._outgoing(send, committed)

    def is_awaited(self, number: int) -> bool:
        return number in self._in_flight

    def send_again(self, number: int, *, is_soon: bool, is_in_doubt: bool) -> None:
        """Record that a send has not ended: its receiver could not accept it, or its end could not be
        ordered. *is_in_doubt*: it may have been executed anyway."""
        to, _ = self._in_flight.pop(number, ("", None))
        if is_in_doubt:
            self._in_doubt.add(number)
        if not is_soon:
            self._not_before[to] = self._clock.now() + AGAIN_NS

    def take_failed(self, committed: Position) -> list[str]:
        """Those that may be reported now, once."""
        final = [said for position, said in self.failed if position <= committed]
        self.failed = [each for each in self.failed if each[0] > committed]
        return final

    def next_ns(self, sends: Sends, *, has_room: bool) -> int | None:
        """When, by the clock, something must be sent again, or it must be seen whether there is room for its
        end. *Without the second:* the log is too long and nobody calls. The checkpoints that make it shorter
        are begun in turns, nothing causes another turn, and what is to be sent stays."""
        if len(sends) and not has_room:
            return self._clock.now() + ROOM_NS
        if self._not_before:
            now = self._clock.now()
            self._not_before = {to: at for to, at in self._not_before.items() if at > now}
        return min(self._not_before.values(), default=None) if len(sends) else None

    def _note_ends(self, sends: Sends, reached: Position, committed: Position) -> None:
        """Record which sends have ended. The next send of an operation tells the receiver that the one before
        is no longer awaited, and the receiver forgets its reply. *Without waiting for the commit:* all hosts
        lose power; the end of the first send is lost with the tail of the log, and its receiver answers
        forever that nobody awaits it."""
        self._ended = {to: end for to, end in self._ended.items() if end[1] > committed}
        for number, (to, caller) in list(self._in_flight.items()):
            if not sends.has(number):
                del self._in_flight[number]
                if reached > committed:
                    self._ended[to] = (caller, reached)

    def _take_final(self, sends: Sends, reached: Position, committed: Position) -> None:
        if sends.issued > self._seen:
            self._seen = sends.issued
            self._final_at.append((sends.issued, reached))
        while self._final_at and self._final_at[0][1] <= committed:
            self._final = self._final_at.pop(0)[0]

    def _outgoing(self, send: Send, committed: Position) -> Outgoing:
        return Outgoing(
            send.caller,
            send.call,
            send.group,
            send.method,
            send.arguments,
            -(-send.expires_ns // SECOND),
            (),
            committed,
            may_have_left=send.number <= self._may_have_left or send.number in self._in_doubt,
            traceparent=send.traceparent,
            root=Root(0, self._group, send.client, send.operation),
            deadline_ns=send.expires_ns,
            send=send.number,
        )


def end_of(outcome: Outcome, *, is_expired: bool) -> tuple[str, str] | None:
    """How a send ended: a code, empty for success, and a text; None if it must be sent again, because it has
    no final answer and has not expired."""
    match outcome:
        case Returned():
            return "", ""
        case Raised(type_name=type_name, text=text):
            return "raised", raised_in_words(type_name, text)
        case Refused(code=NoSuchGroup.code, text=text):
            # The group may be about to be created.
            return (NoSuchGroup.code, f"it was not executed: {text}") if is_expired else None
        case Refused(code=Overloaded.code | NestedNotExecuted.code, text=text):
            return ("expired", f"it was not executed: {text}") if is_expired else None
        case Refused(code=code, text=text):
            return code, text
        case Poisoned(attempts=attempts):
            return "poisoned", f"it ended {attempts} processes"
        case Unknown(text=text):
            return ("expired", f"it may have been executed: {text}") if is_expired else None
