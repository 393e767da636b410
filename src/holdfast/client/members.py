"""Where one group has its members, and who is primary: changed through any host of its domain."""

from collections.abc import Mapping
from typing import Any

from holdfast.client.criteria import NONE, encoded
from holdfast.client.ordering import Give
from holdfast.client.properties import Properties
from holdfast.model.ids import HostId
from holdfast.model.object_orders import CreateMember, GroupReference, ShowReference
from holdfast.model.orders import AddMember, GroupInfo, GroupList, HandedOver, RemoveMember, SetPrimary


class Members:
    """Of one group. Each method answers the group as it stands then."""

    def __init__(self, name: str, give: Give) -> None:
        self._name = name
        self._give = give
        self.properties = Properties(give, group=name)
        """The group's, which are set while it runs."""

    async def add(self, host: str, own: str = "") -> GroupInfo:
        """Let the group have a member on *host*. It is placed when this returns (``placed_on``), and in-sync
        once it has caught up (``in_sync``). *own*: the object of the application's that shall be it, as
        ``package.module:name``; it takes the group's state, and is not deleted when it is removed. Raises
        ``InvalidRequest`` when the group has one there, there is no such host or no such object,
        ``Unavailable`` when that host does not live or is still leaving."""
        order = AddMember(name=self._name, host=HostId(host), own=own)
        (info,) = (await self._give(order, GroupList)).groups
        return info

    async def remove(self, host: str) -> GroupInfo:
        """Let the group have no member on *host*. It is told so when this returns (``leaving``), and leaves
        as soon as the others can do without it; a primary hands over first. Raises ``InvalidRequest`` when it
        has none there, or would be left with fewer than ``min_in_sync``."""
        (info,) = (await self._give(RemoveMember(name=self._name, host=HostId(host)), GroupList)).groups
        return info

    async def create(
        self, location: str, *, type_id: str = "", criteria: Mapping[str, Any] = NONE
    ) -> GroupReference:
        """Have the factory at *location* make a member; the group's reference then. *criteria* go over those
        of the group's Factories. Raises as :meth:`add`, and ``InvalidRequest`` when nothing there can."""
        order = CreateMember(name=self._name, location=location, type_id=type_id, criteria=encoded(criteria))
        return await self._give(order, GroupReference)

    async def reference(self) -> GroupReference:
        """The group's newest reference: number, version, and each member's location, the primary's first."""
        return await self._give(ShowReference(name=self._name), GroupReference)

    async def set_primary(self, host: str) -> GroupInfo:
        """Let the in-sync member on *host* be primary; it is, when this returns. Raises ``InvalidRequest``
        when it is not in-sync, ``Unavailable`` when it did not come to be in time."""
        return (await self._give(SetPrimary(name=self._name, host=HostId(host)), HandedOver)).group
