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

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any, Final

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

PURGED_COST: Final = 20
"""What purging an entry takes, in entries that are passed by since nothing of them is old (25 us each)."""


def purge(state: DirectoryState, vector: Vector) -> list[EntryId]:
    """Purge *state* up to *vector* at one go, and return the entries that are gone, for the tree to forget.

    An earlier vector than the last one is refused: it cannot bring back what is gone.
    """
    purging, gone = Purging(state, vector), []
    while not purging.is_done:
        gone += purging.step(len(state.entries) + 1)
    return sorted(gone)


Walk = Callable[[EntryId | None], Iterator[EntryState]]
"""All entries after one, in the order of their ids, each as it is when it is reached."""


class Purging:
    """A purge in slices, between which changes arrive.

    First all entries are passed by, in the order of their ids, then the tombstones that the walk has found.
    Each is purged as it is when its turn comes, so that no change is lost that came since the purge began.
    That this leaves the same bytes as one go, whenever a change came, follows from G7 as well: changes that
    arrive meanwhile are younger than the horizon, and so is whatever they make of a slot. For tombstones:

    - Whoever comes to stand below one meanwhile found it as glue, so that a child stood there before; it was
      counted, or it has moved away, which keeps the tombstone (``left``) until all know of that.
    - Whoever moves away from one meanwhile stays counted, which drops nothing too early; and without being
      counted, the same move keeps it.
    - What ends a tombstone's own place cannot arrive any more: what it was counted for is what it has.
    """

    def __init__(self, state: DirectoryState, vector: Vector, walk: Walk | None = None) -> None:
        """*walk* is for states that are too many to list."""
        if state.purged is not None and not vector.covers_all(state.purged):
            raise InvalidRequest(f"the state is purged up to {state.purged.text()} already")
        self.vector = vector
        self._state = state
        self._horizon = horizon_of(vector)
        self._walk = _walk_of(state) if walk is None else walk
        self._after: EntryId | None = None
        self._has_walked = False
        self._references: dict[EntryId, int] = {}
        """How many entries were ever seen to stand, or to have stood, below each."""
        self._over: list[EntryId] = []
        """Tombstones that may go, unless someone still remembers them as a parent."""
        state.purged = vector
        state.left = {parent: csn for parent, csn in state.left.items() if csn > self._horizon}

    @property
    def is_done(self) -> bool:
        return self._has_walked and not self._over

    def step(self, most: int) -> list[EntryId]:
        """Do as much as passing by *most* entries that nobody ever changed takes; return the entries that are
        gone, for the tree to forget."""
        return self._drop(most) if self._has_walked else self._pass_by(most)

    def _pass_by(self, most: int) -> list[EntryId]:
        for entry in self._walk(self._after):
            self._after = entry.id
            most -= 1 + self._look_at(entry)
            if most <= 0:
                return []
        self._has_walked = True
        return []

    def _look_at(self, entry: EntryState) -> int:
        """Purge one entry; return what that took besides passing by."""
        for head in entry.place.heads:
            self._references[head.wish.parent] = self._references.get(head.wish.parent, 0) + 1
        if has_nothing_old(entry):
            return 0
        if is_over(entry, self._horizon):
            self._over.append(entry.id)
        purged = purged_entry(entry, self._horizon)
        if purged != entry:
            self._state.entries[entry.id] = purged
        return PURGED_COST

    def _drop(self, most: int) -> list[EntryId]:
        gone = []
        entries, references = self._state.entries, self._references
        while self._over and most > 0:
            most -= PURGED_COST
            each = self._over.pop()
            entry = entries.get(each)
            if entry is None or references.get(each) or each in self._state.left:
                continue
            if not is_over(entry, self._horizon):
                continue
            del entries[each]
            gone.append(each)
            for head in entry.place.heads:
                parent = head.wish.parent
                references[parent] -= 1
                above = entries.get(parent)
                if above is not None and is_over(above, self._horizon):
                    self._over.append(parent)
        return gone


def _walk_of(state: DirectoryState) -> Walk:
    """Those that were there when the purge began: the others have nothing old."""
    ids = sorted(state.entries)

    def walk(after: EntryId | None) -> Iterator[EntryState]:
        for each in ids[0 if after is None else bisect_right(ids, after) :]:
            entry = state.entries.get(each)
            if entry is not None:
                yield entry

    return walk


def is_over(entry: EntryState, horizon: Csn) -> bool:
    """Whether all replicas know that the entry was removed, and nobody disputes it."""
    return (
        entry.removal is not None
        and entry.added != ZERO
        and max(entry.removal.csn, entry.modified) <= horizon
        and next(entry.unseen_by_removal(), None) is None
    )


def has_nothing_old(entry: EntryState) -> bool:
    """Whether nothing of an entry was ever replaced or removed, as of most in a large directory: a quick look
    that spares :func:`purged_entry`, which could drop nothing of it."""
    if entry.removal is not None or _has_superseded(entry.name) or _has_superseded(entry.place):
        return False
    for state in entry.attributes.values():
        if state.removal.heads or _has_superseded(state.removal) or not state.values:
            return False
        for slot in state.values.values():
            if not slot.heads or _has_superseded(slot):
                return False
            for head in slot.heads:
                if not head.wish.is_present:
                    return False
    return True


def _has_superseded(slot: Slot[Any]) -> bool:
    return bool(slot.known.newest) or slot.known.horizon != ZERO


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
