"""The streams' part of a group's state: how far each stream is, the rules, and the last decisions (O2,
LOSS-99).

It changes by records alone, so every member has the same at the same position. A leader keeps a second one,
its *plan*, to which it applies what it has ordered and not yet executed: the next record follows from the
plan.

A stream's *mark* moves on only when a message is delivered or explicitly passed over. *Without it:* a leader
moves on when a message has arrived, and is killed before it is ordered; nobody knows that it is missing.
"""

from collections import deque
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.model.errors import BrokenInvariant
from holdfast.streams.message import Message, Origin
from holdfast.streams.records import Began, Decided, Deliver, Entry, Lacked, Passed, Ruled, RuleEnded
from holdfast.streams.rules import Rule, Rules

AUDIT_MAX: Final = 32
"""How many decisions the state remembers; the log has all since the last checkpoint, and hosts write each."""
AUDIT_BYTES_MAX: Final = 4096
"""The longest information that the state remembers with a decision."""
HOLES_MAX: Final = 1024
"""The most ranges of one stream that may be missing at a time where only the set of messages counts."""


class Hole(Struct, frozen=True, array_like=True):
    """Numbers that are missing, and may still be delivered (``order="set"``)."""

    first: int
    last: int


class StreamMark(Struct, array_like=True):
    """How far one stream is."""

    origin: Origin
    mark: int
    """The highest number that was delivered or passed over."""
    holes: list[Hole] = []
    delivered: int = 0
    dropped: int = 0
    ignored: int = 0
    losses: int = 0
    """How many losses were decided."""
    failed: int = 0
    """How many of the delivered were in calls of ``on_message`` or ``on_messages`` that did not return."""

    def copy(self) -> "StreamMark":
        return msgspec.structs.replace(self, holes=list(self.holes))

    def is_done_with(self, number: int) -> bool:
        """Whether that message was delivered or passed over."""
        return number <= self.mark and not any(each.first <= number <= each.last for each in self.holes)

    def take(self, first: int, last: int, *, is_set: bool) -> int:
        """Numbers *first* to *last* are delivered or passed over. Returns how many before them are passed
        over with them, because the order of a stream is law (LOSS-80)."""
        if first > self.mark:
            implied = first - 1 - self.mark
            if implied and is_set:
                self.holes.append(Hole(self.mark + 1, first - 1))
                implied = 0
            self.mark = last
            return implied
        for index, hole in enumerate(self.holes):
            if hole.first <= first and last <= hole.last:
                before = [Hole(hole.first, first - 1)] if hole.first < first else []
                after = [Hole(last + 1, hole.last)] if last < hole.last else []
                self.holes[index : index + 1] = [*before, *after]
                return 0
        raise BrokenInvariant(f"{self.origin.stream}: {first} to {last} comes after {self.mark}")


class Decision(Struct, frozen=True, array_like=True):
    """One decision, as the audit shows it."""

    number: int
    time_ns: int
    """In the group's time."""
    decided: Decided | Lacked | Ruled | RuleEnded


class LackedRange(Struct, frozen=True, array_like=True):
    """Numbers that this object did not get, though they were ordered (O1)."""

    origin: Origin
    first: int
    last: int


class _Saved(Struct, array_like=True):
    is_set: bool
    streams: dict[str, StreamMark]
    rules: tuple[Rule, ...]
    next_rule: int
    decisions: int
    audit: list[Decision]
    time_ns: int
    lacked: list[LackedRange] = []


_saved: Final = msgspec.msgpack.Decoder(_Saved)


