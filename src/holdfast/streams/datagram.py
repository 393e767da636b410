"""What is on the wire between a source and the members of a group (docs/streams-wire.md).

Every datagram begins with the same header and, if its source has a key, ends with a tag: the first 16 bytes
of an HMAC-SHA-256 over all that comes before. A datagram says nothing that is wrong when it comes again: its
numbers are known already, and what only ever grows does not shrink. So a repeated one is harmless, and there
are no nonces.

A source sends batches and heartbeats. Members send back credit (how far they are, and how far the source may
go), requests for messages that they lack, and notices of what they refuse. The same bytes travel over TCP,
one datagram in a frame.
"""

import hmac
from collections.abc import Callable, Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from holdfast.model.errors import InvalidRequest
from holdfast.streams import columns
from holdfast.streams.columns import LEVELS_MAX, Malformed
from holdfast.streams.message import NUMBER_MAX, Message

MAGIC: Final = b"HF"
VERSION: Final = 1
HEADER: Final = Struct(">2sBBIIQQ")
"""Magic, version, kind, key, stream, incarnation, number."""
_NUMBER_AT: Final = HEADER.size - 8
"""Where the number is, which comes last: what is before it says who sends, and what."""
TAG_BYTES: Final = 16
"""Long enough that nobody guesses one; half of the digest."""
KEY_BYTES: Final = 32
NO_KEY: Final = 0
DATAGRAM_BYTES_MAX: Final = 65_507
"""The longest that UDP carries over IPv4; no path but loopback takes it whole."""
RANGES_MAX: Final = 64
"""The most ranges in one request, so that nobody asks for a storm."""
NOTICE_CHARACTERS_MAX: Final = 200

_HEARTBEAT: Final = Struct(">QBBB")
_CREDIT: Final = Struct(">QQB")
_RANGE: Final = Struct(">II")
_NOTICE: Final = Struct(">BH")


class DatagramKind(IntEnum):
    """What a datagram is: the byte after the version."""

    BATCH = 1
    HEARTBEAT = 2
    CREDIT = 3
    REQUEST = 4
    NOTICE = 5


class Refusal(IntEnum):
    """Why a member refuses what a source sent. A value is never reused."""

    UNKNOWN_STREAM = 1
    OLD_INCARNATION = 2
    BEYOND_CREDIT = 3
    NOT_HERE = 4
    """The stream's group has no member on that host: ask again where it is."""
    VERSION = 5
    AUTHENTICATION = 6


class From(NamedTuple):
    """Whose datagram it is."""

    key: int
    stream: int
    incarnation: int


class Batch(NamedTuple):
    """Messages, in the order of their numbers."""

    sender: From
    messages: Sequence[Message]


class Beat(NamedTuple):
    """A heartbeat: how far the source is, and what its next message would say of those before."""

    sender: From
    highest: int
    oldest: int
    """The lowest number that may still be asked for; above *highest* if there is none."""
    distances: tuple[int, ...] = ()
    """Those that the message after *highest* would have, so that the loss of the last ones can be judged."""
    cumulative: tuple[int, ...] = ()
    is_last: bool = False
    """The source ends here, in order: nothing comes after *highest*."""


class Credit(NamedTuple):
    """How far a member is with a stream, and how far its source may go."""

    sender: From
    delivered: int
    limit: int
    """The highest number that the source may send now."""
    epoch: int
    is_leader: bool = False


class Request(NamedTuple):
    """Ranges of numbers, each with its count, that a member lacks."""

    sender: From
    ranges: tuple[tuple[int, int], ...]


class Notice(NamedTuple):
    """What a member refuses of a source, and why."""

    sender: From
    number: int
    refusal: Refusal
    text: str = ""


Datagram = Batch | Beat | Credit | Request | Notice
KeyOf = Callable[[int], bytes | None]
"""The key of that id; None if there is none."""


# --- writing


def encode_batch(sender: From, messages: Sequence[Message], key: bytes | None = None) -> bytes:
    """Raises ``InvalidRequest`` if the messages do not fit into one datagram."""
    body = columns.write(messages)
    made = _sealed(DatagramKind.BATCH, sender, messages[0].number, body, key)
    if len(made) > DATAGRAM_BYTES_MAX:
        raise InvalidRequest(f"a datagram of {len(made)} bytes; at most {DATAGRAM_BYTES_MAX} are allowed")
    return made


