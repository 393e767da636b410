"""Where one group has its members, and who is primary: changed through any host of its domain.

Properties of a domain, of a class, or of a running group: read and changed through any host.

Factories: the replication manager, and those of hosts. Both are asked alike (FTC-206).

Criteria, on their way to a factory.
"""

import secrets
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from holdfast.client.admin_client import Submit
from holdfast.model.admin.groups import AddMember, GroupInfo, GroupList, HandedOver, RemoveMember, SetPrimary
from holdfast.model.admin.objects import (
    CreateMember,
    CreateObject,
    DeleteObject,
    GroupReference,
    ObjectCreated,
    PropertiesShown,
    RemoveProperties,
    SetProperties,
    ShowProperties,
    ShowReference,
)
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import GroupId, HostId

NONE: Final[Mapping[str, Any]] = MappingProxyType({})


def encoded(criteria: Mapping[str, Any]) -> str:
    """Raises ``InvalidRequest`` for what has no form in JSON."""
    try:
        return msgspec.json.encode(dict(criteria)).decode()
    except (TypeError, OverflowError, RecursionError) as error:
        raise InvalidRequest(f"criteria have no form in JSON: {error}") from None


class Properties:
    """Of the group or of the class that is named, or else of the domain. Names may be written without
    ``org.omg.ft.``. What is set is in effect for what is ordered of the same host from then on, and of the
    others a moment later."""

    def __init__(self, give: Submit, *, type_id: str = "", group: str = "") -> None:
        self._give = give
        self._type_id = type_id
        self._group = group

    async def get(self) -> dict[str, Any]:
        """What is in effect there: of a class with the defaults (FTC-187), of a group on all levels
        (FTC-190)."""
        return (await self._shown()).effective

    async def own(self) -> dict[str, Any]:
        """What is set there, and nowhere above or below."""
        return (await self._shown()).own

    async def set(self, **properties: Any) -> dict[str, Any]:
        """Set these, beside those that are; what is in effect then. Raises ``InvalidRequest`` for what may
        not be set there, or not to that, naming the first."""
        order = SetProperties(properties=properties, type_id=self._type_id, group=self._group)
        return (await self._give(order, PropertiesShown)).effective

    async def remove(self, *names: str) -> dict[str, Any]:
        """Let these be set there no longer; what is in effect then."""
        properties: dict[str, Any] = dict.fromkeys(names)
        order = RemoveProperties(properties=properties, type_id=self._type_id, group=self._group)
        return (await self._give(order, PropertiesShown)).effective

    async def _shown(self) -> PropertiesShown:
        return await self._give(ShowProperties(type_id=self._type_id, group=self._group), PropertiesShown)


class Members:
    """Of one group. Each method answers the group as it stands then."""

    def __init__(self, name: str, give: Submit) -> None:
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


class ObjectFactory:
    """Made by the replication manager; with a *location*, by the factory there, without replicas."""

    def __init__(self, give: Submit, location: str = "") -> None:
        self._give = give
        self._location = location

    async def create(self, type_id: str, criteria: Mapping[str, Any] = NONE) -> ObjectCreated:
        """Make an object of the class; its reference, and the id under which it is deleted.

        Criteria: ``org.omg.ft.FTProperties`` for the manager, ``org.omg.ft.ObjectLocation`` for a host's
        factory; ``name``, ``arguments``, ``min_in_sync``, ``durability`` and ``on_total_loss`` for both. A
        group whose members the application controls is made without any. Raises ``InvalidRequest``.
        """
        order = CreateObject(
            type_id=type_id,
            criteria=encoded(criteria),
            location=self._location,
            nonce=secrets.token_hex(16),
        )
        return await self._give(order, ObjectCreated)

    async def delete(self, factory_creation_id: int) -> GroupReference:
        """Delete what was made under that id; its last reference. Raises ``InvalidRequest``."""
        order = DeleteObject(factory_creation_id=GroupId(factory_creation_id), location=self._location)
        return await self._give(order, GroupReference)
