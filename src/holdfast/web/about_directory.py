"""Endpoints about the directories whose replicas this host has: how they are, and their conflicts.

Conflicts are the same at every master that has heard of all changes, so any of them may be asked. What they
tell is for administrators, as it is over LDAP: both sides are shown, whatever the access rules of the entries
say.
"""

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Final

from msgspec import Meta, Struct

from holdfast.directory.conflict_text import KEPT, LOST, ConflictText, chosen, find_conflict, told
from holdfast.directory.conflicts import Conflict
from holdfast.directory.hosting.orders import ReplicaInfo
from holdfast.directory.replica.replica import Replica
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest, OutcomeUnknown, Unavailable
from holdfast.model.host_roles import DIRECTORY
from holdfast.node.services.directory_service import DirectoryService
from holdfast.web.context import WebContext
from holdfast.web.endpoint import Asked, Endpoint, Parameter, Reply
from holdfast.web.problems import Refusal, refuse
from holdfast.web.settings import ORDER_S

CONFLICTS_MAX: Final = 1_000
"""How many conflicts one answer has; with more, resolve some to see the others."""
SUFFIX: Final = Parameter(
    "suffix", "query", {"type": "string"}, "Only of this directory, such as dc=example,dc=com; else of all."
)
ID_SCHEMA: Final = {"id": {"type": "string", "minLength": 1, "maxLength": 200}}


class ReplicaList(Struct, frozen=True, kw_only=True):
    replicas: tuple[ReplicaInfo, ...]


class ConflictList(Struct, frozen=True, kw_only=True):
    conflicts: tuple[ConflictText, ...]
    more: int
    """How many there are beyond those."""


class Choice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of a conflict."""

    take: Annotated[str, Meta(max_length=10)]
    """kept: leave everything as it is; lost: take what lost instead."""


class ConflictResolved(Struct, frozen=True, kw_only=True):
    csn: str
    """The change that resolved it, which every master hears of."""


async def list_replicas(site: WebContext, asked: Asked) -> Reply:
    return Reply(ReplicaList(replicas=_service(site).shown()))


async def list_conflicts(site: WebContext, asked: Asked) -> Reply:
    found: list[ConflictText] = []
    count = 0
    for replica in _serving(site, asked.query.get("suffix", "")):
        conflicts = replica.conflicts()
        count += len(conflicts)
        snapshot = replica.snapshot()
        try:
            found += told(islice(conflicts, CONFLICTS_MAX - len(found)), snapshot)
        finally:
            snapshot.close()
    return Reply(ConflictList(conflicts=tuple(found), more=count - len(found)))


async def resolve_conflict(site: WebContext, asked: Asked) -> Reply:
    choice: Choice = asked.body
    try:
        keep = chosen(choice.take)
    except ValueError as error:
        raise InvalidRequest(str(error)) from error
    for replica in _serving(site, ""):
        conflict = find_conflict(replica.conflicts(), asked.path["id"])
        if conflict is not None:
            return Reply(ConflictResolved(csn=str(await _settled(replica, conflict, keep=keep))))
    raise refuse(
        404,
        "no_such_conflict",
        f"there is no conflict {asked.path['id']!r}, or no longer",
        "GET /v1/directory/conflicts lists those there are.",
    )


async def _settled(replica: Replica, conflict: Conflict, *, keep: bool) -> Csn:
    """Resolve *conflict*; return the change that does once it is durable here."""
    durable = asyncio.Event()
    try:
        csn = replica.settle(conflict, lambda _: durable.set(), keep=keep)
    except DirectoryError as error:
        if error.result in (ResultCode.BUSY, ResultCode.UNAVAILABLE):
            raise Unavailable(error.diagnostic) from error
        raise
    try:
        await asyncio.wait_for(durable.wait(), ORDER_S)
    except TimeoutError:
        raise OutcomeUnknown("the resolution", waited_s=ORDER_S) from None
    return csn


def _service(site: WebContext) -> DirectoryService:
    host_context = site.inside.host_context
    try:
        service = host_context.services.running(DIRECTORY)
    except Unavailable:
        raise _elsewhere() from None
    assert isinstance(service, DirectoryService)
    return service


def _elsewhere() -> Refusal:
    return refuse(
        404,
        "no_directory",
        "this host has no replica of a directory",
        "Ask a host with the role directory: GET /v1/hosts lists them with their doors.",
    )


def _serving(site: WebContext, suffix: str) -> Iterator[Replica]:
    """The replicas that serve here; of that suffix alone, if it is given."""
    hosted = _service(site).hosted
    if suffix and suffix not in hosted:
        raise refuse(
            404,
            "no_directory",
            f"there is no directory {suffix!r}",
            f"GET /v1/directory/replicas lists them: {', '.join(hosted) or 'none yet'}.",
        )
    for name, each in hosted.items():
        served = None if each.replica is None else each.replica.served
        if suffix in ("", name):
            if served is None or not served.is_replicating:
                raise Unavailable(f"the replica of {name} does not serve yet")
            yield served.replica


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/v1/directory/replicas",
        "list_replicas",
        "The replicas of directories on this host",
        "State, vector, links with their lag, and how many conflicts there are.",
        list_replicas,
        ReplicaList,
        "reader",
    ),
    Endpoint(
        "GET",
        "/v1/directory/conflicts",
        "list_conflicts",
        "Conflicts that nobody has resolved",
        f"With both sides, the first {CONFLICTS_MAX:,} of them.",
        list_conflicts,
        ConflictList,
        "admin",
        parameters=(SUFFIX,),
    ),
    Endpoint(
        "POST",
        "/v1/directory/conflicts/{id}",
        "resolve_conflict",
        "Resolve a conflict",
        f"That is a change like others: every master hears of it. `take` is {KEPT} or {LOST}.",
        resolve_conflict,
        ConflictResolved,
        "admin",
        body=Choice,
        path_schemas=ID_SCHEMA,
        is_audited=True,
    ),
)
