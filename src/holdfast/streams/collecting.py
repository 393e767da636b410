"""Outputs of a group at a destination: each once, in order, from whichever member (LOSS-13, O5).

An output's id is the same at every member and later ones are higher, so a destination drops what it has and
goes on by id where another member left off. The leader serves it; a destination that does not hear the
leader, but hears another member, has that one serve it. A member that was started anew, or has taken
another's state, does not have earlier outputs: then the others are asked first, and only what none of them
has is a gap.

Here are the messages between both, and :class:`Collector`, which decides for a destination without any IO.
"""

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from holdfast.execution.outputs import Output, OutputId
from holdfast.model.ids import MILLISECOND

PATIENCE_NS: Final = 1_000 * MILLISECOND
"""A destination that has not heard the leader for so long lets another member serve it."""
BATCH_OUTPUTS_MAX: Final = 512
BATCH_BYTES_MAX: Final = 60_000
"""The payloads in one batch, so that it fits into a datagram."""


class OutputAsk(Struct, frozen=True, array_like=True):
    """What a destination asks of a member: the outputs of a group after one."""

    group: Annotated[str, Meta(min_length=1, max_length=300)]
    after: OutputId | None = None
    """The last that it has; None: whatever is kept."""
    is_any: bool = False
    """Serve, also if another member leads."""
    udp: Annotated[str, Meta(max_length=100)] = ""
    """Send to this address by UDP instead."""
    secret: Annotated[bytes, Meta(max_length=32)] = b""
    """With *udp*: what seals each datagram."""


class OutputBatch(Struct, frozen=True, array_like=True):
    """What a member sends: outputs, or only how it is."""

    group: str
    epoch: int
    is_leader: bool
    serves: bool
    """Whether it sends outputs to this destination."""
    previous: OutputId | None = None
    """Up to which output it had sent before."""
    outputs: tuple[Output, ...] = ()
    lacks: OutputId | None = None
    """The last output that it does not have any more, if the destination asked for earlier ones."""


@dataclass(frozen=True, slots=True)
class OutputGap:
    """Outputs that no member has any more: those after *after*, up to *up_to*."""

    after: OutputId | None
    up_to: OutputId


@dataclass(slots=True)
class _Member:
    is_leader: bool = False
    is_asked: bool = False
    """Whether it was asked to serve, whoever leads."""
    lacks: OutputId | None = None


Collected = Output | OutputGap
Asks = list[tuple[str, OutputAsk]]


class Collector:
    """What a destination has, and whom it asks. *is_all*: every member serves, not only the leader."""

    def __init__(
        self, group: str, after: OutputId | None, *, is_all: bool = False, udp: str = "", secret: bytes = b""
    ) -> None:
        self._group = group
        self._is_all = is_all
        self._udp = udp
        self._secret = secret
        self._members: dict[str, _Member] = {}
        self._served_ns = 0
        self.last = after
        """The last output that was handed on."""
        self.repeated = 0
        """Outputs that came again and were dropped."""

    def on_up(self, member: str, now_ns: int) -> OutputAsk:
        """*member* is connected: what it is to be asked."""
        self._members[member] = _Member()
        self._served_ns = self._served_ns or now_ns
        return self._ask(is_any=self._is_all)

    def on_down(self, member: str) -> None:
        self._members.pop(member, None)

    def on_batch(self, member: str, batch: OutputBatch, now_ns: int) -> tuple[list[Collected], Asks]:
        """Take what *member* sent: what is handed on, and what is asked of whom."""
        known = self._members.get(member)
        if known is None or batch.group != self._group:
            return [], []
        known.is_leader = batch.is_leader
        asks: Asks = []
        is_lacking = batch.lacks is not None and (self.last is None or self.last < batch.lacks)
        if batch.is_leader and not is_lacking and not self._is_all:
            asks = [(name, self._ask()) for name, each in self._members.items() if each.is_asked]
            for each in self._members.values():
                each.is_asked = False
        if not batch.serves:
            return [], asks
        self._served_ns = now_ns
        found: list[Collected] = []
        if batch.lacks is not None and is_lacking:
            more = self._on_lacking(member, known, batch.lacks, found)
            if more is not None:
                return [], [*asks, *more]
        elif batch.previous is not None and (self.last is None or self.last < batch.previous):
            # Something between was lost on the way.
            return [], [*asks, (member, self._ask(is_any=known.is_asked or self._is_all))]
        for output in batch.outputs:
            if self.last is None or output.id > self.last:
                found.append(output)
                self.last = output.id
            else:
                self.repeated += 1
        return found, asks

    def _on_lacking(
        self, member: str, known: _Member, lacks: OutputId, found: list[Collected]
    ) -> Asks | None:
        """*member* does not have what comes next: ask one that may; None, and a gap, if nobody has it."""
        if self.last is None:
            self.last = lacks  # it was asked for whatever there is
            return None
        known.lacks = lacks
        for name, each in self._members.items():
            if each.lacks is None or each.lacks <= self.last:
                if not each.is_asked:
                    each.is_asked = True
                    return [(name, self._ask(is_any=True))]
                return []  # its answer is on the way
        least = min(each.lacks for each in self._members.values() if each.lacks is not None)
        if least < lacks:
            return []  # another has more of it
        found.append(OutputGap(self.last, lacks))
        self.last = lacks
        for each in self._members.values():
            each.lacks = None
        return None

    def on_tick(self, now_ns: int) -> Asks:
        """Have another member serve if the leader is not heard."""
        if self._is_all or not self._members or now_ns - self._served_ns < PATIENCE_NS:
            return []
        self._served_ns = now_ns
        name, chosen = min(self._members.items(), key=lambda each: (each[1].is_asked, each[0]))
        chosen.is_asked = True
        return [(name, self._ask(is_any=True))]

    def _ask(self, *, is_any: bool = False) -> OutputAsk:
        return OutputAsk(self._group, self.last, is_any, self._udp, self._secret)


_encode: Final = msgspec.msgpack.Encoder().encode
_asks: Final = msgspec.msgpack.Decoder(OutputAsk)
_batches: Final = msgspec.msgpack.Decoder(OutputBatch)


def encode_output(message: OutputAsk | OutputBatch) -> bytes:
    return _encode(message)


def decode_ask(data: bytes) -> OutputAsk:
    """Raises ``msgspec.DecodeError``."""
    return _asks.decode(data)


def decode_batch(data: bytes) -> OutputBatch:
    """Raises ``msgspec.DecodeError``."""
    return _batches.decode(data)