class Ledger:
    """The marks, rules and decisions of one group, at one position."""

    def __init__(self, *, is_set: bool = False) -> None:
        self.is_set = is_set
        """Whether only the set of messages counts."""
        self.streams: dict[str, StreamMark] = {}
        self.rules = Rules()
        self.next_rule = 1
        self.decisions = 0
        """How many decisions there were."""
        self.audit: deque[Decision] = deque(maxlen=AUDIT_MAX)
        self.time_ns = 0
        """The group's time of the last record."""
        self.lacked: list[LackedRange] = []
        """What was ordered and could not be had; its leader says so in the order as soon as it can."""
        self.differs = ""
        """Why this object is not the group's any more; empty if it is. Never saved: such an object is given
        up."""

    def copy(self) -> "Ledger":
        """The same, without the audit: a plan."""
        made = Ledger(is_set=self.is_set)
        made.streams = {name: each.copy() for name, each in self.streams.items()}
        made.rules = self.rules.copy()
        made.next_rule, made.decisions, made.time_ns = self.next_rule, self.decisions, self.time_ns
        made.lacked = list(self.lacked)
        return made

    def mark(self, stream: str) -> StreamMark | None:
        return self.streams.get(stream)

    def is_done_with(self, origin: Origin, number: int) -> bool:
        """Whether that message can never be delivered any more."""
        mark = self.streams.get(origin.stream)
        if mark is None or origin.incarnation > mark.origin.incarnation:
            return False
        return origin.incarnation < mark.origin.incarnation or mark.is_done_with(number)

    # --- records

    def apply(self, entries: Iterable[Entry], time_ns: int) -> None:
        """Apply what was ordered, at *time_ns* of the group's time."""
        self.time_ns = max(self.time_ns, time_ns)
        for each in entries:
            self.apply_one(each)

    def apply_one(self, entry: Entry) -> None:
        match entry:
            case Deliver():
                mark = self._mark_of(entry.origin)
                mark.dropped += mark.take(entry.first, entry.last, is_set=self.is_set)
                mark.delivered += entry.count
            case Passed():
                mark = self._mark_of(entry.origin)
                implied = mark.take(entry.first, entry.last, is_set=self.is_set)
                count = entry.last - entry.first + 1
                mark.dropped += implied + (0 if entry.rule else count)
                mark.ignored += count if entry.rule else 0
                self.rules.count(entry.rule, count)
            case Began():
                known = self.streams.get(entry.origin.stream)
                made = known.copy() if known is not None else StreamMark(entry.origin, 0)
                made.origin, made.mark, made.holes = entry.origin, entry.mark, []
                self.streams[entry.origin.stream] = made
            case Ruled():
                self._add_rule(entry)
            case RuleEnded():
                if entry.rule in self.rules:
                    self.rules.end(entry.rule)
                    self._remember(entry)
            case Decided():
                self._mark_of(entry.origin).losses += 1
                self._remember(entry)
            case Lacked():
                self._take_lacked(entry)

    def on_failed(self, stream: str, count: int) -> None:
        """A call with *count* messages of a stream has not returned. They stay delivered."""
        mark = self.streams.get(stream)
        if mark is not None:
            mark.failed += count

    def end_by_sync(self, origin: Origin, message: Message, topic: str) -> list[int]:
        """The rules that end because *message* is a sync, and which end before it is looked at."""
        return self.rules.of_sync(origin) if topic and message.topic == topic else []

    def _mark_of(self, origin: Origin) -> StreamMark:
        mark = self.streams.get(origin.stream)
        if mark is None or mark.origin.incarnation != origin.incarnation:
            raise BrokenInvariant(f"{origin.stream}: messages of life {origin.incarnation} before it began")
        return mark

    def _add_rule(self, entry: Ruled) -> None:
        rule, self.next_rule = entry.rule, entry.rule.number + 1
        if rule.until_ns is not None:
            rule = msgspec.structs.replace(rule, until_ns=self.time_ns + rule.until_ns)
        if not self.rules.is_full:
            self.rules.add(rule)
        self._remember(entry)

    def _take_lacked(self, entry: Lacked) -> None:
        own = [each for each in self.lacked if _is_same(each, entry)]
        if own:
            self.lacked = [each for each in self.lacked if not _is_same(each, entry)]
        else:
            span = f"{entry.origin.stream} {entry.first} to {entry.last}"
            self.differs = f"{span} was delivered here, and the leader had to go on without it (O1)"
        self._remember(entry)

    def _remember(self, entry: Decided | Lacked | Ruled | RuleEnded) -> None:
        self.decisions += 1
        if isinstance(entry, Decided) and len(entry.information) > AUDIT_BYTES_MAX:
            entry = msgspec.structs.replace(entry, information=b"")
        self.audit.append(Decision(self.decisions, self.time_ns, entry))

    # --- its place in the state

    @property
    def is_used(self) -> bool:
        return bool(self.streams) or bool(self.decisions)

    def save(self) -> bytes:
        if not self.is_used:
            return b""
        return msgspec.msgpack.encode(
            _Saved(
                self.is_set,
                self.streams,
                tuple(self.rules),
                self.next_rule,
                self.decisions,
                list(self.audit),
                self.time_ns,
                self.lacked,
            )
        )

    def load(self, saved: bytes) -> None:
        """Raises ``msgspec.DecodeError``."""
        found = _saved.decode(saved)
        self.is_set, self.streams, self.rules = found.is_set, found.streams, Rules(found.rules)
        self.next_rule, self.decisions, self.time_ns = found.next_rule, found.decisions, found.time_ns
        self.audit = deque(found.audit, maxlen=AUDIT_MAX)
        self.lacked = found.lacked

    def digest(self) -> bytes:
        return blake2b(self.save(), digest_size=16).digest()


def _is_same(one: LackedRange, other: Lacked) -> bool:
    return (one.origin, one.first, one.last) == (other.origin, other.first, other.last)
