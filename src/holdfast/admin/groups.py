"""Creates, lists and deletes groups, through whichever host receives the order.

That host checks the class and chooses the hosts. If it is among them, it becomes the first primary; otherwise
one of the chosen hosts finds the record at the authority and begins. The others join.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from holdfast.admin.group_spec import MEMBERSHIP_NAMES, GroupSpecDraft, draft
from holdfast.admin.named_hosts import check_named
from holdfast.admin.proposals import DesiredStateView
from holdfast.admin.snapshot import host_fact, location_known, wish_of
from holdfast.app_code.known_code import codes_of
from holdfast.app_code.loader import check_makes, definition_of
from holdfast.authority.driver import insist
from holdfast.authority.groups import (
    UNRESERVED,
    GroupRecord,
    NameTaken,
    NoSuchName,
    Placement,
    RemovedSince,
    Reserved,
    create_group,
    create_unbegun_group,
    find_group,
    list_groups,
    read_group,
    reserve_groups,
)
from holdfast.authority.placement import UNKNOWN_STORE
from holdfast.authority.recipe import Authority, Guard, InDoubt, Listing, Recipe, Removed, Seen, perform
from holdfast.authority.removal import remove_group
from holdfast.authority.views import Lost, NoGroup, View, list_views, read_view
from holdfast.control.replication.criteria import check_member, member_criteria, to_keep
from holdfast.control.replication.locations import choose_many
from holdfast.execution.database import check_schema
from holdfast.groups.host_groups import HostGroups
from holdfast.groups.stored_objects import check_may_be_stored
from holdfast.machine import MachineClock
from holdfast.model.admin.errors import NoFactory
from holdfast.model.admin.groups import CreateGroup, DeleteGroup, GroupInfo, GroupList, ListGroups
from holdfast.model.admin.upgrades import CodeInfo
from holdfast.model.code import UNKNOWN
from holdfast.model.errors import GroupExists, NoSuchGroup, Unavailable
from holdfast.model.ids import Epoch, GroupId, HostId, Nonce
from holdfast.model.properties import REPLICATION_STYLE, Properties, Style
from holdfast.model.reference import check_group_name
from holdfast.model.system_groups import check_not_system, is_system

Places = Callable[[GroupSpecDraft], list[HostId]]


class Numbers:
    """Assigns numbers to new groups.

    Concurrent orders get their numbers in one reservation: one by one, they would conflict at the counter.
    """

    def __init__(self, authority: Authority, nonces: Callable[[], Nonce]) -> None:
        self._authority = authority
        self._nonces = nonces
        self._reserving = asyncio.Lock()
        self._waiting = 0
        self._issued: list[GroupId] = []
        self.known = UNRESERVED
        """What the authority had at the latest reservation."""

    async def take(self) -> GroupId:
        """A number that no other group ever has. If the caller is gone by then, its number stays unused."""
        self._waiting += 1
        try:
            async with self._reserving:
                if not self._issued:
                    await self._reserve(self._waiting)
                return self._issued.pop()
        finally:
            self._waiting -= 1

    async def _reserve(self, count: int) -> None:
        self.known = await insist(
            lambda: perform(self._authority, reserve_groups(self.known, nonce=self._nonces(), count=count)),
            Reserved,
        )
        self._issued = [GroupId(self.known.last - each) for each in range(count)]


async def made(
    authority: Authority, guard: Seen[Guard | None], make: Callable[[Seen[Guard | None]], Recipe[object]]
) -> Seen[View] | Seen[GroupRecord] | NameTaken | Lost | RemovedSince:
    """Create a group at the authority, however long that takes. *guard* is as known here, which may be old.

    ``RemovedSince`` means that the creation was in doubt and a group was removed before that was settled. It
    may have been this one, so it must not be created again (V6).
    """
    is_doubtful = False

    async def attempt(guard: Seen[Guard | None]) -> object:
        nonlocal is_doubtful
        answer = await perform(authority, make(guard))
        is_doubtful |= isinstance(answer, InDoubt)
        return answer

    while True:
        found = await insist(partial(attempt, guard), Seen, NameTaken, Lost, RemovedSince)
        if is_doubtful or not isinstance(found, RemovedSince):
            ended: Seen[View] | Seen[GroupRecord] | NameTaken | Lost | RemovedSince = found
            return ended
        guard = found.guard


def too_few(wanted: int, alive: int, usable: int) -> str:
    """Why a group of *wanted* members is not made, when *usable* of the living hosts could have one."""
    said = f"{alive} live now" if usable == alive else f"of the {alive} that live now, {usable} can have one"
    return f"{wanted} replicas need as many hosts for groups, each in a location of its own; {said}"


class GroupsAdmin:
    """Executes clients' orders about groups through one host."""

    def __init__(
        self, groups: HostGroups, authority: Authority, desired: DesiredStateView, nonces: Callable[[], Nonce]
    ) -> None:
        self._groups = groups
        self._desired = desired
        self._catalog = groups.catalog
        self._authority = authority
        self._nonces = nonces
        self._numbers = Numbers(authority, nonces)
        self._clock = MachineClock()

    async def do(self, order: CreateGroup | DeleteGroup | ListGroups) -> GroupList:
        """Execute the order, however long that takes. Raises ``InvalidRequest`` if it can never succeed."""
        match order:
            case CreateGroup():
                return GroupList(groups=(await self.create(order),))
            case DeleteGroup():
                return await self._delete(order)
            case ListGroups():
                return await self._list(order)

    async def info(self, name: str) -> GroupInfo:
        """The group of that name, as the authority knows it. Raises ``InvalidRequest``."""
        return await self._info((await self.found(name)).value)

    # --- creating

    async def create(
        self, order: CreateGroup, places: Places | None = None, *, is_system: bool = False
    ) -> GroupInfo:
        """Create a group. *places* replaces the manager's choice of hosts; *is_system*: a group of the
        domain's own.

        Raises ``InvalidRequest`` if it is impossible, and ``Unavailable`` if too few hosts are alive.
        """
        if not is_system:
            check_not_system(order.name)
        check_group_name(order.name)
        nonce = Nonce(order.nonce) if order.nonce else self._nonces()
        known = self._catalog.made_by(nonce)
        if known is not None:
            return await self._info(known)
        beneath = self._desired.state().for_type(order.class_name)
        drafted = self._drafted(order, beneath, nonce)
        if is_system:
            drafted = replace(drafted, role="")
        members = tuple(self._placement(host, drafted) for host in (places or self.places)(drafted))
        group = await self._numbers.take()
        record = msgspec.structs.replace(drafted.record, group=group, members=members)
        made = await self._stored(record)
        if not isinstance(made, NameTaken):
            return made
        # Perhaps this very order took the name, if it was still running when it was given again.
        holder = (await self.found(order.name)).value
        if holder.nonce != nonce:
            raise GroupExists(f"there is a group {order.name!r} already: number {made.group}")
        return await self._info(holder)

    def _drafted(self, order: CreateGroup, beneath: Properties, nonce: Nonce) -> GroupSpecDraft:
        """The group as ordered, after its class was tried. One of a stored class is active if nothing else is
        said (W7)."""
        created_ns = self._clock.wall()
        drafted = draft(order, beneath, nonce=nonce, created_ns=created_ns)
        definition = definition_of(drafted.record)
        if definition.is_stored:
            ordered = msgspec.structs.replace(order, style=order.style or Style.ACTIVE.name.lower())
            drafted = draft(ordered, beneath, nonce=nonce, created_ns=created_ns)
            check_may_be_stored(drafted.record)
            check_schema(definition.cls)
        check_makes(definition)
        return drafted

    async def _stored(self, record: GroupRecord) -> GroupInfo | NameTaken:
        me, known = self._groups.member_of(record), self._numbers.known

        def make(guard: Seen[Guard | None]) -> Recipe[object]:
            if me.host in record.leaders:
                return create_group(record, me.host, (me,), as_of=guard, known=known)
            return create_unbegun_group(record, as_of=guard, known=known)

        found = await made(self._authority, known.guard, make)
        if isinstance(found, NameTaken):
            return found
        if not isinstance(found, Seen):
            raise Unavailable(f"group {record.group} was made and removed meanwhile, or never made")
        return self._told(record, found.value if isinstance(found.value, View) else None)

    def places(self, drafted: GroupSpecDraft, *, is_whole: bool = True) -> list[HostId]:
        """The members' hosts: this one first if possible, others as the manager chooses (FTC-214, FTC-224).

        Without *is_whole*, fewer hosts than replicas are acceptable.
        """
        sessions, me, wish = self._catalog.sessions, self._groups.me.host, drafted.wish
        state = self._desired.state()
        if wish.hosts:
            check_named(wish, wish.hosts, drafted.record.min_in_sync, sessions, state)
            return list(wish.hosts)
        facts = (host_fact(each) for host, each in sessions.items() if state.takes_members(host))
        hosts = [each for each in facts if each.has_role(wish.role)]
        load = {each.host: self._catalog.placed_on(each.host) for each in hosts}
        mine = choose_many(1, [each for each in hosts if each.host == me], [], load, locations=wish.locations)
        others = [each for each in hosts if each.host != me]
        wanted = drafted.replicas - len(mine)
        chosen = [*mine, *choose_many(wanted, others, mine, load, locations=wish.locations)]
        if not chosen and wish.locations:
            said = "no living host is there that takes members"
            raise NoFactory(", ".join(wish.locations), drafted.record.class_name, said)
        if len(chosen) < (drafted.replicas if is_whole else 1):
            raise Unavailable(too_few(drafted.replicas, len(hosts), len(chosen)))
        return [each.host for each in chosen]

    def _placement(self, host: HostId, drafted: GroupSpecDraft) -> Placement:
        """The placement, with the criteria for the factory on *host* (FTC-212). Raises ``InvalidRequest``."""
        location, effective = location_known(host, self._catalog.sessions), drafted.effective
        criteria = member_criteria({}, effective, location)
        check_member(criteria, Style(effective[REPLICATION_STYLE]), location)
        never_leads = host in drafted.wish.never_lead
        return Placement(host=host, store=UNKNOWN_STORE, criteria=to_keep(criteria), never_leads=never_leads)

    # --- the others

    async def _delete(self, order: DeleteGroup) -> GroupList:
        check_not_system(order.name)
        record = (await self.found(order.name)).value
        gone = await self._info(record)
        await self.remove(record.group)
        return GroupList(groups=(gone,))

    async def remove(self, group: GroupId) -> None:
        """Delete the group of that number. Its hosts delete their members when the authority tells them."""
        nonce = self._nonces()
        await self._answered(lambda: remove_group(group, nonce=nonce), Removed)

    async def _list(self, order: ListGroups) -> GroupList:
        if order.name:
            return GroupList(groups=(await self.info(order.name),))
        records: Listing[GroupRecord] = await self._answered(list_groups, Listing)
        views: Listing[View] = await self._answered(list_views, Listing)
        by_group = {seen.value.group: seen.value for seen in views.items}
        return GroupList(
            groups=tuple(
                self._told(seen.value, by_group.get(seen.value.group))
                for seen in records.items
                if order.is_whole or not is_system(seen.value.name)
            )
        )

    async def found(self, name: str) -> Seen[GroupRecord]:
        """The record of the group of that name, from the authority itself.

        This host may not have heard yet of what another has just done. Raises ``InvalidRequest``.
        """
        found = await self._answered(lambda: find_group(name), Seen, NoSuchName)
        if isinstance(found, NoSuchName):
            raise NoSuchGroup(f"there is no group {name!r}")
        record: Seen[GroupRecord] = found
        return record

    async def numbered(self, group: GroupId) -> GroupRecord | None:
        """The record of the group of that number, from the authority itself."""
        found = await self._answered(lambda: read_group(group), Seen, NoGroup)
        return found.value if isinstance(found, Seen) else None

    async def view(self, record: GroupRecord) -> View | None:
        """The group's current view; None if it has no members yet or is gone."""
        found = await self._answered(lambda: read_view(record.group), Seen, NoGroup)
        return found.value if isinstance(found, Seen) else None

    async def _info(self, record: GroupRecord) -> GroupInfo:
        return self._told(record, await self.view(record))

    async def _answered(self, recipe: Callable[[], Recipe[object]], *kinds: type[object]) -> Any:
        return await insist(lambda: perform(self._authority, recipe()), *kinds)

    def _told(self, record: GroupRecord, view: View | None) -> GroupInfo:
        wish = wish_of(record, self._desired.state())
        return GroupInfo(
            name=record.name,
            group=record.group,
            class_name=record.class_name,
            style=record.style,
            epoch=view.epoch if view is not None else Epoch(0),
            primary=view.primary if view is not None else HostId(""),
            in_sync=tuple(member.host for member in view.members) if view is not None else (),
            placed_on=record.placed_on,
            min_in_sync=record.min_in_sync,
            durability=record.durability,
            leaving=tuple(each.host for each in record.members if each.is_leaving),
            minimum=wish.minimum,
            membership=MEMBERSHIP_NAMES[wish.membership],
            on_total_loss=record.on_total_loss,
            code=CodeInfo.of(record.code) if record.code != UNKNOWN else None,
            codes=codes_of(record, self._catalog.sessions),
            upgrade=CodeInfo.of(record.upgrade.code) if record.upgrade is not None else None,
            named=wish.hosts,
            never_lead=tuple(each.host for each in record.members if each.never_leads),
        )
