"""Creates and reads groups: their ids, their records and their first views (V6, T1).

Group ids come from a counter and are never reused, whatever happens to the group. Every creation compares a
guard, and a removal (:mod:`.removal`) changes it, so that a delayed creation cannot bring a removed group
back.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Applied, Refused
from holdfast.authority.identity import Identity, floors_of, read_floors
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
    stood,
    unseen,
)
from holdfast.authority.views import Cause, Lost, NoGroup, View, ViewMember, Why
from holdfast.model.code import UNKNOWN, Code
from holdfast.model.ids import Epoch, GroupId, HostId, Nonce, StoreId


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a group as the group's record names it."""

    host: HostId
    store: StoreId
    number: int = 0
    """The number of this stay of the group on that host; 0 for a host that was a member from the beginning.
    It is part of the member's identity: what one stay acknowledged is not held by the next
    (:func:`store_in_stay`)."""
    is_leaving: bool = False
    """This host is to stop being a member. The entry stays until the host has deleted what it held (M6)."""
    nonce: Nonce = Nonce("")
    """The nonce of the change that placed the member or told it to leave."""
    criteria: str = "{}"
    """The criteria that only this host's factory is given, as a JSON object (FTC-192, FTC-212)."""
    own: str = ""
    """The application's own object that is the member, as ``package.module:name`` (FTC-234). When empty, the
    host's factory makes one."""
    never_leads: bool = False
    """The member holds and acknowledges like any other, but never becomes primary (W3, LOSS-5)."""


DISK: Final = "disk"
MEMORY: Final = "memory"
WAIT: Final = "wait"
RESTART: Final = "restart"


class UpgradeWish(msgspec.Struct, frozen=True, kw_only=True):
    """A person's request that a group continue with this code, whatever code the other hosts have (E7)."""

    code: Code
    replays: bool = False
    """The requested code also replays what other code executed since the checkpoint, if no copy of that code
    is kept. Acknowledged results may change, and a person has accepted that."""
    nonce: Nonce = Nonce("")


class GroupRecord(msgspec.Struct, frozen=True, kw_only=True, tag="group"):
    """The definition of a group, as opposed to its wanted properties (T1)."""

    group: GroupId
    class_name: str
    style: str
    members: tuple[Placement, ...]
    nonce: Nonce
    name: str = ""
    """The name by which people and clients find the group, unique among groups. When empty, the group is
    known only by its number."""
    arguments: str = "[]"
    """The arguments its object is created with, as a JSON array."""
    created_ns: int = 0
    """The creator's wall clock: the time that the object's ``__init__`` sees, on every member."""
    min_in_sync: int = 1
    """How many members hold an operation before it is acknowledged. It never changes (V8)."""
    durability: str = DISK
    """Where an operation is stored when it is acknowledged: on disk or in memory."""
    on_total_loss: str = WAIT
    """For a group in memory, what happens when the last process that held its state is gone: wait for a
    person, or restart from the newest checkpoint (V4)."""
    properties: str = "{}"
    """Fault tolerance properties given at creation, in plain form, as a JSON object (FTC-167)."""
    stays: int = 0
    """The highest stay number ever issued (:attr:`Placement.number`)."""
    is_begun: bool = True
    """The group has or had a view. False while it was created without members: the first host placed begins
    it (:func:`begin_group`)."""
    generation: int = 0
    """The authority's generation when the group was created; 0 if that is not known."""
    tuned: str = "{}"
    """Properties that were set while the group ran and that its hosts must know, in plain form, as a JSON
    object (FTC-189). The manager copies them from the wanted properties."""

    code: Code = UNKNOWN
    """The code of the class that last served the group, as reported by its primaries, for people to read.
    Only the group's sequence says which code made which record (E7)."""
    upgrade: UpgradeWish | None = None
    """A person's request for other code; removed when the group is served by that code."""

    def placement(self, host: HostId) -> Placement | None:
        """The entry of *host*, also while the host is leaving."""
        return next((each for each in self.members if each.host == host), None)

    @property
    def placed_on(self) -> tuple[HostId, ...]:
        """The hosts that are to have a member."""
        return tuple(each.host for each in self.members if not each.is_leaving)

    def may_lead(self, host: HostId) -> bool:
        """Whether the member on *host* may become primary (W3)."""
        entry = self.placement(host)
        return entry is None or not entry.never_leads

    @property
    def leaders(self) -> tuple[HostId, ...]:
        """The hosts that are to have a member that may become primary (W3)."""
        return tuple(each.host for each in self.members if not each.is_leaving and not each.never_leads)

    def wants(self, member: ViewMember) -> bool:
        """Whether that member, in its present stay, is to remain one."""
        entry = self.placement(member.host)
        return entry is not None and not entry.is_leaving and stay_of(member.store) == entry.number

    def may_begin_anew(self, view: View, member: ViewMember) -> bool:
        """Whether *member* may begin the group anew: an earlier store of its host is the only one listed, and
        nothing was ever committed (V8). A view that has had ``min_in_sync`` members never has fewer (M1),
        except after a forced recovery, which begins a generation (V4)."""
        if len(view.members) != 1 or view.generation:
            return False
        (listed,) = view.members
        return listed.host == member.host and listed.store != member.store and self.min_in_sync > 1


