"""Conflicts: what lost, beside what was kept, so that no acknowledged change vanishes silently.

Records are not stored. They are derived from the state, which keeps every change that lost to one that did
not know of it, however much is purged; so all replicas list the same records, and a record goes when a later
change has seen both sides. To resolve one is to make such a change (:func:`holdfast.directory.issuing.settle`
makes it for most kinds).
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from holdfast.directory.attribute import ValueWish
from holdfast.directory.entry import NO_ATTRIBUTE, REMOVAL, EntryState, Place
from holdfast.directory.primitives import EntryId, Name, Value
from holdfast.directory.resolving import DirectoryState
from holdfast.directory.slot import Slot, Write
from holdfast.directory.tree import Tree
from holdfast.model.csn import ZERO, Csn
from holdfast.model.ids import ReplicaId

BOOKKEEPING: Final = ("creatorsname", "modifiersname")
"""Attributes that a master sets with every operation, whatever the operation is about. Two operations that
do not disagree otherwise do not disagree for these."""


class Kind(StrEnum):
    """What two changes disagreed about."""

    VALUE = "value"
    """A value of an attribute was added and removed, or the attribute was; or two single values were set."""
    RENAME = "rename"
    """One entry was given two names."""
    MOVE = "move"
    """One entry was given two parents."""
    REMOVED = "removed"
    """An entry was changed by someone who did not know of its removal, nor the removal of the change."""
    NAME = "name"
    """Two entries have one name: the second is shown with its entryUUID."""
    GLUE = "glue"
    """An entry was removed, and has children of which its removal did not know."""
    CYCLE = "cycle"
    """An entry was moved below another that was moved below it."""


class Side(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One side of a conflict: a change, and what it wished for."""

    change: str
    csn: Csn = ZERO
    value: Value | None = None
    name: Name | None = None
    parent: EntryId | None = None
    entry: EntryId | None = None
    """The other entry, where two are part of the conflict."""


