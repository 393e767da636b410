"""Endpoints with the paths and names of the index coordinator's source (IM I, J), and who coordinates (IM K).

Every request and every answer, errors included, carries the term and the CAS of its sender (N-5). In a
request, ``current_term`` is compared: an older one is refused, and a newer one means that this host is out of
date, so it finds out its role again (IM-142). It never adopts a term from a request: only the authority
begins one. ``cas`` is the newest state that the sender has seen: a host that knows less does not answer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

from msgspec import Meta, Struct

from holdfast.admin.control_plane import ControlPlane
from holdfast.admin.indexes import IndexesAdmin
from holdfast.authority.driver import insist
from holdfast.authority.membership import Cluster, read_cluster
from holdfast.authority.recipe import perform
from holdfast.control.desired.indexes import MAX_REPLICAS, PARTITIONS_MAX, IndexInfo, Unsigned
from holdfast.model.admin.domain import IDS_MAX, PARTITIONS_DEFAULT, REPLICAS_OF_PARTITION_DEFAULT
from holdfast.model.errors import HoldfastError, Unavailable
from holdfast.web.about_indexes import wish_id
from holdfast.web.access import require
from holdfast.web.context import WebContext
from holdfast.web.coordinator import Elsewhere, require_leader
from holdfast.web.endpoint import Asked, Endpoint, Reply
from holdfast.web.problems import Problem, Refusal, busy, refusal_of, refuse
from holdfast.web.request import KEY
from holdfast.web.settings import ORDER_S

INDEX: Final = "/cluster/index"
SUCCESS: Final = "success"
_WORDS: Final = {"not_coordinator": "NOT_MASTER", "no_coordinator": "NO_MASTER"}
"""Statuses for which the source has other names than this API's codes."""

Ids = Annotated[tuple[Unsigned, ...], Meta(max_length=IDS_MAX)]


# --- requests


