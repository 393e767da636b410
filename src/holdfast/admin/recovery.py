"""Forced recovery as operators order it: first inspect what would be lost, then do it.

:class:`RecoveryAdmin` recovers a group (V4), :class:`DomainStateAdmin` the domain's own state (T4).
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from holdfast.admin.control_plane import ControlPlane
from holdfast.admin.groups import GroupsAdmin
from holdfast.admin.proposals import granted
from holdfast.authority.recipe import Seen
from holdfast.authority.views import Lost, NoGroup, Unmet
from holdfast.groups.catalog import GroupCatalog
from holdfast.model.admin.domain import DomainInspected, DomainOrder, RecoverDomain
from holdfast.model.admin.groups import (
    GroupInfo,
    GroupInspected,
    GroupRecovered,
    HeldInfo,
    InspectGroup,
    RecoverGroup,
)
from holdfast.model.errors import Conflict, InvalidRequest, Rejected, Unavailable
from holdfast.model.ids import HostId
from holdfast.sequence.messages import Held
from holdfast.sequence.recovery import Inspected, Inspection, Recovered, Recovery

T = TypeVar("T")


class RecoveryAdmin:
    """Inspects and recovers groups through one host."""

    def __init__(self, recovery: Recovery, groups_admin: GroupsAdmin) -> None:
        self._recovery = recovery
        self._groups_admin = groups_admin

    async def inspect(self, order: InspectGroup) -> GroupInspected:
        info = await self._groups_admin.info(order.name)
        found = await self.inspected(info)
        return GroupInspected(
            group=info,
            epoch=found.view.value.epoch,
            is_served=found.is_served,
            members=tuple(_held_info(found, each) for each in found.held),
            silent=found.silent,
        )

    async def recover(self, order: RecoverGroup) -> GroupRecovered:
        """Recover the group from one member.

        Raises ``InvalidRequest`` if the group is served or the source does not answer, and ``Conflict`` if
        the view or the losses differ from those that were inspected.
        """
        info, record = await self._groups_admin.info(order.name), await self._groups_admin.found(order.name)
        if order.source not in record.value.placed_on:
            raise InvalidRequest(f"{order.name} shall have no member on {order.source}: add it first")
        found = await self.inspected(info)
        if found.view.value.epoch != order.epoch:
            raise _moved_on(order)
        done: asyncio.Future[Recovered] = asyncio.get_running_loop().create_future()
        self._recovery.recover(
            found, order.source, _completing(done), agreed_to=order.agreed_to, given=record.unchanged()
        )
        answer = await done
        if isinstance(answer, Lost | Unmet):
            raise _moved_on(order)
        if not isinstance(answer, Seen):
            raise Unavailable("the authority was restored meanwhile; hosts must be started again (A5)")
        return GroupRecovered(group=await self._groups_admin.info(order.name), text=answer.value.cause.text)

    async def inspected(self, info: GroupInfo) -> Inspection:
        """What each of the group's members holds. Raises ``InvalidRequest``, ``Unavailable``."""
        told: asyncio.Future[Inspected] = asyncio.get_running_loop().create_future()
        self._recovery.inspect(info.group, (*info.placed_on, *info.leaving), _completing(told))
        found = await told
        if isinstance(found, NoGroup):
            raise InvalidRequest(f"there is no group {info.name!r} any more")
        if not isinstance(found, Inspection):
            raise Unavailable("the authority does not answer")
        return found


def _completing(waits: asyncio.Future[T]) -> Callable[[T], None]:
    """A callback that completes *waits*, unless the order was given up and nobody waits any more."""

    def tell(found: T) -> None:
        if not waits.done():
            waits.set_result(found)

    return tell


def _moved_on(order: RecoverGroup) -> Conflict:
    return Conflict(
        f"{order.name} has another view than epoch {order.epoch}, which was looked at, or other members; "
        "look again"
    )


def _held_info(found: Inspection, held: Held) -> HeldInfo:
    losses = found.losses(held.member.host)
    return HeldInfo(
        host=held.member.host,
        epoch=held.tail.epoch,
        position=held.tail.position,
        committed=held.committed,
        is_listed=losses.is_listed,
        known_lost=losses.known,
        possibly_lost=losses.possible,
        text=losses.text,
    )


class DomainStateAdmin:
    """Inspects and recovers the domain's state from what one host holds."""

    def __init__(self, host: HostId, catalog: GroupCatalog, control: ControlPlane) -> None:
        self._host = host
        self._catalog = catalog
        self._control = control

    async def do(self, order: DomainOrder) -> DomainInspected:
        """Execute the order. Raises ``Rejected`` if it must not be done, ``Unavailable`` if it cannot be."""
        if isinstance(order, RecoverDomain):
            await self._recover(order)
        return await self._inspected()

    async def _recover(self, order: RecoverDomain) -> None:
        if order.cas != self._control.cas:
            raise Rejected(f"{self._host} holds the wishes of {self._control.cas}, not of {order.cas}")
        granted(await self._control.recover(self._catalog.records))

    async def _inspected(self) -> DomainInspected:
        committed = await self._control.committed_cas()
        if committed is None:
            raise Unavailable("the authority does not answer")
        return DomainInspected(
            host=self._host,
            role=self._control.role.value,
            cas=self._control.cas,
            committed_cas=committed,
            coordinator=self._control.coordinator or HostId(""),
            term=self._control.term,
        )
