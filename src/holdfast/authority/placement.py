"""On which hosts a group shall have members: adding them, and letting them go (T1, M5, M6).

The group's record says where members *shall* be; its view says who is in-sync. A host is added to the record
at once and catches up afterwards. One that shall go is marked as leaving; its entry stays until the view does
not list the host any more and the host has durably forgotten what it held, and the host itself removes it. So
nobody is placed anew on a host that still holds, or is still forgetting, what it held before; and each stay
has a number, which is part of the member's identity.
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
"""A member's store is known once it is listed in a view; the record only says on which host it shall be."""


class AlreadyPlaced(msgspec.Struct, frozen=True, tag="already_placed"):
    """The group has a member on that host, or shall have one."""

    record: GroupRecord


class NotPlaced(msgspec.Struct, frozen=True, tag="not_placed"):
    """The group shall have no member on that host, and has been told so before."""

    record: GroupRecord


class StillLeaving(msgspec.Struct, frozen=True, tag="still_leaving"):
    """The host is forgetting what it held of the group; it can be added when it has."""

    record: GroupRecord


class TooMany(msgspec.Struct, frozen=True, tag="too_many"):
    """A group has at most ``MEMBERS_MAX`` members."""

    record: GroupRecord


class TooFew(msgspec.Struct, frozen=True, tag="too_few"):
    """Without that member the group could acknowledge nothing: add another one first."""

    record: GroupRecord


class MayForget(msgspec.Struct, frozen=True, tag="may_forget"):
    """The host shall leave, no view lists it, and none will."""


class IsListed(msgspec.Struct, frozen=True, tag="is_listed"):
    """The host shall leave, and the view still counts on what it holds."""


class Stays(msgspec.Struct, frozen=True, tag="stays"):
    """The host shall not leave, or has left."""


Placed = Seen[GroupRecord] | NoGroup | Contended | InDoubt
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Next:
    """The record that is to stand; the same when it is as wished for already."""

    record: GroupRecord
    while_listed: HostId | None = None
    """Only while the view lists that host."""


@dataclass(frozen=True, slots=True)
class _Not(Generic[Answer]):
    """Nothing is to be changed, since."""

    why: Answer


def _changed(
    group: GroupId,
    decide: Callable[[GroupRecord], _Next | _Not[Answer]],
    *,
    nonce: Nonce,
    as_of: Revision | None = None,
) -> Recipe[Placed | StillLeaving | Answer]:
    """Change the record as *decide* says of the one that stands.

    *as_of*: only if the record is still the one of that revision; Contended when it is not.
    """
    for _ in range(ATTEMPTS_MAX):
        found = yield from read(keys.group(group), GroupRecord)
        record = found.value
        if record is None:
            return NoGroup(group)
        if as_of not in (None, found.modified):
            break
        decided = decide(record)
        if isinstance(decided, _Not):
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
) -> Recipe[Placed | AlreadyPlaced | StillLeaving | TooMany]:
    """Let the group have a member on *host*; one that is leaving and still listed stays. *as_of* as above.
    *criteria*: what the factory there is told. *own*: the application's object that shall be the member."""

    def decide(record: GroupRecord) -> _Next | _Not[AlreadyPlaced | StillLeaving | TooMany]:
        entry = record.placement(host)
        if entry is not None and not entry.is_leaving:
            return _Next(record) if entry.nonce == nonce else _Not(AlreadyPlaced(record))
        if entry is not None and entry.own != own:
            return _Not(StillLeaving(record))
        if entry is not None:
            # Since it was told to leave no view can have come to list it anew: it has forgotten nothing yet.
            stays = msgspec.structs.replace(entry, is_leaving=False, nonce=nonce)
            return _Next(_with_entry(record, stays), while_listed=host)
        if len(record.members) >= MEMBERS_MAX:
            return _Not(TooMany(record))
        number = record.stays + 1
        entry = Placement(
            host=host, store=UNKNOWN_STORE, number=number, nonce=nonce, criteria=criteria, own=own
        )
        return _Next(msgspec.structs.replace(record, members=(*record.members, entry), stays=number))

    return (yield from _changed(group, decide, nonce=nonce, as_of=as_of))


