"""The calls to other groups that an object waits for, as its primary makes them (E3).

Whom a call that has not ended waits for, as the primary of the called group knows it (E10).

The outbox of a group, as its primary empties it: one call at a time to each receiver, in their order
(E13, E14).
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
from holdfast.model.ids import SECOND, Position
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
    """Of one replica. An operation waits for one call at a time, and of interleaved ones many wait at once;
    who knows whether a copy of a call has left before."""

    def __init__(self) -> None:
        self._sent: set[Key] = set()
        """Those that were sent out and have no outcome; a repetition would be harmless but useless."""
        self._line: OperationQueue | None = None
        self._turn = 0
        """Of the line's waits, those up to here were sent."""
        self._taken_up_at = Position(0)
        """Calls that positions up to here led to may have been sent by a primary before this one."""
        self._again: dict[Key, None] = {}
        """Those that this primary sent and must send again."""

    def take_up(self, committed: Position) -> None:
        """This replica is primary from here on."""
        self._line = None
        self._sent.clear()
        self._again.clear()
        self._taken_up_at = committed

    def is_awaited(self, caller: Request, call: int) -> bool:
        return (caller, call) in self._sent

    def came_back(self, caller: Request, call: int) -> None:
        """Its outcome has been ordered."""
        self._sent.discard((caller, call))

    def send_again(self, caller: Request, call: int) -> None:
        """Its outcome came and could not be ordered: it is asked again when calls are taken again."""
        self._sent.discard((caller, call))
        self._again[caller, call] = None

    def to_send(self, line: OperationQueue, committed: Position) -> Iterator[Outgoing]:
        """The calls that the object waits for and that may be sent now: what led to them is final."""
        if line is not self._line:
            self._line, self._turn = line, 0
            self._sent.clear()
            self._again.clear()
        if self._again:
            yield from self._once_more(line)
        for turn, waits in line.outgoing_since(self._turn):
            if waits.position > committed:
                return  # nor are those that came to wait later
            self._turn = turn
            self._sent.add((waits.caller, waits.call))
            yield replace(waits, may_have_left=waits.position <= self._taken_up_at)

    def for_old_code(self, waits: Outgoing) -> Outgoing | None:
        """The call that a method of other code waits for, in no line of this process (E7), to be sent now;
        None when it has been."""
        key = (waits.caller, waits.call)
        if key in self._sent:
            return None
        self._sent.add(key)
        is_again = key in self._again
        self._again.pop(key, None)
        return replace(waits, may_have_left=is_again or waits.position <= self._taken_up_at)

    def _once_more(self, line: OperationQueue) -> Iterator[Outgoing]:
        again, self._again = self._again, {}
        for caller, call in again:
            waits = line.outgoing_of(caller)
            if waits is not None and waits.call == call:
                self._sent.add((caller, call))
                yield replace(waits, may_have_left=True)


HELD_UP_BY_MAX: Final = 64
"""Operations that hold up a line, of those that are looked at: the oldest."""


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Why a call has not ended."""

    is_in_line: bool
    """It has not begun: the operations below hold up the line. Otherwise it is one of them itself, or found
    no room."""
    by: list[Outgoing]
    """Calls to other groups that are waited for, and have left."""


def held_up(
    execution: Execution, committed: Position, request: Request, *, has_room: bool = True
) -> HeldUp | None:
    """What *request* waits for; None when it is not known here, has ended, or waits for nobody else.

    In a class whose operations are interleaved few stand in line: where a moment of rest is awaited, for the
    end of all that wait; and where too many wait already, for the end of any. Of the latter a circle may end
    by itself, and it is broken all the same: nobody knows whether it will.

    Without room a call is turned away until a checkpoint makes some, and that waits for a moment of rest: for
    the end of all that wait. Such a call stands in no line here, so another of the circle must give way.
    """
    line = execution.line
    own = line.outgoing_of(request)
    if own is not None:
        return HeldUp(False, [own]) if own.position <= committed else None
    is_in_line = line.is_in_line(request)
    if not is_in_line and (has_room or execution.retention.reply_to(*request) is not None):
        return None
    by = [each for each in islice(line.outgoings(), HELD_UP_BY_MAX) if each.position <= committed]
    return HeldUp(is_in_line, by) if by else None


AGAIN_NS: Final = 1 * SECOND
"""After which a call is sent again that its receiver could not take."""


class Outbox:
    """Of one replica of the group of that name. Whether a call has left before is known to nobody: its
    receiver executes it once all the same."""

    def __init__(self, group: str, clock: Clock) -> None:
        self._group = group
        self._clock = clock
        self._in_flight: dict[int, tuple[str, Request]] = {}
        """Those that were sent out, with their receivers and whose they are, until their ends have been
        executed."""
        self._ended: dict[str, tuple[Request, Position]] = {}
        """Whose call to each receiver ended last, by a record up to there, while that is not committed."""
        self._not_before: dict[str, int] = {}
        """Receivers that could not take one."""
        self._seen = 0
        self._final_at: list[tuple[int, Position]] = []
        """Numbers up to this one were put there by positions up to that one, which was not committed."""
        self._final = 0
        """Those up to this number may leave."""
        self._may_have_left = 0
        """Those up to this number may have been sent by another primary, which nobody here knows."""
        self._in_doubt: set[int] = set()
        """Those that this one sent, and may have been executed."""

    def take_up(self, sends: Sends) -> None:
        """This replica is primary from here on; what is in the outbox now is final."""
        self._in_flight.clear()
        self._ended.clear()
        self._not_before.clear()
        self._final_at.clear()
        self._in_doubt.clear()
        self._seen = self._final = self._may_have_left = sends.issued

    def to_send(self, sends: Sends, reached: Position, committed: Position) -> Iterator[Outgoing]:
        """What may leave now. *reached*: what the outbox stands for."""
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
        """It has no end yet: its receiver could not take it, or its end could not be ordered. *is_in_doubt*:
        it may have been executed all the same."""
        to, _ = self._in_flight.pop(number, ("", None))
        if is_in_doubt:
            self._in_doubt.add(number)
        if not is_soon:
            self._not_before[to] = self._clock.now() + AGAIN_NS

    def next_ns(self, sends: Sends) -> int | None:
        """When, by the clock, something is to be sent again."""
        now = self._clock.now()
        self._not_before = {to: at for to, at in self._not_before.items() if at > now}
        return min(self._not_before.values(), default=None) if len(sends) else None

    def _note_ends(self, sends: Sends, reached: Position, committed: Position) -> None:
        """The next call of an operation says that the one before is awaited no more, and its receiver forgets
        the reply. *Without waiting for the commit:* all hosts lose power; the end of the first call is gone
        with the log's tail, and its receiver answers for ever that nobody awaits it."""
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
    """How a call ended: a code, empty if as it should, and words; None when it is to be sent again, as nobody
    has answered it, and it has not expired."""
    match outcome:
        case Returned():
            return "", ""
        case Raised(type_name=type_name, text=text):
            return "raised", raised_in_words(type_name, text)
        case Refused(code=NoSuchGroup.code, text=text):
            # It may be about to be made.
            return (NoSuchGroup.code, f"it was not executed: {text}") if is_expired else None
        case Refused(code=Overloaded.code | NestedNotExecuted.code, text=text):
            return ("expired", f"it was not executed: {text}") if is_expired else None
        case Refused(code=code, text=text):
            return code, text
        case Poisoned(attempts=attempts):
            return "poisoned", f"it ended {attempts} processes"
        case Unknown(text=text):
            return ("expired", f"it may have been executed: {text}") if is_expired else None
