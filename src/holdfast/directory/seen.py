"""What the issuer of a change had seen of the thing that it changes.

A change names the CSNs of what it replaces. Changes of one replica travel in order, so to have seen one of
them is to have seen all older ones of that replica: one CSN for each replica says it all, and the list is
never longer than there are replicas. A master that has purged its old state (:mod:`.purging`) can no longer
name it; instead it says its *horizon*, below which it had seen everything.
"""

from collections.abc import Collection, Iterable
from typing import Final

from msgspec import Struct

from holdfast.model.csn import ZERO, Csn


class Seen(Struct, frozen=True, array_like=True, gc=False):
    """A set of changes: those up to a CSN of each replica, and those up to a horizon. Sets only grow. Each
    set has one form (:attr:`is_canonical`)."""

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
        if len(by_replica) > 1:
            by_replica = dict(sorted(by_replica.items()))
        return cls(tuple(by_replica.values()), horizon)

    @property
    def is_canonical(self) -> bool:
        """Whether this is the form in which masters write the set."""
        newest = self.newest
        if len(newest) < 2:
            return not newest or newest[0] > self.horizon
        return Seen.of(newest, self.horizon) == self

    def covers(self, csn: Csn) -> bool:
        if csn <= self.horizon:
            return True
        for known in self.newest:
            if known.replica == csn.replica:
                return csn <= known
        return False

    def joined(self, other: "Seen") -> "Seen":
        """The union of both sets."""
        if not other.newest and other.horizon <= self.horizon:
            return self
        if not self.newest and self.horizon <= other.horizon:
            return other
        return Seen.of((*self.newest, *other.newest), max(self.horizon, other.horizon))

    def including(self, csns: Collection[Csn]) -> "Seen":
        return Seen.of((*self.newest, *csns), self.horizon) if csns else self


NOTHING: Final = Seen()
