"""The visible tree: which entries there are, where, and what they are called.

It is derived from the states of all entries, and nothing of it is ever a change (G6):

- **Visible** is an entry that is live, or has a visible child. A removed entry that is visible for its
  child's sake is *glue*; when the last child goes, so does it.
- **A parent** is the one of the youngest place. Where parents form a cycle, the entry with the youngest place
  in it stays where its mover saw it before, if that is a live entry; else it stands at the root, *misplaced*.
- **A name** belongs to the live entry that has had it, below that parent, for longest (by CSN); then to glue.
  Others are called ``entryUUID=...+name``, until the name is free.
- A parent that is not known yet is shown at the root by its id alone; its entry arrives later.

The tree is kept up to date entry by entry. A change of one place is followed by a new look at the entries of
broken cycles only: all other places were free of cycles before it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.directory.entry import EntryState
from holdfast.directory.primitives import ROOT, EntryId, Name, uuid_text
from holdfast.model.csn import ZERO, Csn

Claim = tuple[EntryId, bytes]
"""A name below a parent."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the tree needs to know of one entry's state."""

    is_live: bool = False
    is_added: bool = False
    name: Name | None = None
    parent: EntryId = ROOT
    before: EntryId = ROOT
    placed: Csn = ZERO
    named: Csn = ZERO
    """Since when it claims its name below its parent."""

    @classmethod
    def of(cls, entry: EntryState) -> "Facts":
        name, place = entry.name.winner, entry.place.winner
        placed = ZERO if place is None else place.csn
        return cls(
            is_live=entry.is_live,
            is_added=entry.added != ZERO,
            name=None if name is None else name.wish,
            parent=ROOT if place is None else place.wish.parent,
            before=(ROOT if place is None else place.wish.before) or ROOT,
            placed=placed,
            named=placed if name is None else max(placed, name.csn),
        )


UNKNOWN = Facts()


@dataclass(slots=True)
class Node:
    """An entry's place in the tree."""

    facts: Facts = UNKNOWN
    setback: int = 0
    """How often a cycle was broken here: 0 it is where it wants to be, 1 where it was before, 2 the root."""
    parent: EntryId = ROOT
    children: dict[EntryId, None] = field(default_factory=dict)
    visible_children: int = 0
    is_attached: bool = False

    @property
    def is_visible(self) -> bool:
        return self.facts.is_live or self.visible_children > 0


