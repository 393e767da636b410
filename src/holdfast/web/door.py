"""The HTTP door of one host: it opens before the session announces it, and admits once the host serves.

It runs uvicorn on the host's own loop, without signal handlers and with a limit on connections. ``ENDPOINTS``
lists all endpoints in the order in which they are documented.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import structlog
import uvicorn
from starlette.types import ASGIApp

from holdfast.admin.request_owners import door_client
from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.client.domain import Domain
from holdfast.model.errors import HoldfastError, InvalidRequest, Unavailable
from holdfast.model.ids import SECOND, HostId
from holdfast.net import Address, Expected, Role, Tls
from holdfast.net.tls import Rotation
from holdfast.node.gateway import HostContext
from holdfast.node.layout import Description, Layout
from holdfast.node.links import listen, remember
from holdfast.web import (
    about_calls,
    about_coordinator,
    about_directory,
    about_events,
    about_faults,
    about_groups,
    about_host,
    about_indexes,
    about_members,
    about_objects,
)
from holdfast.web.about_docs import documented
from holdfast.web.access import AccessPolicy
from holdfast.web.app import make_app
from holdfast.web.context import WebContext
from holdfast.web.coordinator import DOOR
from holdfast.web.endpoint import Endpoint
from holdfast.web.http_connection import HttpConnection
from holdfast.web.https_context import HttpsContext
from holdfast.web.metrics import Metrics
from holdfast.web.settings import (
    CLOSE_S,
    DURATION_S_DEFAULT,
    HEAD_BYTES_MAX,
    KEEP_ALIVE_S,
    HttpSettings,
    read_settings,
)

BACKLOG: Final = 128


async def bind(address: Address) -> socket.socket:
    """A socket that listens at *address*. Raises ``Unavailable``."""
    try:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        listening = socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise Unavailable(f"cannot listen at {address}: {error}") from None
    listening.setblocking(False)
    return listening


class UvicornServer:
    """Serves *app* on *listening*, from its creation until it is closed."""

    def __init__(self, app: ASGIApp, listening: socket.socket, tls: ssl.SSLContext | None) -> None:
        config = uvicorn.Config(
            app,
            http=HttpConnection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=CLOSE_S,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        )
        config.load()
        config.ssl = (
            tls  # set here, because only late versions of uvicorn take a context that is made already
        )
        self._server = _Server(config)
        self._task = asyncio.get_running_loop().create_task(self._server.serve(sockets=[listening]))

    def renew_connections(self) -> None:
        """Let every client connect again when its request is answered: it was let in by older files."""
        for connection in list(self._server.server_state.connections):
            connection.shutdown()

    async def close(self) -> None:
        self._server.should_exit = True
        await asyncio.gather(self._task, return_exceptions=True)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle no signals: the host does."""
        yield


ENDPOINTS: Final[tuple[Endpoint, ...]] = documented(
    (
        *about_host.ENDPOINTS,
        *about_groups.ENDPOINTS,
        *about_members.ENDPOINTS,
        *about_objects.OBJECT_ENDPOINTS,
        *about_objects.PROPERTY_ENDPOINTS,
        *about_calls.ENDPOINTS,
        *about_events.ENDPOINTS,
        *about_faults.ENDPOINTS,
        *about_indexes.ENDPOINTS,
        *about_directory.ENDPOINTS,
        *about_coordinator.ENDPOINTS,
    )
)


ADDRESS: Final = "http-address"
"""The file in the host's directory that says where its door was last."""
RETRY_S: Final = 1.0

log = structlog.get_logger("holdfast.http")


class HttpDoor:
    """The HTTP door of a host: implements :class:`holdfast.node.gateway.Gateway`."""

    def __init__(
        self,
        layout: Layout,
        domain: str,
        host: HostId,
        machine: Description | None = None,
        rotation: Rotation | None = None,
    ) -> None:
        """*machine* describes the machine of a domain on several: without settings, its door is beside the
        host's own, for whoever has a certificate."""
        self._layout = layout
        self._machine = machine if machine is not None and machine.machine else None
        self._port = 0 if machine is None else machine.ports_of(host).http
        self._https: HttpsContext | None = None
        self._rotation = rotation
        self._domain = domain
        self._host = host
        self._metrics = Metrics()
        self._address: Address | None = None
        self._site: WebContext | None = None
        self._serving: UvicornServer | None = None
        self._entering: asyncio.Task[None] | None = None
        self._client: Domain | None = None

    async def open(self) -> Mapping[str, str]:
        try:
            settings = read_settings(self._layout.directory, self._default())
            return await self._open(settings) if settings.listen else {}
        except (InvalidRequest, Unavailable) as error:
            # `holdfast status` shows that the door is closed; the host's groups are not affected.
            log.error("there is no HTTP door", why=str(error))
            return {"http_problem": str(error)}

    async def _open(self, settings: HttpSettings) -> Mapping[str, str]:
        directory = self._layout.host(self._host)
        tls = self._load_tls(settings)
        wanted = Address.parse(settings.listen)
        at = Address(wanted.host, wanted.port or self._port)
        listening = await listen(at, directory, bind, ADDRESS)
        self._address = address = Address(*listening.getsockname()[:2])
        self._site = WebContext(AccessPolicy(settings, self._domain), self._metrics)
        self._serving = UvicornServer(make_app(self._site, ENDPOINTS), listening, tls)
        reached = address if self._machine is None else self._machine.reached(address)
        return {DOOR: f"{'https' if tls is not None else 'http'}://{reached}"}

    def _default(self) -> HttpSettings:
        machine = self._machine
        if machine is None or not machine.certs:
            return HttpSettings()
        return HttpSettings(listen=str(machine.here), certs=machine.certs)

    async def settle(self) -> None:
        if self._address is not None:
            await asyncio.to_thread(remember, self._address, self._layout.host(self._host), ADDRESS)

    def _load_tls(self, settings: HttpSettings) -> ssl.SSLContext | None:
        if not settings.certs:
            return None
        self._https = HttpsContext(
            Tls.load(self._layout.directory / settings.certs, Role.HOST, self._host, self._rotation)
        )
        return self._https.first

    def on_turn(self, late_ns: int) -> None:
        self._metrics.on_turn(late_ns)
        if self._https is not None and self._https.take_renewal() and self._serving is not None:
            self._serving.renew_connections()

    def on_serving(self, host_context: HostContext) -> None:
        if self._site is not None:
            self._entering = asyncio.get_running_loop().create_task(self._enter(self._site, host_context))

    async def _enter(self, site: WebContext, host_context: HostContext) -> None:
        """Connect to the domain as a client, through this host at first."""
        endpoint = replace(host_context.endpoint, expected=Expected(roles=frozenset({Role.HOST})))
        while True:
            self._client = client = Domain(
                endpoint,
                [Address.parse(host_context.session.address)],
                CallPolicy(duration_ns=round(DURATION_S_DEFAULT * SECOND)),
                ClientConfig(),
                insecure=False,
                new_client=door_client,
            )
            try:
                await client.__aenter__()
            except HoldfastError as error:
                log.warning("the HTTP door cannot reach its own host", why=str(error))
                await asyncio.sleep(RETRY_S)
            else:
                site.on_serving(host_context, client)
                return

    async def close(self) -> None:
        if self._entering is not None:
            self._entering.cancel()
            await asyncio.gather(self._entering, return_exceptions=True)
        if self._serving is not None:
            await self._serving.close()
        if self._site is not None:
            await self._site.close()
        if self._client is not None:
            await self._client.close()
