"""The authority's identity and generation, and the floors below which it may not issue numbers (A5).

A restored authority is an old one: the numbers it would issue next may already be in use. ``restore`` starts
a new generation with floors above every number the hosts have seen. Every recipe that issues a number
respects the floors and compares the identity, so that none of them is applied across a restoration.
"""

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Applied
from holdfast.authority.recipe import (
    ATTEMPTS_MAX,
    Contended,
    InDoubt,
    Recipe,
    Seen,
    answering,
    change,
    put,
    read,
)
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import Epoch, GroupId, Incarnation, Nonce, Revision, Term


class Floors(msgspec.Struct, frozen=True, kw_only=True):
    """The highest numbers that may already be in use; only greater ones are issued."""

    epoch: Epoch = Epoch(0)
    incarnation: Incarnation = Incarnation(0)
    group: GroupId = GroupId(0)
    term: Term = Term(0)
    cas: int = 0

    def raised_to(self, other: "Floors") -> "Floors":
        """The higher of each pair of floors."""
        return Floors(
            epoch=max(self.epoch, other.epoch),
            incarnation=max(self.incarnation, other.incarnation),
            group=max(self.group, other.group),
            term=max(self.term, other.term),
            cas=max(self.cas, other.cas),
        )


class Identity(msgspec.Struct, frozen=True, kw_only=True, tag="identity"):
    """Identifies this authority. The generation counts its restorations, starting at 1."""

    id: str
    generation: int
    floors: Floors
    nonce: Nonce


class NoIdentity(msgspec.Struct, frozen=True, tag="no_identity"):
    """The authority has never been set up (:func:`ensure_identity`)."""


class AuthorityBehind(HoldfastError):
    """Raised when the authority knows less than this member's log: it was restored; the host stops (A5)."""

    code = "authority_behind"


@answering
def read_identity() -> Recipe[Seen[Identity] | NoIdentity]:
    found = yield from read(keys.IDENTITY, Identity)
    return NoIdentity() if found.value is None else _seen(found.value, found.modified)


@answering
def ensure_identity(id: str, *, nonce: Nonce) -> Recipe[Seen[Identity] | Contended | InDoubt]:
    """Return the authority's identity: its own, or *id* if it has none. It is never removed."""
    for _ in range(ATTEMPTS_MAX):
        found = yield from read(keys.IDENTITY, Identity)
        if found.value is not None:
            return _seen(found.value, found.modified)
        identity = Identity(id=id, generation=1, floors=Floors(), nonce=nonce)
        result = yield from change([found.unchanged()], [put(keys.IDENTITY, identity)], nonce=nonce)
        if isinstance(result, Applied):
            return _seen(identity, result.revision)
        if isinstance(result, InDoubt):
            return result
    return Contended("the authority's identity")


@answering
def restore(floors: Floors, *, nonce: Nonce) -> Recipe[Seen[Identity] | NoIdentity | Contended | InDoubt]:
    """Begin a new generation that continues above *floors*, collected from every host's log (A5)."""
    for _ in range(ATTEMPTS_MAX):
        found = yield from read(keys.IDENTITY, Identity)
        if found.value is None:
            return NoIdentity()
        if found.value.nonce == nonce:
            return _seen(found.value, found.modified)
        identity = Identity(
            id=found.value.id,
            generation=found.value.generation + 1,
            floors=found.value.floors.raised_to(floors),
            nonce=nonce,
        )
        result = yield from change([found.unchanged()], [put(keys.IDENTITY, identity)], nonce=nonce)
        if isinstance(result, Applied):
            return _seen(identity, result.revision)
        if isinstance(result, InDoubt):
            return result
    return Contended("the authority's identity")


def check_not_behind(group: GroupId, *, log_epoch: Epoch, view_epoch: Epoch) -> None:
    """Raise AuthorityBehind when this member has followed an epoch that the authority does not know."""
    if log_epoch > view_epoch:
        raise AuthorityBehind(
            f"group {group}: the log holds epoch {log_epoch}, the authority only {view_epoch}; it was "
            f"restored from an older state and must continue above the highest epoch of all hosts"
        )


def read_floors() -> Recipe[tuple[Floors, Seen[Identity | None]]]:
    """Read the floors, and the identity that a transaction using them must compare."""
    found = yield from read(keys.IDENTITY, Identity)
    return floors_of(found), found


def floors_of(identity: Seen[Identity | None]) -> Floors:
    """The floors of that identity; an authority that was never set up has none."""
    return Floors() if identity.value is None else identity.value.floors


def _seen(identity: Identity, modified: Revision) -> Seen[Identity]:
    return Seen(keys.IDENTITY, identity, modified)