def encode(datagram: Datagram, key: bytes | None = None) -> bytes:
    """Raises ``InvalidRequest`` for what no datagram can say."""
    match datagram:
        case Batch(sender, messages):
            return encode_batch(sender, messages, key)
        case Beat(sender, highest, oldest, exact, sums, is_last):
            body = _HEARTBEAT.pack(oldest, is_last, len(exact), len(sums))
            body += columns.distances_to_wire(exact) + columns.distances_to_wire(sums)
            return _sealed(DatagramKind.HEARTBEAT, sender, highest, body, key)
        case Credit(sender, delivered, limit, epoch, is_leader):
            body = _CREDIT.pack(limit, epoch, is_leader)
            return _sealed(DatagramKind.CREDIT, sender, delivered, body, key)
        case Request(sender, ranges):
            if not 1 <= len(ranges) <= RANGES_MAX:
                raise InvalidRequest(f"a request has 1 to {RANGES_MAX} ranges, not {len(ranges)}")
            first = ranges[0][0]
            body = b"".join(_RANGE.pack(begin - first, count) for begin, count in ranges)
            return _sealed(DatagramKind.REQUEST, sender, first, body, key)
        case Notice(sender, number, refusal, text):
            said = text[:NOTICE_CHARACTERS_MAX].encode()
            body = _NOTICE.pack(refusal, len(said)) + said
            return _sealed(DatagramKind.NOTICE, sender, number, body, key)


def _sealed(kind: DatagramKind, sender: From, number: int, body: bytes, key: bytes | None) -> bytes:
    if (key is None) != (sender.key == NO_KEY):
        raise InvalidRequest("a datagram that names a key is sealed with it, and no other is")
    made = HEADER.pack(MAGIC, VERSION, kind, *sender, number) + body
    return made if key is None else made + tag_of(key, made)


