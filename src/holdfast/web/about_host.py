"""Hosts, health, metrics."""

from msgspec import Struct
from starlette.responses import Response

from holdfast.model.ids import HostId, Incarnation
from holdfast.web.answering import ALWAYS
from holdfast.web.endpoint import Asked, Endpoint, Reply
from holdfast.web.metrics import MEDIA
from holdfast.web.problems import busy
from holdfast.web.site import Site


class Health(Struct, frozen=True, kw_only=True):
    status: str


class HostInfo(Struct, frozen=True, kw_only=True):
    """One host in session, as the one that answers knows it. An interface: it changes only by adding."""

    host: HostId
    incarnation: Incarnation
    address: str
    """Of the native protocol."""
    http: str | None
    """Of its HTTP door; null when it has none."""
    answers: bool
    """It is the one that answers this."""
    heard_ms: float | None = None
    """Since its last heartbeat; null when it was never heard, and of the one that answers."""
    silent: bool = False


class HostList(Struct, frozen=True, kw_only=True):
    hosts: tuple[HostInfo, ...]


async def health(site: Site, asked: Asked) -> Reply:
    if not site.is_serving:
        raise busy("this host is still starting", "starting")
    return Reply(Health(status="serving"))


async def list_hosts(site: Site, asked: Asked) -> Reply:
    interior = site.inside.interior
    heard = {peer.host: peer for peer in interior.report().peers}
    found = []
    for host, session in sorted(interior.groups.directory.sessions.items()):
        peer = heard.get(host)
        found.append(
            HostInfo(
                host=host,
                incarnation=session.incarnation,
                address=session.address,
                http=session.details.get("http"),
                answers=host == interior.session.host,
                heard_ms=peer.heard_ms if peer is not None else None,
                silent=peer is not None and peer.silent,
            )
        )
    return Reply(HostList(hosts=tuple(found)))


async def metrics(site: Site, asked: Asked) -> Response:
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
    ),
)
