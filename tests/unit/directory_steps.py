"""Random histories of masters: every step is a legal operation there, a delivery, or a purge."""

from collections.abc import Callable

from directory_world import Issued, Master, base, entry_id, name, value

from holdfast.directory.issuing import Operation, settle
from holdfast.directory.primitives import ROOT, EntryId
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest

Step = tuple[int, int, int, int]
"""Which master, what it does, and two numbers that pick among what it may do it with."""

NAMES = ("a", "b", "A")
VALUES = ("x", "y", "X")


class History:
    """Masters that issue operations on few names, so that they collide, and hand them to each other."""

    def __init__(self, masters: int = 3) -> None:
        self.masters = [Master(number) for number in range(1, masters + 1)]
        self.issued: list[Issued] = []
        self._next_entry = 100
        self._issue(self.masters[0], base)
        for other in self.masters[1:]:
            other.take(self.issued[0])
        self._verbs: tuple[Callable[[Master, int, int], None], ...] = (
            self.add,
            self.add,
            self.remove,
            self.rename,
            self.move,
            self.move,
            self.add_value,
            self.remove_value,
            self.replace,
            self.set_single,
            self.settle,
            self.deliver,
            self.deliver,
            self.deliver_all,
            self.sync,
            self.purge,
        )

    @property
    def verbs(self) -> int:
        return len(self._verbs)

    def run(self, steps: list[Step]) -> None:
        for who, verb, this, that in steps:
            self._verbs[verb](self.masters[who % len(self.masters)], this, that)

    def _issue(self, master: Master, ask: Callable[[Operation], None]) -> None:
        self.issued.append(master.issue(ask))

    # --- what a client may ask

    def add(self, master: Master, this: int, that: int) -> None:
        parent, wanted = pick(list(master.tree.visible()), this), name(NAMES[that % 3])
        if parent is not None and master.tree.holder(parent, wanted.key) is None:
            self._next_entry += 1
            entry = entry_id(self._next_entry)
            self._issue(master, lambda ask: ask.add_entry(entry, parent, wanted))

    def remove(self, master: Master, this: int, that: int) -> None:
        leaves = [each for each in live(master) if next(master.tree.children(each), None) is None]
        entry = pick(leaves, this)
        if entry is not None:
            self._issue(master, lambda ask: ask.remove_entry(entry))

    def rename(self, master: Master, this: int, that: int) -> None:
        entry, wanted = pick(live(master), this), name(NAMES[that % 3])
        if entry is not None and master.tree.holder(master.tree.parent(entry), wanted.key) in (None, entry):
            self._issue(master, lambda ask: ask.rename(entry, wanted, remove_old=bool(that & 4)))

    def move(self, master: Master, this: int, that: int) -> None:
        entry, parent = pick(live(master), this), pick(list(master.tree.visible()), that)
        above = parent
        while above not in (None, ROOT, entry):
            above = master.tree.parent(above)
        if entry is not None and parent is not None and above == ROOT:
            self._issue(master, lambda ask: ask.move(entry, parent))

    def add_value(self, master: Master, this: int, that: int) -> None:
        entry = pick(live(master), this)
        if entry is not None:
            chosen = ("mail", value(VALUES[that % 3])) if that < 5 else ("cn", value(NAMES[that % 3]))
            self._issue(master, lambda ask: ask.add_value(entry, *chosen))

    def remove_value(self, master: Master, this: int, that: int) -> None:
        """Of any attribute, that of the name too where the value is not part of it."""
        entry = pick(live(master), this)
        if entry is None:
            return
        state = master.state.entries[entry]
        required = [(a, v.key) for a, found in state.required().items() for v in found.values()]
        free = [
            (attribute, each)
            for attribute, values in state.values().items()
            for each in values
            if (attribute, each.key) not in required and attribute != "title"
        ]
        chosen = pick(free, that)
        if chosen is not None:
            self._issue(master, lambda ask: ask.remove_value(entry, chosen[0], chosen[1]))

    def replace(self, master: Master, this: int, that: int) -> None:
        entry = pick(live(master), this)
        if entry is not None:
            wanted = [value(VALUES[that % 3])] if that < 5 else []
            self._issue(master, lambda ask: ask.replace(entry, "mail", wanted))

    def set_single(self, master: Master, this: int, that: int) -> None:
        entry = pick(live(master), this)
        if entry is not None:
            wanted = [value(VALUES[that % 3])] if that < 5 else []
            self._issue(master, lambda ask: ask.replace(entry, "title", wanted, is_single=True))

    def settle(self, master: Master, this: int, that: int) -> None:
        conflict = pick(master.conflicts(), this)
        if conflict is None:
            return
        newest = max(csn.timestamp for csn in master.known)
        csn = Csn(newest + 1, 0, master.replica)
        try:
            changes = settle(master.state, master.tree, conflict, csn, keep=bool(that & 1))
        except InvalidRequest:
            return
        self.issued.append(Issued(csn, tuple(changes), frozenset(master.known)))
        master.take(self.issued[-1])

    # --- what happens between masters

    def deliver(self, master: Master, this: int, that: int) -> None:
        """The next change of one other master, however far behind those of the third are."""
        self._deliver_next(master, self.masters[this % len(self.masters)])

    def deliver_all(self, master: Master, this: int, that: int) -> None:
        while self._deliver_next(master, self.masters[this % len(self.masters)]):
            pass

    def _deliver_next(self, master: Master, issuer: Master) -> bool:
        for each in self.issued:
            if each.csn.replica == issuer.replica and each.csn not in master.known:
                master.take(each)
                return True
        return False

    def sync(self, master: Master, this: int, that: int) -> None:
        """All hear of everything; what follows may be purged."""
        for each in self.masters:
            for issuer in range(len(self.masters)):
                self.deliver_all(each, issuer, that)

    def purge(self, master: Master, this: int, that: int) -> None:
        stable = [csn for csn in sorted(each.csn for each in self.issued) if self.is_stable(master, csn)]
        if stable:
            master.purge(stable[-1 - this % len(stable)], len(self.masters), is_slow=that % 2 == 0)

    def is_stable(self, master: Master, csn: Csn) -> bool:
        """Whether G7 lets *master* purge up to *csn*: all have all that is older, and what is still to come
        here was issued by someone who had it too."""
        if csn.timestamp < master.state.horizon.timestamp:
            return False
        older = {each.csn for each in self.issued if each.csn.timestamp <= csn.timestamp}
        if not all(older <= each.known.keys() for each in self.masters):
            return False
        coming = [each for each in self.issued if each.csn not in master.known]
        return all(older <= each.known for each in coming)


def pick(among: list, number: int):
    return among[number % len(among)] if among else None


def live(master: Master) -> list[EntryId]:
    return [each for each in sorted(master.state.entries) if master.state.entries[each].is_live]
