"""Creating, listing and deleting groups, as one host does it for whoever asks.

The host that is asked checks the class, places the group and becomes its first primary; the others on which
it is placed find the record at the authority and join. Whoever places groups by wish and load takes the place
of this module, and nothing else.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.authority.groups import (
    DISK,
    MEMORY,
    RESTART,
    WAIT,
    GroupRecord,
    NameTaken,
    NoSuchName,
    Placement,
    create_group,
    find_group,
    list_groups,
    remove_group,
    reserve_group,
)
from holdfast.authority.outcome import Listing, Removed, Seen
from holdfast.authority.placing import UNKNOWN_STORE
from holdfast.authority.recipe import Authority, Recipe, perform
from holdfast.authority.views import Lost, NoGroup, View, list_views, read_view
from holdfast.control.choosing import choose_many
from holdfast.control.wishes import HostFact
from holdfast.housing.groups import Groups
from holdfast.machine import MachineClock
from holdfast.model.errors import GroupExists, InvalidRequest, NoSuchGroup, Unavailable
from holdfast.model.ids import Epoch, GroupId, HostId, Nonce
from holdfast.model.orders import (
    CreateGroup,
    DeleteGroup,
    GroupInfo,
    GroupList,
    ListGroups,
    min_in_sync_default,
)
from holdfast.model.properties import (
    INITIAL_NUMBER,
    MEMBERSHIP_STYLE,
    MINIMUM_NUMBER,
    Level,
    MembershipStyle,
    Style,
    check_together,
    checked,
    merged,
)
from holdfast.node.census import location_of, wish_of
from holdfast.node.classes import check_makes, definition_of
from holdfast.node.insisting import insist
from holdfast.styles.style import no_voting, style_named

MEMBERSHIP: Final = {
    "infrastructure": MembershipStyle.MEMB_INF_CTRL,
    "application": MembershipStyle.MEMB_APP_CTRL,
}
_MEMBERSHIP_NAMES: Final = {style: name for name, style in MEMBERSHIP.items()}


class Numbers:
    """New groups' numbers. Orders that come together get theirs together: one by one they would only get in
    each other's way at the counter."""

    def __init__(self, authority: Authority, nonces: Callable[[], Nonce]) -> None:
        self._authority = authority
        self._nonces = nonces
        self._reserving = asyncio.Lock()
        self._waiting = 0
        self._issued: list[GroupId] = []

    async def take(self) -> GroupId:
        """One that no other group ever has. One taken for somebody who is gone by then is not used."""
        self._waiting += 1
        try:
            async with self._reserving:
                if not self._issued:
                    await self._reserve(self._waiting)
                return self._issued.pop()
        finally:
            self._waiting -= 1

    async def _reserve(self, count: int) -> None:
        last: GroupId = await insist(
            lambda: perform(self._authority, reserve_group(nonce=self._nonces(), count=count)), int
        )
        self._issued = [GroupId(last - each) for each in range(count)]


