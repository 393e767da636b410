"""Endpoints about hosts, health and metrics."""

from msgspec import Struct
from starlette.responses import Response

from holdfast.model.admin.hosts import DrainHost
from holdfast.model.admin.hosts import HostList as AllHosts
from holdfast.model.ids import HostId, Incarnation
from holdfast.net import Role
from holdfast.web.context import WebContext
from holdfast.web.coordinator import DOOR
from holdfast.web.endpoint import ALWAYS, Asked, Endpoint, Reply
from holdfast.web.metrics import MEDIA
from holdfast.web.problems import busy

HOST_SCHEMA = {"host": {"type": "string", "minLength": 1, "maxLength": 100}}


class Health(Struct, frozen=True, kw_only=True):
    status: str


class HostInfo(Struct, frozen=True, kw_only=True):
    """One host in session, as the answering host knows it. This interface changes only by additions."""

    host: HostId
    incarnation: Incarnation
    address: str
    """The address of the native protocol."""
    http: str | None
    """The address of its HTTP door; null if it has none."""
    answers: bool
    """Whether it is the host that gives this answer."""
    heard_ms: float | None = None
    """Milliseconds since its last heartbeat; null if it was never heard, and for the answering host."""
    silent: bool = False
    location: str = ""
    """Where it is, as rack1/m2."""
    roles: tuple[str, ...] = ()
    """What it is for: groups, directory, search, streams."""


class HostList(Struct, frozen=True, kw_only=True):
    hosts: tuple[HostInfo, ...]


class Emptied(Struct, frozen=True, kw_only=True):
    """Whether a host is being drained, and how far that has come."""

    host: HostId
    is_draining: bool
    """Whether it is to have no members."""
    members: int
    """How many members it still has."""


async def health(site: WebContext, asked: Asked) -> Reply:
    if not site.is_serving:
        raise busy("this host is still starting", "starting")
    return Reply(Health(status="serving"))


async def list_hosts(site: WebContext, asked: Asked) -> Reply:
    host_context = site.inside.host_context
    heard = {peer.host: peer for peer in host_context.report().peers}
    found = []
    for host, session in sorted(host_context.groups.catalog.sessions.items()):
        peer = heard.get(host)
        found.append(
            HostInfo(
                host=host,
                incarnation=session.incarnation,
                address=session.address,
                http=session.details.get(DOOR),
                answers=host == host_context.session.host,
                heard_ms=peer.heard_ms if peer is not None else None,
                silent=peer is not None and peer.silent,
                location=session.location,
                roles=session.roles,
            )
        )
    return Reply(HostList(hosts=tuple(found)))


async def drain_host(site: WebContext, asked: Asked) -> Reply:
    return await _emptied(site, asked, is_draining=True)


async def undrain_host(site: WebContext, asked: Asked) -> Reply:
    return await _emptied(site, asked, is_draining=False)


async def _emptied(site: WebContext, asked: Asked, *, is_draining: bool) -> Reply:
    order = DrainHost(host=HostId(asked.path["host"]), is_draining=is_draining)
    found = await site.inside.orders.give(order, Role.ADMIN, AllHosts)
    hosted = next(each for each in found.hosts if each.host == order.host)
    return Reply(Emptied(host=order.host, is_draining=is_draining, members=hosted.members))


async def metrics(site: WebContext, asked: Asked) -> Response:
    return Response(site.metrics.text(), headers={**ALWAYS, "content-type": MEDIA})


ENDPOINTS = (
    Endpoint(
        "GET",
        "/healthz",
        "health",
        "Does this host serve?",
        "200 when it does, 503 while it starts. For anybody, and says no more.",
        health,
        Health,
        None,
    ),
    Endpoint(
        "GET",
        "/metrics",
        "metrics",
        "Metrics for Prometheus",
        "Of this host and the groups it has members of.",
        metrics,
        None,
        "reader",
        media="text/plain",
    ),
    Endpoint(
        "GET",
        "/v1/hosts",
        "list_hosts",
        "The hosts in session",
        "With the addresses of their doors.",
        list_hosts,
        HostList,
        "reader",
        tells_term=True,
    ),
    Endpoint(
        "POST",
        "/v1/hosts/{host}/drain",
        "drain_host",
        "Empty a host",
        "Every member on it is made anew elsewhere first; it takes none until it is told otherwise.",
        drain_host,
        Emptied,
        "admin",
        path_schemas=HOST_SCHEMA,
        is_audited=True,
        is_led=True,
    ),
    Endpoint(
        "DELETE",
        "/v1/hosts/{host}/drain",
        "undrain_host",
        "Let a host take members again",
        "Those that have left do not come back by themselves.",
        undrain_host,
        Emptied,
        "admin",
        path_schemas=HOST_SCHEMA,
        is_audited=True,
        is_led=True,
    ),
)
