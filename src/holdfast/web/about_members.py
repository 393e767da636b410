"""Endpoints about the members of a group: create, add, show and remove them, and set the primary."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from holdfast.model.admin.errors import MemberNotFound
from holdfast.model.admin.groups import (
    AddMember,
    GroupInfo,
    GroupList,
    HandedOver,
    MoveGroup,
    OrderRefused,
    RemoveMember,
    SetPrimary,
)
from holdfast.model.admin.objects import (
    CRITERIA_CHARACTERS_MAX,
    CreateMember,
    GroupReference,
    MemberInfo,
    ShowReference,
)
from holdfast.model.ids import HostId
from holdfast.model.reference import MEMBERS_MAX
from holdfast.net import Role
from holdfast.web.about_groups import NAME_SCHEMA, as_text, nonce_of, require_sight
from holdfast.web.context import WebContext
from holdfast.web.endpoint import Asked, Endpoint, Reply
from holdfast.web.problems import refusal_of_order

MEMBER_SCHEMA = {**NAME_SCHEMA, "location": {"type": "string", "minLength": 1, "maxLength": 1000}}


class NewMember(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A member to create."""

    location: str
    """The location: a host, or a failure domain in which one is chosen."""
    type_id: str = ""
    """The class; if empty, the group's."""
    criteria: dict[str, Any] = {}
    """What the factory there is told; it overrides the group's Factories."""


class AddedMember(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: HostId
    own: Annotated[str, Meta(max_length=300)] = ""
    """The object there that the application made itself, as `package.module:name`; else one is created."""


class NamedHosts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    hosts: Annotated[tuple[HostId, ...], Meta(max_length=MEMBERS_MAX)]
    """The hosts that are to have its members, and no others; none lets the manager choose again."""
    never_lead: Annotated[tuple[HostId, ...], Meta(max_length=MEMBERS_MAX)] = ()
    """Those of them whose members are never primary."""


class NewPrimary(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    location: str


async def show_reference(site: WebContext, asked: Asked) -> Reply:
    return Reply(await _reference(site, asked))


async def show_member(site: WebContext, asked: Asked) -> Reply:
    reference, place = await _reference(site, asked), asked.path["location"]
    for each in reference.members:
        if place in (each.location, each.host):
            return Reply(each)
    raise refusal_of_order(OrderRefused.by(MemberNotFound(f"{reference.name} has no member at {place}")))


async def create_member(site: WebContext, asked: Asked) -> Reply:
    new: NewMember = asked.body
    order = CreateMember(
        name=asked.path["name"],
        location=new.location,
        type_id=new.type_id,
        criteria=as_text("criteria", new.criteria, CRITERIA_CHARACTERS_MAX),
    )
    return Reply(await site.inside.orders.give(order, Role.ADMIN, GroupReference), 201)


async def add_member(site: WebContext, asked: Asked) -> Reply:
    added: AddedMember = asked.body
    order = AddMember(name=asked.path["name"], host=added.host, own=added.own)
    await site.inside.orders.give(order, Role.ADMIN, GroupList)
    return Reply(await _reference(site, asked), 201)


async def remove_member(site: WebContext, asked: Asked) -> Reply:
    order = RemoveMember(name=asked.path["name"], host=HostId(asked.path["location"]))
    await site.inside.orders.give(order, Role.ADMIN, GroupList)
    return Reply(await _reference(site, asked))


async def name_hosts(site: WebContext, asked: Asked) -> Reply:
    new: NamedHosts = asked.body
    order = MoveGroup(
        name=asked.path["name"], hosts=new.hosts, never_lead=new.never_lead, nonce=nonce_of(asked)
    )
    (info,) = (await site.inside.orders.give(order, Role.ADMIN, GroupList)).groups
    return Reply(info)


async def set_primary(site: WebContext, asked: Asked) -> Reply:
    new: NewPrimary = asked.body
    order = SetPrimary(name=asked.path["name"], host=HostId(new.location))
    await site.inside.orders.give(order, Role.ADMIN, HandedOver)
    return Reply(await _reference(site, asked))


async def hand_over(site: WebContext, asked: Asked) -> Reply:
    new: NewPrimary = asked.body
    order = SetPrimary(name=asked.path["name"], host=HostId(new.location), is_any_style=True)
    await site.inside.orders.give(order, Role.ADMIN, HandedOver)
    return Reply(await _reference(site, asked))


async def _reference(site: WebContext, asked: Asked) -> GroupReference:
    require_sight(asked.caller, asked.path["name"])
    order = ShowReference(name=asked.path["name"])
    return await site.inside.orders.give(order, Role.CLIENT, GroupReference)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/groups/{name}/reference",
        "show_reference",
        "A group's reference",
        "Its number, its version, and the locations of its members, the primary's first.",
        show_reference,
        GroupReference,
        "client",
        path_schemas=NAME_SCHEMA,
    ),
    Endpoint(
        "POST",
        "/v1/groups/{name}/members",
        "create_member",
        "Make a member of a group",
        "By the factory at a location. It is placed then, and in sync once it has caught up.",
        create_member,
        GroupReference,
        "admin",
        body=NewMember,
        status=201,
        path_schemas=NAME_SCHEMA,
        is_audited=True,
    ),
    Endpoint(
        "POST",
        "/v1/groups/{name}/added-members",
        "add_member",
        "Let a host have a member of a group",
        "As `create_member`, of a host by its id; or an object that the application made there itself.",
        add_member,
        GroupReference,
        "admin",
        body=AddedMember,
        status=201,
        path_schemas=NAME_SCHEMA,
        is_audited=True,
    ),
    Endpoint(
        "GET",
        "/v1/groups/{name}/members/{location}",
        "show_member",
        "One member",
        "Where it is reached.",
        show_member,
        MemberInfo,
        "client",
        path_schemas=MEMBER_SCHEMA,
    ),
    Endpoint(
        "DELETE",
        "/v1/groups/{name}/members/{location}",
        "remove_member",
        "Remove a member",
        "It leaves as soon as the others can do without it, and its host forgets what it held. An object "
        "that the application made itself is not deleted.",
        remove_member,
        GroupReference,
        "admin",
        path_schemas=MEMBER_SCHEMA,
        is_audited=True,
    ),
    Endpoint(
        "POST",
        "/v1/groups/{name}/hosts",
        "name_hosts",
        "Bring a group to named hosts",
        "Member by member: the others go once all named ones are in sync. The answer says how far it is.",
        name_hosts,
        GroupInfo,
        "admin",
        body=NamedHosts,
        path_schemas=NAME_SCHEMA,
        is_audited=True,
    ),
    Endpoint(
        "POST",
        "/v1/groups/{name}/primary",
        "set_primary",
        "Let a member be primary",
        "An in-sync one of a passive group, without a failed call.",
        set_primary,
        GroupReference,
        "admin",
        body=NewPrimary,
        path_schemas=NAME_SCHEMA,
        is_audited=True,
    ),
    Endpoint(
        "POST",
        "/v1/groups/{name}/handover",
        "hand_over",
        "Hand a group over to a member",
        "As `set_primary`, for groups of every style: in an active group the primary orders the operations.",
        hand_over,
        GroupReference,
        "admin",
        body=NewPrimary,
        path_schemas=NAME_SCHEMA,
        is_audited=True,
    ),
)
