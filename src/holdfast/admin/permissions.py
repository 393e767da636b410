"""Who may give which order: each order lists its roles, and nobody may give an order that is not listed."""

from collections.abc import Mapping
from typing import Final

from holdfast.model.admin.domain import (
    CreateIndex,
    DropIndexes,
    InspectDomain,
    ListIndexes,
    ListTransactions,
    RecoverDomain,
)
from holdfast.model.admin.groups import (
    AddMember,
    CreateGroup,
    DeleteGroup,
    ExplainGroup,
    InspectGroup,
    ListGroups,
    MoveGroup,
    Order,
    RecoverGroup,
    RemoveMember,
    SetPrimary,
    ShowHistory,
)
from holdfast.model.admin.hosts import (
    Deafen,
    DrainHost,
    KeepBusy,
    ListHosts,
    RemoveHost,
    RestartHost,
    ReturnHost,
)
from holdfast.model.admin.objects import (
    CreateMember,
    CreateObject,
    DeleteObject,
    ListFactories,
    RegisterFaultNotifier,
    RemoveProperties,
    SetProperties,
    ShowFaultNotifier,
    ShowProperties,
    ShowReference,
)
from holdfast.model.admin.streams import (
    BindStream,
    EndStreamRule,
    InspectStreams,
    ListStreams,
    LoseStream,
    MakeSourceKey,
    OpenSource,
    UnbindStream,
)
from holdfast.model.admin.upgrades import TryUpgrade, UpgradeGroup, WithdrawUpgrade
from holdfast.model.errors import InvalidRequest
from holdfast.net import Role

EVERYBODY: Final = frozenset({Role.HOST, Role.CLIENT, Role.ADMIN})
"""Roles that call groups and ask questions; hosts do so for their HTTP clients."""
PROGRAMS: Final = frozenset({Role.CLIENT, Role.ADMIN})
"""Roles that create and maintain groups of their own."""
ADMINS: Final = frozenset({Role.ADMIN})

ROLES: Final[Mapping[type[Order], frozenset[Role]]] = {
    # questions
    ListGroups: EVERYBODY,
    ShowHistory: EVERYBODY,
    ExplainGroup: EVERYBODY,
    ListHosts: EVERYBODY,
    ShowProperties: EVERYBODY,
    ShowReference: EVERYBODY,
    ListFactories: EVERYBODY,
    ShowFaultNotifier: EVERYBODY,
    ListIndexes: EVERYBODY,
    ListTransactions: EVERYBODY,
    ListStreams: EVERYBODY,
    # groups, members, objects
    CreateGroup: PROGRAMS,
    DeleteGroup: PROGRAMS,
    AddMember: PROGRAMS,
    RemoveMember: PROGRAMS,
    MoveGroup: PROGRAMS,
    SetPrimary: PROGRAMS,
    CreateObject: PROGRAMS,
    DeleteObject: PROGRAMS,
    CreateMember: PROGRAMS,
    SetProperties: PROGRAMS,
    RemoveProperties: PROGRAMS,
    RegisterFaultNotifier: PROGRAMS,
    # streams
    BindStream: PROGRAMS,
    UnbindStream: PROGRAMS,
    OpenSource: PROGRAMS,
    MakeSourceKey: ADMINS,
    InspectStreams: ADMINS,
    EndStreamRule: ADMINS,
    LoseStream: ADMINS,
    # the domain, and what cannot be undone
    CreateIndex: ADMINS,
    DropIndexes: ADMINS,
    DrainHost: ADMINS,
    RemoveHost: ADMINS,
    ReturnHost: ADMINS,
    RestartHost: ADMINS,
    InspectDomain: ADMINS,
    RecoverDomain: ADMINS,
    InspectGroup: ADMINS,
    RecoverGroup: ADMINS,
    UpgradeGroup: ADMINS,
    WithdrawUpgrade: ADMINS,
    TryUpgrade: ADMINS,
    Deafen: ADMINS,
    KeepBusy: ADMINS,
}


def check_permitted(order: Order, by: Role) -> None:
    """Raise ``InvalidRequest`` if role *by* may not give *order*."""
    admitted = ROLES.get(type(order), frozenset[Role]())
    if by not in admitted:
        whose = " or ".join(f"{'an' if role is Role.ADMIN else 'a'} {role}" for role in sorted(admitted))
        raise InvalidRequest(f"that is for {whose or 'nobody'} to order, not for a {by.value}")
