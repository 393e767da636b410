"""Placement by name: a person says on exactly which hosts a group has its members, and which never lead.

It is a property of the group (``holdfast.Places``). The planner brings the group there, member by member, and
keeps it there: nothing is placed elsewhere, and a member that is not named goes once all named ones are in
sync (W2, W3).
"""

from collections.abc import Callable
from typing import Final

from holdfast.admin.groups import GroupsAdmin
from holdfast.admin.named_hosts import check_named
from holdfast.admin.proposals import DesiredStateView, changed
from holdfast.admin.snapshot import Sessions, made_with_of, wish_of
from holdfast.control.desired import changes
from holdfast.model.admin.groups import GroupList, MoveGroup
from holdfast.model.errors import InvalidRequest
from holdfast.model.properties import PLACES, MembershipStyle
from holdfast.model.system_groups import check_not_system

ANYWHERE: Final[dict[str, list[str]]] = {"hosts": [], "never_lead": []}


class PlacesAdmin:
    """Executes orders about named hosts through one host. *sessions* returns the hosts in session."""

    def __init__(
        self, groups_admin: GroupsAdmin, desired: DesiredStateView, sessions: Callable[[], Sessions]
    ) -> None:
        self._groups_admin = groups_admin
        self._desired = desired
        self._sessions = sessions

    async def move(self, order: MoveGroup) -> GroupList:
        """Name the group's hosts, or none any more; the list shows how far it is.

        Raises ``InvalidRequest`` if it can never be, ``Unavailable`` if a named host does not live.
        """
        check_not_system(order.name)
        record = (await self._groups_admin.found(order.name)).value
        spec = wish_of(record, self._desired.state())
        if spec.membership is MembershipStyle.MEMB_APP_CTRL:
            said = "`holdfast group add-member` and `remove-member` do that"
            raise InvalidRequest(f"{order.name}'s application places its members: {said}")
        if order.hosts:
            check_named(spec, order.hosts, record.min_in_sync, self._sessions(), self._desired.state())
        named = (
            {"hosts": list(order.hosts), "never_lead": list(order.never_lead)} if order.hosts else ANYWHERE
        )
        if order.never_lead and not order.hosts:
            raise InvalidRequest("only hosts that are named can have members that never lead: say --on")
        change = changes.SetGroupProperties(
            group=record.group, made_with=made_with_of(record), properties={PLACES: named}
        )
        await changed(self._desired, change, id=order.nonce)
        return GroupList(groups=(await self._groups_admin.info(order.name),))
