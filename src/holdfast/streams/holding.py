"""The messages that a member has received, for as long as anybody may need them (LOSS-100).

A message is kept until it was delivered or passed over here; where ranges carry only numbers
(``retain="none"``) until every listed member has come so far, because one of them may ask for it. Both
messages and bytes are bounded. Where there is no room, what was delivered here goes first, then what comes
latest in its stream; if all of it is needed sooner, the new message is not taken: it counts as lost, like any
other."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from holdfast.streams.config import STREAMS_MAX
from holdfast.streams.message import Message, Origin
from holdfast.streams.runs import MESSAGE_BYTES, Listed, Run, first_of, last_of

UNBOUNDED: Final = 1 << 62


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
    runs: list[Run] = field(default_factory=list)
    """In the order of their numbers; no number is in two of them."""
    count: int = 0
    """How many messages they have."""
    highest: int = 0
    """The highest number that is known to have been sent."""
    heard: int | None = None
    """The highest number that its source had sent when it was first heard of, if that was a heartbeat."""
    heard_ns: int = 0
    """When that was."""
    figures: Figures = field(default_factory=Figures)
    let_go: Run | None = None
    """What was let go last."""

    @property
    def lowest(self) -> int | None:
        """The lowest number that is held."""
        return self.runs[0].first if self.runs else None

    @property
    def numbers(self) -> list[int]:
        """All numbers that are held, in order."""
        return [number for run in self.runs for number in range(run.first, run.last + 1)]

    def get(self, number: int) -> Message | None:
        index = bisect_left(self.runs, number, key=last_of)
        if index == len(self.runs) or self.runs[index].first > number:
            return None
        return self.runs[index].get(number)

    def run_at(self, first: int) -> Run | None:
        """The run that begins with *first*."""
        index = bisect_left(self.runs, first, key=first_of)
        return self.runs[index] if index < len(self.runs) and self.runs[index].first == first else None

    def at(self, number: int) -> Message | None:
        """A message that is held, or was let go last."""
        found, gone = self.get(number), self.let_go
        return gone.get(number) if found is None and gone is not None and gone.last == number else found

    def next_after(self, number: int) -> int | None:
        """The lowest number above *number* that is held."""
        index = bisect_left(self.runs, number + 1, key=last_of)
        return max(self.runs[index].first, number + 1) if index < len(self.runs) else None

    def numbers_within(self, first: int, last: int) -> list[int]:
        return [number for run in self.runs_within(first, last) for number in range(run.first, run.last + 1)]

    def run(self, first: int, count_max: int, bytes_max: int) -> list[Message]:
        """The messages from *first* on with consecutive numbers, within these bounds; at least one if it is
        there."""
        found: list[Message] = []
        size = 0
        for run in self.runs_from(first, count_max):
            for message in run:
                size += len(message.payload) + MESSAGE_BYTES
                if found and size > bytes_max:
                    return found
                found.append(message)
        return found

    def runs_from(self, first: int, count_max: int) -> Iterator[Run]:
        """The runs with consecutive numbers from *first* on, with so many messages at most. One that does
        not fit whole is cut only if it is the first."""
        index, last = bisect_left(self.runs, first, key=last_of), first + count_max - 1
        at = first
        while index < len(self.runs) and self.runs[index].first <= at <= last:
            run = self.runs[index]
            if run.last > last and at > first:
                return
            yield run.part(at, last)
            at, index = run.last + 1, index + 1

    def missing(self, first: int, last: int) -> list[tuple[int, int]]:
        """The ranges within *first* to *last* that are not held."""
        found: list[tuple[int, int]] = []
        at, index = first, bisect_left(self.runs, first, key=last_of)
        while at <= last:
            run = self.runs[index] if index < len(self.runs) else None
            end = last if run is None else min(last, run.first - 1)
            if end >= at:
                found.append((at, end))
            if run is None:
                break
            at, index = run.last + 1, index + 1
        return found

    def runs_within(self, first: int, last: int) -> list[Run]:
        """What is held of *first* to *last*."""
        begin = bisect_left(self.runs, first, key=last_of)
        end = bisect_right(self.runs, last, key=first_of)
        return [run.part(first, last) for run in self.runs[begin:end]]


class Holding:
    """The messages of one member, by stream and life."""

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self._bounds = (messages_max, bytes_max)
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self.is_wide = False
        """Whether there is more room than usual."""
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
        return self.take_run(held, Listed((message,)), now) > 0

    def take_run(self, held: HeldStream, run: Run, now: int, ordered: int = 0) -> int:
        """Hold those of *run* that were not there; returns how many are held now and were not before.
        *ordered*: up to which number messages may be ordered, and so are needed."""
        runs, length, size = held.runs, run.length, run.held_bytes
        is_last = not runs or run.first > runs[-1].last
        if is_last and held.count + length <= self._messages_max and self.bytes + size <= self._bytes_max:
            # As nearly all do: this is done for every datagram.
            runs.append(run)
            held.count += length
            self.bytes += size
            if run.last > held.highest:
                held.highest = run.last
            taken = length
        else:
            missing = held.missing(run.first, run.last)
            held.figures.repeated += length - sum(end - begin + 1 for begin, end in missing)
            taken = sum(self._take_missing(held, run.part(begin, end), ordered) for begin, end in missing)
        if taken:
            figures = held.figures
            figures.received += taken
            figures.first_ns = figures.first_ns or now
            figures.last_ns = now
        return taken

    def _take_missing(self, held: HeldStream, run: Run, ordered: int) -> int:
        """Hold *run*, of which nothing is there, as far as there is room. What comes later in the stream
        makes room for it, unless it was ordered. *Without the first:* a source that is not paced fills all
        room behind a gap; what would close the gap is recovered and has no room, and the stream stands for
        ever. *Without the second:* a leader that orders only the set lets go of 47 for 40, after it has
        ordered 47 by its number, and nobody else has it."""
        beyond = max(run.last, ordered)
        while not self._has_room(held, run) and held.runs and held.runs[-1].first > beyond:
            gone = held.runs.pop()
            self._uncount(held, gone)
            held.figures.refused += gone.length
        if not self._has_room(held, run):
            fitting = self._fitting(held, run)
            held.figures.refused += run.length - fitting
            if not fitting:
                return 0
            run = run.part(run.first, run.first + fitting - 1)
        held.runs.insert(bisect_left(held.runs, run.first, key=first_of), run)
        self._count(held, run)
        return run.length

    def _has_room(self, held: HeldStream, run: Run) -> bool:
        return (
            held.count + run.length <= self._messages_max and self.bytes + run.held_bytes <= self._bytes_max
        )

    def _fitting(self, held: HeldStream, run: Run) -> int:
        """For how many messages of *run*, from its first on, there is room."""
        left, fitting = self._bytes_max - self.bytes, 0
        for each in run[: max(0, self._messages_max - held.count)]:
            left -= len(each.payload) + MESSAGE_BYTES
            if left < 0:
                break
            fitting += 1
        return fitting

    def release(self, origin: Origin, up_to: int) -> None:
        """Let go of the messages of *origin* up to a number, and of earlier lives of its stream."""
        lives = self._streams.get(origin.stream, {})
        if len(lives) > 1:
            for incarnation in [each for each in lives if each < origin.incarnation]:
                self._forget(lives.pop(incarnation))
        held = lives.get(origin.incarnation)
        if held is None or not held.runs or held.runs[0].first > up_to:
            return
        whole = bisect_right(held.runs, up_to, key=last_of)
        gone, held.runs = held.runs[:whole], held.runs[whole:]
        held.count -= sum([run.length for run in gone])
        self.bytes -= sum([run.held_bytes for run in gone])
        if held.runs and held.runs[0].first <= up_to:
            gone = [self._cut(held, 0, up_to + 1)]
        held.let_go = gone[-1]

    def _cut(self, held: HeldStream, index: int, first: int) -> Run:
        """Let a run begin with *first*; returns what it had before."""
        run = held.runs[index]
        self._uncount(held, run)
        held.runs[index] = rest = run.part(first, run.last)
        self._count(held, rest)
        return run.part(run.first, first - 1)

    def remove(self, held: HeldStream, first: int, last: int) -> None:
        """Let go of *first* to *last*, wherever they are."""
        begin = bisect_left(held.runs, first, key=last_of)
        end = bisect_right(held.runs, last, key=first_of)
        gone = held.runs[begin:end]
        left: list[Run] = []
        for run in gone:
            self._uncount(held, run)
            left += [run.part(run.first, first - 1)] if run.first < first else []
            left += [run.part(last + 1, run.last)] if run.last > last else []
        for run in left:
            self._count(held, run)
        held.runs[begin:end] = left

    def widen(self, more_bytes: int) -> None:
        """Have room for so many bytes more, however many messages these are; 0: no more than usual."""
        messages_max, bytes_max = self._bounds
        self.is_wide = more_bytes > 0
        self._messages_max = UNBOUNDED if self.is_wide else messages_max
        self._bytes_max = bytes_max + more_bytes

    @property
    def fits_as_usual(self) -> bool:
        """Whether what is held takes at most half of the usual room."""
        messages_max, bytes_max = self._bounds
        lives = [held for lives in self._streams.values() for held in lives.values()]
        return 2 * self.bytes <= bytes_max and all(2 * held.count <= messages_max for held in lives)

    def is_nearly_full(self, held: HeldStream) -> bool:
        """Whether so much of the room is taken that what was delivered here should go: half, or where there
        is more than usual, all but an eighth."""
        if self.is_wide:
            return 8 * self.bytes >= 7 * self._bytes_max
        return 2 * held.count >= self._messages_max or 2 * self.bytes >= self._bytes_max

    def older_half(self, held: HeldStream) -> int:
        """The last number of the older half of what is held."""
        if not held.runs:
            return 0
        middle = held.runs[len(held.runs) // 2]
        return middle.first - 1 if len(held.runs) > 1 else middle.last

    def make_room(self, held: HeldStream) -> None:
        """Let go of the older half if there is too little room: a member without its object delivers nothing,
        and will need the newest when it has another. *Without it:* its room is full of what came first, it
        takes a state that is beyond that, lacks what followed, and is without its object again."""
        if self.is_nearly_full(held):
            self.release(held.origin, self.older_half(held))

    def _count(self, held: HeldStream, run: Run) -> None:
        held.count += run.length
        held.highest = max(held.highest, run.last)
        self.bytes += run.held_bytes

    def _uncount(self, held: HeldStream, run: Run) -> None:
        held.count -= run.length
        self.bytes -= run.held_bytes

    def _forget(self, held: HeldStream) -> None:
        for run in held.runs:
            self._uncount(held, run)
        held.runs.clear()
