"""Reads and changes the views of groups (V1, V6, K4).

Of a view this module looks only at the epoch, which only grows and stays above the authority's floor (A5).
Every change of a view is a compare-and-set against exactly the view it was made from.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import (
    TXN_OPERATIONS_MAX,
    Absent,
    Applied,
    Compare,
    Equals,
    KeyValue,
    LeaseGone,
    Older,
    Refused,
    Unchanged,
)
from holdfast.authority.identity import Identity
from holdfast.authority.recipe import (
    InDoubt,
    Listing,
    Recipe,
    Seen,
    answering,
    change,
    decoded,
    put,
    read,
    read_all,
)
from holdfast.model.errors import InvalidRequest, invariant
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Nonce, Opening, StoreId

VIEWS_PER_TXN_MAX: Final = 59
"""K4 allows 60, but two operations per view and one for the identity must fit the contract's 120 (A3)."""
invariant(2 * VIEWS_PER_TXN_MAX + 1 <= TXN_OPERATIONS_MAX, "a full batch of claims fits one transaction")


class ViewMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member and its process and store, as of one view (V1)."""

    host: HostId
    store: StoreId
    incarnation: Incarnation
    opening: Opening


class Why(enum.Enum):
    """Why a view replaced the one before."""

    UNTOLD = "untold"
    CREATED = "created"
    DEAD = "dead"
    """Claimed on proof that the primary's process is gone (K2)."""
    SILENT = "silent"
    """Claimed after the primary's grace period had run out (K1)."""
    RELEASED = "released"
    """Claimed because the primary handed over (K5)."""
    OWN = "own"
    """Claimed by the listed primary itself, after its restart (V3, K6)."""
    DROPPED = "dropped"
    """The primary continues without a backup that was silent, lagged, or came back with less (M1, M4, V5)."""
    ADDED = "added"
    """A learner has caught up (M2)."""
    REMOVED = "removed"
    """The primary continues without a member whose host is to have none any more (M6)."""
    RESTARTED = "restarted"
    """All members that held the group's state in memory are gone, and it restarts as configured (V4)."""
    RECOVERED = "recovered"
    """Forced by a person who accepted what may be lost."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """What a view's writer says about it, for people. Nothing is decided by it."""

    why: Why = Why.UNTOLD
    host: HostId = HostId("")
    """The host concerned: the primary that was replaced, or the backup that was dropped or added."""
    at_ns: int = 0
    """The writer's wall clock when it requested the change."""
    text: str = ""
    """Further text for people, such as what a forced recovery gave up."""


class View(msgspec.Struct, frozen=True, kw_only=True, tag="view"):
    """The primary of a group and its in-sync members. An object reference's version is the epoch (V6)."""

    group: GroupId
    epoch: Epoch
    primary: HostId
    members: tuple[ViewMember, ...]
    nonce: Nonce
    cause: Cause = Cause()
    generation: Epoch = Epoch(0)
    """The epoch of the forced recovery that this history starts from; 0 when it starts at the group's
    creation. Data of an earlier generation that a member holds without being listed is not part of this
    history."""


class NoGroup(msgspec.Struct, frozen=True, tag="no_group"):
    """The group does not exist, or no longer exists."""

    group: GroupId


class Lost(msgspec.Struct, frozen=True, tag="lost"):
    """Another view, or none, is current; this change was not applied, or was replaced, for good."""

    group: GroupId
    standing: Seen[View] | None


class Unmet(msgspec.Struct, frozen=True, tag="unmet"):
    """The view is the one seen, but the change's extra condition no longer holds and never will."""

    group: GroupId


class IdentityChanged(msgspec.Struct, frozen=True, tag="identity_changed"):
    """The authority was restored since its identity was read: read everything again (A5)."""


@dataclass(frozen=True, slots=True)
class ViewChange:
    """A change from exactly the view that was seen to a later one."""

    seen: Seen[View]
    new: View
    given: Compare | None = None
    """An extra condition: a member is added only while the record that wants it is unchanged (M5)."""


@dataclass(frozen=True, slots=True)
class ViewChanges:
    """How each requested change ended. Request those in doubt again with the same nonces."""

    won: tuple[Seen[View], ...] = ()
    lost: tuple[Lost, ...] = ()
    in_doubt: tuple[ViewChange, ...] = ()
    unmet: tuple[Unmet, ...] = ()


def next_epoch(view: View, identity: Identity) -> Epoch:
    """The lowest epoch that a successor of *view* may have."""
    return Epoch(max(view.epoch, identity.floors.epoch) + 1)


def successor(
    view: View,
    identity: Identity,
    *,
    primary: HostId,
    members: tuple[ViewMember, ...],
    nonce: Nonce,
    cause: Cause,
) -> View:
    """The view that replaces *view*, in the same generation."""
    return View(
        group=view.group,
        epoch=next_epoch(view, identity),
        primary=primary,
        members=members,
        nonce=nonce,
        cause=cause,
        generation=view.generation,
    )


