"""The messages of a datagram, column by column (docs/streams-wire.md).

A batch has each property of its messages in a column of its own: all priorities, then all distances, and so
on. So a receiver reads a column with one call whatever the number of messages, and what all have in common
stands there once. The age tables (LOSS-24 b and c) stand once too, for the first message: whoever lost the
datagram before this one asks just that one.

What is read comes from strangers: counts and lengths are checked before anything is taken, and a batch that
ends too early or too late, or has a value outside its bounds, raises :class:`Malformed`.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from struct import Struct
from struct import error as StructError
from typing import Final

from holdfast.model.errors import InvalidRequest, invariant
from holdfast.streams.message import (
    BACK_BY,
    BEFORE_MS,
    DISTANCE_MAX,
    FURTHER,
    NO_AGES,
    NONE_BEFORE,
    NUMBER_MAX,
    PAYLOAD_BYTES_MAX,
    PRIORITY_MAX,
    TOPIC_CHARACTERS_MAX,
    Ages,
    Message,
)
from holdfast.streams.runs import Block, Run

COUNT_MAX: Final = 4096
"""The most messages in a datagram: as many as one record of the order can hold."""
LEVELS_MAX: Final = PRIORITY_MAX
TOPICS_MAX: Final = 255

NUMBERS: Final = 0x01
"""The numbers stand there one by one; without it they follow each other."""
CREATED: Final = 0x02
BACK: Final = 0x04
BEFORE: Final = 0x08
TOPICS: Final = 0x10
EQUAL: Final = 0x20
"""All payloads have the same length, which stands there once."""
JOINED: Final = CREATED | TOPICS
"""What messages may have that are put together: their ages, but for when each was made, stand in a batch
once."""
FLAGS: Final = NUMBERS | CREATED | BACK | BEFORE | TOPICS | EQUAL

HEAD: Final = Struct(">HHBB")
"""Count, flags, and the levels with exact and with cumulative distances."""
_SHORT: Final = Struct(">H")
_STAMP: Final = Struct(">Q")
_BACK: Final = Struct(f">{len(BACK_BY)}Q")
_BEFORE: Final = Struct(f">{len(BEFORE_MS)}Q")

NOTHING_BEFORE: Final = 0
"""On the wire: no message of that level was sent before. A distance is never 0."""
TOO_FAR: Final = 0xFFFF
"""On the wire: further back than ``DISTANCE_MAX``."""
NOT_SO_LONG: Final = 0xFFFF_FFFF_FFFF_FFFF
"""In the table of time differences: the stream does not go back that far."""
SPREAD_US_MAX: Final = 0xFFFF_FFFF
"""The longest time between the creation of two messages of one datagram."""
SPREAD_NUMBERS_MAX: Final = 0xFFFF_FFFF

_TO_WIRE: Final = {NONE_BEFORE: NOTHING_BEFORE, FURTHER: TOO_FAR}
_FROM_WIRE: Final = {NOTHING_BEFORE: NONE_BEFORE, TOO_FAR: FURTHER}


class Malformed(InvalidRequest):
    """Raised when a datagram is not one of ours; ``why`` is one word, under which it is counted."""

    code = "malformed_datagram"

    def __init__(self, why: str, text: str) -> None:
        super().__init__(text)
        self.why = why


@lru_cache(maxsize=1024)
def _shorts(count: int) -> Struct:
    return Struct(f">{count}H")


@lru_cache(maxsize=1024)
def _words(count: int) -> Struct:
    return Struct(f">{count}I")


# --- writing


def write(messages: Sequence[Message]) -> bytes:
    """The body of a batch of these messages, in the order of their numbers. All must track the same levels.
    Raises ``InvalidRequest`` if they do not fit into one."""
    if not 1 <= len(messages) <= COUNT_MAX:
        raise InvalidRequest(f"a datagram has 1 to {COUNT_MAX} messages, not {len(messages)}")
    try:
        return (len(messages) == 1 and _write_one(messages[0])) or _write(messages)
    except (StructError, ValueError) as error:  # a value outside its column
        raise InvalidRequest(f"these messages do not fit into one datagram: {error}") from None


def _write_one(one: Message) -> bytes | None:
    """The body of a batch of this message; None if it has a topic, or tables of ages. Whoever sends messages
    one by one pays for each of them."""
    ages, created_ns = one.ages, one.ages.created_ns
    if one.topic or ages.back_ns or ages.numbers_before:
        return None
    wire = [_TO_WIRE.get(each, each) for each in (*one.distances, *one.cumulative)]
    stamp = () if created_ns is None else (created_ns // 1000, 0)
    pack = _single(len(wire), created_ns is not None).pack
    flags, exact, cumulative = 0 if created_ns is None else CREATED, len(one.distances), len(one.cumulative)
    return pack(1, flags, exact, cumulative, one.priority, *wire, *stamp, len(one.payload)) + one.payload


@lru_cache(maxsize=256)
def _single(levels: int, is_stamped: bool) -> Struct:
    """All of a message that comes before its payload, if it has no topic."""
    return Struct(f"{HEAD.format}B{levels}H{'QI' if is_stamped else ''}H")


def _write(messages: Sequence[Message]) -> bytes:
    count = len(messages)
    first = messages[0]
    flags, parts = 0, [b""]
    numbers = [each.number for each in messages]
    if numbers[-1] - numbers[0] != count - 1:
        flags |= NUMBERS
        parts.append(_words(count).pack(*[each - numbers[0] for each in numbers]))
    parts.append(bytes([each.priority for each in messages]))
    exact, cumulative = len(first.distances), len(first.cumulative)
    if exact:
        parts += _distance_columns([each.distances for each in messages], exact)
    if cumulative:
        parts += _distance_columns([each.cumulative for each in messages], cumulative)
    if first.ages is not NO_AGES:
        flags |= _write_ages(messages, parts)
    topics = [each.topic for each in messages]
    if any(topics):
        flags |= TOPICS
        _write_topics(topics, parts)
    payloads = [each.payload for each in messages]
    lengths = list(map(len, payloads))
    if count > 1 and lengths.count(lengths[0]) == count:
        flags |= EQUAL
        parts.append(_SHORT.pack(lengths[0]))
    else:
        parts.append(_shorts(count).pack(*lengths))
    parts[0] = HEAD.pack(count, flags, exact, cumulative)
    parts += payloads
    return b"".join(parts)


def _distance_columns(rows: Sequence[Sequence[int]], levels: int) -> list[bytes]:
    if set(map(len, rows)) != {levels}:
        raise InvalidRequest("the messages of a datagram track the same levels")
    pack, get = _shorts(len(rows)).pack, _TO_WIRE.get
    return [pack(*[get(each, each) for each in column]) for column in zip(*rows, strict=True)]


def distances_to_wire(distances: Sequence[int]) -> bytes:
    """One row of distances, as a heartbeat has them."""
    return _shorts(len(distances)).pack(*[_TO_WIRE.get(each, each) for each in distances])


def _write_ages(messages: Sequence[Message], parts: list[bytes]) -> int:
    flags, ages = 0, messages[0].ages
    if ages.created_ns is not None:
        flags |= CREATED
        stamps = [(each.ages.created_ns or 0) // 1000 for each in messages]
        parts.append(_STAMP.pack(stamps[0]))
        parts.append(_words(len(stamps)).pack(*[each - stamps[0] for each in stamps]))
    if ages.back_ns:
        flags |= BACK
        parts.append(_BACK.pack(*[NOT_SO_LONG if each is None else each // 1000 for each in ages.back_ns]))
    if ages.numbers_before:
        flags |= BEFORE
        parts.append(_BEFORE.pack(*[each or 0 for each in ages.numbers_before]))
    return flags


def _write_topics(topics: Sequence[str], parts: list[bytes]) -> None:
    table = {topic: index for index, topic in enumerate(dict.fromkeys(topics))}
    if len(table) > TOPICS_MAX:
        raise InvalidRequest(f"a datagram has at most {TOPICS_MAX} topics")
    parts.append(bytes((len(table),)))
    for topic in table:
        text = topic.encode()
        parts += (_SHORT.pack(len(text)), text)
    if len(table) > 1:
        parts.append(bytes([table[each] for each in topics]))


# --- putting together


def joined(bodies: Sequence[bytes]) -> bytes | None:
    """One body with the messages of these, which have one each, with consecutive numbers: what :func:`write`
    would have made of them. None where they are not alike, or one is not as it should be: then each is read
    by itself. Nothing is checked here that :func:`read` checks of what this returns."""
    model = bodies[0]
    count, flags, exact, cumulative = HEAD.unpack_from(model)
    if count != 1 or flags & ~JOINED or exact > LEVELS_MAX or cumulative > LEVELS_MAX:
        return None
    topics = b""
    at = HEAD.size + 1 + 2 * (exact + cumulative)
    if flags & CREATED:
        at += _STAMP.size + 4
    if flags & TOPICS:  # they have the same, or are not alike
        end = at + 3 + int.from_bytes(model[at + 1 : at + 3], "big")
        topics = model[at:end]
        if topics[:1] != b"\x01":
            return None
    layout = _one_message(exact + cumulative, bool(flags & CREATED), len(topics))
    if min(map(len, bodies)) < layout.size:
        return None
    heads, priorities, *rows = zip(*map(layout.unpack_from, bodies), strict=True)
    if heads.count(heads[0]) < len(bodies):
        return None
    lengths = rows.pop()
    payloads = [each[layout.size :] for each in bodies]
    if list(map(len, payloads)) != list(lengths):
        return None
    if topics and rows.pop().count(topics) < len(bodies):
        return None
    stamps: list[bytes] = []
    if flags & CREATED:
        further, bases = rows.pop(), rows.pop()
        steps = [base - bases[0] for base in bases]
        if any(further) or min(steps) < 0 or max(steps) > SPREAD_US_MAX:
            return None
        stamps = [_STAMP.pack(bases[0]), _words(len(steps)).pack(*steps)]
    is_equal = lengths.count(lengths[0]) == len(lengths)
    wide = [_SHORT.pack(lengths[0]) if is_equal else _shorts(len(lengths)).pack(*lengths)]
    head = HEAD.pack(len(bodies), flags | (EQUAL if is_equal else 0), exact, cumulative)
    return b"".join([head, *priorities, *chain.from_iterable(rows), *stamps, topics, *wide, *payloads])


@lru_cache(maxsize=1024)
def _one_message(levels: int, is_stamped: bool, topics_bytes: int) -> Struct:
    """A body with one message, up to its payload: the head, the priority, distances, when it was made, the
    topic and the length of the payload."""
    stamp = "QI" if is_stamped else ""
    topics = f"{topics_bytes}s" if topics_bytes else ""
    return Struct(f">{HEAD.size}sc{'2s' * levels}{stamp}{topics}H")


# --- reading


def read(data: bytes, offset: int, end: int, first: int) -> Sequence[Message]:
    """The messages of the batch in ``data[offset:end]``, the first of which has that number: a block, if
    their numbers follow each other. Raises :class:`Malformed`."""
    if end - offset < HEAD.size:
        raise Malformed("short", "a batch ends before its own head")
    body = data[offset:end]
    count, flags, exact, cumulative = HEAD.unpack_from(body)
    if not 1 <= count <= COUNT_MAX:
        raise Malformed("count", f"a batch of {count} messages")
    if flags & ~FLAGS:
        raise Malformed("flags", f"a batch with unknown flags {flags:#06x}")
    if exact > LEVELS_MAX or cumulative > LEVELS_MAX:
        raise Malformed("levels", f"distances of {exact} and {cumulative} levels")
    at = HEAD.size
    after = at + _fixed_bytes(count, flags, exact + cumulative)
    if after > len(body):
        raise Malformed("short", "a batch ends in the middle of a column")
    numbers: Iterable[int] | None = None
    if flags & NUMBERS:
        numbers, at = _numbers(body, at, count, first), at + 4 * count
    elif first + count - 1 > NUMBER_MAX:
        raise Malformed("number", "a number that is too high")
    priorities = body[at : at + count]
    if max(priorities) > PRIORITY_MAX:
        raise Malformed("priority", f"a priority of {max(priorities)}")
    at += count
    distances = _distances(body, at, count, exact) if exact else ()
    at += 2 * exact * count
    sums = _distances(body, at, count, cumulative) if cumulative else ()
    at += 2 * cumulative * count
    created, ages = _ages(body, at, count, flags) if flags & (CREATED | BACK | BEFORE) else ((), NO_AGES)
    topics, at = _topics(body, after, count) if flags & TOPICS else ("", after)
    lengths, at = _lengths(body, at, count, is_equal=bool(flags & EQUAL))
    block = Block(
        first,
        count,
        body,
        at=at,
        lengths=lengths,
        priorities=priorities,
        distances=distances,
        sums=sums,
        topics=topics,
        created=created,
        ages=ages,
    )
    return block if numbers is None else block.numbered(numbers)


def read_packed(body: bytes, first: int) -> Run:
    """The messages of a range that was ordered with the bytes in which they came."""
    found = read(body, 0, len(body), first)
    invariant(isinstance(found, Run), "only messages whose numbers follow each other are ordered so")
    assert isinstance(found, Run)
    return found


def _fixed_bytes(count: int, flags: int, levels: int) -> int:
    """How long the columns are whose length is known."""
    each = 1 + 2 * levels + (4 if flags & NUMBERS else 0) + (4 if flags & CREATED else 0)
    tables = (_STAMP.size if flags & CREATED else 0) + (_BACK.size if flags & BACK else 0)
    return count * each + tables + (_BEFORE.size if flags & BEFORE else 0)


def _numbers(body: bytes, at: int, count: int, first: int) -> list[int]:
    steps: tuple[int, ...] = _words(count).unpack_from(body, at)
    if steps[0] or first + steps[-1] > NUMBER_MAX:
        raise Malformed("number", "numbers that do not begin at the first, or are too high")
    if any(later <= earlier for earlier, later in pairwise(steps)):
        raise Malformed("number", "numbers that do not increase")
    return [first + step for step in steps]


def _distances(body: bytes, at: int, count: int, levels: int) -> list[Sequence[int]]:
    unpack = _shorts(count).unpack_from
    found: list[Sequence[int]] = []
    for level in range(levels):
        found.append(_distances_of(unpack(body, at + 2 * level * count), "a distance"))
    return found


def _ages(body: bytes, at: int, count: int, flags: int) -> tuple[Sequence[int], Ages]:
    """When each message was made, if that is told, and the ages of the first."""
    created: Sequence[int] = ()
    if flags & CREATED:
        (base,) = _STAMP.unpack_from(body, at)
        steps = _words(count).unpack_from(body, at + _STAMP.size)
        if base + SPREAD_US_MAX > NUMBER_MAX // 1000:
            raise Malformed("stamp", "a time of creation that is too late")
        if any(steps):
            created = [(base + step) * 1000 for step in steps]
        else:  # all were given to the source at once, as nearly all of one datagram are
            created = [base * 1000] * count
        at += _STAMP.size + 4 * count
    back: tuple[int | None, ...] = ()
    if flags & BACK:
        found = _BACK.unpack_from(body, at)
        if any(NUMBER_MAX // 1000 < each < NOT_SO_LONG for each in found):
            raise Malformed("stamp", "a time difference that is too long")
        back = tuple(None if each == NOT_SO_LONG else each * 1000 for each in found)
        at += _BACK.size
    before: tuple[int | None, ...] = ()
    if flags & BEFORE:
        found = _BEFORE.unpack_from(body, at)
        if max(found) > NUMBER_MAX:
            raise Malformed("number", "a number before that is too high")
        before = tuple(each or None for each in found)
    return created, Ages(created[0] if created else None, back, before)


def _topics(body: bytes, at: int, count: int) -> tuple[str | list[str], int]:
    """The topic of all, or of each, and where the next column begins."""
    table: list[str] = []
    many = body[at : at + 1]
    at += 1
    for _ in range(many[0] if many else 0):
        after = at + 2 + int.from_bytes(body[at : at + 2], "big")
        if after > len(body):
            raise Malformed("short", "a batch ends in the middle of a topic")
        try:
            topic = body[at + 2 : after].decode()
        except UnicodeDecodeError:
            raise Malformed("topic", "a topic that is not UTF-8") from None
        if len(topic) > TOPIC_CHARACTERS_MAX:
            raise Malformed("topic", f"a topic of {len(topic)} characters")
        table.append(topic)
        at = after
    if len(table) == 1:
        return table[0], at
    indexes = body[at : at + count]
    if len(indexes) < count:
        raise Malformed("short", "a batch ends in the middle of its topics")
    if max(indexes) >= len(table):
        raise Malformed("topic", f"topic {max(indexes)} of {len(table)}")
    return [table[each] for each in indexes], at + count


def _lengths(body: bytes, at: int, count: int, *, is_equal: bool) -> tuple[int | Sequence[int], int]:
    """The lengths of the payloads, and where these begin; they end where the batch does."""
    after = at + (2 if is_equal else 2 * count)
    if after > len(body):
        raise Malformed("short", "a batch ends in the middle of a column")
    lengths: int | tuple[int, ...]
    if is_equal:
        lengths = longest = _SHORT.unpack_from(body, at)[0]
        total = longest * count
    else:
        lengths = _shorts(count).unpack_from(body, at)
        longest, total = max(lengths), sum(lengths)
    if longest > PAYLOAD_BYTES_MAX:
        raise Malformed("payload", f"a payload of {longest} bytes")
    if after + total != len(body):
        raise Malformed("length", "a batch that is longer or shorter than its payloads say")
    return lengths, after


def distances_from_wire(data: bytes, at: int, levels: int) -> tuple[int, ...]:
    """One row of distances, of which the length was checked. Raises :class:`Malformed`."""
    return tuple(_distances_of(_shorts(levels).unpack_from(data, at), "a heartbeat's distance"))


def _distances_of(column: tuple[int, ...], what: str) -> Sequence[int]:
    if DISTANCE_MAX < max(column, default=0) < TOO_FAR or DISTANCE_MAX + 1 in column:
        raise Malformed("distance", f"{what} of {DISTANCE_MAX + 1}")
    if NOTHING_BEFORE in column or TOO_FAR in column:
        if column.count(column[0]) == len(column):
            return [_FROM_WIRE[column[0]]] * len(column)
        return [_FROM_WIRE.get(each, each) for each in column]
    return column