@answering
def remove_member(
    group: GroupId, host: HostId, *, nonce: Nonce, as_of: Revision | None = None
) -> Recipe[Placed | StillLeaving | NotPlaced | TooFew]:
    """Let the group have no member on *host*: it leaves as soon as it can be spared. *as_of* as above."""

    def decide(record: GroupRecord) -> _Next | _Not[NotPlaced | TooFew]:
        entry = record.placement(host)
        if entry is None or entry.is_leaving:
            is_ours = entry is not None and entry.nonce == nonce
            return _Next(record) if is_ours else _Not(NotPlaced(record))
        if len(record.placed_on) <= max(record.min_in_sync, 1):
            return _Not(TooFew(record))
        return _Next(_with_entry(record, msgspec.structs.replace(entry, is_leaving=True, nonce=nonce)))

    return (yield from _changed(group, decide, nonce=nonce, as_of=as_of))


@answering
def tune_group(
    group: GroupId, tuned: str, *, nonce: Nonce, as_of: Revision | None = None
) -> Recipe[Placed | StillLeaving]:
    """Let the hosts of a group know these properties, which were set while it runs (FTC-189)."""

    def decide(record: GroupRecord) -> _Next | _Not[NoGroup]:
        same = record.tuned == tuned
        return _Next(record if same else msgspec.structs.replace(record, tuned=tuned))

    return (yield from _changed(group, decide, nonce=nonce, as_of=as_of))


@answering
def may_forget(group: GroupId, host: HostId) -> Recipe[MayForget | IsListed | Stays]:
    """Whether *host* may forget what it holds. The record is read first: once it says that the host leaves,
    no view comes to list it any more (M5), so one that does not list it then is enough."""
    found = yield from read(keys.group(group), GroupRecord)
    entry = found.value.placement(host) if found.value is not None else None
    if entry is None or not entry.is_leaving:
        return Stays()
    view = yield from read(keys.view(group), View)
    if view.value is not None and any(each.host == host for each in view.value.members):
        return IsListed()
    return MayForget()


@answering
def have_left(
    group: GroupId, host: HostId, *, number: int, nonce: Nonce
) -> Recipe[Stays | Contended | InDoubt]:
    """*host* has forgotten, durably, what it held in its stay of that *number*: the entry goes. Not that of a
    later stay, which the host may have been told to end before it heard that this one's is gone."""

    def decide(record: GroupRecord) -> _Next | _Not[Stays]:
        entry = record.placement(host)
        if entry is None or not entry.is_leaving or entry.number != number:
            return _Not(Stays())
        return _Next(_without_entry(record, entry))

    done = yield from _changed(group, decide, nonce=nonce)
    return done if isinstance(done, Contended | InDoubt) else Stays()


@answering
def forget_host(
    group: GroupId, host: HostId, *, nonce: Nonce, as_of: Revision
) -> Recipe[Placed | StillLeaving | IsListed | Stays | NoAnswer]:
    """*host* shall leave and never comes back: its entry goes, unless the view counts on what it holds.
    *as_of* as above."""
    may = yield from may_forget(group, host)
    if not isinstance(may, MayForget):
        return may

    def decide(record: GroupRecord) -> _Next | _Not[Stays]:
        entry = record.placement(host)
        return _Not(Stays()) if entry is None else _Next(_without_entry(record, entry))

    return (yield from _changed(group, decide, nonce=nonce, as_of=as_of))


def _with_entry(record: GroupRecord, entry: Placement) -> GroupRecord:
    members = tuple(entry if each.host == entry.host else each for each in record.members)
    return msgspec.structs.replace(record, members=members)


def _without_entry(record: GroupRecord, entry: Placement) -> GroupRecord:
    return msgspec.structs.replace(
        record, members=tuple(each for each in record.members if each is not entry)
    )
