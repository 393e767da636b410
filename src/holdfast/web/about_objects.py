"""Endpoints for factories and for properties.

An object made by the replication manager's factory is a group; one made at a location stands alone.
Properties belong to the domain, to a class or to a group. The group that receives fault reports is set here
as well.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from holdfast.model.admin.objects import (
    CRITERIA_CHARACTERS_MAX,
    CreateObject,
    DeleteObject,
    FactoryList,
    FaultNotifierShown,
    GroupReference,
    ListFactories,
    ObjectCreated,
    PropertiesShown,
    RegisterFaultNotifier,
    RemoveProperties,
    SetProperties,
    ShowFaultNotifier,
    ShowProperties,
)
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import GroupId
from holdfast.net import Role
from holdfast.web.about_groups import NAME_SCHEMA, as_text, nonce_of, require_sight
from holdfast.web.context import WebContext
from holdfast.web.endpoint import Asked, Endpoint, Handler, Parameter, Reply
from holdfast.web.request import KEY

ID_SCHEMA = {"id": {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}}
AT_SCHEMA = {"location": {"type": "string", "minLength": 1, "maxLength": 1000}}


class NewObject(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object to create."""

    type_id: Annotated[str, Meta(min_length=1, max_length=300)]
    """Its class, ``package.module:Class``."""
    criteria: dict[str, Any] = {}
    """``org.omg.ft.FTProperties`` for a group, ``org.omg.ft.ObjectLocation`` for one that stands alone; and
    ``name``, ``arguments``, ``min_in_sync``, ``durability``, ``on_total_loss``."""


async def create_object(site: WebContext, asked: Asked) -> Reply:
    new: NewObject = asked.body
    order = CreateObject(
        type_id=new.type_id,
        criteria=as_text("criteria", new.criteria, CRITERIA_CHARACTERS_MAX),
        location=asked.path.get("location", ""),
        nonce=nonce_of(asked),
    )
    return Reply(await site.inside.orders.give(order, Role.ADMIN, ObjectCreated), 201)


async def delete_object(site: WebContext, asked: Asked) -> Reply:
    text = asked.path["id"]
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 19):
        raise InvalidRequest("the id that a factory gives is a number")
    order = DeleteObject(factory_creation_id=GroupId(int(text)), location=asked.path.get("location", ""))
    return Reply(await site.inside.orders.give(order, Role.ADMIN, GroupReference))


async def list_factories(site: WebContext, asked: Asked) -> Reply:
    return Reply(await site.inside.orders.give(ListFactories(), Role.CLIENT, FactoryList))


def _two(path: str, what: str, words: str, **schemas: Any) -> tuple[Endpoint, ...]:
    """The endpoints that create and delete objects at one factory."""
    return (
        Endpoint(
            "POST",
            path,
            f"create_{what}",
            f"Make {words}",
            "Answers its reference, and the id under which it is deleted. With an Idempotency-Key the same "
            "order makes one.",
            create_object,
            ObjectCreated,
            "admin",
            body=NewObject,
            status=201,
            parameters=(KEY,),
            path_schemas=schemas,
            is_audited=True,
            subject=lambda new: new.type_id,
        ),
        Endpoint(
            "DELETE",
            f"{path}/{{id}}",
            f"delete_{what}",
            f"Delete {words}",
            "With its members. Answers its last reference.",
            delete_object,
            GroupReference,
            "admin",
            path_schemas={**schemas, **ID_SCHEMA},
            is_audited=True,
        ),
    )


OBJECT_ENDPOINTS = (
    *_two("/v1/objects", "object", "a replicated object"),
    Endpoint(
        "GET",
        "/v1/factories",
        "list_factories",
        "Where objects can be made",
        "Every host is a factory of all classes in its application directory.",
        list_factories,
        FactoryList,
        "reader",
    ),
    *_two("/v1/factories/{location}/objects", "object_alone", "an object without replicas", **AT_SCHEMA),
)


TYPE_SCHEMA = {"type_id": {"type": "string", "minLength": 1, "maxLength": 300}}
NAMES = Parameter("names", "query", {"type": "string"}, "Which, parted by commas; without org.omg.ft. too.")