class Heartbeat(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    current_term: Unsigned
    cas: Unsigned = 0


class NewMaster(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    current_term: Unsigned
    cas: Unsigned = 0
    master: str = ""
    """The coordinator's connection address, as the sender believes; the authority is asked (N-6)."""
    replicas: tuple[str, ...] = ()


class CreateIndex(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="command", tag="CreateIndex"
):
    current_term: Unsigned
    indexinfo: IndexInfo
    """The index, without ``id``, which the coordinator assigns."""
    cas: Unsigned = 0
    numPartitions: Annotated[int, Meta(ge=1, le=PARTITIONS_MAX)] = PARTITIONS_DEFAULT
    numReplicas: Annotated[int, Meta(ge=0, le=MAX_REPLICAS)] = REPLICAS_OF_PARTITION_DEFAULT


class DropIndex(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="command", tag="DropIndex"
):
    current_term: Unsigned
    indexid: Ids
    cas: Unsigned = 0


class ListIndex(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="command", tag="ListIndex"
):
    current_term: Unsigned
    indexids: Ids = ()
    """The indexes to list; if empty, all active ones."""
    cas: Unsigned = 0


Statement = CreateIndex | DropIndex | ListIndex


# --- answers


class Answered(Struct, frozen=True, kw_only=True, omit_defaults=True):
    current_term: int
    cas: int
    status: str
    """``success``, or the code of the error in capitals."""
    indexinfo: IndexInfo | tuple[IndexInfo, ...] | None = None
    """For CreateIndex, the index that was made; for ListIndex, a list."""
    master: str | None = None
    """The URL of the coordinator's door, with NOT_MASTER."""
    error: Problem | None = None


class Beat(Struct, frozen=True, kw_only=True):
    current_term: int
    cas: int


class Coordination(Struct, frozen=True, kw_only=True):
    """Who is in the control plane, as the authority knows at this moment."""

    current_term: int
    cas: int
    cluster: Cluster
    role: str
    """The role of the host that answers: bootstrap, coordinator, replica or onlooker."""


# --- handlers


async def heartbeat(site: WebContext, asked: Asked) -> Reply:
    """Answer in any role (IM-104)."""
    control = site.inside.host_context.control
    if asked.body.current_term > control.term:
        control.rejoin(f"term {asked.body.current_term} is heard of")
    return Reply(Beat(current_term=control.term, cas=control.cas))


async def bootstrap(site: WebContext, asked: Asked) -> Reply:
    """Make this host give up its role, whichever it is, and join again (IM-107 to IM-109)."""

    async def work(control: ControlPlane) -> Answered:
        control.rejoin("it was told to")
        return _well(control)

    return await _answered(site, asked.body.current_term, work)


async def newmaster(site: WebContext, asked: Asked) -> Reply:
    """Handle news of a coordinator: at an unknown term, this host finds out its role again (IM-112)."""
    term = asked.body.current_term

    async def work(control: ControlPlane) -> Answered:
        if term > control.term:
            control.rejoin(f"term {term} has a coordinator")
        return _well(control)

    return await _answered(site, term, work)


async def index(site: WebContext, asked: Asked) -> Reply:
    statement: Statement = asked.body
    if not isinstance(statement, ListIndex):
        require(asked.caller, "admin")

    async def work(control: ControlPlane) -> Answered:
        if statement.current_term > control.term:
            if asked.caller.has("admin"):  # a mere reader must not make a coordinator step down
                control.rejoin(f"term {statement.current_term} is heard of")
            raise busy(f"this host knows of term {control.term} only, and looks again", "behind")
        require_leader(site.leadership, INDEX)
        if statement.cas > control.cas:
            raise busy(f"this host knows the state of {control.cas}, not of {statement.cas}", "behind")
        host_context = site.inside.host_context
        indexes_admin = IndexesAdmin(host_context.groups.catalog, control, host_context.authority)
        return await _done(statement, indexes_admin, control, wish_id(asked))

    return await _answered(site, statement.current_term, work)


async def _done(
    statement: Statement, indexes_admin: IndexesAdmin, control: ControlPlane, id: str
) -> Answered:
    match statement:
        case CreateIndex(indexinfo=info, numPartitions=partitions, numReplicas=replicas):
            cas, made = await indexes_admin.create(info, partitions=partitions, replicas=replicas, id=id)
            return _well(control, cas, made.indexinfo)
        case DropIndex(indexid=ids):
            return _well(control, await indexes_admin.drop(ids, id=id))
        case ListIndex(indexids=ids):
            cas, found = await indexes_admin.read(ids)
            return _well(control, cas, found)


async def coordinator(site: WebContext, asked: Asked) -> Reply:
    host_context = site.inside.host_context
    try:
        async with asyncio.timeout(ORDER_S):
            cluster = await insist(lambda: perform(host_context.authority, read_cluster()), Cluster)
    except TimeoutError:
        raise Unavailable(f"the authority did not answer within {ORDER_S:g} s") from None
    control = host_context.control
    return Reply(
        Coordination(current_term=control.term, cas=control.cas, cluster=cluster, role=control.role.value)
    )


def _well(
    control: ControlPlane, cas: int | None = None, indexinfo: IndexInfo | tuple[IndexInfo, ...] | None = None
) -> Answered:
    return Answered(
        current_term=control.term,
        cas=control.cas if cas is None else cas,
        status=SUCCESS,
        indexinfo=indexinfo,
    )


async def _answered(
    site: WebContext, term: int, work: Callable[[ControlPlane], Awaitable[Answered]]
) -> Reply:
    """The answer of *work*, or the error, in either case with this host's term and CAS."""
    control = site.inside.host_context.control
    try:
        if term < control.term:
            text, advice = f"the term is {control.term}, not {term}", "Repeat it with the one answered here."
            raise refuse(409, "stale_term", text, advice)
        return Reply(await work(control))
    except (Refusal, HoldfastError) as error:
        refusal = error if isinstance(error, Refusal) else refusal_of(error)
        leader = site.leadership.leader()
        refusal.body = Answered(
            current_term=control.term,
            cas=control.cas,
            status=_WORDS.get(refusal.problem.code, refusal.problem.code.upper()),
            master=leader.url if isinstance(leader, Elsewhere) else None,
            error=refusal.problem,
        )
        raise refusal from None


ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/coordinator",
        "coordinator",
        "Who coordinates the domain",
        "And who follows, by their addresses, as the authority knows at this moment; `masterAddr` is empty "
        "while nobody is elected.",
        coordinator,
        Coordination,
        "reader",
    ),
    Endpoint(
        "POST",
        INDEX,
        "index",
        "CreateIndex, DropIndex, ListIndex",
        "Each is one update of the domain's state. Only the coordinator answers; another host names it "
        "(307, NOT_MASTER), or says that there is none (503, NO_MASTER).",
        index,
        Answered,
        "reader",
        body=Statement,
        parameters=(KEY,),
        is_audited=True,
        subject=lambda statement: type(statement).__name__,
    ),
    Endpoint(
        "POST",
        "/cluster/heartbeat",
        "heartbeat",
        "Is this host's part in the control plane alive?",
        "Answered in whatever role. A newer term than its own makes it look anew which role it has.",
        heartbeat,
        Beat,
        "admin",
        body=Heartbeat,
    ),
    Endpoint(
        "POST",
        "/cluster/bootstrap",
        "bootstrap",
        "Let this host find its role anew",
        "Updates under way are cancelled, or settled by what the authority recorded.",
        bootstrap,
        Answered,
        "admin",
        body=Heartbeat,
        is_audited=True,
    ),
    Endpoint(
        "POST",
        "/cluster/newmaster",
        "newmaster",
        "Tell this host of a new coordinator",
        "It asks the authority, which alone says who that is, and follows it, or coordinates itself.",
        newmaster,
        Answered,
        "admin",
        body=NewMaster,
        is_audited=True,
    ),
)
