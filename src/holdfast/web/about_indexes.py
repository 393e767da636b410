"""Endpoints for people: list, create and drop indexes, and list state updates. Any host answers."""

import hashlib
from typing import Annotated

from msgspec import Meta, Struct

from holdfast.model.admin.domain import (
    PARTITIONS_DEFAULT,
    REPLICAS_OF_PARTITION_DEFAULT,
    TRANSACTIONS_SHOWN_MAX,
    CreateIndex,
    DropIndexes,
    IndexList,
    IndexShown,
    ListIndexes,
    ListTransactions,
    Text,
    TransactionList,
)
from holdfast.model.errors import InvalidRequest
from holdfast.net import Role
from holdfast.web.context import WebContext
from holdfast.web.endpoint import Asked, Endpoint, Parameter, Reply
from holdfast.web.problems import reused
from holdfast.web.request import KEY, key_of

ID_SCHEMA = {"id": {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}}
TRANSACTIONS_DEFAULT = 20


class NewIndex(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An index to create."""

    name: Text
    bucket: Text
    using: Text
    """The kind of index."""
    expressions: tuple[Text, ...] = ()
    """The indexed expressions; empty for the primary index of a bucket."""
    language: Text = "json-pointer"
    """The language of the expressions."""
    partitions: Annotated[int, Meta(ge=1, le=1024)] = PARTITIONS_DEFAULT
    replicas: Annotated[int, Meta(ge=0, le=3)] = REPLICAS_OF_PARTITION_DEFAULT
    """Replicas of each partition besides its master, each on a host of its own."""


async def list_indexes(site: WebContext, asked: Asked) -> Reply:
    return Reply(await site.inside.orders.give(ListIndexes(), Role.CLIENT, IndexList))


async def create_index(site: WebContext, asked: Asked) -> Reply:
    new: NewIndex = asked.body
    order = CreateIndex(
        name=new.name,
        bucket=new.bucket,
        using=new.using,
        expressions=new.expressions,
        language=new.language,
        partitions=new.partitions,
        replicas=new.replicas,
        nonce=wish_id(asked),
    )
    (made,) = (await site.inside.orders.give(order, Role.ADMIN, IndexList)).indexes
    if (made.name, made.bucket) != (new.name, new.bucket):
        raise reused(f"the index {made.name!r} of {made.bucket!r}")
    return Reply(made, 201)


async def drop_index(site: WebContext, asked: Asked) -> Reply:
    order = DropIndexes(ids=(_number(asked.path["id"], 2**63 - 1, "the number of an index"),))
    return Reply(await site.inside.orders.give(order, Role.ADMIN, IndexList))


async def list_transactions(site: WebContext, asked: Asked) -> Reply:
    text = asked.query.get("limit", str(TRANSACTIONS_DEFAULT))
    order = ListTransactions(limit=_number(text, TRANSACTIONS_SHOWN_MAX, "limit"))
    return Reply(await site.inside.orders.give(order, Role.CLIENT, TransactionList))


def wish_id(asked: Asked) -> str:
    """The id of a request: the same Idempotency-Key gives the same id, so a repetition is done once.

    Without a key, every request is its own.
    """
    key = key_of(asked.headers)
    return "" if key is None else hashlib.sha256(f"{asked.caller.name}\0{key}".encode()).hexdigest()[:32]


def _number(text: str, most: int, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and 1 <= int(text) <= most):
        raise InvalidRequest(f"{what} is a number from 1 to {most}")
    return int(text)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/indexes",
        "list_indexes",
        "The indexes of the domain",
        "As this host knows them, with term and CAS of the state that it read. Building an index is the "
        "search service's part: until it has, none is active.",
        list_indexes,
        IndexList,
        "reader",
    ),
    Endpoint(
        "POST",
        "/v1/indexes",
        "create_index",
        "Make an index",
        "One update of the domain's state: on every host or on none. With an Idempotency-Key the same order "
        "makes one index.",
        create_index,
        IndexShown,
        "admin",
        body=NewIndex,
        status=201,
        parameters=(KEY,),
        is_audited=True,
        subject=lambda new: new.name,
    ),
    Endpoint(
        "DELETE",
        "/v1/indexes/{id}",
        "drop_index",
        "Drop an index",
        "Answers what it was, if this host knew it. Its number is never used again.",
        drop_index,
        IndexList,
        "admin",
        path_schemas=ID_SCHEMA,
        is_audited=True,
    ),
    Endpoint(
        "GET",
        "/v1/transactions",
        "list_transactions",
        "The latest updates of the domain's state",
        "As the authority records them, the newest last: an update whose outcome was not heard is found here "
        "by its CAS.",
        list_transactions,
        TransactionList,
        "reader",
        parameters=(
            Parameter(
                "limit",
                "query",
                {"type": "integer", "minimum": 1, "maximum": TRANSACTIONS_SHOWN_MAX},
                "How many at most.",
            ),
        ),
    ),
)
