"""Update resolution said as plainly as can be, from the bare set of changes: the judge of the real one.

Nothing is kept, merged or maintained: every question walks over all changes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import UUID

from holdfast.directory.primitives import (
    ROOT,
    AddEntry,
    AddValue,
    EntryId,
    MoveEntry,
    Primitive,
    RemoveAttribute,
    RemoveEntry,
    RemoveValue,
    RenameEntry,
)
from holdfast.model.csn import ZERO, Csn

Loss = tuple[str, EntryId, str, Csn]
"""The kind of a conflict, its entry, its attribute, and the change that lost."""


@dataclass
class View:
    """What clients and administrators see."""

    entries: dict[EntryId, tuple[tuple[str, ...], dict[str, tuple[bytes, ...]]]] = field(default_factory=dict)
    """Every visible entry: its path, and its values."""
    losses: list[Loss] = field(default_factory=list)


def knew(later: Primitive, earlier: Primitive) -> bool:
    """Whether the issuer of *later* had seen *earlier*, both being about one thing."""
    if later.csn.replica == earlier.csn.replica:
        return later.csn > earlier.csn
    named = any(c.replica == earlier.csn.replica and earlier.csn <= c for c in later.seen.newest)
    return named or earlier.csn <= later.seen.horizon


def heads(writes: Iterable[Any], over: Iterable[Any] = ()) -> list[Any]:
    writes = list(writes)
    over = list(over)
    return sorted(
        (w for w in writes if not any(knew(o, w) for o in (*writes, *over))), key=lambda write: write.csn
    )


class Naive:
    def __init__(self, changes: Iterable[Primitive]) -> None:
        self.changes = list({change.csn: change for change in changes}.values())
        self.ids = sorted({change.entry for change in self.changes})
        self.of = {i: [c for c in self.changes if c.entry == i] for i in self.ids}
        self.names = cache(self._names)
        self.places = cache(self._places)
        self.live = cache(self._live)

    def added(self, entry: EntryId) -> bool:
        return any(isinstance(c, AddEntry) for c in self.of.get(entry, ()))

    def removals(self, entry: EntryId) -> list[Primitive]:
        return [c for c in self.of.get(entry, ()) if isinstance(c, RemoveEntry)]

    def _live(self, entry: EntryId) -> bool:
        return self.added(entry) and not self.removals(entry)

    def _names(self, entry: EntryId) -> list[Any]:
        return heads(c for c in self.of.get(entry, ()) if isinstance(c, AddEntry | RenameEntry))

    def _places(self, entry: EntryId) -> list[Any]:
        return heads(c for c in self.of.get(entry, ()) if isinstance(c, AddEntry | MoveEntry))

    def attributes(self, entry: EntryId) -> dict[str, tuple[list[Any], dict[Any, list[Any]]]]:
        """The removals that nobody replaced, and all writes of every slot."""
        found: dict[str, tuple[list[Any], dict[Any, list[Any]]]] = {}
        for change in self.of[entry]:
            if isinstance(change, AddValue | RemoveValue):
                slots = found.setdefault(change.attribute, ([], {}))[1]
                slots.setdefault(None if change.is_single else change.value.key, []).append(change)
            elif isinstance(change, RemoveAttribute):
                found.setdefault(change.attribute, ([], {}))[0].append(change)
        return found

    # --- the tree

    def parents(self) -> tuple[dict[EntryId, EntryId], dict[EntryId, int]]:
        setback: dict[EntryId, int] = {}

        def target(entry: EntryId) -> EntryId:
            places = self.places(entry)
            if not places:
                return ROOT
            place, times = places[-1], setback.get(entry, 0)
            if times == 0:
                return EntryId(place.parent)
            before = place.leaves[0] if isinstance(place, MoveEntry) else ROOT
            return EntryId(before) if times == 1 and self.live(before) else ROOT

        while True:
            up = {i: target(i) for i in self.ids}
            cycle = next(filter(None, (self._cycle(up, i) for i in self.ids)), None)
            if cycle is None:
                return up, setback
            youngest = max(cycle, key=lambda i: (self.places(i)[-1].csn, i))
            setback[youngest] = setback.get(youngest, 0) + 1

    @staticmethod
    def _cycle(up: dict[EntryId, EntryId], start: EntryId) -> list[EntryId] | None:
        way: list[EntryId] = []
        each = start
        while each in up:
            if each in way:
                return way[way.index(each) :]
            way.append(each)
            each = up[each]
        return None

    def view(self) -> View:
        up, setback = self.parents()
        for parent in list(up.values()):
            if parent != ROOT:
                up.setdefault(parent, ROOT)
        visible = {i for i in up if self.live(i)}
        while grown := {up[i] for i in visible if up[i] != ROOT} - visible:
            visible |= grown

        def claim(entry: EntryId) -> tuple[EntryId, bytes] | None:
            names = self.names(entry)
            if not names or (setback.get(entry) and up[entry] == ROOT):
                return None
            return up[entry], names[-1].name.key

        def rank(entry: EntryId) -> tuple[bool, Csn, EntryId]:
            return (
                not self.live(entry),
                max(self.names(entry)[-1].csn, self.places(entry)[-1].csn if self.places(entry) else ZERO),
                entry,
            )

        def shown(entry: EntryId) -> str:
            names, wanted = self.names(entry), claim(entry)
            if wanted is not None and all(rank(entry) <= rank(o) for o in visible if claim(o) == wanted):
                return str(names[-1].name.text)
            return f"entryUUID={UUID(bytes=bytes(entry))}" + (f"+{names[-1].name.text}" if names else "")

        view = View()
        for entry in sorted(visible):
            path, each = [], entry
            while each != ROOT:
                path.append(shown(each))
                each = up[each]
            values = self.values(entry)[0] if entry in self.of else {}
            view.entries[entry] = (tuple(path), values)
            if claim(entry) is not None and any(
                rank(o) < rank(entry) for o in visible if claim(o) == claim(entry)
            ):
                view.losses.append(("name", entry, "", rank(entry)[1]))
            if self.removals(entry):
                view.losses.append(("glue", entry, "", max(r.csn for r in self.removals(entry))))
        view.losses += [("cycle", i, "", self.places(i)[-1].csn) for i in self.ids if setback.get(i)]
        for entry in self.ids:
            view.losses += self.within(entry)
        view.losses.sort()
        return view

    # --- one entry

    def values(self, entry: EntryId) -> tuple[dict[str, tuple[bytes, ...]], list[Loss]]:
        names = self.names(entry)
        required: dict[str, dict[Any, Any]] = {}
        for each in names[-1].name.values if names else ():
            required.setdefault(each.attribute, {})[None if each.is_single else each.value.key] = each.value
        attributes = self.attributes(entry)
        for attribute in required:
            attributes.setdefault(attribute, ([], {}))
        shown: dict[str, tuple[bytes, ...]] = {}
        lost: list[Loss] = []
        for attribute, (removals, slots) in attributes.items():
            found: dict[bytes, bytes] = {}
            for slot in {**slots, **required.get(attribute, {})}:
                writes = slots.get(slot, [])
                left = heads(writes, removals)
                wanted = required.get(attribute, {}).get(slot)
                if wanted is not None:
                    same = [w for w in left if isinstance(w, AddValue) and w.value.key == wanted.key]
                    value = same[-1].value if same else wanted
                else:
                    is_there = (
                        left
                        and isinstance(left[-1], AddValue)
                        and all(left[-1].csn > r.csn for r in removals)
                    )
                    value = left[-1].value if is_there else None
                came = None if value is None else value.key
                for write in left:
                    if (write.value.key if isinstance(write, AddValue) else None) != came:
                        lost.append(("value", entry, attribute, write.csn))
                if value is not None:
                    found[value.key] = value.content
                    lost += [
                        ("value", entry, attribute, r.csn)
                        for r in heads(removals)
                        if not any(knew(w, r) for w in writes)
                    ]
            if found:
                shown[attribute] = tuple(found[key] for key in sorted(found))
        return shown, lost

    def within(self, entry: EntryId) -> list[Loss]:
        removals = self.removals(entry)
        if removals:
            left = [("", w) for w in (*self.names(entry), *self.places(entry))]
            for attribute, (wiped, slots) in self.attributes(entry).items():
                left += [(attribute, w) for w in heads(wiped)]
                left += [(attribute, w) for writes in slots.values() for w in heads(writes, wiped)]
            return [
                ("removed", entry, attribute, w.csn)
                for attribute, w in left
                if not any(knew(r, w) for r in removals)
            ]
        if not self.added(entry):
            return []
        names, places = self.names(entry), self.places(entry)
        lost: list[Loss] = [("rename", entry, "", n.csn) for n in names if n.name.key != names[-1].name.key]
        lost += [("move", entry, "", p.csn) for p in places if p.parent != places[-1].parent]
        return lost + self.values(entry)[1]