_STAY: Final = "#"
"""Separates a store's name from the number of a stay."""


def store_in_stay(store: StoreId, number: int) -> StoreId:
    """The store id of a member in that stay: a host that returns to a group counts as a different member."""
    return StoreId(f"{store}{_STAY}{number}") if number else store


def stay_of(store: StoreId) -> int:
    """The number of the stay that :func:`store_in_stay` put into *store*."""
    _, mark, number = store.rpartition(_STAY)
    return int(number) if mark and number.isdecimal() else 0


class Restored(msgspec.Struct, frozen=True, tag="restored"):
    """The authority was restored since the group was created.

    The group may have begun, and hosts may hold acknowledged operations (A5).
    """


@dataclass(frozen=True, slots=True)
class RemovedSince:
    """Groups were removed since the guard was as expected; a creation in doubt may be among them."""

    guard: Seen[Guard | None]
    """As it is now."""


class GroupName(msgspec.Struct, frozen=True, kw_only=True, tag="group_name"):
    """Maps a name to its group."""

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


@dataclass(frozen=True, slots=True)
class Reserved:
    """The highest of the ids that were reserved, and what the authority had then: the next creation begins
    with it instead of reading."""

    last: GroupId
    counter: Seen[GroupCounter | None]
    identity: Seen[Identity | None]
    guard: Seen[Guard | None]


UNRESERVED: Final = Reserved(
    GroupId(0), unseen(keys.GROUP_COUNTER), unseen(keys.IDENTITY), unseen(keys.GROUP_GUARD)
)
"""Nothing is known yet. A transaction on wrong guesses is refused, and says what is right."""


def reserve_groups(
    known: Reserved = UNRESERVED, *, nonce: Nonce, count: int = 1
) -> Recipe[Reserved | Contended | InDoubt]:
    """Issue *count* consecutive group ids to this caller alone: in one round trip if what is *known* is still
    so, in two otherwise.

    After an unknown outcome, reserve others: an id may stay unused.
    """
    counter, identity, guard = known.counter, known.identity, known.guard
    for attempt in range(ATTEMPTS_MAX):
        if counter.value is not None and counter.value.nonce == nonce:
            return Reserved(counter.value.last, counter, identity, guard)
        issued = counter.value.last if counter.value is not None else GroupId(0)
        last = GroupId(max(issued, floors_of(identity).group) + count)
        wanted = GroupCounter(last=last, nonce=nonce)
        # The creation that follows needs the guard; a reservation does not, and is refused for it only once.
        needed = ((counter, GroupCounter), (identity, Identity), (guard, Guard))[: 2 if attempt else 3]
        result = yield from change(
            [seen.unchanged() for seen, _ in needed], [put(counter.key, wanted)], nonce=nonce
        )
        if isinstance(result, Applied):
            return Reserved(last, Seen(counter.key, wanted, result.revision), identity, guard)
        if isinstance(result, InDoubt):
            return result
        if isinstance(result, Refused):
            counter, identity, *rest = stood(result, *needed)
            guard = rest[0] if rest else guard
    return Contended("the counter of groups")


def reserve_group(*, nonce: Nonce, count: int = 1) -> Recipe[GroupId | Contended | InDoubt]:
    """As :func:`reserve_groups`; returns the last id alone."""
    reserved = yield from reserve_groups(nonce=nonce, count=count)
    return reserved.last if isinstance(reserved, Reserved) else reserved


