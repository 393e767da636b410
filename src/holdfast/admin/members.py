"""Changes where a group has members and which one is primary, through whichever host receives the order."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from holdfast.admin.groups import GroupsAdmin
from holdfast.admin.named_hosts import not_for
from holdfast.admin.proposals import DesiredStateView
from holdfast.admin.snapshot import hosts_at, location_known, made_with_of, member_at, wish_of
from holdfast.app_code.loader import check_makes, definition_of, own_object
from holdfast.authority.driver import insist
from holdfast.authority.groups import GroupRecord
from holdfast.authority.placement import (
    AlreadyPlaced,
    NotPlaced,
    StillLeaving,
    TooFew,
    TooMany,
    add_member,
    remove_member,
)
from holdfast.authority.recipe import Authority, Seen, perform
from holdfast.authority.sessions import NoHost, read_host
from holdfast.authority.views import NoGroup
from holdfast.control.replication.criteria import Criteria, check_member, decoded, member_criteria, to_keep
from holdfast.groups.host_groups import HostGroups
from holdfast.machine import MachineClock
from holdfast.model.admin.errors import (
    BadReplicationStyle,
    MemberAlreadyPresent,
    MemberNotFound,
    NoFactory,
    ObjectNotAdded,
    PrimaryNotSet,
)
from holdfast.model.admin.groups import AddMember, GroupList, HandedOver, RemoveMember, SetPrimary
from holdfast.model.admin.objects import CreateMember
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.host_roles import GROUPS
from holdfast.model.ids import MILLISECOND, GroupId, HostId, Nonce
from holdfast.model.properties import Style
from holdfast.model.reference import MEMBERS_MAX
from holdfast.styles.by_name import style_named

PASSIVE: Final = (Style.COLD_PASSIVE.name.lower(), Style.WARM_PASSIVE.name.lower())
SET_PRIMARY_S: Final = 10.0
"""How long to try to set a primary: possibly no member can hand over now."""
ASK_AGAIN_S: Final = 0.3
POLL_S: Final = 0.002


class MembersAdmin:
    """Executes orders about members through one host."""

    def __init__(
        self,
        groups: HostGroups,
        authority: Authority,
        desired: DesiredStateView,
        groups_admin: GroupsAdmin,
        nonces: Callable[[], Nonce],
    ) -> None:
        self._desired = desired
        self._groups = groups
        self._authority = authority
        self._groups_admin = groups_admin
        self._nonces = nonces
        self._clock = MachineClock()

    async def do(self, order: AddMember | RemoveMember | SetPrimary) -> GroupList | HandedOver:
        """Execute the order. Raises ``InvalidRequest`` if it never can succeed, ``Unavailable`` if it may."""
        match order:
            case AddMember():
                return await self._add(order)
            case RemoveMember():
                return await self._remove(order)
            case SetPrimary():
                return await self._set_primary(order)

    async def _add(self, order: AddMember) -> GroupList:
        """Place the member; the view shows when it has caught up."""
        record = (await self._groups_admin.found(order.name)).value
        if not self._desired.state().takes_members(order.host):
            raise ObjectNotAdded(f"{order.host} is being emptied or was removed, and takes no members")
        await self._check_lives(order.host)
        self._check_may_place(record, order.host)
        if order.own:
            self._check_own(record, order)
        await self._place(record, order.host, {}, order.own)
        return await self._told(order.name)

    def _check_may_place(self, record: GroupRecord, host: HostId) -> None:
        """Raise ``ObjectNotAdded`` if the manager would remove a member there again."""
        sessions, named = self._groups.catalog.sessions, wish_of(record, self._desired.state()).hosts
        if host in sessions and GROUPS not in sessions[host].roles:
            raise ObjectNotAdded(not_for(host, sessions))
        if named and host not in named:
            raise ObjectNotAdded(
                f"{record.name} is on named hosts ({', '.join(named)}); "
                f"`holdfast group move {record.name} --on` names others"
            )

    def _check_own(self, record: GroupRecord, order: AddMember) -> None:
        """Check the application's own object. Raises ``ObjectNotAdded`` if it cannot be a member or is one.

        Every host has the application's modules, so what exists here exists there.
        """
        own_object(order.own, record)
        for other in self._groups.catalog.records.values():
            entry = other.placement(order.host)
            if entry is not None and entry.own == order.own:
                raise ObjectNotAdded(f"{order.own} on {order.host} is a member of {other.name} already")

    async def create_member(self, order: CreateMember) -> None:
        """Have the factory at that location make a member (FTC-191). As with :meth:`_add`, the view shows
        when it has caught up."""
        record, given = (await self._groups_admin.found(order.name)).value, decoded(order.criteria)
        if order.type_id not in ("", record.class_name):
            said = f"{order.name} is of {record.class_name}"
            raise NoFactory(order.location, order.type_id, said)
        host = self._factory_for(record, order.location)
        check_makes(definition_of(record))
        await self._place(record, host, given)

    def _factory_for(self, record: GroupRecord, location: str) -> HostId:
        """The host at that location that is to get the member. Raises ``NoFactory``, ``InvalidRequest``."""
        sessions, takes = self._groups.catalog.sessions, self._desired.state().takes_members
        able = [host for host in hosts_at(location, sessions) if takes(host)]
        there = [host for host in able if GROUPS in sessions[host].roles]
        taken = [location_known(host, sessions) for host in record.placed_on]
        free = [host for host in there if location_known(host, sessions) not in taken]
        if free:
            return min(free, key=lambda host: (self._groups.catalog.placed_on(host), host))
        if there:
            raise MemberAlreadyPresent(f"{record.name} has a member at {location} already")
        raise NoFactory(location, record.class_name, "no living host is there that takes members")

    async def _place(self, record: GroupRecord, host: HostId, given: Criteria, own: str = "") -> None:
        sessions, nonce = self._groups.catalog.sessions, self._nonces()
        location = location_known(host, sessions)
        beside = [each for each in record.placed_on if location_known(each, sessions) == location]
        if beside:
            raise MemberAlreadyPresent(f"{record.name} has a member on {beside[0]} already")
        effective = self._desired.state().for_group(record.group, made_with_of(record))
        criteria = member_criteria(given, effective, location)
        check_member(criteria, style_named(record.style), location)
        recipe = partial(add_member, record.group, host, nonce=nonce, criteria=to_keep(criteria), own=own)
        done = await insist(
            lambda: perform(self._authority, recipe()),
            *(Seen, AlreadyPlaced, StillLeaving, TooMany, NoGroup),
        )
        match done:
            case AlreadyPlaced():
                raise MemberAlreadyPresent(f"{record.name} has a member on {host} already")
            case StillLeaving():
                raise Unavailable(f"{host} is still leaving {record.name}: add it when it has left")
            case TooMany():
                raise ObjectNotAdded(f"{record.name} has {MEMBERS_MAX} members, and no group has more")

    async def _remove(self, order: RemoveMember) -> GroupList:
        """Tell the member to leave; the record shows when it has left."""
        record, nonce = (await self._groups_admin.found(order.name)).value, self._nonces()
        host = member_at(record, order.host, self._groups.catalog.sessions)
        if host not in record.placed_on:
            raise MemberNotFound(f"{host} is leaving {order.name} already")
        if host in wish_of(record, self._desired.state()).hosts:
            said = f"name others first, with `holdfast group move {order.name} --on`"
            raise InvalidRequest(f"{host} is named for {order.name}: {said}")
        done = await insist(
            lambda: perform(self._authority, remove_member(record.group, host, nonce=nonce)),
            *(Seen, NotPlaced, TooFew, NoGroup),
        )
        if isinstance(done, TooFew):
            if len(record.placed_on) > max(record.min_in_sync, 1):
                raise InvalidRequest(f"without {host} only members of {order.name} that never lead are left")
            raise InvalidRequest(
                f"without {host} fewer members of {order.name} would be left than the "
                f"{max(record.min_in_sync, 1)} it needs: add another one first; "
                f"its members are on {', '.join(record.placed_on)}"
            )
        # NotPlaced: it was told to leave since the check above, perhaps by an earlier attempt of this very
        # order.
        return await self._told(order.name)

    async def _set_primary(self, order: SetPrimary) -> HandedOver:
        info, began = await self._groups_admin.info(order.name), self._clock.now()
        record = (await self._groups_admin.found(order.name)).value
        if info.style not in PASSIVE and not order.is_any_style:
            raise BadReplicationStyle(
                f"{order.name} is {info.style}: only passive groups have a primary to set; "
                f"`holdfast group handover` moves whoever orders its operations"
            )
        host = member_at(record, order.host, self._groups.catalog.sessions)
        if host not in info.in_sync:
            raise PrimaryNotSet(
                f"{host} is no in-sync member of {order.name}; these are: {', '.join(info.in_sync)}"
            )
        if not record.may_lead(host):
            said = f"`holdfast group move {order.name} --on` says who may"
            raise PrimaryNotSet(f"the member of {order.name} on {host} never leads; {said}")
        try:
            async with asyncio.timeout(SET_PRIMARY_S):
                while not self._is_primary(info.group, host):
                    self._groups.ask_hand_over(info.group, host)
                    await self._until_primary(info.group, host)
        except TimeoutError:
            raise Unavailable(
                f"{host} did not take {order.name} over within {SET_PRIMARY_S:g} s; "
                f"`holdfast group show {order.name}` says who has it"
            ) from None
        took_ms = round((self._clock.now() - began) / MILLISECOND, 3)
        return HandedOver(group=await self._groups_admin.info(order.name), took_ms=took_ms)

    async def _until_primary(self, group: GroupId, host: HostId) -> None:
        """Wait until *host* is primary, or for as long as a handover may reasonably take."""
        for _ in range(round(ASK_AGAIN_S / POLL_S)):
            if self._is_primary(group, host):
                return
            await asyncio.sleep(POLL_S)

    def _is_primary(self, group: GroupId, host: HostId) -> bool:
        seen = self._groups.catalog.views.get(group)
        return seen is not None and seen.value.primary == host

    async def _check_lives(self, host: HostId) -> None:
        if host in self._groups.catalog.sessions:
            return
        known = await insist(lambda: perform(self._authority, read_host(host)), Seen, NoHost)
        if isinstance(known, NoHost):
            hosts = ", ".join(sorted(self._groups.catalog.sessions))
            raise InvalidRequest(f"there is no host {host!r}; these live: {hosts}")
        raise Unavailable(f"{host} does not live now")

    async def _told(self, name: str) -> GroupList:
        return GroupList(groups=(await self._groups_admin.info(name),))
