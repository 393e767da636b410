"""Frames: a u32 payload length (big-endian), a u8 kind, and the payload.

:class:`Kind` is the one table of what may travel on a connection. Each subsystem owns a range of 16 numbers
and decodes its own payloads. A number is never reused. :class:`Reason` says why a connection ended: a code
for programs and a sentence for people.

:class:`FrameDecoder` accepts bytes in any pieces and returns the same frames for any split. It checks the
header before it stores anything, so that a peer can make it hold only one frame of the allowed length, and it
tells its owner before it keeps a long one. The
first header that breaks a bound is final: frames before it are still returned, nothing after it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from struct import Struct
from typing import Final, TypeVar

import msgspec

from holdfast.model.errors import Unavailable


class Kind(IntEnum):
    """The type of a frame's payload: the byte after the length."""

    # 0-15: the connection itself; its users never see these
    HELLO = 1
    WELCOME = 2
    GOODBYE = 3
    ALIVE = 4
    PROOF = 5
    READY = 6

    # 16-31: authority
    AUTHORITY_ASK = 16
    AUTHORITY_ANSWER = 17
    AUTHORITY_WATCH = 18
    AUTHORITY_EVENT = 19
    AUTHORITY_UNWATCH = 20

    # 32-47: between hosts
    HEARTBEAT = 32
    HEARTBEAT_ANSWER = 33
    CONTROL = 34

    # 48-63: agents
    AGENT_REPORT = 48
    AGENT_ORDER = 49
    AGENT_ANSWER = 50

    # 64-79: status of any process
    STATUS_REQUEST = 64
    STATUS_REPLY = 65

    # 80-95: calls and their replies (model.calls)
    CALL = 80
    CALL_ANSWER = 81
    GROUP_ORDER = 82
    GROUP_ANSWER = 83

    # 96-127: the replicated sequence, and the leases between hosts (sequence.messages)
    SEQUENCE = 96

    # 128-143: masters of a directory (directory.replication.messages, directory.hosting.orders)
    DIRECTORY = 128
    DIRECTORY_ASK = 129
    DIRECTORY_ANSWER = 130

    # 144-159: files between hosts (shipping.messages)
    SHIPPING_ASK = 144
    SHIPPING_ANSWER = 145

    # 160-175: streams (streams.datagram), and outputs of groups (node.streams.outputs)
    STREAM = 160
    OUTPUT_ASK = 161
    OUTPUT = 162

    # 176-191 are kept for search


FIRST_APPLICATION_KIND: Final = 16

KIND_OF_NUMBER: Final[tuple[Kind | None, ...]] = tuple(
    Kind(number) if number in Kind._value2member_map_ else None for number in range(256)
)
"""The kind of each possible byte; a lookup costs a tenth of calling ``Kind``."""

APPLICATION_KIND_OF_NUMBER: Final[tuple[Kind | None, ...]] = (
    *(None,) * FIRST_APPLICATION_KIND,
    *KIND_OF_NUMBER[FIRST_APPLICATION_KIND:],
)
"""The same table without the kinds of the connection itself."""


MESSAGE_CHARS_MAX: Final = 300
"""Longer messages are cut: a reason is a sentence, and a peer must not be trusted to keep it short."""


class Why(StrEnum):
    """The code of a reason. It is sent in the Goodbye, so a value is never renamed."""

    DONE = "done"
    SHUTTING_DOWN = "shutting_down"
    LOST = "lost"
    """The connection broke without a Goodbye: nothing is known about the peer."""

    VERSION = "version"
    REFUSED = "refused"
    """The peer is not the expected one: wrong domain, role, id or certificate."""
    TLS = "tls"
    SECRET = "secret"
    """The peer has not proved that it knows the domain's secret or its client's key (N1)."""
    TOO_MANY_CONNECTIONS = "too_many_connections"
    HANDSHAKE_TIMEOUT = "handshake_timeout"

    FRAME_TOO_LONG = "frame_too_long"
    TRUNCATED = "truncated"
    UNKNOWN_KIND = "unknown_kind"
    OUT_OF_ORDER = "out_of_order"
    MALFORMED = "malformed"

    IDLE = "idle"
    TOO_SLOW = "too_slow"
    """The peer does not read what is sent to it."""
    NO_MEMORY = "no_memory"
    """Too many long frames are unfinished at once (N3)."""
    INTERNAL = "internal"
    """The receiver of the frames failed; its own log says how."""


