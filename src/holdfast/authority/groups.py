"""Groups: their ids, their records, and their first views (V6, T1).

Group ids come from a counter and are never reused, whatever becomes of the group. A removal
(:mod:`.removal`) changes the guard that every creation compares: a delayed creation cannot bring a removed
group back.
"""

from typing import Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Applied
from holdfast.authority.identity import Identity, read_floors
from holdfast.authority.recipe import (
    ATTEMPTS_MAX,
    Contended,
    Guard,
    InDoubt,
    Listing,
    Recipe,
    Seen,
    answering,
    change,
    put,
    read,
    read_all,
)
from holdfast.authority.views import Cause, Lost, NoGroup, View, ViewMember, Why
from holdfast.model.code import UNKNOWN, Code
from holdfast.model.ids import Epoch, GroupId, HostId, Nonce, StoreId


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """A member as the group's record names it."""

    host: HostId
    store: StoreId
    number: int = 0
    """Of this stay of the group on that host; 0 when it has been there from the beginning. Part of the
    member's identity: what one stay acknowledged is not held by the next (:func:`store_in_stay`)."""
    is_leaving: bool = False
    """It shall be a member no longer. The entry stays until the host has forgotten what it held (M6)."""
    nonce: Nonce = Nonce("")
    """Of who placed it, or told it to leave."""
    criteria: str = "{}"
    """What the factory there is told for this member alone, as a JSON object (FTC-192, FTC-212)."""
    own: str = ""
    """The application's own object that is the member, as ``package.module:name`` (FTC-234); empty: the
    factory there makes one."""


DISK: Final = "disk"
MEMORY: Final = "memory"
WAIT: Final = "wait"
RESTART: Final = "restart"


class UpgradeWish(msgspec.Struct, frozen=True, kw_only=True):
    """That a group shall go on with this code, whatever the other hosts have (E7)."""

    code: Code
    replays: bool = False
    """Also what other code made since the checkpoint and is not kept is replayed by it: what was acknowledged
    may change, and a person said so."""
    nonce: Nonce = Nonce("")


class GroupRecord(msgspec.Struct, frozen=True, kw_only=True, tag="group"):
    """What a group is, as opposed to what is wished for it (T1)."""

    group: GroupId
    class_name: str
    style: str
    members: tuple[Placement, ...]
    nonce: Nonce
    name: str = ""
    """By which people and clients find it; no two groups have the same. Empty: known by its number only."""
    arguments: str = "[]"
    """What its object is made with, as a JSON array."""
    created_ns: int = 0
    """Wall clock of who created it: the time that the object's ``__init__`` sees, on every member."""
    min_in_sync: int = 1
    durability: str = DISK
    """Where its operations are when they are acknowledged: on disk, or in memory."""
    on_total_loss: str = WAIT
    """Of a group in memory, when the last process that held its state is gone: wait for a person, or restart
    from the newest checkpoint there is (V4)."""
    properties: str = "{}"
    """Fault tolerance properties asked for at its creation, in plain form, as a JSON object (FTC-167)."""
    stays: int = 0
    """The highest number of a stay ever given (:attr:`Placement.number`)."""
    is_begun: bool = True
    """It has a view, or had one. Without: it was made without members, and the first host that is placed
    begins it (:func:`begin_group`)."""
    generation: int = 0
    """Of the authority when the group was made without members; 0 of other groups."""
    tuned: str = "{}"
    """Properties that were set while it ran and that its hosts must know, in plain form, as a JSON object
    (FTC-189): carried over from the wishes by the manager."""

    code: Code = UNKNOWN
    """Of the class, by which the group was last served, as far as its primaries have told; for people. What
    made which record is in its sequence alone (E7)."""
    upgrade: UpgradeWish | None = None
    """A person wishes other code; gone when the group is served by that."""

    def placement(self, host: HostId) -> Placement | None:
        """The entry of *host*, also while it is leaving."""
        return next((each for each in self.members if each.host == host), None)

    @property
    def placed_on(self) -> tuple[HostId, ...]:
        """The hosts that shall have a member."""
        return tuple(each.host for each in self.members if not each.is_leaving)

    def wants(self, member: ViewMember) -> bool:
        """Whether that member, in its present stay, shall be one."""
        entry = self.placement(member.host)
        return entry is not None and not entry.is_leaving and stay_of(member.store) == entry.number


