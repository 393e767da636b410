"""The property manager: shows and changes properties of the domain, of classes and of groups.

It implements FTC-183 to FTC-190, and the registration of the group that receives fault reports (FTC-180,
FTC-181).
"""

from holdfast.admin.groups import GroupsAdmin
from holdfast.admin.notifier_group import NotifierGroups
from holdfast.admin.proposals import DesiredStateView, changed
from holdfast.admin.snapshot import made_with_of
from holdfast.app_code.loader import check_offered
from holdfast.authority.groups import GroupRecord
from holdfast.control.desired import changes
from holdfast.model.admin.errors import InterfaceNotFound
from holdfast.model.admin.objects import (
    FaultNotifierShown,
    PropertiesShown,
    PropertyOrder,
    RegisterFaultNotifier,
    RemoveProperties,
    SetProperties,
    ShowFaultNotifier,
    ShowProperties,
)
from holdfast.model.errors import InvalidRequest


class PropertiesAdmin:
    """Executes orders about properties through one host."""

    def __init__(
        self, desired: DesiredStateView, groups_admin: GroupsAdmin, notifiers: NotifierGroups
    ) -> None:
        self._desired = desired
        self._groups_admin = groups_admin
        self._notifiers = notifiers

    async def do(self, order: PropertyOrder) -> PropertiesShown | FaultNotifierShown:
        """Execute the order. Raises ``InvalidRequest`` if it is impossible, other errors if it may be
        later.
        """
        match order:
            case ShowFaultNotifier(is_made=True):
                return FaultNotifierShown(group=await self._notifiers.ensure())
            case ShowFaultNotifier():
                return self._notifier()
            case RegisterFaultNotifier():
                return await self._register(order)
            case _ if order.group and order.type_id:
                raise InvalidRequest("properties are of a group or of a class, not of both")
            case ShowProperties(group=group) if group:
                return self._of_group((await self._groups_admin.found(group)).value)
            case SetProperties(group=group) | RemoveProperties(group=group) if group:
                return await self._change_group(order)
            case SetProperties() | RemoveProperties():
                if isinstance(order, SetProperties) and order.type_id:
                    check_offered(order.type_id)
                return await self._changed(_change_of(order), order.nonce)
            case ShowProperties():
                return self._of_type(order.type_id)

    async def _change_group(self, order: SetProperties | RemoveProperties) -> PropertiesShown:
        record = (await self._groups_admin.found(order.group)).value
        made_with = made_with_of(record)
        kind = (
            changes.SetGroupProperties if isinstance(order, SetProperties) else changes.RemoveGroupProperties
        )
        change = kind(group=record.group, made_with=made_with, properties=order.properties)
        return await self._changed(change, order.nonce)

    async def _changed(self, change: changes.Change, nonce: str) -> PropertiesShown:
        own, effective = await changed(self._desired, change, id=nonce)
        return PropertiesShown(own=own, effective=effective)

    async def _register(self, order: RegisterFaultNotifier) -> FaultNotifierShown:
        if order.group:
            await self._groups_admin.found(order.group)
        await changed(self._desired, changes.RegisterFaultNotifier(group=order.group), id=order.nonce)
        return FaultNotifierShown(group=order.group)

    def _notifier(self) -> FaultNotifierShown:
        group = self._desired.state().fault_notifier
        if not group:
            raise InterfaceNotFound("no group is registered as the fault notifier")
        return FaultNotifierShown(group=group)

    def _of_type(self, type_id: str) -> PropertiesShown:
        state = self._desired.state()
        if not type_id:
            return PropertiesShown(own=state.defaults, effective=state.defaults)
        return PropertiesShown(own=state.types.get(type_id, {}), effective=state.for_type(type_id))

    def _of_group(self, record: GroupRecord) -> PropertiesShown:
        state, made_with = self._desired.state(), made_with_of(record)
        return PropertiesShown(
            own=state.of_group(record.group), effective=state.for_group(record.group, made_with)
        )


def _change_of(order: SetProperties | RemoveProperties) -> changes.Change:
    match order:
        case SetProperties(type_id=""):
            return changes.SetDefaultProperties(properties=order.properties)
        case SetProperties():
            return changes.SetTypeProperties(type_id=order.type_id, properties=order.properties)
        case RemoveProperties(type_id=""):
            return changes.RemoveDefaultProperties(properties=order.properties)
        case RemoveProperties():
            return changes.RemoveTypeProperties(type_id=order.type_id, properties=order.properties)