ON_PURPOSE: Final = frozenset({Why.DONE, Why.SHUTTING_DOWN})


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a connection ended, and which side said so."""

    why: Why
    message: str
    by_peer: bool = False

    def __str__(self) -> str:
        return f"{'peer says ' if self.by_peer else ''}{self.why}: {self.message}"


class NotConnected(Unavailable):
    """Raised when a connection cannot be made or has ended; ``reason`` says why."""

    code = "not_connected"

    def __init__(self, where: str, reason: Reason, who: str = "") -> None:
        """*who* is this end; it is named where the peer's reason may be about its identity."""
        super().__init__(f"{who} to {where}: {reason}" if who else f"{where}: {reason}")
        self.where = where
        self.reason = reason


def plain_text(text: str) -> str:
    """Shorten *text* to a sentence's length, without characters that disturb a terminal or a log."""
    return "".join(c if c.isprintable() else "?" for c in text[:MESSAGE_CHARS_MAX])


HEADER: Final = Struct(">IB")
HEADER_BYTES: Final = HEADER.size

FRAME_BYTES_LIMIT: Final = 256 * 1024 * 1024
"""No configuration may allow longer payloads. The first byte of a frame then stays below 0x14, by which a
port distinguishes a frame from a TLS record (:mod:`.tls`)."""

FREE_BYTES: Final = 16 * 1024
"""An unfinished frame up to this length is not accounted for: most frames are shorter, and as many as there
can be connections fit into memory (:mod:`.frame_memory`)."""

SHORT_BYTES: Final = 256
HEADERS: Final = {kind: tuple(HEADER.pack(length, kind) for length in range(SHORT_BYTES)) for kind in Kind}
"""The headers of payloads shorter than ``SHORT_BYTES``: a lookup costs a third of packing one."""

Frame = tuple[Kind, bytes]
To = TypeVar("To")

UNDECODABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors msgspec raises for a wrong payload. Text that is not UTF-8, and nesting deeper than Python's
stack, raise errors that are not msgspec's own."""


def encode_frame(kind: Kind, payload: bytes) -> bytes:
    return HEADER.pack(len(payload), kind) + payload


