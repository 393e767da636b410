"""Endpoints that list, show, create and delete groups, and show their history."""

import hashlib
import secrets
from itertools import islice
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from holdfast.model.admin.groups import (
    ARGUMENTS_BYTES_MAX,
    CLASS_CHARACTERS_MAX,
    PROPERTIES_CHARACTERS_MAX,
    CreateGroup,
    DeleteGroup,
    GroupHistory,
    GroupInfo,
    GroupList,
    ListGroups,
    ShowHistory,
)
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId
from holdfast.model.reference import MEMBERS_MAX, Name
from holdfast.net import Role
from holdfast.web.access import HttpCaller, forbidden
from holdfast.web.context import WebContext
from holdfast.web.endpoint import Asked, Endpoint, Parameter, Reply
from holdfast.web.problems import reused
from holdfast.web.request import KEY, key_of
from holdfast.web.settings import GROUPS_SHOWN_MAX

NAME_SCHEMA = {"name": {"type": "string", "minLength": 1, "maxLength": 100}}


class GroupPage(Struct, frozen=True, kw_only=True):
    groups: tuple[GroupInfo, ...]
    """Ordered by name."""
    next: str | None
    """The `after` of the next page; null on the last."""


class NewGroup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group to create."""

    name: Name
    class_name: Annotated[str, Meta(min_length=1, max_length=CLASS_CHARACTERS_MAX)]
    """``package.module:Class``, found in the hosts' application directory."""
    style: str = ""
    """If empty, the properties of the class or the domain decide, or else warm_passive."""
    replicas: Annotated[int, Meta(ge=0, le=MEMBERS_MAX)] = 0
    """If 0, the properties decide, or else 3."""
    arguments: list[Any] = []
    """The arguments that its object is created with."""
    min_in_sync: Annotated[int, Meta(ge=0, le=MEMBERS_MAX)] = 0
    """How many members hold an operation before it is acknowledged; 0 is two, or one of one or two
    replicas.
    """
    durability: str = "disk"
    """``disk`` or ``memory``."""
    on_total_loss: str = "wait"
    """What a group in memory does when its last in-sync process is gone: ``wait`` or ``restart``."""
    minimum: Annotated[int, Meta(ge=0, le=MEMBERS_MAX)] = 0
    """How many members are maintained. If 0, the properties decide, or else all replicas."""
    membership: str = ""
    """Who maintains them: ``infrastructure`` or ``application``."""
    properties: dict[str, Any] = {}
    """Other properties of the group, by name."""
    hosts: Annotated[tuple[HostId, ...], Meta(max_length=MEMBERS_MAX)] = ()
    """The hosts that have its members, and no others. If empty, the manager chooses."""
    never_lead: Annotated[tuple[HostId, ...], Meta(max_length=MEMBERS_MAX)] = ()
    """Those of them whose members are never primary."""


async def list_groups(site: WebContext, asked: Asked) -> Reply:
    limit, after = _limit(asked.query.get("limit")), asked.query.get("after", "")
    found = await site.inside.orders.give(ListGroups(), Role.CLIENT, GroupList)
    seen = sorted(
        (each for each in found.groups if each.name > after and asked.caller.may_see(each.name)),
        key=lambda each: each.name,
    )
    page = tuple(islice(seen, limit))
    return Reply(GroupPage(groups=page, next=page[-1].name if len(seen) > limit else None))


async def show_group(site: WebContext, asked: Asked) -> Reply:
    name = asked.path["name"]
    require_sight(asked.caller, name)
    (found,) = (await site.inside.orders.give(ListGroups(name=name), Role.CLIENT, GroupList)).groups
    return Reply(found)


