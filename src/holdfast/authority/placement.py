"""Decides on which hosts a group is to have members: adding hosts and letting them leave (T1, M5, M6).

The group's record says where members are *to be*; its view says which are in sync. A host is added to the
record at once and catches up afterwards. A host that is to go is marked as leaving. Its entry stays until the
view no longer lists the host and the host has durably deleted what it held; then the host itself removes the
entry. A group is therefore never placed again on a host that still holds, or is still deleting, its earlier
data. Each stay has a number, which is part of the member's identity.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Applied
from holdfast.authority.groups import GroupRecord, Placement
from holdfast.authority.recipe import (
    ATTEMPTS_MAX,
    Contended,
    InDoubt,
    NoAnswer,
    Recipe,
    Seen,
    answering,
    change,
    put,
    read,
)
from holdfast.authority.views import NoGroup, View
from holdfast.model.ids import GroupId, HostId, Nonce, Revision, StoreId
from holdfast.model.reference import MEMBERS_MAX

UNKNOWN_STORE: Final = StoreId("")
"""The store of a member is known once a view lists it; until then the record only names its host."""


class AlreadyPlaced(msgspec.Struct, frozen=True, tag="already_placed"):
    """The group has, or is to have, a member on that host."""

    record: GroupRecord


class NotPlaced(msgspec.Struct, frozen=True, tag="not_placed"):
    """The group is to have no member on that host, and an earlier request said so."""

    record: GroupRecord


class StillLeaving(msgspec.Struct, frozen=True, tag="still_leaving"):
    """The host is still deleting what it held of the group; it can be added afterwards."""

    record: GroupRecord


class TooMany(msgspec.Struct, frozen=True, tag="too_many"):
    """A group has at most ``MEMBERS_MAX`` members."""

    record: GroupRecord


class TooFew(msgspec.Struct, frozen=True, tag="too_few"):
    """Without that member the group could acknowledge nothing, or nobody could lead it (W3): add another one
    first."""

    record: GroupRecord


class MayForget(msgspec.Struct, frozen=True, tag="may_forget"):
    """The host is to leave, no view lists it, and none will."""


class IsListed(msgspec.Struct, frozen=True, tag="is_listed"):
    """The host is to leave, but the view still depends on what it holds."""


class Stays(msgspec.Struct, frozen=True, tag="stays"):
    """The host is not leaving, or it has left already."""


Placed = Seen[GroupRecord] | NoGroup | Contended | InDoubt
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Write:
    """The record to write; the same record when it is already as requested."""

    record: GroupRecord
    while_listed: HostId | None = None
    """Write the record only while the view lists that host."""


@dataclass(frozen=True, slots=True)
class _Keep(Generic[Answer]):
    """Nothing is to be changed, and *why* is the recipe's answer."""

    why: Answer


def _changed(
    group: GroupId,
    decide: Callable[[GroupRecord], _Write | _Keep[Answer]],
    *,
    nonce: Nonce,
    as_of: Revision | None = None,
) -> Recipe[Placed | StillLeaving | Answer]:
    """Change the record as *decide* says about the current one.

    With *as_of*, change it only if it is still the record of that revision; otherwise answer Contended.
    """
    for _ in range(ATTEMPTS_MAX):
        found = yield from read(keys.group(group), GroupRecord)
        record = found.value
        if record is None:
            return NoGroup(group)
        if as_of not in (None, found.modified):
            break
        decided = decide(record)
        if isinstance(decided, _Keep):
            return decided.why
        if decided.record is record:
            return Seen(found.key, record, found.modified)
        compares = [found.unchanged()]
        if decided.while_listed is not None:
            view = yield from read(keys.view(group), View)
            if view.value is None or all(each.host != decided.while_listed for each in view.value.members):
                return StillLeaving(record)
            compares.append(view.unchanged())
        result = yield from change(compares, [put(found.key, decided.record)], nonce=nonce)
        if isinstance(result, Applied):
            return Seen(found.key, decided.record, result.revision)
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the members of group {group}")


@answering
def add_member(
    group: GroupId,
    host: HostId,
    *,
    nonce: Nonce,
    as_of: Revision | None = None,
    criteria: str = "{}",
    own: str = "",
    never_leads: bool = False,
) -> Recipe[Placed | AlreadyPlaced | StillLeaving | TooMany]:
    """Give the group a member on *host*; a member that is leaving but still listed stays.

    *as_of* is as in :func:`_changed`; *criteria* is passed to the host's factory; *own* names the
    application's object that is to be the member; *never_leads*: it is to hold and never to lead (W3).
    """

    def decide(record: GroupRecord) -> _Write | _Keep[AlreadyPlaced | StillLeaving | TooMany]:
        entry = record.placement(host)
        if entry is not None and not entry.is_leaving:
            return _Write(record) if entry.nonce == nonce else _Keep(AlreadyPlaced(record))
        if entry is not None and entry.own != own:
            return _Keep(StillLeaving(record))
        if entry is not None:
            # Since the host was told to leave, no view listed it again, so it has deleted nothing yet.
            stays = msgspec.structs.replace(entry, is_leaving=False, nonce=nonce, never_leads=never_leads)
            return _Write(_with_entry(record, stays), while_listed=host)
        if len(record.members) >= MEMBERS_MAX:
            return _Keep(TooMany(record))
        number = record.stays + 1
        entry = Placement(
            host=host,
            store=UNKNOWN_STORE,
            number=number,
            nonce=nonce,
            criteria=criteria,
            own=own,
            never_leads=never_leads,
        )
        return _Write(msgspec.structs.replace(record, members=(*record.members, entry), stays=number))

    return (yield from _changed(group, decide, nonce=nonce, as_of=as_of))


