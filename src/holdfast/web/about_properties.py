"""Properties: of the domain, of a class, of a group; and the group that takes fault reports."""

from typing import Any

from msgspec import Struct

from holdfast.model.errors import InvalidRequest
from holdfast.model.property_orders import (
    FaultNotifierShown,
    PropertiesShown,
    RegisterFaultNotifier,
    RemoveProperties,
    SetProperties,
    ShowFaultNotifier,
    ShowProperties,
)
from holdfast.net import Role
from holdfast.web.about_groups import NAME_SCHEMA, require_sight
from holdfast.web.endpoint import Asked, Endpoint, Handler, Parameter, Reply
from holdfast.web.site import Site

TYPE_SCHEMA = {"type_id": {"type": "string", "minLength": 1, "maxLength": 300}}
NAMES = Parameter("names", "query", {"type": "string"}, "Which, parted by commas; without org.omg.ft. too.")


class NewProperties(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Properties to set, by name; ``org.omg.ft.`` may be left out."""

    properties: dict[str, Any]


class NewNotifier(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: str
    """Its name; empty: none."""


async def show(site: Site, asked: Asked) -> Reply:
    order = ShowProperties(type_id=asked.path.get("type_id", ""))
    return Reply(await site.inside.orders.give(order, Role.CLIENT, PropertiesShown))


async def show_of_group(site: Site, asked: Asked) -> Reply:
    require_sight(asked.caller, asked.path["name"])
    order = ShowProperties(group=asked.path["name"])
    return Reply(await site.inside.orders.give(order, Role.CLIENT, PropertiesShown))


async def set_(site: Site, asked: Asked) -> Reply:
    new: NewProperties = asked.body
    type_id, group = asked.path.get("type_id", ""), asked.path.get("name", "")
    order = SetProperties(properties=new.properties, type_id=type_id, group=group)
    return Reply(await site.inside.orders.give(order, Role.ADMIN, PropertiesShown))


async def remove(site: Site, asked: Asked) -> Reply:
    names = [each for each in asked.query.get("names", "").split(",") if each]
    if not names:
        raise InvalidRequest("names says which properties to remove, parted by commas")
    type_id, group = asked.path.get("type_id", ""), asked.path.get("name", "")
    order = RemoveProperties(properties=dict.fromkeys(names), type_id=type_id, group=group)
    return Reply(await site.inside.orders.give(order, Role.ADMIN, PropertiesShown))


async def show_notifier(site: Site, asked: Asked) -> Reply:
    return Reply(await site.inside.orders.give(ShowFaultNotifier(), Role.CLIENT, FaultNotifierShown))


async def register_notifier(site: Site, asked: Asked) -> Reply:
    new: NewNotifier = asked.body
    order = RegisterFaultNotifier(group=new.group)
    return Reply(await site.inside.orders.give(order, Role.ADMIN, FaultNotifierShown))


def _three(path: str, what: str, words: str, shows: Handler, **schemas: Any) -> tuple[Endpoint, ...]:
    """Show, set and remove, at one path."""
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


ENDPOINTS = (
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
