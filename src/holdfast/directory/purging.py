"""Purging: old state that nothing needs any more is dropped.

Purging changes nothing visible and no conflict, and all replicas that know the same changes and purge to one
vector end with equal bytes, whatever they purged before and whatever arrived in between.

That holds because of what the caller owes (G7): the vector covers only what every replica knew *when it
issued the oldest change that is still missing here*. Then whatever arrives later was issued by someone who
had seen all that is dropped, so it replaces it knowingly, and cannot meet it as a stranger. The vector is the
least of what the replicas have said, in the order of their own changes, that they have; a replica that has
said nothing has nothing.

What is dropped, of changes up to the horizon: the names of superseded changes; values whose removal is
undisputed; removals of attributes that have nothing left to win or lose; entries that were removed, of which
no child remembers them as a parent. What lost to a change that did not know of it stays until someone
resolves it.
"""

from typing import Any

from msgspec import structs

from holdfast.clock.vector import Vector
from holdfast.directory.attribute import AttributeState, ValueWish
from holdfast.directory.entry import NO_ATTRIBUTE, EntryState
from holdfast.directory.primitives import EntryId, Value
from holdfast.directory.resolving import DirectoryState, horizon_of
from holdfast.directory.seen import Seen
from holdfast.directory.slot import Slot
from holdfast.model.csn import ZERO, Csn
from holdfast.model.errors import InvalidRequest


def purge(state: DirectoryState, vector: Vector) -> list[EntryId]:
    """Purge *state* up to *vector*, and return the entries that are gone, for the tree to forget.

    An earlier vector than the last one is refused: it cannot bring back what is gone.
    """
    if state.purged is not None and not vector.covers_all(state.purged):
        raise InvalidRequest(f"the state is purged up to {state.purged.text()} already")
    horizon = horizon_of(vector)
    state.purged = vector
    for entry in state.entries.values():
        purged = purged_entry(entry, horizon)
        if purged != entry:
            state.entries[entry.id] = purged
    state.left = {parent: csn for parent, csn in state.left.items() if csn > horizon}
    return _drop_tombstones(state, horizon)


def _drop_tombstones(state: DirectoryState, horizon: Csn) -> list[EntryId]:
    references: dict[EntryId, int] = {}
    for entry in state.entries.values():
        for head in entry.place.heads:
            references[head.wish.parent] = references.get(head.wish.parent, 0) + 1
    waiting = [entry.id for entry in state.entries.values() if is_over(entry, horizon)]
    gone = []
    while waiting:
        each = waiting.pop()
        if each not in state.entries or references.get(each) or each in state.left:
            continue
        for head in state.entries.pop(each).place.heads:
            parent = head.wish.parent
            references[parent] -= 1
            if parent in state.entries and is_over(state.entries[parent], horizon):
                waiting.append(parent)
        gone.append(each)
    return sorted(gone)


def is_over(entry: EntryState, horizon: Csn) -> bool:
    """Whether all replicas know that the entry was removed, and nobody disputes it."""
    return (
        entry.removal is not None
        and entry.added != ZERO
        and max(entry.removal.csn, entry.modified) <= horizon
        and next(entry.unseen_by_removal(), None) is None
    )


def purged_entry(entry: EntryState, horizon: Csn) -> EntryState:
    """The entry without what only changes up to *horizon* needed."""
    disputed = {head.csn: None for _, _, head in entry.unseen_by_removal()}
    required = entry.required()
    attributes = {}
    for attribute, state in entry.attributes.items():
        purged = _purged_attribute(state, required.get(attribute, {}), disputed, horizon)
        if not purged.is_empty:
            attributes[attribute] = purged
    return structs.replace(
        entry,
        name=_forgetful(entry.name, horizon, NO_ATTRIBUTE.removal),
        place=_forgetful(entry.place, horizon, NO_ATTRIBUTE.removal),
        attributes=attributes,
    )


def _purged_attribute(
    state: AttributeState, required: dict[bytes, Value], disputed: dict[Csn, None], horizon: Csn
) -> AttributeState:
    needed = dict(disputed)
    contested: dict[bytes, None] = {}
    for key, judged in state.judgements(required):
        needed.update((head.csn, None) for head in judged.lost_removals)
        if judged.is_contested:
            contested[key] = None
            needed[judged.csn] = None
    heads = tuple(head for head in state.removal.heads if head.csn > horizon or head.csn in needed)
    removal = _forgetful(Slot(heads, state.removal.known), horizon, NO_ATTRIBUTE.removal)
    values = {}
    for key, slot in state.values.items():
        if key not in contested and is_gone(slot, disputed, horizon):
            slot = Slot((), slot.known)
        slot = _forgetful(slot, horizon, removal)
        if not slot.is_empty:
            values[key] = slot
    return AttributeState(removal, values)


def is_gone(slot: Slot[ValueWish], disputed: dict[Csn, None], horizon: Csn) -> bool:
    """Whether all that is left of a value is its removal, of which all replicas know."""
    return all(
        not head.wish.is_present and head.csn <= horizon and head.csn not in disputed for head in slot.heads
    )


def _forgetful(slot: Slot[Any], horizon: Csn, removal: Slot[None]) -> Slot[Any]:
    """The slot without the names of changes up to *horizon*, which cannot arrive any more. Names that tell
    that a removal of the attribute was known here stay as long as that removal does."""

    def tells(csn: Csn) -> bool:
        return any(head.csn.replica == csn.replica and head.csn <= csn for head in removal.heads)

    known = slot.known
    is_told = known.horizon > horizon or any(head.csn <= known.horizon for head in removal.heads)
    newest = [csn for csn in known.newest if csn > horizon or tells(csn)]
    return Slot(slot.heads, Seen.of(newest, known.horizon if is_told else ZERO))
