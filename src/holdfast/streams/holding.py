"""The messages that a member has received, for as long as anybody may need them (LOSS-100).

A message is kept until it was delivered or passed over here; where ranges carry only numbers
(``retain="none"``) until every listed member has come so far, because one of them may ask for it. Both
messages and bytes are bounded. Where there is no room, what was delivered here goes first; if all of it is
still needed, the new message is not taken: it counts as lost, like any other."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from holdfast.streams.config import STREAMS_MAX
from holdfast.streams.message import Message, Origin

MESSAGE_BYTES = 200
"""About what a message needs in memory besides its content."""


@dataclass(slots=True)
class Figures:
    """What a member has counted of one stream (LOSS-41)."""

    received: int = 0
    repeated: int = 0
    late: int = 0
    """Came after they were given up."""
    refused: int = 0
    """There was no room for them."""
    asked: int = 0
    """How often messages were asked for."""
    recovered: int = 0
    first_ns: int = 0
    last_ns: int = 0

    def rate(self) -> float:
        """Messages per second, over all that was received."""
        spent = self.last_ns - self.first_ns
        return self.received * 1_000_000_000 / spent if spent > 0 else 0.0


@dataclass(slots=True)
class HeldStream:
    """What a member holds of one life of one stream."""

    origin: Origin
    messages: dict[int, Message] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)
    """Those of *messages*, in order."""
    highest: int = 0
    """The highest number that is known to have been sent."""
    figures: Figures = field(default_factory=Figures)
    last: Message | None = None
    """The highest message that was let go."""

    def at(self, number: int) -> Message | None:
        """A message that is held, or was let go last."""
        found = self.messages.get(number)
        return self.last if found is None and self.last and self.last.number == number else found

    def next_after(self, number: int) -> int | None:
        """The lowest number above *number* that is held."""
        index = bisect_left(self.numbers, number + 1)
        return self.numbers[index] if index < len(self.numbers) else None

    def numbers_within(self, first: int, last: int) -> list[int]:
        return self.numbers[bisect_left(self.numbers, first) : bisect_left(self.numbers, last + 1)]

    def run(self, first: int, count_max: int, bytes_max: int) -> list[Message]:
        """The messages from *first* on with consecutive numbers, within these bounds; at least one if it is
        there."""
        found: list[Message] = []
        size = 0
        get = self.messages.get
        for number in range(first, first + count_max):
            message = get(number)
            if message is None:
                break
            size += len(message.payload) + MESSAGE_BYTES
            if found and size > bytes_max:
                break
            found.append(message)
        return found

    def missing(self, first: int, last: int) -> list[tuple[int, int]]:
        """The ranges within *first* to *last* that are not held."""
        found: list[tuple[int, int]] = []
        at = first
        while at <= last:
            next_held = self.next_after(at - 1)
            end = last if next_held is None or next_held > last else next_held - 1
            if end >= at:
                found.append((at, end))
            if next_held is None or next_held > last:
                break
            at = next_held + 1
        return found


class Holding:
    """The messages of one member, by stream and life."""

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self.bytes = 0
        self._streams: dict[str, dict[int, HeldStream]] = {}
        self.foreign = 0
        """Messages of streams beyond the bound on their number, or of lives that are over."""

    def __iter__(self) -> Iterator[HeldStream]:
        """The newest life of each stream."""
        for lives in self._streams.values():
            yield lives[max(lives)]

    def streams(self) -> list[str]:
        return list(self._streams)

    def life(self, origin: Origin) -> HeldStream | None:
        return self._streams.get(origin.stream, {}).get(origin.incarnation)

    def newest(self, stream: str) -> HeldStream | None:
        lives = self._streams.get(stream)
        return lives[max(lives)] if lives else None

    def held(self, origin: Origin) -> HeldStream | None:
        """What is held of that life, which is entered if it is new; None if there are too many streams, or a
        later life is known."""
        lives = self._streams.get(origin.stream)
        if lives is None:
            if len(self._streams) >= STREAMS_MAX:
                return None
            lives = self._streams[origin.stream] = {}
        found = lives.get(origin.incarnation)
        if found is None:
            if len(lives) >= 2 and origin.incarnation < max(lives):
                return None
            found = lives[origin.incarnation] = HeldStream(origin)
            while len(lives) > 2:
                # The source has ended twice meanwhile; what is left of the oldest life is lost.
                self._forget(lives.pop(min(lives)))
        return found

    def take(self, held: HeldStream, message: Message, now: int) -> bool:
        """Hold a message that was not there; whether it is held now and was not before."""
        figures = held.figures
        number = message.number
        if number in held.messages:
            figures.repeated += 1
            return False
        size = len(message.payload) + MESSAGE_BYTES
        if len(held.messages) >= self._messages_max or self.bytes + size > self._bytes_max:
            figures.refused += 1
            return False
        figures.received += 1
        figures.first_ns = figures.first_ns or now
        figures.last_ns = now
        held.messages[number] = message
        if not held.numbers or number > held.numbers[-1]:
            held.numbers.append(number)
        else:
            insort(held.numbers, number)
        held.highest = max(held.highest, number)
        self.bytes += size
        return True

    def take_run(self, held: HeldStream, messages: tuple[Message, ...], now: int) -> bool:
        """Hold messages that follow each other and come after all that are held, at once, as most do; whether
        they are such and there is room. If not, nothing is held of them, and :meth:`take` judges each."""
        first, count = messages[0].number, len(messages)
        numbers = [each.number for each in messages]
        if numbers != list(range(first, first + count)) or (held.numbers and first <= held.numbers[-1]):
            return False
        size = sum([len(each.payload) for each in messages]) + MESSAGE_BYTES * count
        if len(held.messages) + count > self._messages_max or self.bytes + size > self._bytes_max:
            return False
        figures = held.figures
        figures.received += count
        figures.first_ns = figures.first_ns or now
        figures.last_ns = now
        held.messages.update(zip(numbers, messages, strict=True))
        held.numbers += numbers
        held.highest = max(held.highest, numbers[-1])
        self.bytes += size
        return True

    def release(self, origin: Origin, up_to: int) -> None:
        """Let go of the messages of *origin* up to a number, and of earlier lives of its stream."""
        lives = self._streams.get(origin.stream, {})
        for incarnation in [each for each in lives if each < origin.incarnation]:
            self._forget(lives.pop(incarnation))
        held = lives.get(origin.incarnation)
        if held is not None and held.numbers and held.numbers[0] <= up_to:
            index = bisect_left(held.numbers, up_to + 1)
            held.last = held.messages[held.numbers[index - 1]]
            self._remove(held, held.numbers[:index])
            del held.numbers[:index]

    def remove(self, held: HeldStream, numbers: Iterable[int]) -> None:
        """Let go of these, wherever they are."""
        there = [each for each in numbers if each in held.messages]
        self._remove(held, there)
        for number in there:
            del held.numbers[bisect_left(held.numbers, number)]

    def is_nearly_full(self, held: HeldStream) -> bool:
        """Whether half of the room is taken, so that what was delivered here should go."""
        return 2 * len(held.messages) >= self._messages_max or 2 * self.bytes >= self._bytes_max

    def _remove(self, held: HeldStream, numbers: Iterable[int]) -> None:
        pop = held.messages.pop
        gone = [len(pop(number).payload) for number in numbers]
        self.bytes -= sum(gone) + MESSAGE_BYTES * len(gone)

    def _forget(self, held: HeldStream) -> None:
        self._remove(held, list(held.messages))
        held.numbers.clear()
