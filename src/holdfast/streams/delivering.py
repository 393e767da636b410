"""Every member: what the order says, done to the object (F4, LOSS-80, 87 to 91).

A member delivers a message only when the order names it, and in that place. What the order passes over is let
go, also if it is here. A range that carries only numbers waits for its messages (W10).
"""

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.execution.annex import AnnexOperation
from holdfast.model.errors import Unavailable
from holdfast.model.outcome import outcome_in_words
from holdfast.streams.columns import read_packed
from holdfast.streams.handlers import ON_ACTION, ON_MESSAGE, ON_MESSAGES, Notice, notice_of
from holdfast.streams.ledger import LackedRange, Ledger
from holdfast.streams.message import Origin, StreamMessage
from holdfast.streams.records import Deliver, Ordered, Passed, decode_ordered
from holdfast.streams.runs import Listed, Run

if TYPE_CHECKING:
    from holdfast.streams.annex import Streams

FAILED: Final = "stream_method_failed"
"""The note of a member whose object's method has not returned."""
_ARGUMENTS: Final[dict[str, msgspec.msgpack.Decoder[Any]]] = {
    ON_MESSAGE: msgspec.msgpack.Decoder(tuple[StreamMessage]),
    ON_MESSAGES: msgspec.msgpack.Decoder(tuple[list[StreamMessage]]),
    ON_ACTION: msgspec.msgpack.Decoder(tuple[Notice]),
}


class StreamState:
    """The streams' part of the state of one object (:class:`holdfast.execution.annex.AnnexState`)."""

    def __init__(self, streams: "Streams") -> None:
        self._streams = streams
        self.ledger = Ledger(is_set=streams.handlers.settings.order == "set")
        self._body = b""
        self._ordered: Ordered | None = None
        self.awaits = b""
        """The record that waits for its content; empty if none does."""

    @property
    def is_comparable(self) -> bool:
        return not self.ledger.lacked

    def is_ready(self, body: bytes) -> bool:
        if not self._streams.is_bound:
            return True
        missing = self._missing(self._decoded(body))
        if not missing or self._streams.has_given_up(body):
            self.awaits = b""
            return True
        self.awaits = body
        self._streams.owe(body, missing)
        return False

    def apply(self, operation: AnnexOperation) -> None:
        ordered = self._decoded(operation.body)
        self._body, self._ordered = b"", None
        ledger, streams = self.ledger, self._streams
        ledger.time_ns = max(ledger.time_ns, operation.time_ns)
        call = operation.call_made if streams.handlers.is_plain else operation.call_plain
        batch: list[StreamMessage] = []
        for entry in ordered.entries:
            ledger.apply_one(entry)
            if isinstance(entry, Deliver):
                found = [run.delivered(entry.origin) for run in self._content(entry)]
                if ordered.is_batch:
                    for each in found:
                        batch += each
                else:
                    for message in chain.from_iterable(found):
                        call(ON_MESSAGE, message)
            elif ordered.notifies and (notice := notice_of(entry)) is not None:
                if batch:
                    call(ON_MESSAGES, batch)
                    batch = []
                operation.call_plain(ON_ACTION, notice)
            if isinstance(entry, Deliver | Passed):
                streams.on_applied(self, entry)
        if batch:
            call(ON_MESSAGES, batch)
        streams.on_record_applied(operation.body, ordered)

    def on_failed(self, method: str, arguments: msgspec.Raw | tuple[Any, ...], outcome: bytes) -> None:
        """The messages of a call that raised stay delivered, and those behind the one at which it raised are
        not delivered again: nobody but the class knows how far it came, and what it changed stays (LOSS-80).
        It is counted for every stream, and people hear of it."""
        (given,) = arguments if isinstance(arguments, tuple) else _ARGUMENTS[method].decode(arguments)
        numbers: dict[str, list[int]] = {}
        for each in given if isinstance(given, list) else [given]:
            numbers.setdefault(each.stream, [])
            if isinstance(each, StreamMessage):
                numbers[each.stream].append(each.number)
        streams = self._streams
        for stream, found in numbers.items():
            self.ledger.on_failed(stream, len(found))
            if streams.ledger is self.ledger:
                span = f"{found[0]} to {found[-1]}" if found else ""
                why = outcome_in_words(outcome)
                streams.ports.trace.note(FAILED, stream=stream, messages=span, method=method, why=why)

    def _content(self, entry: Deliver) -> Sequence[Run]:
        """The messages that *entry* names, as far as they are here."""
        if entry.messages:
            return (Listed(entry.messages),)
        if entry.packed:
            return self._unpacked(entry)
        found = self._streams.held_within(entry.origin, entry.first, entry.last)
        lacking: list[int] = []
        if sum(map(len, found)) < entry.count:
            there = {number for run in found for number in range(run.first, run.last + 1)}
            lacking = [each for each in range(entry.first, entry.last + 1) if each not in there]
        if lacking:
            if not self._streams.is_bound:
                raise Unavailable(
                    f"{entry.origin.stream}: the log has only numbers, and the messages are gone"
                )
            self._note_lacking(entry.origin, lacking)
        return found

    def _unpacked(self, entry: Deliver) -> Sequence[Run]:
        """What came as these bytes. Where the same are held, they have been read already."""
        found: list[Run] = []
        first = entry.first
        for body in entry.packed:
            run = self._streams.held_run(entry.origin, first)
            found.append(run if run is not None and run.body == body else read_packed(body, first))
            first = found[-1].last + 1
        return found

    def _note_lacking(self, origin: Origin, numbers: list[int]) -> None:
        first = before = numbers[0]
        for number in (*numbers[1:], -1):
            if number != before + 1:
                found = LackedRange(origin, first, before)
                self.ledger.lacked.append(found)
                self._streams.on_lacking(self, found)
                first = number
            before = number

    def _missing(self, ordered: Ordered) -> list[tuple[Origin, int, int]]:
        """The spans of messages that *ordered* names and that are not here."""
        return [
            (entry.origin, first, last)
            for entry in ordered.entries
            if isinstance(entry, Deliver) and not entry.is_carried
            for first, last in self._streams.missing(entry.origin, entry.first, entry.last)
        ]

    def _decoded(self, body: bytes) -> Ordered:
        """The record, which is looked at several times before it is applied."""
        if self._ordered is None or body != self._body:
            self._body, self._ordered = body, decode_ordered(body)
        return self._ordered

    def save(self) -> bytes:
        return self.ledger.save()

    def load(self, saved: bytes) -> None:
        self.ledger.load(saved)

    def digest(self) -> bytes:
        return self.ledger.digest()