class Tree:
    """The visible tree of one suffix. ``update`` follows every change of an entry's state."""

    def __init__(self) -> None:
        self.version = 0
        """Rises whenever an entry begins, ends, or gets another name or place."""
        self._nodes: dict[EntryId, Node] = {}
        self._at_root: dict[EntryId, None] = {}
        self._claims: dict[Claim, dict[EntryId, None]] = {}
        self.glue: dict[EntryId, None] = {}
        """Removed or unknown entries that are visible for their children's sake."""
        self.contested: dict[Claim, None] = {}
        """The names that several visible entries claim."""
        self.broken: dict[EntryId, None] = {}
        """The entries that are not where they want to be, because that would be a cycle."""
        self._vacated: dict[EntryId, None] = {}
        """Entries that someone stood below before the change that is being followed."""
        self._touched: dict[EntryId, None] = {}

    def take_touched(self) -> list[EntryId]:
        """The entries that may be shown otherwise than when this was last asked: elsewhere, under another
        name, or no longer. Whoever keeps a copy of what is shown looks at these again."""
        touched, self._touched = sorted(self._touched), {}
        return touched

    def update(self, entry: EntryState) -> None:
        """Follow a change of one entry's state."""
        self._set(entry.id, Facts.of(entry))

    def forget(self, entry: EntryId) -> None:
        """Follow the purging of one entry."""
        self._set(entry, UNKNOWN)

    # --- what is where

    def is_visible(self, entry: EntryId) -> bool:
        node = self._nodes.get(entry)
        return node is not None and node.is_visible

    def has_children(self, entry: EntryId) -> bool:
        """Whether visible entries are below this one."""
        node = self._nodes.get(entry)
        return node is not None and node.visible_children > 0

    def parent(self, entry: EntryId) -> EntryId:
        """Below which entry this one is shown; ROOT for the suffix's own entry and for misplaced ones."""
        return self._nodes[entry].parent

    def children(self, parent: EntryId) -> Iterator[EntryId]:
        """The visible entries directly below *parent*, in the order of their ids. Those below ROOT are the
        suffix's own, misplaced ones, and parents that have not arrived yet."""
        node = self._nodes.get(parent)
        below = self._at_root if parent == ROOT else node.children if node is not None else {}
        return (each for each in sorted(below) if self._nodes[each].is_visible)

    def visible(self) -> Iterator[EntryId]:
        """All visible entries, in the order of their ids."""
        return (each for each in sorted(self._nodes) if self._nodes[each].is_visible)

    def holder(self, parent: EntryId, key: bytes) -> EntryId | None:
        """Which visible entry has the name *key* below *parent*."""
        claimants = self._claims.get((parent, key))
        return min(claimants, key=self._rank) if claimants else None

    def claimants(self, parent: EntryId, key: bytes) -> list[EntryId]:
        """Who claims the name, its holder first."""
        return sorted(self._claims.get((parent, key), ()), key=self._rank)

    def has_its_name(self, entry: EntryId) -> bool:
        """Whether a visible entry is called what it wants to be called."""
        claim = self._claim(entry)
        return claim is not None and self.holder(*claim) == entry

    def own_name(self, entry: EntryId) -> Name | None:
        """What a visible entry wants to be called; None if its beginning has not arrived."""
        return self._nodes[entry].facts.name

    def name(self, entry: EntryId) -> str:
        """The name under which a visible entry is shown below its parent."""
        facts = self._nodes[entry].facts
        if facts.name is not None and self.has_its_name(entry):
            return facts.name.text
        marked = f"entryUUID={uuid_text(entry)}"
        return marked if facts.name is None else f"{marked}+{facts.name.text}"

    def path(self, entry: EntryId) -> tuple[str, ...]:
        """The names of a visible entry and of all above it, up to the one that stands at the root."""
        names = []
        while entry != ROOT:
            names.append(self.name(entry))
            entry = self._nodes[entry].parent
        return tuple(names)

    # --- keeping up

    def _set(self, entry: EntryId, facts: Facts) -> None:
        known = self._nodes.get(entry)
        if facts == (UNKNOWN if known is None else known.facts):
            return
        self.version += 1
        if known is None and not self.broken:
            # Nobody stands below an entry that has no node, so it closes no cycle: as of all when a store is
            # opened.
            self._nodes[entry] = Node(facts)
            self._attach(entry)
            return
        node = self._node(entry)
        # All cycles of the new parents lead through these: without them, the tree had none.
        moved = {**self.broken, entry: None}
        for each in moved:
            self._detach(each)
        node.facts = facts
        for each in moved:
            self._nodes[each].setback = 0
        self.broken.clear()
        self._break_cycles(moved)
        for each in moved:
            self._attach(each)
        self._drop_unknown(moved)
        self._drop_unknown(self._vacated)
        self._vacated.clear()

    def _node(self, entry: EntryId) -> Node:
        node = self._nodes.get(entry)
        if node is None:
            node = self._nodes[entry] = Node(is_attached=True)
            self._at_root[entry] = None
        return node

    def _break_cycles(self, moved: dict[EntryId, None]) -> None:
        """Set back the youngest of every cycle, and look again from there, as it may have closed another."""
        waiting = list(moved)
        while waiting:
            cycle = self._cycle(waiting[-1])
            if not cycle:
                waiting.pop()
                continue
            youngest = max(cycle, key=self._placed)
            if youngest not in moved:
                moved[youngest] = None
                self._detach(youngest)
            self._nodes[youngest].setback += 1
            self.broken[youngest] = None
            waiting.append(youngest)

    def _cycle(self, start: EntryId) -> list[EntryId]:
        """The cycle that the way up from *start* leads into; empty if it leads to the root."""
        way: dict[EntryId, None] = {}
        each = start
        while each != ROOT:
            if each in way:
                passed = list(way)
                return passed[passed.index(each) :]
            way[each] = None
            each = self._target(each)
        return []

    def _target(self, entry: EntryId) -> EntryId:
        """The parent that an entry has, as often as it was set back."""
        node = self._nodes.get(entry)
        if node is None:
            return ROOT
        if node.setback == 0:
            return node.facts.parent
        before = self._nodes.get(node.facts.before)
        return node.facts.before if node.setback == 1 and before and before.facts.is_live else ROOT

    def _attach(self, entry: EntryId) -> None:
        node = self._nodes[entry]
        node.parent, node.is_attached = self._target(entry), True
        self._touched[entry] = None
        if node.parent == ROOT:
            self._at_root[entry] = None
        else:
            self._node(node.parent).children[entry] = None
        if node.is_visible:
            self._show(entry)

    def _detach(self, entry: EntryId) -> None:
        node = self._nodes[entry]
        if node.is_visible:
            self._hide(entry)
        node.is_attached = False
        if node.parent == ROOT:
            del self._at_root[entry]
        else:
            del self._nodes[node.parent].children[entry]
            self._vacated[node.parent] = None

    def _show(self, entry: EntryId) -> None:
        """An attached entry has become visible, and so perhaps those above it."""
        while True:
            node = self._nodes[entry]
            self._touched[entry] = None
            if not node.facts.is_live:
                self.glue[entry] = None
            claim = self._claim(entry)
            if claim is not None:
                claimants = self._claims.setdefault(claim, {})
                claimants[entry] = None
                self._touched.update(claimants)
                if len(claimants) > 1:
                    self.contested[claim] = None
            if node.parent == ROOT:
                return
            above = self._nodes[node.parent]
            was_visible = above.is_visible
            above.visible_children += 1
            if was_visible or not above.is_attached:
                return
            entry = node.parent

    def _hide(self, entry: EntryId) -> None:
        """An attached entry is no longer visible, and so perhaps those above it."""
        while True:
            node = self._nodes[entry]
            self._touched[entry] = None
            self.glue.pop(entry, None)
            claim = self._claim(entry)
            if claim is not None:
                self._release(claim, entry)
            if node.parent == ROOT:
                return
            above = self._nodes[node.parent]
            above.visible_children -= 1
            if above.is_visible or not above.is_attached:
                return
            entry = node.parent

    def _release(self, claim: Claim, entry: EntryId) -> None:
        claimants = self._claims[claim]
        self._touched.update(claimants)
        del claimants[entry]
        if len(claimants) < 2:
            self.contested.pop(claim, None)
        if not claimants:
            del self._claims[claim]

    def _claim(self, entry: EntryId) -> Claim | None:
        """The name that an entry claims; a misplaced one claims none where it stands."""
        node = self._nodes[entry]
        if node.facts.name is None or (node.setback and node.parent == ROOT):
            return None
        return node.parent, node.facts.name.key

    def _rank(self, entry: EntryId) -> tuple[bool, Csn, EntryId]:
        """The order of those who claim one name: the first has it."""
        facts = self._nodes[entry].facts
        return not facts.is_live, facts.named, entry

    def _placed(self, entry: EntryId) -> tuple[Csn, EntryId]:
        return self._nodes[entry].facts.placed, entry

    def _drop_unknown(self, entries: dict[EntryId, None]) -> None:
        """Forget nodes of which nothing is known and that nobody stands below any more."""
        for each in entries:
            node = self._nodes.get(each)
            if node is not None and node.facts == UNKNOWN and not node.children:
                del self._nodes[each], self._at_root[each]
