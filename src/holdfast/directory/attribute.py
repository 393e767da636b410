"""The state of one attribute of one entry: its values with their CSNs, removed ones kept.

A multi-valued attribute has a slot (:mod:`.slot`) for each value that was ever added or removed; its wish is
"present" or "absent". A single-valued attribute has one slot for all its values, so that the youngest
replaces the others. Removing the attribute is a slot too, beside them: it takes away all older values, and
supersedes those that its issuer had seen.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from holdfast.directory.primitives import Value
from holdfast.directory.seen import Seen
from holdfast.directory.slot import Slot, Write, losers
from holdfast.model.csn import ZERO, Csn

SINGLE: Final = b""
"""The key of the one slot of a single-valued attribute."""


def slot_key(value: Value, *, is_single: bool) -> bytes:
    return SINGLE if is_single else b"=" + value.key


class ValueWish(Struct, frozen=True, array_like=True, gc=False):
    """What a change wants of a value. That of a removal is kept with it, as the source's vdcsn wants it."""

    value: Value
    is_present: bool

    @property
    def outcome(self) -> bytes | None:
        """What comes of it: the value's key, or None for its absence."""
        return self.value.key if self.is_present else None


def _outcome(wish: ValueWish) -> bytes | None:
    return wish.outcome


class Judgement(Struct, frozen=True):
    """What came of one slot of an attribute."""

    value: Value | None
    """The visible value; None when there is none."""
    csn: Csn
    """The change that decided; ZERO when the entry's name did."""
    lost: tuple[Write[ValueWish], ...]
    """The changes that wished for something else, of which the winner did not know."""
    lost_removals: tuple[Write[None], ...]
    """The removals of the whole attribute that did not get their way here."""

    @property
    def is_contested(self) -> bool:
        return bool(self.lost or self.lost_removals)


class AttributeState(Struct, frozen=True, array_like=True, gc=False):
    """The slots of an attribute: its removal, and its values by key."""

    removal: Slot[None] = Slot()
    values: dict[bytes, Slot[ValueWish]] = {}

    @property
    def is_empty(self) -> bool:
        return not self.values and self.removal.is_empty

    @property
    def removed(self) -> Csn:
        """The youngest removal of the whole attribute: the source's adcsn."""
        winner = self.removal.winner
        return ZERO if winner is None else winner.csn

    def written(self, key: bytes, write: Write[ValueWish], seen: Seen) -> "AttributeState":
        slot = self.values.get(key, _EMPTY).written(write, seen, is_covered=self.removal.covers)
        return AttributeState(self.removal, {**self.values, key: slot})

    def removed_by(self, csn: Csn, seen: Seen) -> "AttributeState":
        removal = self.removal.written(Write(csn, None), seen)
        values = {key: slot.covered_by(removal.covers) for key, slot in self.values.items()}
        return AttributeState(removal, values)

    def seen(self) -> Seen:
        """All that a removal of the attribute made now replaces."""
        seen = self.removal.seen()
        return seen.joined(joined_seen(slot.seen() for slot in self.values.values()))

    def slot_seen(self, key: bytes) -> Seen:
        """All that a change of one value made now replaces; removals of the attribute are part of it."""
        return self.values.get(key, _EMPTY).seen().including([head.csn for head in self.removal.heads])

    def judged(self, key: bytes, required: Value | None = None) -> Judgement:
        """What came of the slot of *key*. A *required* value is part of the entry's name: it is there,
        whoever removed it, since an entry without it would contradict its own name."""
        slot = self.values.get(key, _EMPTY)
        newest = slot.winner
        if required is not None:
            holding = [head for head in slot.heads if head.wish.outcome == required.key]
            value = holding[-1].wish.value if holding else required
            csn = holding[-1].csn if holding else ZERO
        elif newest is not None and newest.wish.is_present and newest.csn > self.removed:
            value, csn = newest.wish.value, newest.csn
        else:
            value, csn = None, max(self.removed, newest.csn if newest is not None else ZERO)
        lost = tuple(losers(slot, _outcome, None if value is None else value.key))
        lost_removals = () if value is None else self.lost_removals(slot)
        return Judgement(value, csn, lost, lost_removals)

    def visible(self, required: Mapping[bytes, Value]) -> tuple[Value, ...]:
        """The values that :meth:`judgements` come to, sorted by key, without asking who lost: searches and
        changes need no more, for every attribute of an entry."""
        if not required and len(self.values) == 1:  # as of nearly all
            ((key, slot),) = self.values.items()
            value = self._visible(slot, None)
            return () if value is None else (value,)
        found: dict[bytes, Value] = {}
        for key in sorted({**self.values, **required}):
            value = self._visible(self.values.get(key, _EMPTY), required.get(key))
            if value is not None:
                found[value.key] = value
        return tuple(found[key] for key in sorted(found))

    def _visible(self, slot: Slot[ValueWish], required: Value | None) -> Value | None:
        if required is not None:
            holding = [head for head in slot.heads if head.wish.outcome == required.key]
            return holding[-1].wish.value if holding else required
        if not slot.heads:
            return None
        newest = slot.heads[-1]
        is_there = newest.wish.is_present and (not self.removal.heads or newest.csn > self.removed)
        return newest.wish.value if is_there else None

    def lost_removals(self, slot: Slot[ValueWish]) -> tuple[Write[None], ...]:
        """The removals of the attribute of which nobody knew who wrote to *slot*, whose value is visible."""
        return tuple(head for head in self.removal.heads if not slot.covers(head.csn))

    def judgements(self, required: dict[bytes, Value]) -> Iterator[tuple[bytes, Judgement]]:
        """What came of every slot, by key; *required* has the values of the entry's name."""
        for key in sorted({**self.values, **required}):
            yield key, self.judged(key, required.get(key))


_EMPTY: Final[Slot[ValueWish]] = Slot()


def joined_seen(parts: Iterator[Seen]) -> Seen:
    csns: list[Csn] = []
    horizon = ZERO
    for part in parts:
        csns += part.newest
        horizon = max(horizon, part.horizon)
    return Seen.of(csns, horizon)
