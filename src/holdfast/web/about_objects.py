"""Factories: the replication manager's objects are groups, those of a location stand alone."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import GroupId
from holdfast.model.object_orders import (
    CRITERIA_CHARACTERS_MAX,
    CreateObject,
    DeleteObject,
    FactoryList,
    GroupReference,
    ListFactories,
    ObjectCreated,
)
from holdfast.net import Role
from holdfast.web.about_groups import as_text, nonce_of
from holdfast.web.endpoint import Asked, Endpoint, Reply
from holdfast.web.headers import KEY
from holdfast.web.site import Site

ID_SCHEMA = {"id": {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}}
AT_SCHEMA = {"location": {"type": "string", "minLength": 1, "maxLength": 1000}}


class NewObject(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object to make."""

    type_id: Annotated[str, Meta(min_length=1, max_length=300)]
    """Its class, ``package.module:Class``."""
    criteria: dict[str, Any] = {}
    """``org.omg.ft.FTProperties`` for a group, ``org.omg.ft.ObjectLocation`` for one that stands alone; and
    ``name``, ``arguments``, ``min_in_sync``, ``durability``, ``on_total_loss``."""


async def create_object(site: Site, asked: Asked) -> Reply:
    new: NewObject = asked.body
    order = CreateObject(
        type_id=new.type_id,
        criteria=as_text("criteria", new.criteria, CRITERIA_CHARACTERS_MAX),
        location=asked.path.get("location", ""),
        nonce=nonce_of(asked),
    )
    return Reply(await site.inside.orders.give(order, Role.ADMIN, ObjectCreated), 201)


async def delete_object(site: Site, asked: Asked) -> Reply:
    text = asked.path["id"]
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 19):
        raise InvalidRequest("the id that a factory gives is a number")
    order = DeleteObject(factory_creation_id=GroupId(int(text)), location=asked.path.get("location", ""))
    return Reply(await site.inside.orders.give(order, Role.ADMIN, GroupReference))


async def list_factories(site: Site, asked: Asked) -> Reply:
    return Reply(await site.inside.orders.give(ListFactories(), Role.CLIENT, FactoryList))


def _two(path: str, what: str, words: str, **schemas: Any) -> tuple[Endpoint, ...]:
    """Create and delete, at one factory."""
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


ENDPOINTS = (
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
