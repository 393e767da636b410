"""What a source says of its messages: numbers, priorities, distances and ages (LOSS-18 to LOSS-26).

The encoder knows only what was sent before, never what the receivers got. From that each message carries
enough for a receiver that lost some to tell of which priority they were and how old they are.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, repeat
from typing import Final

import msgspec

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import MILLISECOND
from holdfast.streams.columns import COUNT_MAX, HEAD, SPREAD_NUMBERS_MAX, SPREAD_US_MAX, TOPICS_MAX
from holdfast.streams.datagram import DATAGRAM_BYTES_MAX, HEADER, TAG_BYTES
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

STAMP_BYTES: Final = 8
_COLUMNS_BYTES: Final = 4 + 1 + 4 + 1 + 2
"""What a message takes beside its payload and its distances: number, priority, creation, topic, length."""
AGE_TABLES_BYTES: Final = 8 * (len(BACK_BY) + len(BEFORE_MS))
STAMPS_KEPT: Final = COUNT_MAX + BACK_BY[-1]
"""Times of creation that are remembered: what the first message of the longest datagram looks back to."""
MARKS_KEPT: Final = 10 + BEFORE_MS[-1]
"""One mark for each millisecond that is looked back to."""


class EncodingConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream's messages say of those before them."""

    levels: int = 2
    """How many priorities the stream has, from 0, the highest. The lowest needs no distance (LOSS-22)."""
    exact: bool = True
    """Each message has the distance to the last one of each level."""
    cumulative: bool = False
    """Each message has the distance to the last one of each level or a higher one (LOSS-23)."""
    created: bool = True
    """Each message says when it was made (LOSS-24 a): 4 bytes."""
    back: bool = False
    """The first message of a datagram says how long before it others were made (LOSS-24 b): 32 bytes."""
    before: bool = False
    """The first message of a datagram has the numbers of those made some time before (LOSS-24 c): 32
    bytes."""

    def validate(self) -> list[tuple[str, str]]:
        if not 1 <= self.levels <= PRIORITY_MAX + 1:
            return [("levels", f"must be 1 to {PRIORITY_MAX + 1}")]
        return []

    @property
    def tracked(self) -> int:
        return self.levels - 1


