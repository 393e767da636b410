"""Factories: the replication manager, which makes groups, and each host's own, which makes single objects.

Both take the same requests (FTC-206), through any host. An object without replicas is a group of one that
stays where it was made; it is called and deleted like any other (FTC-17).
"""

from typing import Any, Final

import msgspec

from holdfast.admin.group_spec import GroupSpecDraft
from holdfast.admin.groups import GroupsAdmin, Places
from holdfast.admin.members import MembersAdmin
from holdfast.admin.proposals import DesiredStateView
from holdfast.admin.snapshot import hosts_at, location_of, reference_to
from holdfast.authority.groups import GroupRecord
from holdfast.control.replication.criteria import (
    FT_PROPERTIES,
    NAME,
    OBJECT_LOCATION,
    OF_GROUPS,
    Criteria,
    check_known,
    check_location,
    decoded,
    properties_in,
)
from holdfast.groups.catalog import GroupCatalog
from holdfast.model.admin.errors import InvalidCriteria, NoFactory, ObjectNotFound
from holdfast.model.admin.groups import CreateGroup
from holdfast.model.admin.objects import (
    CreateObject,
    DeleteObject,
    FactoryInfo,
    FactoryList,
    GroupReference,
    ListFactories,
    ObjectCreated,
    ObjectOrder,
    ShowReference,
)
from holdfast.model.host_roles import GROUPS
from holdfast.model.ids import HostId
from holdfast.model.properties import INITIAL_NUMBER, MEMBERSHIP_STYLE, MINIMUM_NUMBER, MembershipStyle
from holdfast.model.system_groups import check_not_system

ALONE: Final = {
    INITIAL_NUMBER: 1,
    MINIMUM_NUMBER: 1,
    MEMBERSHIP_STYLE: MembershipStyle.MEMB_APP_CTRL.value,
}
"""The properties of an object without replicas, which nobody moves."""


class ObjectsAdmin:
    """Executes orders to the factories through one host."""

    def __init__(
        self,
        domain: str,
        catalog: GroupCatalog,
        desired: DesiredStateView,
        groups_admin: GroupsAdmin,
        members_admin: MembersAdmin,
    ) -> None:
        self._domain = domain
        self._catalog = catalog
        self._desired = desired
        self._groups_admin = groups_admin
        self._members_admin = members_admin

    async def do(self, order: ObjectOrder) -> ObjectCreated | GroupReference | FactoryList:
        match order:
            case CreateObject(location=""):
                return await self._create_group(order)
            case CreateObject():
                return await self._create_alone(order)
            case DeleteObject():
                return await self._delete(order)
            case ShowReference():
                return await self._reference(order.name)
            case ListFactories():
                return self._factories()
            case _:
                await self._members_admin.create_member(order)
                return await self._reference(order.name)

    # --- the replication manager's

    async def _create_group(self, order: CreateObject) -> ObjectCreated:
        criteria = decoded(order.criteria)
        check_known(criteria, (FT_PROPERTIES, *OF_GROUPS))
        return await self._created(order, criteria, properties_in(criteria), self._places)

    def _places(self, drafted: GroupSpecDraft) -> list[HostId]:
        """The manager's choice of hosts; none if the application controls membership (FTC-213)."""
        is_ours = drafted.wish.membership is MembershipStyle.MEMB_INF_CTRL
        return self._groups_admin.places(drafted) if is_ours else []

    async def _created(
        self, order: CreateObject, criteria: Criteria, properties: dict[str, Any], places: Places
    ) -> ObjectCreated:
        info = await self._groups_admin.create(_group_order(order, criteria, properties), places)
        return ObjectCreated(reference=await self._reference(info.name), factory_creation_id=info.group)

    # --- a host's

    async def _create_alone(self, order: CreateObject) -> ObjectCreated:
        criteria = decoded(order.criteria)
        check_known(criteria, (OBJECT_LOCATION, *OF_GROUPS))
        check_location(criteria, order.location)
        host = self._factory_at(order.location, order.type_id)
        return await self._created(order, criteria, ALONE, lambda _: [host])

    def _factory_at(self, location: str, type_id: str) -> HostId:
        """The host at that location that makes the object. Raises :class:`NoFactory`."""
        found = [host for host in hosts_at(location, self._catalog.sessions) if self._takes(host)]
        if not found:
            raise NoFactory(location, type_id, "no living host is there that takes members")
        return min(found, key=lambda host: (self._catalog.placed_on(host), host))

    def _takes(self, host: HostId) -> bool:
        """Whether a living host takes members of groups."""
        is_for_groups = GROUPS in self._catalog.sessions[host].roles
        return is_for_groups and self._desired.state().takes_members(host)

    def _factories(self) -> FactoryList:
        return FactoryList(
            factories=tuple(
                FactoryInfo(host=host, location=location_of(session), takes_members=self._takes(host))
                for host, session in sorted(self._catalog.sessions.items())
            )
        )

    # --- both

    async def _delete(self, order: DeleteObject) -> GroupReference:
        """Delete the object; returns its last reference."""
        record = await self._groups_admin.numbered(order.factory_creation_id)
        if record is None or not self._is_of(record.placed_on, order.location):
            made_by = order.location or "the replication manager"
            raise ObjectNotFound(f"{made_by} has made no object {order.factory_creation_id}")
        check_not_system(record.name)
        reference = await self._reference_to(record)
        await self._groups_admin.remove(record.group)
        return reference

    def _is_of(self, placed_on: tuple[HostId, ...], location: str) -> bool:
        """Whether the factory at that location made it; with no location, any factory may have made it."""
        at = hosts_at(location, self._catalog.sessions)
        return not location or (len(placed_on) == 1 and (placed_on[0] == location or placed_on[0] in at))

    async def _reference(self, name: str) -> GroupReference:
        return await self._reference_to((await self._groups_admin.found(name)).value)

    async def _reference_to(self, record: GroupRecord) -> GroupReference:
        view = await self._groups_admin.view(record)
        return reference_to(self._domain, record, view, self._catalog.sessions)


def _group_order(order: CreateObject, criteria: Criteria, properties: dict[str, Any]) -> CreateGroup:
    """The order for the group that *order* asks for. Raises ``InvalidCriteria`` for impossible values."""
    own = {name: criteria[name] for name in OF_GROUPS if name in criteria}
    own.setdefault(NAME, f"{order.type_id.rpartition(':')[2]}-{order.nonce[:12]}")
    if "arguments" in own:
        own["arguments"] = msgspec.json.encode(own["arguments"]).decode()
    asked = {
        **own,
        "class_name": order.type_id,
        "nonce": order.nonce,
        "properties": msgspec.json.encode(properties).decode(),
    }
    try:
        return msgspec.convert(asked, CreateGroup)
    except msgspec.ValidationError as error:
        raise InvalidCriteria(dict(criteria), str(error)) from None
