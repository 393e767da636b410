"""A group's members, properties of all levels, and object factories, used through any host of the domain.

:class:`Members` changes where a group has members and which is primary. :class:`Properties` reads and changes
properties of a domain, of a class, or of a running group. :class:`ObjectFactory` is the replication manager
or the factory of a host; both take the same requests (FTC-206).
"""

import secrets
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from holdfast.client.admin_client import Submit
from holdfast.model.admin.groups import (
    AddMember,
    GroupInfo,
    GroupList,
    HandedOver,
    MoveGroup,
    RemoveMember,
    SetPrimary,
)
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
    """Encode *criteria* for a factory. Raises ``InvalidRequest`` if they cannot be written as JSON."""
    try:
        return msgspec.json.encode(dict(criteria)).decode()
    except (TypeError, OverflowError, RecursionError) as error:
        raise InvalidRequest(f"criteria have no form in JSON: {error}") from None


class Properties:
    """The properties of the named group or class, or else of the domain.

    Names may be written without ``org.omg.ft.``. A new value applies to later orders through the same host at
    once, and through other hosts a moment later.
    """

    def __init__(self, give: Submit, *, type_id: str = "", group: str = "") -> None:
        self._give = give
        self._type_id = type_id
        self._group = group

    async def get(self) -> dict[str, Any]:
        """The properties in effect: of a class with the defaults (FTC-187), of a group on all levels
        (FTC-190)."""
        return (await self._shown()).effective

    async def own(self) -> dict[str, Any]:
        """Only the properties that are set at this level itself."""
        return (await self._shown()).own

    async def set(self, **properties: Any) -> dict[str, Any]:
        """Set these in addition to those already set; returns the properties in effect.

        Raises ``InvalidRequest`` naming the first that may not be set here, or not to that value.
        """
        order = SetProperties(properties=properties, type_id=self._type_id, group=self._group)
        return (await self._give(order, PropertiesShown)).effective

    async def remove(self, *names: str) -> dict[str, Any]:
        """Remove these from this level; returns the properties in effect."""
        properties: dict[str, Any] = dict.fromkeys(names)
        order = RemoveProperties(properties=properties, type_id=self._type_id, group=self._group)
        return (await self._give(order, PropertiesShown)).effective

    async def _shown(self) -> PropertiesShown:
        return await self._give(ShowProperties(type_id=self._type_id, group=self._group), PropertiesShown)


class Members:
    """The members of one group. Each method returns the group as it is afterwards."""

    def __init__(self, name: str, give: Submit) -> None:
        self._name = name
        self._give = give
        self.properties = Properties(give, group=name)
        """The properties of the group, which can be set while it runs."""

    async def add(self, host: str, own: str = "") -> GroupInfo:
        """Add a member on *host*.

        It is placed when this returns (``placed_on``), and in sync once it has caught up (``in_sync``). *own*
        is an object of the application that is to be the member, as ``package.module:name``; it takes the
        group's state, and is not deleted when it is removed. Raises ``InvalidRequest`` if the group has a
        member there or if there is no such host or object, ``Unavailable`` if that host is not alive or its
        member is still leaving.
        """
        order = AddMember(name=self._name, host=HostId(host), own=own)
        (info,) = (await self._give(order, GroupList)).groups
        return info

    async def remove(self, host: str) -> GroupInfo:
        """Remove the member on *host*.

        It has been told so when this returns (``leaving``), and leaves as soon as the others can do without
        it; a primary hands over first. Raises ``InvalidRequest`` if there is none, or if fewer than
        ``min_in_sync`` would be left.
        """
        (info,) = (await self._give(RemoveMember(name=self._name, host=HostId(host)), GroupList)).groups
        return info

    async def move(self, hosts: Sequence[str], *, never_lead: Sequence[str] = ()) -> GroupInfo:
        """Bring the group to exactly these hosts, and keep it there; with none, let the manager choose again.

        Members are placed there first (``placed_on``), and the others go once all named ones are in sync.
        Members on the hosts *never_lead* hold and acknowledge, and are never primary. Raises
        ``InvalidRequest`` if that cannot be, ``Unavailable`` if a named host does not live.
        """
        order = MoveGroup(
            name=self._name,
            hosts=tuple(map(HostId, hosts)),
            never_lead=tuple(map(HostId, never_lead)),
            nonce=secrets.token_hex(16),
        )
        (info,) = (await self._give(order, GroupList)).groups
        return info

    async def create(
        self, location: str, *, type_id: str = "", criteria: Mapping[str, Any] = NONE
    ) -> GroupReference:
        """Have the factory at *location* create a member; returns the group's new reference.

        *criteria* override those of the group's Factories. Raises as :meth:`add` does, and ``InvalidRequest``
        if no factory there can do it.
        """
        order = CreateMember(name=self._name, location=location, type_id=type_id, criteria=encoded(criteria))
        return await self._give(order, GroupReference)

    async def reference(self) -> GroupReference:
        """The group's newest reference: number, version, and each member's location, the primary's first."""
        return await self._give(ShowReference(name=self._name), GroupReference)

    async def set_primary(self, host: str) -> GroupInfo:
        """Make the in-sync member on *host* primary; it is when this returns.

        Raises ``InvalidRequest`` if it is not in sync, ``Unavailable`` if it did not become primary in time.
        """
        return (await self._give(SetPrimary(name=self._name, host=HostId(host)), HandedOver)).group

    async def hand_over(self, host: str) -> GroupInfo:
        """As :meth:`set_primary`, for groups of every style: in active ones, the primary orders the
        operations."""
        order = SetPrimary(name=self._name, host=HostId(host), is_any_style=True)
        return (await self._give(order, HandedOver)).group


class ObjectFactory:
    """Objects made by the replication manager, or without replicas by the factory at *location*."""

    def __init__(self, give: Submit, location: str = "") -> None:
        self._give = give
        self._location = location

    async def create(self, type_id: str, criteria: Mapping[str, Any] = NONE) -> ObjectCreated:
        """Create an object of the class; returns its reference, and the id under which it is deleted.

        Criteria: ``org.omg.ft.FTProperties`` for the manager, ``org.omg.ft.ObjectLocation`` for a host's
        factory; ``name``, ``arguments``, ``min_in_sync``, ``durability`` and ``on_total_loss`` for both. A
        group whose members the application controls is created without any. Raises ``InvalidRequest``.
        """
        order = CreateObject(
            type_id=type_id,
            criteria=encoded(criteria),
            location=self._location,
            nonce=secrets.token_hex(16),
        )
        return await self._give(order, ObjectCreated)

    async def delete(self, factory_creation_id: int) -> GroupReference:
        """Delete the object with that id; returns its last reference. Raises ``InvalidRequest``."""
        order = DeleteObject(factory_creation_id=GroupId(factory_creation_id), location=self._location)
        return await self._give(order, GroupReference)