class FrameDecoder:
    """Splits a stream of bytes into frames.

    Call ``feed``, then ``take_run`` (or ``hand_run``) and ``take_one`` until both return nothing more.
    """

    __slots__ = (
        *("_data", "_is_long", "_needed", "_offset", "_partial"),
        *("fault", "is_stopped", "on_long", "payload_bytes_max"),
    )

    def __init__(self, payload_bytes_max: int) -> None:
        self.payload_bytes_max = payload_bytes_max
        """The bound on frames not yet taken; it may be changed between two calls."""
        self.fault: Reason | None = None
        """What was wrong with the stream. Once it is set, no more frames come."""
        self.is_stopped = False
        """Set by the receiver when it wants no more frames, possibly while they are delivered."""
        self.on_long: Callable[[int], None] | None = None
        """Called with the length of a long frame when its beginning is kept, and with 0 when it is whole."""
        self._is_long = False
        self._data: bytes = b""
        self._offset = 0
        # The start of an incomplete frame, and how many bytes are needed before another look makes sense.
        self._partial = bytearray()
        self._needed = 0

    @property
    def is_between_frames(self) -> bool:
        """Whether the stream may end here without cutting a frame."""
        return not self._partial and self._offset == len(self._data)

    @property
    def held_bytes(self) -> int:
        return len(self._partial) + len(self._data) - self._offset

    def feed(self, data: bytes) -> None:
        """Add the bytes that arrived. Every whole frame fed before must have been taken."""
        if self.fault is not None:
            return
        if self._partial:
            self._partial += data
            if len(self._partial) < self._needed:
                return
            data = bytes(self._partial)
            self._partial = bytearray()
            if self._is_long and self.on_long is not None:
                self._is_long = False
                self.on_long(0)
        self._data = data
        self._offset = 0

    def take_run(self) -> list[Frame]:
        """Return the application's frames up to the first frame that is incomplete or of another kind.

        This loop is most of the cost of receiving; unusual frames are left to ``take_one``.
        """
        frames: list[Frame] = []
        data, offset, size = self._data, self._offset, len(self._data)
        unpack_from, kinds, bound = HEADER.unpack_from, APPLICATION_KIND_OF_NUMBER, self.payload_bytes_max
        last_header = size - HEADER_BYTES
        while offset <= last_header:
            length, number = unpack_from(data, offset)
            kind = kinds[number]
            end = offset + HEADER_BYTES + length
            if kind is None or length > bound or end > size:
                break
            frames.append((kind, data[offset + HEADER_BYTES : end]))
            offset = end
        self._offset = offset
        return frames

    def hand_run(self, take: Callable[[To, Kind, bytes], None], to: To, fed: bytes = b"") -> bool:
        """Like ``feed`` and ``take_run``, for the hot path: pass each frame to *take* as it is found.

        Stop when the decoder is stopped, and return whether all bytes were used. If *take* raises,
        ``next_kind`` names the frame.
        """
        if self._partial or self.fault is not None:
            self.feed(fed)
        elif fed:
            self._data, self._offset = fed, 0
        data, start, size = self._data, self._offset + HEADER_BYTES, len(self._data)
        unpack_from, kinds, bound = HEADER.unpack_from, APPLICATION_KIND_OF_NUMBER, self.payload_bytes_max
        try:
            while start <= size and not self.is_stopped:
                length, number = unpack_from(data, start - HEADER_BYTES)
                kind = kinds[number]
                end = start + length
                if kind is None or length > bound or end > size:
                    break
                take(to, kind, data[start:end])
                start = end + HEADER_BYTES
        finally:
            self._offset = start - HEADER_BYTES
        return self._offset == size and not self._partial

    @property
    def next_kind(self) -> Kind:
        """The kind of the next frame, which must be present and of a known kind."""
        return Kind(self._data[self._offset + HEADER_BYTES - 1])

    def take_one(self) -> Frame | None:
        """Return the next frame of any kind, or None when it is incomplete or the stream is faulty."""
        data, offset = self._data, self._offset
        if len(data) - offset < HEADER_BYTES:
            self._keep_rest(needed=HEADER_BYTES)
            return None
        length, number = HEADER.unpack_from(data, offset)
        kind = KIND_OF_NUMBER[number]
        if kind is None or length > self.payload_bytes_max:
            self.fault = _fault(length, self.payload_bytes_max, number)
            self._data, self._offset = b"", 0
            return None
        end = offset + HEADER_BYTES + length
        if end > len(data):
            self._keep_rest(needed=HEADER_BYTES + length)
            return None
        self._offset = end
        return kind, data[offset + HEADER_BYTES : end]

    def _keep_rest(self, *, needed: int) -> None:
        if self._offset < len(self._data):
            self._partial = bytearray(self._data[self._offset :])
            self._needed = needed
            self._tell_if_long()
        self._data, self._offset = b"", 0

    def watch_long(self, on_long: Callable[[int], None]) -> None:
        """Have *on_long* called with the length of each long frame that begins, and with 0 at its end; also
        of one that has begun already. *Without that:* a frame that begins in the same bytes as the peer's
        proof borrows nothing (N3)."""
        self.on_long = on_long
        if self._partial:
            self._tell_if_long()

    def _tell_if_long(self) -> None:
        if self._needed > FREE_BYTES and self.on_long is not None and not self._is_long:
            self._is_long = True
            self.on_long(self._needed)


def _fault(length: int, payload_bytes_max: int, number: int) -> Reason:
    if length > payload_bytes_max:
        return Reason(
            Why.FRAME_TOO_LONG, f"a frame of {length} bytes; at most {payload_bytes_max} are allowed"
        )
    return Reason(Why.UNKNOWN_KIND, f"a frame of unknown kind {number}")
