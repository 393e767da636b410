"""What the issuer of a change had seen of the thing that it changes.

A change names the CSNs of what it replaces. Changes of one replica travel in order, so to have seen one of
them is to have seen all older ones of that replica: one CSN for each replica says it all, and the list is
never longer than there are replicas. A master that has purged its old state (:mod:`.purging`) can no longer
name it; instead it says its *horizon*, below which it had seen everything.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from holdfast.model.csn import ZERO, Csn


class Seen(Struct, frozen=True, array_like=True):
    """A set of changes: those up to a CSN of each replica, and those up to a horizon. Sets only grow."""

    newest: tuple[Csn, ...] = ()
    """At most one for each replica, sorted by replica, each above the horizon."""
    horizon: Csn = ZERO

    @classmethod
    def of(cls, csns: Iterable[Csn], horizon: Csn = ZERO) -> "Seen":
        by_replica: dict[int, Csn] = {}
        for csn in csns:
            known = by_replica.get(csn.replica)
            if csn > horizon and (known is None or csn > known):
                by_replica[csn.replica] = csn
        return cls(tuple(by_replica[replica] for replica in sorted(by_replica)), horizon)

    def covers(self, csn: Csn) -> bool:
        if csn <= self.horizon:
            return True
        return any(known.replica == csn.replica and csn <= known for known in self.newest)

    def joined(self, other: "Seen") -> "Seen":
        """The union of both sets."""
        if other in (NOTHING, self):
            return self
        if self == NOTHING:
            return other
        return Seen.of((*self.newest, *other.newest), max(self.horizon, other.horizon))

    def including(self, csns: Iterable[Csn]) -> "Seen":
        return Seen.of((*self.newest, *csns), self.horizon)


NOTHING: Final = Seen()