@answering
def remove_member(
    group: GroupId, host: HostId, *, nonce: Nonce, as_of: Revision | None = None
) -> Recipe[Placed | StillLeaving | NotPlaced | TooFew]:
    """Remove the group's member on *host* as soon as it can be spared. *as_of*: see :func:`_changed`."""

    def decide(record: GroupRecord) -> _Write | _Keep[NotPlaced | TooFew]:
        entry = record.placement(host)
        if entry is None or entry.is_leaving:
            is_ours = entry is not None and entry.nonce == nonce
            return _Write(record) if is_ours else _Keep(NotPlaced(record))
        if len(record.placed_on) <= max(record.min_in_sync, 1) or record.leaders == (host,):
            return _Keep(TooFew(record))
        return _Write(_with_entry(record, msgspec.structs.replace(entry, is_leaving=True, nonce=nonce)))

    return (yield from _changed(group, decide, nonce=nonce, as_of=as_of))


@answering
def let_lead(
    group: GroupId, host: HostId, *, never_leads: bool, nonce: Nonce, as_of: Revision | None = None
) -> Recipe[Placed | StillLeaving | NotPlaced | TooFew]:
    """Say whether the group's member on *host* never leads (W3). *as_of*: see :func:`_changed`."""

    def decide(record: GroupRecord) -> _Write | _Keep[NotPlaced | TooFew]:
        entry = record.placement(host)
        if entry is None or entry.is_leaving:
            return _Keep(NotPlaced(record))
        if entry.never_leads == never_leads:
            return _Write(record)
        if never_leads and record.leaders == (host,):
            return _Keep(TooFew(record))
        return _Write(
            _with_entry(record, msgspec.structs.replace(entry, never_leads=never_leads, nonce=nonce))
        )

    return (yield from _changed(group, decide, nonce=nonce, as_of=as_of))


@answering
def tune_group(
    group: GroupId, tuned: str, *, nonce: Nonce, as_of: Revision | None = None
) -> Recipe[Placed | StillLeaving]:
    """Tell the hosts of a group the properties that were set while it runs (FTC-189)."""

    def decide(record: GroupRecord) -> _Write | _Keep[NoGroup]:
        same = record.tuned == tuned
        return _Write(record if same else msgspec.structs.replace(record, tuned=tuned))

    return (yield from _changed(group, decide, nonce=nonce, as_of=as_of))


@answering
def may_forget(group: GroupId, host: HostId) -> Recipe[MayForget | IsListed | Stays | Contended]:
    """Say whether *host* may delete what it holds.

    While the record says that the host is leaving, no later view lists the host (M5), and while no view lists
    it, nobody lets it stay. So one view that does not list it is proof enough, if the record is the same
    before and after. *Without the second look:* B is leaving and listed, and asks; it is let stay; a view
    drops it because it is slow; B reads that view, forgets everything, and is a member that has nothing.
    """
    found = yield from read(keys.group(group), GroupRecord)
    for _ in range(ATTEMPTS_MAX):
        entry = found.value.placement(host) if found.value is not None else None
        if entry is None or not entry.is_leaving:
            return Stays()
        view = yield from read(keys.view(group), View)
        if view.value is not None and any(each.host == host for each in view.value.members):
            return IsListed()
        before, found = found, (yield from read(keys.group(group), GroupRecord))
        if found.modified == before.modified:
            return MayForget()
    return Contended(f"the members of group {group}")


@answering
def have_left(
    group: GroupId, host: HostId, *, number: int, nonce: Nonce
) -> Recipe[Stays | Contended | InDoubt]:
    """Remove the entry of *host*, which has durably deleted what it held in the stay *number*.

    The entry of a later stay remains: the host may have been told to end that one before it heard that this
    one's entry is gone.
    """

    def decide(record: GroupRecord) -> _Write | _Keep[Stays]:
        entry = record.placement(host)
        if entry is None or not entry.is_leaving or entry.number != number:
            return _Keep(Stays())
        return _Write(_without_entry(record, entry))

    done = yield from _changed(group, decide, nonce=nonce)
    return done if isinstance(done, Contended | InDoubt) else Stays()


@answering
def forget_host(
    group: GroupId, host: HostId, *, nonce: Nonce, as_of: Revision
) -> Recipe[Placed | StillLeaving | IsListed | Stays | NoAnswer]:
    """Remove the entry of *host*, which never comes back, unless the view depends on what it holds.

    The host must be leaving. *as_of* is as in :func:`_changed`.
    """
    may = yield from may_forget(group, host)
    if not isinstance(may, MayForget):
        return may

    def decide(record: GroupRecord) -> _Write | _Keep[Stays]:
        entry = record.placement(host)
        return _Keep(Stays()) if entry is None else _Write(_without_entry(record, entry))

    return (yield from _changed(group, decide, nonce=nonce, as_of=as_of))


def _with_entry(record: GroupRecord, entry: Placement) -> GroupRecord:
    members = tuple(entry if each.host == entry.host else each for each in record.members)
    return msgspec.structs.replace(record, members=members)


def _without_entry(record: GroupRecord, entry: Placement) -> GroupRecord:
    return msgspec.structs.replace(
        record, members=tuple(each for each in record.members if each is not entry)
    )
