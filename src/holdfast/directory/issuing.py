"""How a master turns an operation into changes: each names what it replaces, as the master sees it now.

All changes of one operation are made from the state before it; they know of each other, as changes of one
replica always do. Whether a client may ask for it (schema, access, whether the entry is there) is decided
before. What resolution relies on is kept here: an entry always gets the values of its name, nobody removes
them knowingly, and a removed or unknown entry is not changed.
"""

from holdfast.directory.attribute import slot_key
from holdfast.directory.conflicts import BY_PEOPLE, Conflict, Kind
from holdfast.directory.entry import NO_ATTRIBUTE, REMOVAL, EntryState
from holdfast.directory.primitives import (
    AddEntry,
    AddValue,
    EntryId,
    MoveEntry,
    Name,
    Primitive,
    RemoveAttribute,
    RemoveEntry,
    RemoveValue,
    RenameEntry,
    Value,
)
from holdfast.directory.resolving import DirectoryState
from holdfast.directory.seen import Seen
from holdfast.directory.tree import Tree
from holdfast.model.csn import SUB_SEQUENCE_MAX, Csn
from holdfast.model.errors import InvalidRequest


class Operation:
    """The changes of one operation, in the order in which they were asked for."""

    def __init__(self, state: DirectoryState, tree: Tree, csn: Csn) -> None:
        self.changes: list[Primitive] = []
        self._state = state
        self._tree = tree
        self.csn = csn.operation
        self._new: dict[EntryId, None] = {}

    def add_entry(self, entry: EntryId, parent: EntryId, name: Name) -> None:
        self._new[entry] = None
        csn = self._next()
        self.changes.append(AddEntry(csn=csn, entry=entry, parent=parent, name=name))
        self._add_name_values(entry, name)

    def remove_entry(self, entry: EntryId) -> None:
        seen = self._within(self._live(entry).seen())
        self.changes.append(RemoveEntry(csn=self._next(), entry=entry, seen=seen))

    def rename(self, entry: EntryId, name: Name, *, remove_old: bool = False) -> None:
        """Give the entry another name; *remove_old* removes the values of the old one."""
        known = self._live(entry)
        seen = self._within(known.name.seen())
        self.changes.append(RenameEntry(csn=self._next(), entry=entry, name=name, seen=seen))
        old = known.name.winner
        if remove_old and old is not None:
            kept = [(each.attribute, each.value.key) for each in name.values]
            for each in old.wish.values:
                is_replaced = each.is_single and any(each.attribute == attribute for attribute, _ in kept)
                if not is_replaced and (each.attribute, each.value.key) not in kept:
                    self._remove_value(entry, each.attribute, each.value, is_single=each.is_single)
        self._add_name_values(entry, name)

    def move(self, entry: EntryId, parent: EntryId) -> None:
        known = self._live(entry)
        before = self._tree.parent(entry)
        leaves = {before: None, **{head.wish.parent: None for head in known.place.heads}}
        seen = self._within(known.place.seen())
        change = MoveEntry(csn=self._next(), entry=entry, parent=parent, leaves=tuple(leaves), seen=seen)
        self.changes.append(change)

    def add_value(self, entry: EntryId, attribute: str, value: Value, *, is_single: bool = False) -> None:
        seen = self._seen(entry, attribute, slot_key(value, is_single=is_single))
        change = AddValue(
            csn=self._next(), entry=entry, attribute=attribute, value=value, is_single=is_single, seen=seen
        )
        self.changes.append(change)

    def remove_value(self, entry: EntryId, attribute: str, value: Value, *, is_single: bool = False) -> None:
        if any(value.key == each.key for each in self._required(entry, attribute)):
            raise InvalidRequest(
                f"{attribute}: the value is part of the entry's name; rename the entry instead"
            )
        self._remove_value(entry, attribute, value, is_single=is_single)

    def _remove_value(self, entry: EntryId, attribute: str, value: Value, *, is_single: bool) -> None:
        seen = self._seen(entry, attribute, slot_key(value, is_single=is_single))
        change = RemoveValue(
            csn=self._next(), entry=entry, attribute=attribute, value=value, is_single=is_single, seen=seen
        )
        self.changes.append(change)

    def remove_attribute(self, entry: EntryId, attribute: str) -> None:
        self._check_replacement(entry, attribute, [])
        self._remove_attribute(entry, attribute)

    def _remove_attribute(self, entry: EntryId, attribute: str) -> None:
        known = self._live(entry).attributes.get(attribute, NO_ATTRIBUTE)
        seen = self._within(known.seen())
        self.changes.append(RemoveAttribute(csn=self._next(), entry=entry, attribute=attribute, seen=seen))

    def replace(
        self, entry: EntryId, attribute: str, values: list[Value], *, is_single: bool = False
    ) -> None:
        """Let the attribute have these values and no others, also none that are still on their way here."""
        self._check_replacement(entry, attribute, values)
        if not is_single or not values:
            self._remove_attribute(entry, attribute)
        for value in values:
            self.add_value(entry, attribute, value, is_single=is_single)

    def _check_replacement(self, entry: EntryId, attribute: str, values: list[Value]) -> None:
        left = [value.key for value in values]
        if any(each.key not in left for each in self._required(entry, attribute)):
            raise InvalidRequest(
                f"{attribute}: the entry's name has a value that must stay; rename the entry instead"
            )

    def _required(self, entry: EntryId, attribute: str) -> list[Value]:
        return list(self._live(entry).required().get(attribute, {}).values())

    def _add_name_values(self, entry: EntryId, name: Name) -> None:
        for each in name.values:
            self.add_value(entry, each.attribute, each.value, is_single=each.is_single)

    def _seen(self, entry: EntryId, attribute: str, key: bytes) -> Seen:
        if entry in self._new:
            return self._within(Seen())
        known = self._live(entry).attributes.get(attribute, NO_ATTRIBUTE)
        return self._within(known.slot_seen(key))

    def _within(self, seen: Seen) -> Seen:
        """What the issuer had purged it had seen as well (G7)."""
        horizon = self._state.horizon
        return seen if horizon <= seen.horizon else seen.joined(Seen((), horizon))

    def _live(self, entry: EntryId) -> EntryState:
        known = self._state.entries.get(entry)
        if known is None or not known.is_live:
            raise InvalidRequest(
                f"entry {bytes(entry).hex()} is not there, or only as glue: it has no state to change"
            )
        return known

    def _next(self) -> Csn:
        if len(self.changes) > SUB_SEQUENCE_MAX:
            raise InvalidRequest(f"an operation has at most {SUB_SEQUENCE_MAX + 1} changes; split it")
        return self.csn.part(len(self.changes))


