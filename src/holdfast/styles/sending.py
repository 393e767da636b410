"""The outbox of a group, as its primary empties it: one call at a time to each receiver, in their order
(E13, E14)."""

from collections.abc import Iterator
from typing import Final

from holdfast.model.calls import Request
from holdfast.model.circles import Root
from holdfast.model.errors import NoSuchGroup, Overloaded
from holdfast.model.ids import Position
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
from holdfast.model.units import SECOND
from holdfast.styles.effects import Outgoing
from holdfast.styles.sends import Send, Sends

AGAIN_NS: Final = 1 * SECOND
"""After which a call is sent again that its receiver could not take."""


class Sending:
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