@answering
def create_group(
    record: GroupRecord,
    primary: HostId,
    members: tuple[ViewMember, ...],
    *,
    as_of: Seen[Guard | None] | None = None,
    known: Reserved = UNRESERVED,
) -> Recipe[Seen[View] | Lost | NameTaken | RemovedSince | Contended | InDoubt]:
    """Store *record*, under an id reserved for it, with its first view and its name: in one round trip if
    what is *known* is still so.

    When run again it returns the current view, or Lost when another group has that id. *as_of* is the guard
    before the first run; pass it when you run the recipe again after an unknown outcome. *Without it:* a
    creation is applied and its answer is lost; the group is used and then deleted; the second run creates it
    again, empty, under the number and in the epoch of the group that hosts still hold (V6).
    """
    nonce, identity, guard = record.nonce, known.identity, as_of or known.guard
    found: Seen[View | None] = unseen(keys.view(record.group))
    named = [unseen(keys.group_name(record.name))] if record.name else []
    for _ in range(ATTEMPTS_MAX):
        if found.value is not None:
            current = Seen(found.key, found.value, found.modified)
            # The record says who created the group: the first primary may have replaced the view already.
            made = yield from read(keys.group(record.group), GroupRecord)
            is_mine = made.value is not None and made.value.nonce == nonce
            return current if is_mine else Lost(record.group, current)
        if as_of is not None and guard.modified != as_of.modified:
            return RemovedSince(guard)
        if named and (holder := named[0].value) is not None:
            return NameTaken(record.name, holder.group)
        record = msgspec.structs.replace(record, generation=_generation(identity))
        view = View(
            group=record.group,
            epoch=Epoch(floors_of(identity).epoch + 1),
            primary=primary,
            members=members,
            nonce=nonce,
            cause=Cause(why=Why.CREATED, host=primary, at_ns=record.created_ns),
        )
        needed: list[tuple[Seen[Any], type[Any]]]
        needed = [(found, View), (identity, Identity), (guard, Guard), *((e, GroupName) for e in named)]
        result = yield from change(
            [seen.unchanged() for seen, _ in needed],
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
        if isinstance(result, Refused):
            found, identity, guard, *named = stood(result, *needed)
    return Contended(f"the creation of group {record.group}")


@answering
def create_unbegun_group(
    record: GroupRecord, *, as_of: Seen[Guard | None] | None = None, known: Reserved = UNRESERVED
) -> Recipe[Seen[GroupRecord] | NameTaken | RemovedSince | Contended | InDoubt]:
    """Store *record*, under an id reserved for it, with its name but without a view (FTC-213).

    *as_of* and *known* are as in :func:`create_group`.
    """
    nonce, identity, guard = record.nonce, known.identity, as_of or known.guard
    found: Seen[GroupRecord | None] = unseen(keys.group(record.group))
    named: Seen[GroupName | None] = unseen(keys.group_name(record.name))
    for _ in range(ATTEMPTS_MAX):
        if found.value is not None:
            return Seen(found.key, found.value, found.modified)
        if as_of is not None and guard.modified != as_of.modified:
            return RemovedSince(guard)
        if named.value is not None:
            return NameTaken(record.name, named.value.group)
        record = msgspec.structs.replace(record, is_begun=False, generation=_generation(identity))
        name = GroupName(name=record.name, group=record.group, nonce=nonce)
        needed = ((found, GroupRecord), (identity, Identity), (guard, Guard), (named, GroupName))
        result = yield from change(
            [seen.unchanged() for seen, _ in needed],
            [put(found.key, record), put(named.key, name)],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Seen(found.key, record, result.revision)
        if isinstance(result, InDoubt):
            return result
        if isinstance(result, Refused):
            found, identity, guard, named = stood(result, *needed)
    return Contended(f"the creation of group {record.group}")


BEGUN_ANEW: Final = "the first member's store was lost before any operation could be acknowledged"
"""What people read as the cause of the view in which a group begins anew."""


@answering
def begin_group(
    group: GroupId, member: ViewMember, *, at_ns: int, nonce: Nonce
) -> Recipe[Seen[View] | NoGroup | Restored | Contended | InDoubt]:
    """Let *member*, on a host that the record names, begin a group that has no view yet, or one that it may
    begin anew (:meth:`GroupRecord.may_begin_anew`).

    A later caller gets the current view. NoGroup also means that the host is not to have a member, or one
    that never leads (W3). *Without*
    :class:`Restored`: A begins a group that is placed on A and C, and serves; the authority is restored to a
    state before that; C begins the group again with nothing.
    """
    for _ in range(ATTEMPTS_MAX):
        found = yield from read(keys.group(group), GroupRecord)
        if found.value is None or member.host not in found.value.leaders:
            return NoGroup(group)
        current = yield from read(keys.view(group), View)
        before = current.value
        if before is not None and not found.value.may_begin_anew(before, member):
            return Seen(current.key, before, current.modified)
        floors, identity = yield from read_floors()
        if _generation(identity) != found.value.generation:
            return Restored()
        view = View(
            group=group,
            epoch=Epoch(max(floors.epoch, before.epoch if before is not None else 0) + 1),
            primary=member.host,
            members=(member,),
            nonce=nonce,
            cause=Cause(
                why=Why.CREATED,
                host=member.host,
                at_ns=at_ns,
                text=BEGUN_ANEW if before is not None else "",
            ),
        )
        result = yield from change(
            [found.unchanged(), current.unchanged(), identity.unchanged()],
            [put(found.key, msgspec.structs.replace(found.value, is_begun=True)), put(current.key, view)],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Seen(current.key, view, result.revision)
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
        return NoSuchName(name)  # no group can have this name
    named = yield from read(keys.group_name(name), GroupName)
    if named.value is None:
        return NoSuchName(name)
    found = yield from read(keys.group(named.value.group), GroupRecord)
    return NoSuchName(name) if found.value is None else Seen(found.key, found.value, found.modified)


@answering
def list_groups() -> Recipe[Listing[GroupRecord]]:
    return (yield from read_all(keys.GROUPS, GroupRecord))
