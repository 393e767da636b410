"""Where one group has its members, and who is primary: changed through any host of its domain."""

from collections.abc import Awaitable
from typing import Protocol

from holdfast.client.ordering import Given
from holdfast.model.ids import HostId
from holdfast.model.orders import (
    AddMember,
    GroupInfo,
    GroupList,
    HandedOver,
    Order,
    RemoveMember,
    SetPrimary,
)


class Give(Protocol):
    """Have an order done by the domain (:func:`.ordering.give`)."""

    def __call__(self, wanted: Order, kind: type[Given]) -> Awaitable[Given]: ...


class Members:
    """Of one group. Each method answers the group as it stands then."""

    def __init__(self, name: str, give: Give) -> None:
        self._name = name
        self._give = give

    async def add(self, host: str) -> GroupInfo:
        """Let the group have a member on *host*. It is placed when this returns (``placed_on``), and in-sync
        once it has caught up (``in_sync``). Raises ``InvalidRequest`` when it has one there or there is no
        such host, ``Unavailable`` when that host does not live or is still leaving."""
        (info,) = (await self._give(AddMember(name=self._name, host=HostId(host)), GroupList)).groups
        return info

    async def remove(self, host: str) -> GroupInfo:
        """Let the group have no member on *host*. It is told so when this returns (``leaving``), and leaves
        as soon as the others can do without it; a primary hands over first. Raises ``InvalidRequest`` when it
        has none there, or would be left with fewer than ``min_in_sync``."""
        (info,) = (await self._give(RemoveMember(name=self._name, host=HostId(host)), GroupList)).groups
        return info

    async def set_primary(self, host: str) -> GroupInfo:
        """Let the in-sync member on *host* be primary; it is, when this returns. Raises ``InvalidRequest``
        when it is not in-sync, ``Unavailable`` when it did not come to be in time."""
        return (await self._give(SetPrimary(name=self._name, host=HostId(host)), HandedOver)).group