def tag_of(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")[:TAG_BYTES]


# --- reading


def decode(data: bytes, key_of: KeyOf, *, is_open: bool = False) -> Datagram:
    """The datagram in *data*. *key_of* finds the keys; *is_open* takes datagrams without one.

    Raises :class:`.columns.Malformed`, which says why in one word, for anything else.
    """
    if len(data) < HEADER.size:
        raise Malformed("short", f"a datagram of {len(data)} bytes")
    if len(data) > DATAGRAM_BYTES_MAX:
        raise Malformed("long", f"a datagram of {len(data)} bytes")
    magic, version, number_of_kind, key, stream, incarnation, number = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise Malformed("magic", "a datagram of something else")
    if version != VERSION:
        raise Malformed("version", f"a datagram of version {version}; this host knows version {VERSION}")
    read = _READERS.get(number_of_kind)
    if read is None:
        raise Malformed("kind", f"a datagram of unknown kind {number_of_kind}")
    if number > NUMBER_MAX or incarnation > NUMBER_MAX:
        raise Malformed("number", "a number that is too high")
    end = _checked_end(data, key, key_of, is_open=is_open)
    return read(data, end, From(key, stream, incarnation), number)


def follows(one: bytes, before: bytes) -> bool:
    """Whether a datagram continues the one before: the same source and kind, and the next number."""
    return one[:_NUMBER_AT] == before[:_NUMBER_AT] and number_in(one) == number_in(before) + 1


def number_in(data: bytes) -> int:
    """The number in a header, of which nothing is checked."""
    return int.from_bytes(data[_NUMBER_AT : HEADER.size], "big")


def decode_joined(run: Sequence[bytes], key_of: KeyOf, *, is_open: bool) -> Batch | None:
    """One batch with the messages of datagrams that continue each other (:func:`follows`), where they are
    alike and have one each; None if they are to be read one by one. All that is read alone is checked here,
    too."""
    try:
        first = decode(run[0], key_of, is_open=is_open)
        if not isinstance(first, Batch) or len(first.messages) != 1:
            return None
        key = first.sender.key
        bodies = [each[HEADER.size : _checked_end(each, key, key_of, is_open=is_open)] for each in run]
        body = columns.joined(bodies)
        if body is None:
            return None
        return Batch(first.sender, columns.read(body, 0, len(body), first.messages[0].number))
    except Malformed:
        return None


def _checked_end(data: bytes, key: int, key_of: KeyOf, *, is_open: bool) -> int:
    """Where the body ends, after its tag was checked."""
    if key == NO_KEY:
        if not is_open:
            raise Malformed("unsealed", "a datagram without a key; this stream takes none")
        return len(data)
    secret = key_of(key)
    if secret is None:
        raise Malformed("key", f"a datagram with the unknown key {key}")
    end = len(data) - TAG_BYTES
    if end < HEADER.size:
        raise Malformed("short", "a datagram that ends before its tag")
    if not hmac.compare_digest(tag_of(secret, data[:end]), data[end:]):
        raise Malformed("tag", f"a datagram whose tag is not that of key {key}")
    return end


def _read_batch(data: bytes, end: int, sender: From, number: int) -> Datagram:
    if number == 0:
        raise Malformed("number", "messages are numbered from 1")
    return Batch(sender, columns.read(data, HEADER.size, end, number))


def _read_heartbeat(data: bytes, end: int, sender: From, number: int) -> Datagram:
    _insist(end - HEADER.size >= _HEARTBEAT.size, "short", "a heartbeat that is too short")
    oldest, last, exact, sums = _HEARTBEAT.unpack_from(data, HEADER.size)
    _insist(last <= 1, "flags", f"a heartbeat with unknown flags {last}")
    _insist(exact <= LEVELS_MAX and sums <= LEVELS_MAX, "levels", f"distances of {exact} and {sums} levels")
    _insist(1 <= oldest <= number + 1, "number", "a heartbeat that holds what was never sent")
    at = HEADER.size + _HEARTBEAT.size
    _insist(end == at + 2 * (exact + sums), "length", "a heartbeat of another length")
    distances = columns.distances_from_wire(data, at, exact)
    cumulative = columns.distances_from_wire(data, at + 2 * exact, sums)
    return Beat(sender, number, oldest, distances, cumulative, bool(last))


def _read_credit(data: bytes, end: int, sender: From, number: int) -> Datagram:
    _insist(end == HEADER.size + _CREDIT.size, "length", "a credit of another length")
    limit, epoch, leads = _CREDIT.unpack_from(data, HEADER.size)
    _insist(leads <= 1, "flags", f"a credit with unknown flags {leads}")
    _insist(number <= limit <= NUMBER_MAX, "number", "a credit below what was delivered")
    return Credit(sender, number, limit, epoch, bool(leads))


def _read_request(data: bytes, end: int, sender: From, number: int) -> Datagram:
    count, rest = divmod(end - HEADER.size, _RANGE.size)
    _insist(rest == 0 and 1 <= count <= RANGES_MAX, "length", "a request of another length")
    ranges = tuple((number + step, length) for step, length in _RANGE.iter_unpack(data[HEADER.size : end]))
    _insist(number >= 1 and ranges[0][0] == number, "number", "a request that begins elsewhere")
    least = 1
    for begin, length in ranges:
        _insist(begin >= least and length > 0, "number", "a request for ranges out of order")
        least = begin + length
    _insist(least - 1 <= NUMBER_MAX, "number", "a request for numbers that are too high")
    return Request(sender, ranges)


def _read_notice(data: bytes, end: int, sender: From, number: int) -> Datagram:
    at = HEADER.size + _NOTICE.size
    _insist(end >= at, "short", "a notice that is too short")
    code, length = _NOTICE.unpack_from(data, HEADER.size)
    _insist(end == at + length, "length", "a notice of another length")
    try:
        refusal, text = Refusal(code), data[at:end].decode()
    except ValueError:
        raise Malformed("notice", "a notice of an unknown kind, or not in UTF-8") from None
    _insist(len(text) <= NOTICE_CHARACTERS_MAX, "notice", "a notice that is too long")
    return Notice(sender, number, refusal, text)


def _insist(is_so: bool, why: str, text: str) -> None:
    if not is_so:
        raise Malformed(why, text)


_READERS: Final[dict[int, Callable[[bytes, int, From, int], Datagram]]] = {
    DatagramKind.BATCH: _read_batch,
    DatagramKind.HEARTBEAT: _read_heartbeat,
    DatagramKind.CREDIT: _read_credit,
    DatagramKind.REQUEST: _read_request,
    DatagramKind.NOTICE: _read_notice,
}