class Conflict(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change that lost, and what was kept instead of it."""

    kind: Kind
    entry: EntryId
    attribute: str = ""
    slot: bytes = b""
    """The slot of the attribute (:mod:`.attribute`) for a conflict about a value."""
    kept: Side
    lost: Side

    @property
    def id(self) -> str:
        """By which people name it: the entry, the kind, and the change that lost."""
        return f"{bytes(self.entry).hex()}-{self.kind}-{self.lost.csn}"


class Disputes:
    """Which entries have conflicts within them, kept up to date, so that listing looks at no others."""

    def __init__(self) -> None:
        self._entries: dict[EntryId, None] = {}
        self._shared: dict[EntryId, None] = {}
        """All entries in which several masters' changes stand side by side, and perhaps some more."""

    def __iter__(self) -> Iterator[EntryId]:
        return iter(sorted(self._entries))

    def is_of(self, replica: ReplicaId, entry: EntryState) -> bool:
        """Whether what is left of an entry's changes, of which this was told, is all of that master."""
        return entry.modified.replica == replica and entry.id not in self._shared

    def update(self, entry: EntryState) -> bool:
        """Follow a change of one entry's state; whether it has conflicts now and had none before."""
        if not is_shared(entry):
            self._shared.pop(entry.id, None)
            self._entries.pop(entry.id, None)
            return False
        self._shared[entry.id] = None
        if next(entry_conflicts(entry), None) is None:
            self._entries.pop(entry.id, None)
            return False
        is_new = entry.id not in self._entries
        self._entries[entry.id] = None
        return is_new


def is_shared(entry: EntryState) -> bool:
    """Whether several masters' changes stand side by side in an entry. Where one alone wrote there is no
    conflict: a master knows its own."""
    replica = entry.modified.replica
    if entry.removal is not None and entry.removal.csn.replica != replica:
        return True
    slots: list[Slot[Any]] = [entry.name, entry.place]
    for state in entry.attributes.values():
        slots.append(state.removal)
        slots.extend(state.values.values())
    for slot in slots:
        for head in slot.heads:
            if head.csn.replica != replica:
                return True
    return False


def conflicts(
    state: DirectoryState, tree: Tree, among: Iterable[EntryId] | None = None
) -> Iterator[Conflict]:
    """All conflicts that are not resolved, in the same order on every replica. *among* are the entries that
    may have some within them, in order; without it all are looked at."""
    for entry in sorted(state.entries) if among is None else among:
        yield from entry_conflicts(state.entries[entry])
    yield from _twins(tree, state)
    yield from _glue(tree, state)
    yield from _cycles(tree, state)


def entry_conflicts(entry: EntryState) -> Iterator[Conflict]:
    """The conflicts within one entry."""
    if entry.removal is not None:
        kept = Side(change="remove-entry", csn=entry.removal.csn)
        for attribute, slot, head in entry.unseen_by_removal():
            if attribute in BOOKKEEPING:
                continue
            lost = _side(attribute, slot, head)
            yield Conflict(
                kind=Kind.REMOVED, entry=entry.id, attribute=attribute, slot=slot, kept=kept, lost=lost
            )
    elif entry.is_live:
        yield from _register(Kind.RENAME, entry.id, b"name", entry.name, _name_key)
        yield from _register(Kind.MOVE, entry.id, b"place", entry.place, _parent)
        yield from _values(entry)


def _register(
    kind: Kind, entry: EntryId, slot: bytes, register: Slot[Any], outcome: Any
) -> Iterator[Conflict]:
    winner = register.winner
    if winner is not None:
        for head in register.heads:
            if outcome(head.wish) != outcome(winner.wish):
                yield Conflict(
                    kind=kind, entry=entry, kept=_side("", slot, winner), lost=_side("", slot, head)
                )


def _name_key(name: Name) -> bytes:
    return name.key


def _parent(place: Place) -> EntryId:
    return place.parent


def _values(entry: EntryState) -> Iterator[Conflict]:
    required = entry.required()
    for attribute in sorted({*entry.attributes, *required}):
        if attribute in BOOKKEEPING:
            continue
        state = entry.attributes.get(attribute, NO_ATTRIBUTE)
        for slot, judged in state.judgements(required.get(attribute, {})):
            if not judged.is_contested:
                continue
            if judged.csn == ZERO:
                kept = Side(change="name", value=judged.value)
            elif judged.value is not None:
                kept = Side(change="add-value", csn=judged.csn, value=judged.value)
            else:
                is_attribute = judged.csn == state.removed
                kept = Side(change="remove-attribute" if is_attribute else "remove-value", csn=judged.csn)
            lost = [_side(attribute, slot, head) for head in judged.lost]
            lost += [_side(attribute, REMOVAL, head) for head in judged.lost_removals]
            for each in lost:
                yield Conflict(
                    kind=Kind.VALUE, entry=entry.id, attribute=attribute, slot=slot, kept=kept, lost=each
                )


def _side(attribute: str, slot: bytes, head: Write[Any]) -> Side:
    match head.wish:
        case Name() as name:
            return Side(change="name", csn=head.csn, name=name)
        case Place(parent=parent):
            return Side(change="place", csn=head.csn, parent=parent)
        case ValueWish(value=value, is_present=is_present):
            return Side(change="add-value" if is_present else "remove-value", csn=head.csn, value=value)
        case _:
            return Side(change="remove-attribute", csn=head.csn)


def _twins(tree: Tree, state: DirectoryState) -> Iterator[Conflict]:
    for parent, key in sorted(tree.contested):
        holder, *others = tree.claimants(parent, key)
        for each in others:
            yield Conflict(
                kind=Kind.NAME,
                entry=each,
                kept=_claim(state, holder, parent),
                lost=_claim(state, each, parent),
            )


def _claim(state: DirectoryState, entry: EntryId, parent: EntryId) -> Side:
    known = state.entries[entry]
    heads = (known.name.winner, known.place.winner)
    csn = max(head.csn for head in heads if head is not None)
    name = known.name.winner
    return Side(change="name", csn=csn, name=None if name is None else name.wish, parent=parent, entry=entry)


def _glue(tree: Tree, state: DirectoryState) -> Iterator[Conflict]:
    for each in sorted(tree.glue):
        entry = state.entries.get(each)
        if entry is not None and entry.removal is not None:
            child = next(tree.children(each))
            kept = Side(change="child", csn=state.entries[child].added, entry=child)
            lost = Side(change="remove-entry", csn=entry.removal.csn)
            yield Conflict(kind=Kind.GLUE, entry=each, kept=kept, lost=lost)


def _cycles(tree: Tree, state: DirectoryState) -> Iterator[Conflict]:
    for each in sorted(tree.broken):
        place = state.entries[each].place.winner
        if place is not None:
            kept = Side(change="place", parent=tree.parent(each))
            lost = Side(change="place", csn=place.csn, parent=place.wish.parent)
            yield Conflict(kind=Kind.CYCLE, entry=each, kept=kept, lost=lost)


BY_PEOPLE: Final = {
    Kind.NAME: "rename, move or delete one of the two entries",
    Kind.GLUE: "move or delete its children",
    Kind.CYCLE: "move the entry to where it shall be",
}
"""How the conflicts are resolved that only an ordinary change can resolve."""
