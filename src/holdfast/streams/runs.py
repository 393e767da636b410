"""Messages with consecutive numbers that came together: the unit in which streams are received, held, ordered
and delivered.

Most messages come many in a datagram and stay together until the application gets them. So nothing is done
for each of them on the way: a :class:`Block` has their columns as they were read, and their bytes as they
came, which go into the order as they are. Messages are made of it only where somebody looks at one: a rule,
a gap, a question. :class:`Listed` are messages that are there already, one by one.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise, repeat
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING, Final, overload

from holdfast.streams.message import NO_AGES, Ages, Message, Origin, StreamMessage

first_of: Final = attrgetter("first")
last_of: Final = attrgetter("last")


PACKED_MIN: Final = 8
"""From so many messages on it costs less to order them as the bytes in which they came."""
MESSAGE_BYTES: Final = 200
"""About what a message needs in memory besides its content."""


if TYPE_CHECKING:
    _Sequence = Sequence[Message]
else:
    _Sequence = object  # registered below: to ask what a subclass of an abstract class is takes a function


class Run(_Sequence):
    """Messages *first* to *last*, all of them."""

    __slots__ = ("body", "first", "held_bytes", "is_packed", "last", "length", "record_bytes")

    # All of these are attributes: every datagram is asked for them, and most have one message.
    def __init__(self, first: int, length: int, payload_bytes: int, body: bytes) -> None:
        self.first = first
        self.length = length
        """How many there are."""
        self.last = first + length - 1
        self.body = body
        """The messages as a datagram has them (:mod:`.columns`); empty if they came in another way."""
        self.held_bytes = payload_bytes + MESSAGE_BYTES * length
        """About what it needs in memory."""
        self.is_packed = length >= PACKED_MIN and bool(body)
        """Whether it is ordered as the bytes in which it came."""
        self.record_bytes = len(body) if self.is_packed else self.held_bytes
        """About how long it is in a record."""

    def messages(self) -> Sequence[Message]:
        raise NotImplementedError

    def delivered(self, origin: Origin) -> list[StreamMessage]:
        """The messages as the application gets them."""
        raise NotImplementedError

    def part(self, first: int, last: int) -> "Run":
        """Those of *first* to *last* that are among them; there is one at least."""
        if first <= self.first and last >= self.last:
            return self
        begin, end = max(first - self.first, 0), last - self.first + 1
        return Listed(self.messages()[begin:end])

    def get(self, number: int) -> Message:
        return self.messages()[number - self.first]

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...

    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        return self.messages()[index]

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # as of any list

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.first} to {self.last})"


Sequence.register(Run)


class Listed(Run):
    """Messages that are there one by one."""

    __slots__ = ("_messages",)

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        super().__init__(
            messages[0].number, len(messages), sum([len(each.payload) for each in messages]), b""
        )

    def messages(self) -> Sequence[Message]:
        return self._messages

    def delivered(self, origin: Origin) -> list[StreamMessage]:
        source, stream, life = origin.source, origin.stream, origin.incarnation
        return [
            StreamMessage(source, stream, life, m.number, m.priority, m.topic, m.payload, m.ages.created_ns)
            for m in self._messages
        ]


class Block(Run):
    """Messages as their columns. What is not there for any of them is empty; a topic or a length that all
    have stands there once."""

    __slots__ = (
        "_ages",
        "_at",
        "_created",
        "_distances",
        "_lengths",
        "_made",
        "_priorities",
        "_sums",
        "_topics",
    )

    def __init__(
        self,
        first: int,
        count: int,
        body: bytes,
        *,
        at: int,
        lengths: int | Sequence[int],
        priorities: bytes,
        distances: Sequence[Sequence[int]],
        sums: Sequence[Sequence[int]],
        topics: str | Sequence[str],
        created: Sequence[int],
        ages: Ages,
    ) -> None:
        """*at*: where in *body* the payloads begin, of these *lengths*. *ages*: those of the first one."""
        super().__init__(first, count, len(body) - at, body)
        self._at = at
        self._lengths = lengths
        self._priorities = priorities
        self._distances = distances
        self._sums = sums
        self._topics = topics
        self._created = created
        self._ages = ages
        self._made: list[Message] | None = None

    def messages(self) -> Sequence[Message]:
        if self._made is None:
            self._made = self.numbered(range(self.first, self.last + 1))
        return self._made

    def numbered(self, numbers: Iterable[int]) -> list[Message]:
        """The messages, with these numbers."""
        count = self.length
        if self._created:
            ages: Iterable[Ages] = [self._ages, *map(Ages, self._created[1:])]
        else:
            ages = [self._ages, *repeat(NO_AGES, count - 1)]
        return list(
            map(
                Message,
                numbers,
                self._priorities,
                self._each_topic(),
                self._payloads(),
                zip(*self._distances, strict=True) if self._distances else repeat((), count),
                zip(*self._sums, strict=True) if self._sums else repeat((), count),
                ages,
            )
        )

    def delivered(self, origin: Origin) -> list[StreamMessage]:
        return list(
            map(
                StreamMessage,
                repeat(origin.source),
                repeat(origin.stream),
                repeat(origin.incarnation),
                range(self.first, self.last + 1),
                self._priorities,
                self._each_topic(),
                self._payloads(),
                self._created or repeat(None),
            )
        )

    def _each_topic(self) -> Iterable[str]:
        return repeat(self._topics) if isinstance(self._topics, str) else self._topics

    def _payloads(self) -> Iterable[bytes]:
        body, lengths = self.body, self._lengths
        if isinstance(lengths, int):
            if not lengths:
                return repeat(b"", self.length)
            return [each for (each,) in _one(lengths).iter_unpack(memoryview(body)[self._at :])]
        return [body[begin:end] for begin, end in pairwise(accumulate(lengths, initial=self._at))]


def _one(length: int) -> Struct:
    return Struct(f"{length}s")


def runs_of(messages: Sequence[Message]) -> Sequence[Run]:
    """*messages* as runs of consecutive numbers, in the order in which they are given."""
    if isinstance(messages, Run):
        return (messages,)
    found: list[Run] = []
    begin = 0
    for index in range(1, len(messages) + 1):
        if index == len(messages) or messages[index].number != messages[index - 1].number + 1:
            found.append(Listed(messages[begin:index]))
            begin = index
    return found


def ends_of(messages: Sequence[Message]) -> tuple[int, int]:
    """The first and the last number of *messages*, of which there is one at least."""
    if isinstance(messages, Run):
        return messages.first, messages.last
    return messages[0].number, messages[-1].number