class Creating:
    """Does the orders of clients, through one host."""

    def __init__(self, groups: Groups, authority: Authority, nonces: Callable[[], Nonce]) -> None:
        self._groups = groups
        self._directory = groups.directory
        self._authority = authority
        self._nonces = nonces
        self._numbers = Numbers(authority, nonces)
        self._clock = MachineClock()

    async def do(self, order: CreateGroup | DeleteGroup | ListGroups) -> GroupList:
        """Do it, however long the authority takes. Raises ``InvalidRequest`` for what can never be."""
        match order:
            case CreateGroup():
                return await self._create(order)
            case DeleteGroup():
                return await self._delete(order)
            case ListGroups():
                return await self._list(order)

    async def info(self, name: str) -> GroupInfo:
        """The group of that name, as the authority knows it. Raises ``InvalidRequest``."""
        return await self._info((await self.found(name)).value)

    # --- creating

    async def _create(self, order: CreateGroup) -> GroupList:
        nonce = Nonce(order.nonce) if order.nonce else self._nonces()
        known = self._directory.made_by(nonce)
        if known is not None:
            return GroupList(groups=(await self._info(known),))
        record = self._planned(order, nonce)
        check_makes(definition_of(record))
        group = await self._numbers.take()
        record = msgspec.structs.replace(record, group=group)
        me = self._groups.member_of(record)
        found = await insist(
            lambda: perform(self._authority, create_group(record, me.host, (me,))), Seen, NameTaken, Lost
        )
        if isinstance(found, NameTaken):
            # Perhaps by this very order, given before and still under way when it was given again.
            holder = (await self.found(order.name)).value
            if holder.nonce == nonce:
                return GroupList(groups=(await self._info(holder),))
            raise GroupExists(f"there is a group {order.name!r} already: number {found.group}")
        if not isinstance(found, Seen):
            raise Unavailable(f"group {group} was made and removed meanwhile")
        return GroupList(groups=(_info(record, found.value),))

    def _planned(self, order: CreateGroup, nonce: Nonce) -> GroupRecord:
        """Raises ``InvalidRequest`` for what cannot be, ``Unavailable`` when too few hosts live."""
        if style_named(order.style) is Style.ACTIVE_WITH_VOTING:
            raise no_voting()
        in_sync = order.min_in_sync or min_in_sync_default(order.replicas)
        if in_sync > order.replicas:
            raise InvalidRequest(f"min_in_sync is {in_sync}, but there are {order.replicas} replicas")
        if order.durability not in (DISK, MEMORY):
            raise InvalidRequest(f"durability is {DISK} or {MEMORY}, not {order.durability!r}")
        if order.on_total_loss not in (WAIT, RESTART):
            raise InvalidRequest(f"on_total_loss is {WAIT} or {RESTART}, not {order.on_total_loss!r}")
        if order.on_total_loss == RESTART and order.durability != MEMORY:
            raise InvalidRequest(f"on_total_loss={RESTART} is for groups in memory: disks outlive processes")
        return GroupRecord(
            group=GroupId(0),
            class_name=order.class_name,
            style=order.style,
            members=tuple(Placement(host=host, store=UNKNOWN_STORE) for host in self._places(order.replicas)),
            nonce=nonce,
            name=order.name,
            arguments=order.arguments,
            created_ns=self._clock.wall(),
            min_in_sync=in_sync,
            durability=order.durability,
            on_total_loss=order.on_total_loss,
            properties=msgspec.json.encode(_properties(order)).decode(),
        )

    def _places(self, count: int) -> list[HostId]:
        """This host first, then others as the manager chooses them."""
        sessions, me = self._directory.sessions, self._groups.me.host
        hosts = {host: HostFact(host, location_of(session)) for host, session in sessions.items()}
        mine = hosts.pop(me, HostFact(me, me))
        load = {host: self._directory.placed_on(host) for host in hosts}
        others = choose_many(count - 1, hosts.values(), [mine], load)
        if len(others) + 1 < count:
            raise Unavailable(
                f"{count} replicas need as many hosts, each in a location of its own; "
                f"{len(others) + 1} live now"
            )
        return [me, *(each.host for each in others)]

    # --- the others

    async def _delete(self, order: DeleteGroup) -> GroupList:
        record = (await self.found(order.name)).value
        gone = await self._info(record)
        nonce = self._nonces()
        await insist(lambda: perform(self._authority, remove_group(record.group, nonce=nonce)), Removed)
        return GroupList(groups=(gone,))

    async def _list(self, order: ListGroups) -> GroupList:
        if order.name:
            return GroupList(groups=(await self.info(order.name),))
        records: Listing[GroupRecord] = await self._answered(list_groups, Listing)
        views: Listing[View] = await self._answered(list_views, Listing)
        by_group = {seen.value.group: seen.value for seen in views.items}
        return GroupList(
            groups=tuple(_info(seen.value, by_group.get(seen.value.group)) for seen in records.items)
        )

    async def found(self, name: str) -> Seen[GroupRecord]:
        """The record of the group of that name, from the authority itself: this host may not have heard yet
        of what another has just done. Raises ``InvalidRequest``."""
        found = await self._answered(lambda: find_group(name), Seen, NoSuchName)
        if isinstance(found, NoSuchName):
            raise NoSuchGroup(f"there is no group {name!r}")
        record: Seen[GroupRecord] = found
        return record

    async def _info(self, record: GroupRecord) -> GroupInfo:
        found = await self._answered(lambda: read_view(record.group), Seen, NoGroup)
        return _info(record, found.value if isinstance(found, Seen) else None)

    async def _answered(self, recipe: Callable[[], Recipe[object]], *kinds: type[object]) -> Any:
        return await insist(lambda: perform(self._authority, recipe()), *kinds)


def _properties(order: CreateGroup) -> dict[str, Any]:
    """What is asked for, in the words of the source. Whoever asks for three replicas wants three kept.
    Raises ``InvalidProperty``."""
    if order.membership not in MEMBERSHIP:
        raise InvalidRequest(f"membership is one of {', '.join(MEMBERSHIP)}, not {order.membership!r}")
    asked = {
        INITIAL_NUMBER: order.replicas,
        MINIMUM_NUMBER: order.minimum or order.replicas,
        MEMBERSHIP_STYLE: MEMBERSHIP[order.membership].value,
    }
    found = checked(asked, Level.CREATION)
    check_together(found, merged(found))
    return found


def _info(record: GroupRecord, view: View | None) -> GroupInfo:
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
        minimum=wish_of(record).minimum,
        membership=_MEMBERSHIP_NAMES[wish_of(record).membership],
        on_total_loss=record.on_total_loss,
    )