class NewProperties(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Properties to set, by name; ``org.omg.ft.`` may be left out."""

    properties: dict[str, Any]


class NewNotifier(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: str
    """The group's name; empty for none."""


async def show(site: WebContext, asked: Asked) -> Reply:
    order = ShowProperties(type_id=asked.path.get("type_id", ""))
    return Reply(await site.inside.orders.give(order, Role.CLIENT, PropertiesShown))


async def show_of_group(site: WebContext, asked: Asked) -> Reply:
    require_sight(asked.caller, asked.path["name"])
    order = ShowProperties(group=asked.path["name"])
    return Reply(await site.inside.orders.give(order, Role.CLIENT, PropertiesShown))


async def set_(site: WebContext, asked: Asked) -> Reply:
    new: NewProperties = asked.body
    type_id, group = asked.path.get("type_id", ""), asked.path.get("name", "")
    order = SetProperties(properties=new.properties, type_id=type_id, group=group)
    return Reply(await site.inside.orders.give(order, Role.ADMIN, PropertiesShown))


async def remove(site: WebContext, asked: Asked) -> Reply:
    names = [each for each in asked.query.get("names", "").split(",") if each]
    if not names:
        raise InvalidRequest("names says which properties to remove, parted by commas")
    type_id, group = asked.path.get("type_id", ""), asked.path.get("name", "")
    order = RemoveProperties(properties=dict.fromkeys(names), type_id=type_id, group=group)
    return Reply(await site.inside.orders.give(order, Role.ADMIN, PropertiesShown))


async def show_notifier(site: WebContext, asked: Asked) -> Reply:
    return Reply(await site.inside.orders.give(ShowFaultNotifier(), Role.CLIENT, FaultNotifierShown))


async def register_notifier(site: WebContext, asked: Asked) -> Reply:
    new: NewNotifier = asked.body
    order = RegisterFaultNotifier(group=new.group)
    return Reply(await site.inside.orders.give(order, Role.ADMIN, FaultNotifierShown))


def _three(path: str, what: str, words: str, shows: Handler, **schemas: Any) -> tuple[Endpoint, ...]:
    """The endpoints that show, set and remove properties at one path."""
    return (
        Endpoint(
            "GET",
            path,
            f"show_{what}",
            f"Properties {words}",
            "`own` is what is set there, `effective` what holds with what it goes over.",
            shows,
            PropertiesShown,
            "client" if shows is show_of_group else "reader",
            path_schemas=schemas,
            tells_term=True,
        ),
        Endpoint(
            "POST",
            path,
            f"set_{what}",
            f"Set properties {words}",
            "Beside those that are set. If one of them cannot be, none is.",
            set_,
            PropertiesShown,
            "admin",
            body=NewProperties,
            path_schemas=schemas,
            tells_term=True,
            is_audited=True,
        ),
        Endpoint(
            "DELETE",
            path,
            f"remove_{what}",
            f"Remove properties {words}",
            "If one of them is not set there, none is removed.",
            remove,
            PropertiesShown,
            "admin",
            parameters=(NAMES,),
            path_schemas=schemas,
            tells_term=True,
            is_audited=True,
        ),
    )


PROPERTY_ENDPOINTS = (
    *_three("/v1/properties", "default_properties", "of all groups made from now on", show),
    *_three(
        "/v1/properties/types/{type_id}",
        "type_properties",
        "of groups of a class, made from now on",
        show,
        **TYPE_SCHEMA,
    ),
    *_three(
        "/v1/groups/{name}/properties",
        "group_properties",
        "of a running group",
        show_of_group,
        **NAME_SCHEMA,
    ),
    Endpoint(
        "GET",
        "/v1/fault-notifier",
        "show_fault_notifier",
        "The group that takes fault reports",
        "InterfaceNotFound when none is registered.",
        show_notifier,
        FaultNotifierShown,
        "reader",
        tells_term=True,
    ),
    Endpoint(
        "POST",
        "/v1/fault-notifier",
        "register_fault_notifier",
        "Let a group take fault reports",
        "One group of the domain; an empty name: none.",
        register_notifier,
        FaultNotifierShown,
        "admin",
        body=NewNotifier,
        is_audited=True,
    ),
)
