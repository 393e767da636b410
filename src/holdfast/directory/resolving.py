"""Update resolution: what a set of changes makes of the entries.

The outcome is a function of the set of changes known, not of the order in which they arrived (G2): every
part of the state is a maximum, a union, or computed from those. Changes are never refused for what they
meet; an entry whose beginning has not arrived yet keeps its changes until it does. What follows from several
entries together (glue, names given back, cycles broken) is derived from the state (:mod:`.tree`), and is
never a change itself (G6).

``DESIGN.md`` in this package has the table of what every pair of operations comes to.
"""

from collections.abc import MutableMapping
from typing import Final

import msgspec
from msgspec import structs

from holdfast.clock.vector import Vector
from holdfast.directory.attribute import AttributeState, ValueWish, slot_key
from holdfast.directory.entry import NO_ATTRIBUTE, EntryState, Place, Removal, encoded_entry
from holdfast.directory.primitives import (
    AddEntry,
    AddValue,
    EntryId,
    MoveEntry,
    Primitive,
    RemoveAttribute,
    RemoveEntry,
    RemoveValue,
    RenameEntry,
    check,
)
from holdfast.directory.slot import Write
from holdfast.directory.stored_attributes import with_attribute
from holdfast.model.csn import SUB_SEQUENCE_MAX, ZERO, Csn
from holdfast.model.errors import InvalidRequest


class NeedsInitialisation(InvalidRequest):
    """Raised when a change arrives that is older than purged state and was never applied here: this replica
    or the sender's has lost its place, and one of the two must be initialised anew."""

    code = "needs_initialisation"


def resolve(entry: EntryState, change: Primitive) -> EntryState:
    """The entry's state with one more change of it; a repeated one changes nothing."""
    csn, seen = change.csn, change.seen
    if csn > entry.modified:
        entry = structs.replace(entry, modified=csn)
    match change:
        case AddEntry(parent=parent, name=name):
            added = csn if entry.added == ZERO else min(entry.added, csn)
            return structs.replace(
                entry,
                added=added,
                name=entry.name.written(Write(csn, name), seen),
                place=entry.place.written(Write(csn, Place(parent)), seen),
            )
        case MoveEntry(parent=parent, leaves=leaves):
            write = Write(csn, Place(parent, leaves[0]))
            return structs.replace(entry, place=entry.place.written(write, seen))
        case RenameEntry(name=name):
            return structs.replace(entry, name=entry.name.written(Write(csn, name), seen))
        case RemoveEntry():
            removal = Removal(csn, seen.including([csn]))
            return structs.replace(entry, removal=removal.joined(entry.removal))
        case AddValue() | RemoveValue():
            key = slot_key(change.value, is_single=change.is_single)
            wish = ValueWish(change.value, isinstance(change, AddValue))
            state = entry.attributes.get(change.attribute, NO_ATTRIBUTE)
            return _with(entry, change.attribute, state.written(key, Write(csn, wish), seen))
        case RemoveAttribute(attribute=attribute):
            state = entry.attributes.get(attribute, NO_ATTRIBUTE)
            return _with(entry, attribute, state.removed_by(csn, seen))


def _with(entry: EntryState, attribute: str, state: AttributeState) -> EntryState:
    return structs.replace(entry, attributes=with_attribute(entry.attributes, attribute, state))


class DirectoryState:
    """What one replica knows of one suffix: the state of every entry, tombstones included."""

    def __init__(self, entries: MutableMapping[EntryId, EntryState] | None = None) -> None:
        self.entries: MutableMapping[EntryId, EntryState] = {} if entries is None else entries
        """By id, tombstones included. Where they are many, they are read from a store when asked for."""
        self.left: dict[EntryId, Csn] = {}
        """When an entry was last moved away from a parent. Purging needs it: until all know of that move,
        someone may still see the parent as glue and add an entry below it."""
        self.purged: Vector | None = None
        """What the state was purged up to; None if it never was."""
        self._horizon: tuple[Vector | None, Csn] = (None, ZERO)

    @property
    def horizon(self) -> Csn:
        """All changes up to here are known, and state that only they need is gone."""
        purged, horizon = self._horizon
        if purged is not self.purged:
            horizon = horizon_of(self.purged)
            self._horizon = (self.purged, horizon)
        return horizon

    def apply(self, change: Primitive) -> EntryState:
        """Apply one change, however late or often it arrives, and return its entry's state after it."""
        check(change)
        known = self.entries.get(change.entry)
        if change.csn <= self.horizon:
            if self.purged is not None and self.purged.covers(change.csn):
                return known or EntryState(change.entry)  # it came a second time
            raise NeedsInitialisation(
                f"the change {change.csn} was never applied here, and state up to {self.horizon} is purged; "
                "initialise the replica that sent it"
            )
        entry = resolve(known or EntryState(change.entry), change)
        self.entries[entry.id] = entry
        if isinstance(change, MoveEntry):
            for parent in change.leaves:
                self.left[parent] = max(change.csn, self.left.get(parent, ZERO))
        return entry

    def dump(self) -> bytes:
        """All state as bytes: replicas that know the same changes, purged to one vector, have equal ones."""
        entries = [encoded_entry(self.entries[each]) for each in sorted(self.entries)]
        left = sorted(self.left.items())
        purged = "" if self.purged is None else self.purged.text()
        return _encoder.encode((entries, left, purged))


def horizon_of(vector: Vector | None) -> Csn:
    """The CSN up to which a replica with *vector* has all changes of all replicas."""
    if vector is None or not len(vector):
        return ZERO
    return min(vector).part(SUB_SEQUENCE_MAX)


_encoder: Final = msgspec.msgpack.Encoder()
