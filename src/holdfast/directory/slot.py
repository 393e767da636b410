"""One thing that a change can set: a register that tells concurrent writes from later ones.

A slot is written to by many masters. The write with the greatest CSN wins. A write is *superseded* once
another write of the slot had seen it; a master has always seen its own writes, so at most one write of each
master is left. Those that are left are the slot's *heads*: the winner, and what it did not know of. A head
that wanted something else than what came of it is a conflict (:mod:`.conflicts`).

Heads and what is known of superseded writes are the same whatever order the writes arrived in (G2), since
both are computed from maxima alone:

- ``known`` is the greatest CSN of each master that was written or named here, unless that is a head;
- a master's head is its greatest write, if nothing covers it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct

from holdfast.directory.seen import NOTHING, Seen
from holdfast.model.csn import Csn

Wish = TypeVar("Wish")


class Write(Struct, Generic[Wish], frozen=True, array_like=True, gc=False):
    """One change of a slot: when, and what it wished to be there."""

    csn: Csn
    wish: Wish


class Slot(Struct, Generic[Wish], frozen=True, array_like=True, gc=False):
    """The heads of a slot, sorted by CSN, and what is known of the writes that were superseded."""

    heads: tuple[Write[Wish], ...] = ()
    known: Seen = NOTHING

    @property
    def winner(self) -> Write[Wish] | None:
        return self.heads[-1] if self.heads else None

    @property
    def is_empty(self) -> bool:
        return not self.heads and self.known == NOTHING

    def covers(self, csn: Csn) -> bool:
        """Whether someone who wrote here had seen the change of *csn*."""
        for head in self.heads:
            if head.csn.replica == csn.replica and csn <= head.csn:
                return True
        return self.known.covers(csn)

    def seen(self) -> Seen:
        """All that a write made now replaces."""
        return self.known.including([head.csn for head in self.heads])

    def written(
        self, write: Write[Wish], seen: Seen, *, is_covered: Callable[[Csn], bool] | None = None
    ) -> "Slot[Wish]":
        """This slot with one more write, whose issuer had *seen* that much of it; a repeated one changes
        nothing. *is_covered* tells of writes that something outside the slot supersedes."""
        heads: list[Write[Wish]] = []
        for head in self.heads:
            if head.csn.replica != write.csn.replica:
                heads.append(head)
            elif head.csn > write.csn:
                write = head
        heads.append(write)
        return _settled(heads, self.known.joined(seen), is_covered)

    def covered_by(self, is_covered: Callable[[Csn], bool]) -> "Slot[Wish]":
        """This slot without the heads that something outside it supersedes."""
        for head in self.heads:
            if is_covered(head.csn):
                return _settled(self.heads, self.known, is_covered)
        return self


def _settled(
    heads: Iterable[Write[Wish]], known: Seen, is_covered: Callable[[Csn], bool] | None
) -> Slot[Wish]:
    left: list[Write[Wish]] = []
    gone: list[Write[Wish]] = []
    for head in heads:
        superseded = known.covers(head.csn) or (is_covered is not None and is_covered(head.csn))
        (gone if superseded else left).append(head)
    if len(left) > 1:
        left.sort(key=_csn)
    known = known.including([head.csn for head in gone])
    if left and known.newest:
        # A head stands for all that is older of its master: keeping both would depend on what came first.
        standing = [head.csn.replica for head in left]
        newest = tuple([csn for csn in known.newest if csn.replica not in standing])
        known = Seen(newest, known.horizon)
    return Slot(tuple(left), known)


def _csn(write: Write[Wish]) -> Csn:
    return write.csn


def losers(slot: Slot[Wish], outcome: Callable[[Wish], object], came: object) -> Iterator[Write[Wish]]:
    """The heads that wished for something else than what *came*."""
    return (head for head in slot.heads if outcome(head.wish) != came)
