"""An observer who sees every master's disk, and what must hold of all of them.

The set of updates that count is known outside: what was acknowledged, unless the only stores that had it were
lost. What a master shows must be exactly what that set comes to (G2), whatever arrived when, and whatever was
purged meanwhile.
"""

from dataclasses import dataclass

from holdfast.clock.vector import Vector
from holdfast.directory.conflicts import conflicts
from holdfast.directory.entry import decoded_entry
from holdfast.directory.memory_store import StoreImage
from holdfast.directory.primitives import EntryId
from holdfast.directory.purging import purge
from holdfast.directory.replica.maps import ENTRIES, KEPT, LEFT, PURGED, REPLICA, UPDATES, update_row
from holdfast.directory.replica.update import Update, decoded_update
from holdfast.directory.replication.roster import SELF, Roster, decoded_own
from holdfast.directory.resolving import DirectoryState
from holdfast.directory.tree import Tree
from holdfast.model.csn import ZERO, Csn, parse
from holdfast.model.ids import ReplicaId
from holdfast.sim.scenarios.directory.site import AUDIT, Site, image_vector


@dataclass(slots=True)
class Issue:
    """One operation that a master has carried out."""

    host: str
    known: Vector
    """What its master had when it issued it."""
    update: Update | None = None
    is_acknowledged: bool = False
    is_void: bool = False
    """Whether a crash took it before anybody heard of it."""
    is_lost: bool = False
    """Whether all stores that had it were lost."""


class Recorder:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._world = site.world
        self.issues: dict[Csn, Issue] = {}
        self._newest: dict[ReplicaId, Csn] = {}
        self.acknowledged_twice = 0
        self._replaced: dict[ReplicaId, None] = {}
        """Replicas whose stores have less than they once said."""
        self._had: dict[tuple[str, Csn], None] = {}
        """Which hosts have lost an update that was on their disks, with their stores."""

    # --- what happens

    def issued(self, host: str, csn: Csn, known: Vector) -> None:
        newest = self._newest.get(csn.replica, ZERO)
        if csn in self.issues or csn <= newest:
            self._violation("G3", f"{host} issues {csn} after {newest}: a CSN is used once")
        for seen in known:
            if seen >= csn:
                self._violation("G2", f"{host} issues {csn}, knowing {seen}")
        self._newest[csn.replica] = csn
        self.issues[csn] = Issue(host, known)

    def stated(self, host: str, csn: Csn) -> None:
        if csn <= self._newest.get(csn.replica, ZERO):
            self._violation("G3", f"{host} states {csn} after {self._newest[csn.replica]}")
        self._newest[csn.replica] = csn

    def acknowledged(self, host: str, csn: Csn) -> None:
        """A client has heard that its change is committed: it must be on the disk, with the vector (G1)."""
        issue = self.issues[csn]
        issue.is_acknowledged = True
        image = self._site.images[host]
        vector = image_vector(image)
        if update_row(csn) not in image.maps[UPDATES].rows or vector is None or not vector.covers(csn):
            self._violation("G1", f"{host} acknowledges {csn}, which is not on its disk")
        self._world.operation()

    def second_store(self, host: str, csn: Csn) -> None:
        """A client has heard that two stores have its change."""
        self.acknowledged_twice += 1
        others = [each for each in self._site.names if each != host]
        # Its word may be on its way while its store is put back.
        if not any(self.has(each, csn) or (each, csn) in self._had for each in others):
            self._violation("G1", f"{host} says that a second store has {csn}, and none has")

    def committed(self, updates: tuple[Update, ...]) -> None:
        for update in updates:
            issue = self.issues.get(update.csn)
            if issue is None:
                self._violation("G6", f"{update.csn} was issued by nobody's client")
            elif issue.update is None:
                issue.update = update
            elif issue.update != update:
                self._violation("G3", f"two updates have the CSN {update.csn}")

    def restarted(self, host: str, image: StoreImage) -> None:
        """A process begins: what its predecessor had not committed survived, or never was."""
        rows = image.maps[UPDATES].rows
        for csn, issue in self.issues.items():
            if issue.host == host and issue.update is None:
                row = rows.get(update_row(csn))
                if row is not None:
                    issue.update = decoded_update(row)
                else:
                    issue.is_void = True

    def loses(self, host: str, replacement: StoreImage | None) -> None:
        """A host's disk gets other content: what nobody else has on a disk may be gone."""
        for image in (self._site.images[host], replacement):
            row = None if image is None else image.maps[KEPT].rows.get(SELF)
            if row is not None:
                self._replaced[decoded_own(row).replica] = None
        for csn, issue in self.issues.items():
            if issue.is_void or issue.is_lost:
                continue
            if self.has(host, csn):
                self._had[host, csn] = None
            is_elsewhere = any(self.has(each, csn) for each in self._site.names if each != host)
            is_left = replacement is not None and _has(replacement, csn)
            if not is_elsewhere and not is_left:
                issue.is_lost = True

    def has(self, host: str, csn: Csn) -> bool:
        return _has(self._site.images[host], csn)

    # --- rules that are looked at when they could be broken

    def trims(self, host: str, vector: Vector, roster: Roster) -> None:
        """A master forgets updates that *vector* covers: every known replica has said that it has them, or is
        marked on the disk (G5)."""
        kept = self._site.images[host].maps[KEPT].rows
        for name in self._site.names:
            own = self._site.own(name)
            if own is None or own.replica == roster.replica or own.replica not in roster.live:
                continue
            if own.replica in self._replaced:
                continue
            theirs = self._site.vector(name)
            is_marked = b"lagging/%04x" % own.replica in kept or own.replica in roster.lagging
            if not is_marked and (theirs is None or not theirs.covers_all(vector)):
                has = "nothing" if theirs is None else theirs.text()
                self._violation("G5", f"{host} trims {vector.text()}, and {name} has {has}")

    def purges(self, host: str, target: Vector, accepted: Vector, roster: Roster) -> None:
        """A master purges up to *target*: who issued what is missing here had all of it (G7). *accepted* is
        what it has, on the disk or on its way there before the purge."""
        for csn, issue in self.issues.items():
            if issue.is_void or issue.is_lost or accepted.covers(csn) or self.has(host, csn):
                continue
            if csn.replica in target.retired or csn.replica in self._site.called_over:
                continue
            if self._site.called_over and csn.replica not in (*roster.live, *roster.over):
                continue  # whoever counted it was given up before he could say so; it is refused (G7)
            if not all(issue.known.covers(each) or each.replica in target.retired for each in target):
                self._violation(
                    "G7",
                    f"{host} purges {target.text()}; {csn} is missing, whose issuer had {issue.known.text()}",
                )
                return

    # --- the end

    def check_all(self) -> None:
        """All masters show what the set of updates comes to, and end with the same bytes when they purge to
        one vector."""
        site = self._site
        counted = {
            csn: issue
            for csn, issue in sorted(self.issues.items())
            if not issue.is_void and self._counts(csn)
        }
        for name in site.names:
            for csn, issue in counted.items():
                if not self.has(name, csn):
                    what = "acknowledged" if issue.is_acknowledged else "known elsewhere"
                    claimed = site.vector(name)
                    is_late = claimed is not None and not claimed.covers(csn)
                    rule = "progress" if is_late else "G1"
                    self._violation(rule, f"{name} lacks {csn}, which was {what}")
                    return
        states = {name: state_of(site.images[name]) for name in site.names}
        reference = DirectoryState()
        for csn, issue in counted.items():
            assert issue.update is not None, f"nobody has seen {csn}"
            for change in issue.update.changes:
                reference.apply(change)
        expected = view(reference)
        for name, state in states.items():
            if view(state) != expected:
                self._violation("G2", f"{name} shows {_difference(view(state), expected)}")
                return
        self._check_bytes({**states, "reference": reference}, expected)

    def _check_bytes(self, states: dict[str, DirectoryState], expected: object) -> None:
        target: Vector | None = None
        for state in states.values():
            if state.purged is not None:
                target = state.purged if target is None else target.merged(state.purged)
        if target is None:
            return
        self._world.sometimes("state was purged")
        dumps = {}
        for name, state in states.items():
            purge(state, target)
            if view(state) != expected:
                self._violation("G7", f"purging changes what {name} shows")
                return
            dumps[name] = state.dump()
        for name, dump in dumps.items():
            if dump != dumps["reference"]:
                self._violation("G2", f"{name} ends with other bytes than the set of updates gives")
                return

    def _counts(self, csn: Csn) -> bool:
        """Whether an update is part of the data: acknowledged and not lost, or kept by somebody all the
        same."""
        issue = self.issues[csn]
        return not issue.is_lost or any(self.has(each, csn) for each in self._site.names)

    def _violation(self, rule: str, message: str) -> None:
        self._world.violation(rule, message)