async def create_group(site: WebContext, asked: Asked) -> Reply:
    new: NewGroup = asked.body
    order = CreateGroup(
        name=new.name,
        class_name=new.class_name,
        style=new.style,
        replicas=new.replicas,
        arguments=as_text("arguments", new.arguments, ARGUMENTS_BYTES_MAX),
        min_in_sync=new.min_in_sync,
        durability=new.durability,
        on_total_loss=new.on_total_loss,
        minimum=new.minimum,
        membership=new.membership,
        properties=as_text("properties", new.properties, PROPERTIES_CHARACTERS_MAX),
        nonce=nonce_of(asked),
        hosts=new.hosts,
        never_lead=new.never_lead,
    )
    (made,) = (await site.inside.orders.give(order, Role.ADMIN, GroupList)).groups
    if made.name != new.name:
        raise reused(f"the group {made.name!r}")
    return Reply(made, 201)


async def delete_group(site: WebContext, asked: Asked) -> Reply:
    order = DeleteGroup(name=asked.path["name"])
    (gone,) = (await site.inside.orders.give(order, Role.ADMIN, GroupList)).groups
    return Reply(gone)


async def show_history(site: WebContext, asked: Asked) -> Reply:
    require_sight(asked.caller, asked.path["name"])
    return Reply(
        await site.inside.orders.give(ShowHistory(name=asked.path["name"]), Role.CLIENT, GroupHistory)
    )


def require_sight(caller: HttpCaller, name: str) -> None:
    if not caller.may_see(name):
        raise forbidden(f"{caller.name} may not look at that group")


def nonce_of(asked: Asked) -> str:
    """The nonce of an order: the same key gives the same nonce, so a repeated order creates one thing.

    Without a key, every order gets its own.
    """
    key = key_of(asked.headers)
    if key is None:
        return secrets.token_hex(16)
    return hashlib.sha256(f"{asked.caller.name}\0{key}".encode()).hexdigest()[:32]


def as_text(what: str, value: Any, most: int) -> str:
    """*value* as JSON text, which orders contain. Raises ``InvalidRequest`` if it is too long."""
    text = msgspec.json.encode(value).decode()
    if len(text) > most:
        raise InvalidRequest(f"{what} of {len(text)} bytes; at most {most}")
    return text


def _limit(text: str | None) -> int:
    if text is None:
        return GROUPS_SHOWN_MAX
    is_number = text.isascii() and text.isdigit() and len(text) <= 9
    if not is_number or not 1 <= int(text) <= GROUPS_SHOWN_MAX:
        raise InvalidRequest(f"limit must be a number from 1 to {GROUPS_SHOWN_MAX}")
    return int(text)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/groups",
        "list_groups",
        "The groups of the domain",
        "By name, those that the caller may see.",
        list_groups,
        GroupPage,
        "client",
        parameters=(
            Parameter("after", "query", {"type": "string"}, "Only groups whose names come after this one."),
            Parameter(
                "limit",
                "query",
                {"type": "integer", "minimum": 1, "maximum": GROUPS_SHOWN_MAX},
                "How many at most.",
            ),
        ),
    ),
    Endpoint(
        "POST",
        "/v1/groups",
        "create_group",
        "Make a group",
        "Of a class that the hosts can import. With an Idempotency-Key the same order makes one group.",
        create_group,
        GroupInfo,
        "admin",
        body=NewGroup,
        status=201,
        parameters=(KEY,),
        is_audited=True,
        subject=lambda new: new.name,
    ),
    Endpoint(
        "GET",
        "/v1/groups/{name}",
        "show_group",
        "One group",
        "As the authority knows it: who is primary, who is in sync.",
        show_group,
        GroupInfo,
        "client",
        path_schemas=NAME_SCHEMA,
    ),
    Endpoint(
        "DELETE",
        "/v1/groups/{name}",
        "delete_group",
        "End a group",
        "And forget its state. Answers what it was.",
        delete_group,
        GroupInfo,
        "admin",
        path_schemas=NAME_SCHEMA,
        is_audited=True,
    ),
    Endpoint(
        "GET",
        "/v1/groups/{name}/history",
        "show_history",
        "What became of a group",
        "Its latest views, oldest first: when, who, why, and how long each step of a failover took.",
        show_history,
        GroupHistory,
        "client",
        path_schemas=NAME_SCHEMA,
    ),
)