_STAY: Final = "#"
"""Parts a store's name from the number of a stay."""


def store_in_stay(store: StoreId, number: int) -> StoreId:
    """The store of a member in that stay on its host: a host that comes back to a group is another member."""
    return StoreId(f"{store}{_STAY}{number}") if number else store


def stay_of(store: StoreId) -> int:
    """The number of the stay that :func:`store_in_stay` put into *store*."""
    _, mark, number = store.rpartition(_STAY)
    return int(number) if mark and number.isdecimal() else 0


class Restored(msgspec.Struct, frozen=True, tag="restored"):
    """The authority was put back since the group was made: it may have begun, and hosts may hold what was
    acknowledged (A5)."""


class RemovedSince(msgspec.Struct, frozen=True, tag="removed_since"):
    """Groups were removed since the guard was read; if this creation was in doubt, perhaps this very one."""


class GroupName(msgspec.Struct, frozen=True, kw_only=True, tag="group_name"):
    """Which group has a name."""

    name: str
    group: GroupId
    nonce: Nonce


class NameTaken(msgspec.Struct, frozen=True, tag="name_taken"):
    """Another group has that name."""

    name: str
    group: GroupId


class NoSuchName(msgspec.Struct, frozen=True, tag="no_such_name"):
    """No group has that name."""

    name: str


class GroupCounter(msgspec.Struct, frozen=True, kw_only=True, tag="group_counter"):
    """The highest group id ever issued."""

    last: GroupId
    nonce: Nonce