def _has(image: StoreImage, csn: Csn) -> bool:
    """Whether a disk has the effects of the update of *csn*, whatever its vector says."""
    return update_row(csn) in image.maps[AUDIT].rows


def state_of(image: StoreImage) -> DirectoryState:
    """The state that is on a disk."""
    state = DirectoryState()
    for row in image.maps[ENTRIES].rows.values():
        entry = decoded_entry(row)
        state.entries[entry.id] = entry
    for key, row in image.maps[LEFT].rows.items():
        state.left[EntryId(key)] = parse(row.decode())
    purged = image.maps[REPLICA].rows.get(PURGED)
    state.purged = None if purged is None else Vector.parse(purged.decode())
    return state


View = tuple[dict[EntryId, tuple[tuple[str, ...], dict[str, tuple[bytes, ...]]]], list[str]]


def view(state: DirectoryState) -> View:
    """What clients and administrators see: visible entries with their paths and values, and conflicts."""
    tree = Tree()
    for entry in list(state.entries.values()):
        tree.update(entry)
    entries = {}
    for each in tree.visible():
        known = state.entries.get(each)
        values = {} if known is None else known.values()
        content = {attribute: tuple(v.content for v in found) for attribute, found in values.items()}
        entries[each] = (tuple(tree.path(each)), content)
    return entries, sorted(each.id for each in conflicts(state, tree))


def _difference(shown: View, expected: View) -> str:
    for each in sorted({*shown[0], *expected[0]}):
        if shown[0].get(each) != expected[0].get(each):
            return f"{bytes(each).hex()} as {shown[0].get(each)}, not {expected[0].get(each)}"
    lost = sorted(set(shown[1]) ^ set(expected[1]))
    return f"other conflicts: {lost[:4]}"