class StreamEncoder:
    """The messages of one stream in one life of its source, in the order in which they are made."""

    def __init__(self, config: EncodingConfig) -> None:
        self._config = config
        self._last = [0] * config.tracked
        """The number of the last message of each tracked level; 0 for none."""
        self._looks_back = config.back or config.before
        self._stamps: list[int] = []
        """When the last messages were made; the last entry belongs to :attr:`highest`."""
        self._mark_times: list[int] = []
        self._mark_numbers: list[int] = []
        """The last message of each millisecond in which one was made."""
        self._now_ns = 0
        self.highest = 0
        """The number of the last message."""

    def message(self, payload: bytes, *, priority: int = 0, topic: str = "", now_ns: int = 0) -> Message:
        """The next message, made at *now_ns*. Raises ``InvalidRequest``; then there is none."""
        config = self._config
        self._check(1, len(payload), priority, topic)
        number = self.highest + 1
        exact = self.distances if config.exact else ()
        sums = self.cumulative if config.cumulative else ()
        ages = Ages(self._stamp(number, now_ns)) if config.created or self._looks_back else NO_AGES
        made = Message(number, priority, topic, payload, exact, sums, ages)
        if priority < config.tracked:
            self._last[priority] = number
        self.highest = number
        return made

    def messages(
        self, payloads: Sequence[bytes], *, priority: int = 0, topic: str = "", now_ns: int = 0
    ) -> list[Message]:
        """The next messages, all of one priority and topic: what :meth:`message` makes of each, at a fraction
        of the cost. Raises ``InvalidRequest``; then there are none."""
        count = len(payloads)
        if not count:
            return []
        config = self._config
        self._check(count, max(map(len, payloads)), priority, topic)
        numbers = range(self.highest + 1, self.highest + 1 + count)
        exact, sums = list[list[int]](), list[list[int]]()
        for level, last in enumerate(self._last if config.exact else ()):
            exact.append(_column(numbers, last, is_own=level == priority))
        highest = 0
        for level, last in enumerate(self._last if config.cumulative else ()):
            highest = max(highest, last)
            sums.append(_column(numbers, highest, is_own=level >= priority))
        if self._looks_back:
            stamps = [self._stamp(number, now_ns) for number in numbers]
            ages: Iterable[Ages] = repeat(Ages(stamps[0]), count)
        else:
            ages = repeat(Ages(self._stamp(self.highest, now_ns)) if config.created else NO_AGES, count)
        made = list(
            map(
                Message,
                numbers,
                repeat(priority),
                repeat(topic),
                payloads,
                zip(*exact, strict=True) if exact else repeat(()),
                zip(*sums, strict=True) if sums else repeat(()),
                ages,
            )
        )
        self.highest = numbers[-1]
        if priority < config.tracked:
            self._last[priority] = self.highest
        return made

    def _check(self, count: int, longest: int, priority: int, topic: str) -> None:
        if not 0 <= priority < self._config.levels:
            raise InvalidRequest(
                f"a priority of this stream is 0 (highest) to {self._config.levels - 1}, not {priority}"
            )
        if longest > PAYLOAD_BYTES_MAX or len(topic) > TOPIC_CHARACTERS_MAX:
            raise InvalidRequest(
                f"a message has at most {PAYLOAD_BYTES_MAX} bytes and a topic of {TOPIC_CHARACTERS_MAX} "
                f"characters, not {longest} and {len(topic)}"
            )
        if self.highest + count > NUMBER_MAX:
            raise InvalidRequest("the numbers of this incarnation are used up: begin a new one")

    @property
    def distances(self) -> tuple[int, ...]:
        """The distances of the next message (LOSS-22)."""
        number = self.highest + 1
        return tuple([_distance(number, last) for last in self._last])

    @property
    def cumulative(self) -> tuple[int, ...]:
        """The distances of the next message to the last of each level or a higher one (LOSS-23)."""
        number, last, found = self.highest + 1, 0, []
        for each in self._last:
            last = max(last, each)
            found.append(_distance(number, last))
        return tuple(found)

    def opening(self, message: Message) -> Message:
        """*message* as the first of a datagram: with the tables of ages, if the stream has them."""
        config = self._config
        if not self._looks_back:
            return message
        index = len(self._stamps) - 1 - (self.highest - message.number)
        if index < 0:
            return message  # made too long ago
        made_ns = self._stamps[index]
        ages = Ages(
            made_ns if config.created else None,
            self._back(index) if config.back else (),
            self._before(made_ns) if config.before else (),
        )
        return msgspec.structs.replace(message, ages=ages)

    def _stamp(self, number: int, now_ns: int) -> int | None:
        """Note when a message was made, to the microsecond. A clock that went back stands still here."""
        self._now_ns = made_ns = max(now_ns // 1000 * 1000, self._now_ns)
        if self._looks_back:
            self._stamps.append(made_ns)
            if len(self._stamps) > 2 * STAMPS_KEPT:
                del self._stamps[:STAMPS_KEPT]
            self._mark(number, made_ns)
        return made_ns if self._config.created else None

    def _mark(self, number: int, made_ns: int) -> None:
        times = self._mark_times
        if times and times[-1] // MILLISECOND == made_ns // MILLISECOND:
            times[-1], self._mark_numbers[-1] = made_ns, number
            return
        times.append(made_ns)
        self._mark_numbers.append(number)
        if len(times) > 2 * MARKS_KEPT:
            del times[:MARKS_KEPT], self._mark_numbers[:MARKS_KEPT]

    def _back(self, index: int) -> tuple[int | None, ...]:
        stamps, made_ns = self._stamps, self._stamps[index]
        return tuple(made_ns - stamps[index - by] if index >= by else None for by in BACK_BY)

    def _before(self, made_ns: int) -> tuple[int | None, ...]:
        """Within a millisecond, the number may be an earlier one than the last: it is never a later one."""
        found = (bisect_right(self._mark_times, made_ns - by * MILLISECOND) for by in BEFORE_MS)
        return tuple(self._mark_numbers[index - 1] if index else None for index in found)


def _distance(number: int, last: int) -> int:
    if not last:
        return NONE_BEFORE
    distance = number - last
    return distance if distance <= DISTANCE_MAX else FURTHER


def _column(numbers: range, last: int, *, is_own: bool) -> list[int]:
    """The distances of messages of those numbers to a level, of which *last* was the last one before, and to
    which they belong themselves if *is_own*."""
    first = numbers[0]
    if not last and not is_own:
        return [NONE_BEFORE] * len(numbers)
    if is_own:
        return [_distance(first, last), *repeat(1, len(numbers) - 1)]
    if last and numbers[-1] - last <= DISTANCE_MAX:
        return list(range(first - last, numbers[-1] - last + 1))
    return [_distance(number, last) for number in numbers]


# --- datagrams


def room_of(datagram_bytes: int) -> int:
    """How many bytes a datagram of that size has for its messages."""
    fixed = HEADER.size + HEAD.size + STAMP_BYTES + AGE_TABLES_BYTES + 1 + TAG_BYTES
    return min(datagram_bytes, DATAGRAM_BYTES_MAX) - fixed


def batches(messages: Sequence[Message], room: int) -> Iterator[list[Message]]:
    """Cut *messages* into the batches of datagrams with that much room for them. A message that is alone too
    long for the room has a datagram of its own, which the network cuts into fragments."""
    if not messages:
        return
    if len({each.topic for each in messages}) == 1 and _span_us(messages) <= SPREAD_US_MAX:
        yield from _alike(messages, room)
        return
    batch: list[Message] = []
    size, topics = 0, dict[str, None]()
    for each in messages:
        more = _COLUMNS_BYTES + 2 * (len(each.distances) + len(each.cumulative)) + len(each.payload)
        topic = each.topic
        if topic not in topics:
            more += 2 + len(topic.encode())
        if batch and (size + more > room or not _fits(batch, each, topics)):
            yield batch
            batch, size, topics = [], 2 + len(topic.encode()), {}
        batch.append(each)
        size += more
        topics[topic] = None
    if batch:
        yield batch


def _alike(messages: Sequence[Message], room: int) -> Iterator[list[Message]]:
    """The same for messages of one topic that were made within a short time, as most are: the work is that of
    the batches, not of the messages."""
    first = messages[0]
    levels, topic = len(first.distances) + len(first.cumulative), 2 + len(first.topic.encode())
    more = _COLUMNS_BYTES + 2 * levels
    reached = list(accumulate([more + len(each.payload) for each in messages], initial=0))
    begin = 0
    while begin < len(messages):
        end = bisect_right(reached, reached[begin] + room - topic) - 1
        end = max(begin + 1, min(end, begin + COUNT_MAX))
        if messages[end - 1].number - messages[begin].number > SPREAD_NUMBERS_MAX:
            end = begin + 1
        yield list(messages[begin:end])
        begin = end


def _span_us(messages: Sequence[Message]) -> int:
    """How many microseconds lie between the first and the last, which was made no earlier."""
    begun, made = messages[0].ages.created_ns, messages[-1].ages.created_ns
    return 0 if begun is None or made is None else (made - begun) // 1000


def _fits(batch: list[Message], message: Message, topics: dict[str, None]) -> bool:
    first = batch[0]
    if len(batch) == COUNT_MAX or message.number - first.number > SPREAD_NUMBERS_MAX:
        return False
    if len(topics) == TOPICS_MAX and message.topic not in topics:
        return False
    begun, made = first.ages.created_ns, message.ages.created_ns
    return begun is None or made is None or (made - begun) // 1000 <= SPREAD_US_MAX
