"""Masters of one suffix, without a network: they issue operations, and are handed each other's."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from directory_naive import Naive, View, knew

from holdfast.clock.vector import Vector
from holdfast.directory.conflicts import conflicts
from holdfast.directory.issuing import Operation
from holdfast.directory.primitives import (
    ROOT,
    AddValue,
    EntryId,
    Name,
    NameValue,
    Primitive,
    RemoveAttribute,
    RemoveEntry,
    RemoveValue,
    Value,
    decoded,
    encoded,
)
from holdfast.directory.purging import Purging
from holdfast.directory.resolving import DirectoryState
from holdfast.directory.tree import Tree
from holdfast.model.csn import Csn
from holdfast.model.ids import ReplicaId


def entry_id(number: int) -> EntryId:
    return EntryId(number.to_bytes(16, "big"))


def value(text: str) -> Value:
    return Value(text.lower().encode(), text.encode())


def name(text: str, attribute: str = "cn") -> Name:
    return Name(
        f"{attribute}={text}".lower().encode(), f"{attribute}={text}", (NameValue(attribute, value(text)),)
    )


@dataclass(frozen=True)
class Issued:
    """One operation of a client, and what its master knew when it made it."""

    csn: Csn
    changes: tuple[Primitive, ...]
    known: frozenset[Csn]


class Master:
    def __init__(self, number: int) -> None:
        self.replica = ReplicaId(number)
        self.state = DirectoryState()
        self.tree = Tree()
        self.known: dict[Csn, Issued] = {}
        self.purging: Purging | None = None
        """A purge that goes on before each change that comes."""

    def take(self, issued: Issued) -> None:
        self.purge_on()
        for change in issued.changes:
            self.apply(decoded(encoded(change)))
        self.known[issued.csn] = issued

    def apply(self, change: Primitive) -> None:
        self.tree.update(self.state.apply(change))

    def issue(self, ask: Callable[[Operation], None], *, later: int = 0) -> Issued:
        self.purge_on()
        newest = max((csn.timestamp for csn in self.known), default=0)
        csn = Csn(newest + 1 + later, 0, self.replica)
        operation = Operation(self.state, self.tree, csn)
        ask(operation)
        issued = Issued(csn, tuple(operation.changes), frozenset(self.known))
        self.take(issued)
        return issued

    def purge(self, upto: Csn, masters: int, *, is_slow: bool = False) -> None:
        every = [Csn(upto.timestamp, upto.sequence, ReplicaId(1 + n)) for n in range(masters)]
        self.purging = Purging(self.state, Vector.of("g", every))
        while self.purging is not None and not is_slow:
            self.purge_on()

    def purge_on(self) -> None:
        """One slice of the purge that is under way, if there is one."""
        if self.purging is not None:
            for gone in self.purging.step(1):
                self.tree.forget(gone)
            if self.purging.is_done:
                self.purging = None

    def view(self) -> View:
        view = View()
        by_parent = [self.tree.parent(each) for each in self.tree.visible()]
        for parent in {*by_parent, ROOT}:
            below = list(self.tree.children(parent))
            assert len(below) == by_parent.count(parent), "children and parents differ"
        for each in self.tree.visible():
            known = self.state.entries.get(each)
            values = {} if known is None else known.values()
            content = {attribute: tuple(v.content for v in found) for attribute, found in values.items()}
            view.entries[each] = (self.tree.path(each), content)
        view.losses = sorted((str(c.kind), c.entry, c.attribute, c.lost.csn) for c in self.conflicts())
        return view

    def conflicts(self) -> list:
        return list(conflicts(self.state, self.tree))


def built(issued: Iterable[Issued], number: int = 9) -> Master:
    master = Master(number)
    for each in issued:
        master.take(each)
    return master


def replica_of(master: Master) -> Master:
    """Another master with the same changes, handed in their order."""
    return built(sorted(master.known.values(), key=lambda issued: issued.csn), int(master.replica))


def unaccounted(changes: Iterable[Primitive], view: View) -> list[Primitive]:
    """The acknowledged changes that are neither visible, nor replaced knowingly, nor in a conflict."""
    naive = Naive(changes)
    lost = {csn for _, _, _, csn in view.losses}
    missing = []
    for change in naive.changes:
        others = naive.of[change.entry]
        if change.csn in lost or any(knew(o, change) for o in others if _replaces(o, change)):
            continue
        if not _is_visible(change, naive, view):
            missing.append(change)
    return missing


def _replaces(later: Primitive, earlier: Primitive) -> bool:
    """Whether *later* is about all that *earlier* is about."""
    if isinstance(later, RemoveEntry):
        return True
    if isinstance(earlier, AddValue | RemoveValue):
        if isinstance(later, RemoveAttribute):
            return later.attribute == earlier.attribute
        if not isinstance(later, AddValue | RemoveValue):
            return False
        same = later.value.key == earlier.value.key or later.is_single
        return same and later.attribute == earlier.attribute
    if isinstance(earlier, RemoveAttribute):
        return isinstance(later, RemoveAttribute) and later.attribute == earlier.attribute
    named, placed = hasattr(earlier, "name"), hasattr(earlier, "parent")
    return (not named or hasattr(later, "name")) and (not placed or hasattr(later, "parent"))


def _is_visible(change: Primitive, naive: Naive, view: View) -> bool:
    if isinstance(change, RemoveEntry):
        glue = any(kind == "glue" and entry == change.entry for kind, entry, _, _ in view.losses)
        return glue or change.entry not in view.entries
    if change.entry not in view.entries:
        return False
    path, values = view.entries[change.entry]
    match change:
        case AddValue():
            return any(v.lower() == change.value.key for v in values.get(change.attribute, ()))
        case RemoveValue():
            return all(v.lower() != change.value.key for v in values.get(change.attribute, ()))
        case RemoveAttribute():
            writes = [o for o in naive.of[change.entry] if getattr(o, "attribute", "") == change.attribute]
            left = {o.value.key for o in writes if isinstance(o, AddValue) and o.csn > change.csn}
            return all(v.lower() in left for v in values.get(change.attribute, ()))
    names, places = naive.names(change.entry), naive.places(change.entry)
    if hasattr(change, "name") and change.csn != names[-1].csn and change.name.key != names[-1].name.key:
        return any(knew(o, change) for o in naive.of[change.entry] if hasattr(o, "name"))
    if hasattr(change, "parent") and change.csn != places[-1].csn and change.parent != places[-1].parent:
        return any(knew(o, change) for o in naive.of[change.entry] if hasattr(o, "parent"))
    return bool(path)


SUFFIX, PEOPLE, GROUPS, ANN = (entry_id(n) for n in (1, 2, 3, 4))


def base(ask: Operation) -> None:
    """The tree that all begin with: a suffix, two branches, and a person."""
    ask.add_entry(SUFFIX, ROOT, name("top", "dc"))
    ask.add_entry(PEOPLE, SUFFIX, name("people", "ou"))
    ask.add_entry(GROUPS, SUFFIX, name("groups", "ou"))
    ask.add_entry(ANN, PEOPLE, name("ann"))
    ask.add_value(ANN, "mail", value("x"))
    ask.add_value(ANN, "mail", value("y"))
    ask.add_value(ANN, "title", value("boss"), is_single=True)