@answering
def reserve_group(*, nonce: Nonce, count: int = 1) -> Recipe[GroupId | Contended | InDoubt]:
    """Issue *count* group ids in a row to this caller alone; the last of them. When in doubt reserve others:
    an id may go unused."""
    for _ in range(ATTEMPTS_MAX):
        counter = yield from read(keys.GROUP_COUNTER, GroupCounter)
        if counter.value is not None and counter.value.nonce == nonce:
            return counter.value.last
        floors, identity = yield from read_floors()
        issued = counter.value.last if counter.value is not None else GroupId(0)
        group = GroupId(max(issued, floors.group) + count)
        result = yield from change(
            [counter.unchanged(), identity.unchanged()],
            [put(keys.GROUP_COUNTER, GroupCounter(last=group, nonce=nonce))],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return group
        if isinstance(result, InDoubt):
            return result
    return Contended("the counter of groups")


@answering
def read_group_guard() -> Recipe[Seen[Guard | None]]:
    """What the runs of one creation are compared with."""
    return (yield from read(keys.GROUP_GUARD, Guard))


@answering
def create_group(
    record: GroupRecord,
    primary: HostId,
    members: tuple[ViewMember, ...],
    *,
    as_of: Seen[Guard | None] | None = None,
) -> Recipe[Seen[View] | Lost | NameTaken | RemovedSince | Contended | InDoubt]:
    """Store *record*, under an id reserved for it, with its first view and its name. Run again it finds the
    view that stands; Lost when another has that id.

    *as_of*: the guard before the first run, for who runs it again after a doubt. *Without it:* a creation is
    applied and its answer lost; the group is used, and deleted; the second run makes it anew, empty, under
    the number and in the epoch of the one that hosts still hold (V6).
    """
    nonce = record.nonce
    for _ in range(ATTEMPTS_MAX):
        found = yield from read(keys.view(record.group), View)
        if found.value is not None:
            standing = Seen(found.key, found.value, found.modified)
            # The record says who made it: the first primary may have put another view in place since.
            made = yield from read(keys.group(record.group), GroupRecord)
            is_mine = made.value is not None and made.value.nonce == nonce
            return standing if is_mine else Lost(record.group, standing)
        floors, identity = yield from read_floors()
        # The guard is read before the name: a name that was freed meanwhile has changed it.
        guard = yield from read(keys.GROUP_GUARD, Guard)
        if as_of is not None and guard.modified != as_of.modified:
            return RemovedSince()
        named: list[Seen[GroupName | None]] = []
        if record.name:
            named.append((yield from read(keys.group_name(record.name), GroupName)))
            if (holder := named[0].value) is not None:
                return NameTaken(record.name, holder.group)
        view = View(
            group=record.group,
            epoch=Epoch(floors.epoch + 1),
            primary=primary,
            members=members,
            nonce=nonce,
            cause=Cause(why=Why.CREATED, host=primary, at_ns=record.created_ns),
        )
        result = yield from change(
            [
                found.unchanged(),
                identity.unchanged(),
                guard.unchanged(),
                *(each.unchanged() for each in named),
            ],
            [
                put(keys.group(record.group), record),
                put(found.key, view),
                *(put(e.key, GroupName(name=record.name, group=record.group, nonce=nonce)) for e in named),
            ],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Seen(found.key, view, result.revision)
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the creation of group {record.group}")


@answering
def create_unbegun_group(
    record: GroupRecord, *, as_of: Seen[Guard | None] | None = None
) -> Recipe[Seen[GroupRecord] | NameTaken | RemovedSince | Contended | InDoubt]:
    """Store *record*, under an id reserved for it, with its name and without a view (FTC-213). *as_of* as
    above."""
    nonce = record.nonce
    for _ in range(ATTEMPTS_MAX):
        found = yield from read(keys.group(record.group), GroupRecord)
        if found.value is not None:
            return Seen(found.key, found.value, found.modified)
        _, identity = yield from read_floors()
        record = msgspec.structs.replace(record, is_begun=False, generation=_generation(identity))
        guard = yield from read(keys.GROUP_GUARD, Guard)
        if as_of is not None and guard.modified != as_of.modified:
            return RemovedSince()
        named = yield from read(keys.group_name(record.name), GroupName)
        if named.value is not None:
            return NameTaken(record.name, named.value.group)
        name = GroupName(name=record.name, group=record.group, nonce=nonce)
        result = yield from change(
            [found.unchanged(), identity.unchanged(), guard.unchanged(), named.unchanged()],
            [put(found.key, record), put(named.key, name)],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Seen(found.key, record, result.revision)
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the creation of group {record.group}")


@answering
def begin_group(
    group: GroupId, member: ViewMember, *, at_ns: int, nonce: Nonce
) -> Recipe[Seen[View] | NoGroup | Restored | Contended | InDoubt]:
    """Let *member*, whose host the record names, be the first of a group that has not begun; whoever comes
    later finds the view that stands. NoGroup also when the host is not to have it.

    *Without* :class:`Restored`: A begins a group that is placed on A and C, and serves; the authority is put
    back to before that; C begins it with nothing.
    """
    for _ in range(ATTEMPTS_MAX):
        found = yield from read(keys.group(group), GroupRecord)
        if found.value is None or member.host not in found.value.placed_on:
            return NoGroup(group)
        standing = yield from read(keys.view(group), View)
        if standing.value is not None:
            return Seen(standing.key, standing.value, standing.modified)
        floors, identity = yield from read_floors()
        if _generation(identity) != found.value.generation:
            return Restored()
        view = View(
            group=group,
            epoch=Epoch(floors.epoch + 1),
            primary=member.host,
            members=(member,),
            nonce=nonce,
            cause=Cause(why=Why.CREATED, host=member.host, at_ns=at_ns),
        )
        result = yield from change(
            [found.unchanged(), standing.unchanged(), identity.unchanged()],
            [put(found.key, msgspec.structs.replace(found.value, is_begun=True)), put(standing.key, view)],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Seen(standing.key, view, result.revision)
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the beginning of group {group}")


def _generation(identity: Seen[Identity | None]) -> int:
    return identity.value.generation if identity.value is not None else 0


@answering
def read_group(group: GroupId) -> Recipe[Seen[GroupRecord] | NoGroup]:
    found = yield from read(keys.group(group), GroupRecord)
    return NoGroup(group) if found.value is None else Seen(found.key, found.value, found.modified)


@answering
def find_group(name: str) -> Recipe[Seen[GroupRecord] | NoSuchName]:
    """The group that has that name now."""
    if not keys.is_word(name):
        return NoSuchName(name)  # nor can any group have it
    named = yield from read(keys.group_name(name), GroupName)
    if named.value is None:
        return NoSuchName(name)
    found = yield from read(keys.group(named.value.group), GroupRecord)
    return NoSuchName(name) if found.value is None else Seen(found.key, found.value, found.modified)


@answering
def list_groups() -> Recipe[Listing[GroupRecord]]:
    return (yield from read_all(keys.GROUPS, GroupRecord))
