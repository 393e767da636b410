"""Which replica a store is (G3).

A replica id belongs to one store of one suffix, never to a host. Whoever opens a store compares its opening
number with the authority's first (V5). A store that the authority does not know as the one that left was
wiped, copied or put back from a backup: CSNs that it would issue now may have been issued before, by itself
in the time that it does not remember. So it gets a new id, always. The ids that its host had before are over:
nobody else can issue under them.

The new id must be on the disk before the opening is: after a crash in between the store is still the stranger
that it was, and gets yet another.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from msgspec import structs

from holdfast.directory.replication.roster import Own
from holdfast.model.ids import ReplicaId


class ReplicaIds(Protocol):
    """Where replica ids come from: the authority. Each is given once."""

    def allot(self) -> ReplicaId:
        """A new id for this host's store of this suffix."""
        ...

    def former(self) -> list[ReplicaId]:
        """The ids that this host's stores of this suffix had."""
        ...


class Step(Enum):
    """What the store's owner does next."""

    SERVE = "serve"
    """It is a replica with all its data."""
    JOIN = "join"
    """It has data, and must be counted by another before it issues changes."""
    INITIALISE = "initialise"
    """It needs a copy of another's data."""


@dataclass(frozen=True, slots=True)
class Decision:
    own: Own
    step: Step
    is_changed: bool
    """Whether *own* must be written before the opening is finished."""


def decide(
    own: Own | None,
    ids: ReplicaIds,
    *,
    is_continued: bool,
    is_half_copied: bool,
    is_told_over: bool = False,
    is_read_only: bool = False,
) -> Decision:
    """Say which replica a store is.

    *own* is its row, None in an empty store. *is_continued*: the authority knows it as the store that left.
    *is_half_copied*: a copy into it was begun and not finished. *is_told_over*: others have said that its id
    is over.
    """
    if own is None or is_half_copied:
        if own is not None and is_continued and not is_told_over:
            # It has issued nothing under this id, and whoever gave it a copy counts it.
            return Decision(own, Step.INITIALISE, is_changed=False)
        new = _new(Own(replica=ReplicaId(0), is_ready=False, is_read_only=is_read_only), ids)
        return Decision(new, Step.INITIALISE, is_changed=True)
    if is_continued and not is_told_over:
        return Decision(own, Step.SERVE if own.is_ready else Step.JOIN, is_changed=False)
    # Whether it takes writes now is what the domain says of its host: the store may be from before that.
    new = _new(structs.replace(own, is_read_only=is_read_only), ids)
    return Decision(new, Step.JOIN, is_changed=True)


def emptied(own: Own, ids: ReplicaIds) -> Own:
    """Which replica a store will be that is filled anew from another's. Not the one that it was: others may
    have changes of that one which the copy lacks, and nobody may issue under an id without knowing all that
    was issued under it."""
    return _new(own, ids)


def _new(own: Own, ids: ReplicaIds) -> Own:
    former = ids.former()
    return structs.replace(
        own,
        replica=ids.allot(),
        is_ready=False,
        # A last word is of the id that it was said under: a host that comes back has not said one.
        is_leaving=False,
        base="",
        over=tuple(sorted({*own.over, *former})),
        known=tuple(each for each in own.known if each not in former),
    )
