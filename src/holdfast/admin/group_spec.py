"""What a new group is to be: its properties on all levels, and the record that states them.

The domain's defaults and the type's properties apply as they are at the moment of creation (FTC-183,
FTC-186): they go into the group's record, and a later change of them affects only later groups.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from holdfast.authority.groups import DISK, MEMORY, RESTART, WAIT, GroupRecord
from holdfast.control.replication.criteria import check_factories
from holdfast.control.replication.spec import GroupSpec
from holdfast.model.admin.errors import CannotMeetCriteria
from holdfast.model.admin.groups import CreateGroup, min_in_sync_default
from holdfast.model.errors import InvalidRequest
from holdfast.model.host_roles import GROUPS
from holdfast.model.ids import GroupId, Nonce
from holdfast.model.properties import (
    CONSISTENCY_STYLE,
    INITIAL_NUMBER,
    MEMBERSHIP_STYLE,
    MINIMUM_NUMBER,
    PLACES,
    REPLICATION_STYLE,
    ConsistencyStyle,
    InvalidProperty,
    Level,
    MembershipStyle,
    Properties,
    Style,
    UnsupportedProperty,
    check_together,
    checked,
    merged,
)
from holdfast.model.reference import MEMBERS_MAX
from holdfast.styles.by_name import no_voting, style_named

MEMBERSHIP: Final = {
    "infrastructure": MembershipStyle.MEMB_INF_CTRL,
    "application": MembershipStyle.MEMB_APP_CTRL,
}
MEMBERSHIP_NAMES: Final = {style: name for name, style in MEMBERSHIP.items()}


@dataclass(frozen=True, slots=True)
class GroupSpecDraft:
    """A group before it has a number and hosts."""

    record: GroupRecord
    effective: Properties
    role: str = GROUPS
    """The role that its hosts must have; empty if any host will do."""

    @property
    def wish(self) -> GroupSpec:
        return replace(GroupSpec.of(self.effective), role=self.role)

    @property
    def replicas(self) -> int:
        return self.wish.initial


def draft(order: CreateGroup, beneath: Properties, *, nonce: Nonce, created_ns: int) -> GroupSpecDraft:
    """Combine *order* with the properties *beneath* it. Raises ``InvalidRequest`` if that is impossible."""
    asked = _asked(order)
    own = {**beneath, **asked}
    # A request for three replicas means that three are to be maintained.
    own.setdefault(MINIMUM_NUMBER, merged(own)[INITIAL_NUMBER])
    effective = merged(own)
    check_together(asked, effective)
    check_factories(own, effective)
    _check_possible(effective)
    replicas = effective[INITIAL_NUMBER]
    in_sync = order.min_in_sync or min_in_sync_default(replicas)
    _check_keeping(order, in_sync, replicas)
    record = GroupRecord(
        group=GroupId(0),
        class_name=order.class_name,
        style=Style(effective[REPLICATION_STYLE]).name.lower(),
        members=(),
        nonce=nonce,
        name=order.name,
        arguments=order.arguments,
        created_ns=created_ns,
        min_in_sync=in_sync,
        durability=order.durability,
        on_total_loss=order.on_total_loss,
        properties=msgspec.json.encode(own, order="deterministic").decode(),
    )
    return GroupSpecDraft(record, effective)


def _asked(order: CreateGroup) -> dict[str, Any]:
    """The properties that the creator asks for, under the specification's names."""
    if order.membership and order.membership not in MEMBERSHIP:
        raise InvalidRequest(f"membership is one of {', '.join(MEMBERSHIP)}, not {order.membership!r}")
    if order.style and style_named(order.style) is Style.ACTIVE_WITH_VOTING:
        raise no_voting()
    asked = _decoded(order)
    if order.style:
        asked[REPLICATION_STYLE] = order.style
    if order.replicas:
        asked[INITIAL_NUMBER] = order.replicas
    asked |= _named(order)
    if order.minimum:
        asked[MINIMUM_NUMBER] = order.minimum
    if order.membership:
        asked[MEMBERSHIP_STYLE] = MEMBERSHIP[order.membership].value
    return checked(asked, Level.CREATION)


def _named(order: CreateGroup) -> dict[str, Any]:
    """The properties of a group whose hosts are named (W2, W3)."""
    if not order.hosts:
        if order.never_lead:
            raise InvalidRequest("only hosts that are named can have members that never lead: say --on")
        return {}
    if order.replicas not in (0, len(order.hosts)):
        raise InvalidRequest(f"{order.replicas} replicas on {len(order.hosts)} named hosts: name as many")
    if order.membership and MEMBERSHIP[order.membership] is MembershipStyle.MEMB_APP_CTRL:
        raise InvalidRequest("an application that places its members adds them: name no hosts")
    places = {"hosts": list(order.hosts), "never_lead": list(order.never_lead)}
    return {PLACES: places, INITIAL_NUMBER: len(order.hosts)}


def _decoded(order: CreateGroup) -> dict[str, Any]:
    try:
        return msgspec.json.decode(order.properties, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"the properties are not a JSON object: {error}") from None


def _check_possible(effective: Properties) -> None:
    is_self_kept = effective[CONSISTENCY_STYLE] == ConsistencyStyle.CONS_APP_CTRL
    if is_self_kept and effective[REPLICATION_STYLE] == Style.ACTIVE:
        said = "active members are kept consistent by the order of their calls, which is ours to keep"
        raise UnsupportedProperty(CONSISTENCY_STYLE, effective[CONSISTENCY_STYLE], said)
    for name in (INITIAL_NUMBER, MINIMUM_NUMBER):
        if effective[name] > MEMBERS_MAX:
            raise InvalidProperty(name, effective[name], f"a group has at most {MEMBERS_MAX} members")


def _check_keeping(order: CreateGroup, in_sync: int, replicas: int) -> None:
    if in_sync > replicas:
        said = f"min_in_sync is {in_sync}, but there are {replicas} replicas"
        raise CannotMeetCriteria({"min_in_sync": in_sync}, said)
    if order.durability not in (DISK, MEMORY):
        raise InvalidRequest(f"durability is {DISK} or {MEMORY}, not {order.durability!r}")
    if order.on_total_loss not in (WAIT, RESTART):
        raise InvalidRequest(f"on_total_loss is {WAIT} or {RESTART}, not {order.on_total_loss!r}")
    if order.on_total_loss == RESTART and order.durability != MEMORY:
        said = f"on_total_loss={RESTART} is for groups in memory: disks outlive processes"
        raise CannotMeetCriteria({"on_total_loss": RESTART}, said)