def settle(state: DirectoryState, tree: Tree, conflict: Conflict, csn: Csn, *, keep: bool) -> list[Primitive]:
    """The changes that resolve *conflict*: with *keep* as it stands, else in favour of what lost.

    Raises ``InvalidRequest`` with what to do instead where only an ordinary operation can resolve it.
    """
    operation = Operation(state, tree, csn)
    entry, lost = conflict.entry, conflict.lost
    if conflict.kind in BY_PEOPLE:
        raise InvalidRequest(f"to resolve this, {BY_PEOPLE[conflict.kind]}")
    if conflict.kind is Kind.REMOVED:
        if not keep:
            raise InvalidRequest("a removed entry does not come back: add a new one with what was lost")
        return [_removed_again(state, entry, csn)]
    chosen = conflict.kept if keep else lost
    if chosen.name is not None:
        operation.rename(entry, chosen.name)
    elif chosen.parent is not None:
        operation.move(entry, chosen.parent)
    elif chosen.change == "remove-attribute" and conflict.slot == REMOVAL:
        operation.remove_attribute(entry, conflict.attribute)
    else:
        _settle_value(operation, state.entries[entry], conflict, chosen.value, chosen.change)
    return operation.changes


def _settle_value(
    operation: Operation, entry: EntryState, conflict: Conflict, value: Value | None, change: str
) -> None:
    is_single = conflict.slot == b""
    if change in ("add-value", "name") and value is not None:
        operation.add_value(entry.id, conflict.attribute, value, is_single=is_single)
        return
    required = entry.required().get(conflict.attribute, {})
    if conflict.slot in required:
        raise InvalidRequest("the value is part of the entry's name: rename the entry first")
    heads = entry.attributes[conflict.attribute].values[conflict.slot].heads
    operation.remove_value(entry.id, conflict.attribute, heads[-1].wish.value, is_single=is_single)


def _removed_again(state: DirectoryState, entry: EntryId, csn: Csn) -> Primitive:
    seen = state.entries[entry].seen().joined(Seen((), state.horizon))
    return RemoveEntry(csn=csn.operation, entry=entry, seen=seen)