@answering
def read_view(group: GroupId) -> Recipe[Seen[View] | NoGroup]:
    """Read the current view. This is the linearizable read that confirms a query (R2)."""
    found = yield from read(keys.view(group), View)
    return NoGroup(group) if found.value is None else Seen(found.key, found.value, found.modified)


@answering
def list_views() -> Recipe[Listing[View]]:
    return (yield from read_all(keys.VIEWS, View))


def change_view(
    wanted: ViewChange, *, identity: Seen[Identity]
) -> Recipe[Seen[View] | Lost | Unmet | IdentityChanged | InDoubt]:
    """Claim, drop or add: put the new view in place of exactly the one seen.

    An unknown outcome is settled by the same change again, or given up by winning another change of that view
    (M2).
    """
    result = yield from change_views([wanted], identity=identity)
    if isinstance(result, IdentityChanged):
        return result
    if result.in_doubt:
        return InDoubt(wanted.new.nonce, "no answer to the change of a view")
    if result.unmet:
        return result.unmet[0]
    return result.won[0] if result.won else result.lost[0]


def change_views(
    wanted: Sequence[ViewChange], *, identity: Seen[Identity]
) -> Recipe[ViewChanges | IdentityChanged]:
    """Change many groups' views in full batches; a refused batch is sent again without the lost ones (K4)."""
    for each in wanted:
        _check(each, identity.value)
    won: list[Seen[View]] = []
    lost: list[Lost] = []
    unmet: list[Unmet] = []
    waiting = list(wanted)
    while waiting:
        batch = _fitting(waiting)
        result = yield from change(
            [
                identity.unchanged(),
                *(each.seen.unchanged() for each in batch),
                *(each.given for each in batch if each.given is not None),
            ],
            [put(each.seen.key, each.new) for each in batch],
            nonce=batch[0].new.nonce,
        )
        if isinstance(result, InDoubt):
            # The other batches would get no answer either; changes that were not sent are requested again
            # too.
            return ViewChanges(tuple(won), tuple(lost), tuple(waiting), tuple(unmet))
        invariant(not isinstance(result, LeaseGone), "views stand under no lease")
        if isinstance(result, Applied):
            won += [Seen(each.seen.key, each.new, result.revision) for each in batch]
            waiting = waiting[len(batch) :]
        elif isinstance(result, Refused):
            if _is_other_identity(identity, result.found[0]):
                return IdentityChanged()
            unsettled = _settle_batch(batch, result, won, lost, unmet)
            invariant(len(unsettled) < len(batch), "a refused batch has a compare that did not hold")
            waiting = unsettled + waiting[len(batch) :]
    return ViewChanges(tuple(won), tuple(lost), unmet=tuple(unmet))


def _fitting(waiting: Sequence[ViewChange]) -> list[ViewChange]:
    """The first of the changes, as many as fit in one transaction (A3)."""
    batch: list[ViewChange] = []
    operations = 1
    for each in waiting[:VIEWS_PER_TXN_MAX]:
        operations += 2 if each.given is None else 3
        if operations > TXN_OPERATIONS_MAX:
            break
        batch.append(each)
    return batch


def _settle_batch(
    batch: Sequence[ViewChange],
    refused: Refused,
    won: list[Seen[View]],
    lost: list[Lost],
    unmet: list[Unmet],
) -> list[ViewChange]:
    """Sort a refused batch by the current views: won already, lost, condition unmet, or still to change."""
    unsettled = []
    views, givens = refused.found[1 : len(batch) + 1], iter(refused.found[len(batch) + 1 :])
    for each, item in zip(batch, views, strict=True):
        is_met = each.given is None or _holds(each.given, next(givens))
        if item is not None and item.modified == each.seen.modified:
            if is_met:
                unsettled.append(each)
            else:
                unmet.append(Unmet(each.new.group))
            continue
        current = None if item is None else decoded(item, View)
        if current is not None and current.value.nonce == each.new.nonce:
            won.append(current)
        else:
            lost.append(Lost(each.new.group, current))
    return unsettled


def _holds(given: Compare, found: KeyValue | None) -> bool:
    match given:
        case Absent():
            return found is None
        case Unchanged(modified=modified):
            return found is not None and found.modified == modified
        case Older(revision=revision):
            return found is not None and found.modified < revision
        case Equals(value=value):
            return found is not None and found.value == value


def _is_other_identity(identity: Seen[Identity], found: KeyValue | None) -> bool:
    return found is None or found.modified != identity.modified


def _check(wanted: ViewChange, identity: Identity) -> None:
    if wanted.new.group != wanted.seen.value.group:
        raise InvalidRequest(f"a view of group {wanted.seen.value.group} cannot become {wanted.new.group}'s")
    lowest = next_epoch(wanted.seen.value, identity)
    if wanted.new.epoch < lowest:
        raise InvalidRequest(
            f"group {wanted.new.group}: epoch {wanted.new.epoch} is not free; the lowest is {lowest}"
        )
