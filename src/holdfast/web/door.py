"""The HTTP door of one host: open before its session says where it is; lets in once the host serves."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import structlog

from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.client.domain import Domain
from holdfast.model.errors import HoldfastError, InvalidRequest, Unavailable
from holdfast.model.ids import HostId
from holdfast.model.units import SECOND
from holdfast.net import Address, Expected, Role, Tls
from holdfast.node.door import Interior
from holdfast.node.layout import Layout
from holdfast.node.listening import listen, remember
from holdfast.web.app import make_app
from holdfast.web.bounds import DURATION_S_DEFAULT
from holdfast.web.leading import DOOR
from holdfast.web.metrics import Metrics
from holdfast.web.policy import Policy
from holdfast.web.serving import Serving, bind
from holdfast.web.settings import HttpSettings, read_settings
from holdfast.web.site import Site
from holdfast.web.table import ENDPOINTS

ADDRESS: Final = "http-address"
"""The file in the host's directory that says where its door was last."""
RETRY_S: Final = 1.0

log = structlog.get_logger("holdfast.http")


class HttpDoor:
    """A :class:`holdfast.node.door.Door`."""

    def __init__(self, layout: Layout, domain: str, host: HostId) -> None:
        self._layout = layout
        self._domain = domain
        self._host = host
        self._metrics = Metrics()
        self._address: Address | None = None
        self._site: Site | None = None
        self._serving: Serving | None = None
        self._entering: asyncio.Task[None] | None = None
        self._client: Domain | None = None

    async def open(self) -> Mapping[str, str]:
        try:
            settings = read_settings(self._layout.directory)
            return await self._open(settings) if settings.listen else {}
        except (InvalidRequest, Unavailable) as error:
            # A door that stays shut is seen in `holdfast status`; the host's groups have no part in it.
            log.error("there is no HTTP door", why=str(error))
            return {"http_problem": str(error)}

    async def _open(self, settings: HttpSettings) -> Mapping[str, str]:
        directory = self._layout.host(self._host)
        tls = self._tls(settings)
        listening = await listen(Address.parse(settings.listen), directory, bind, ADDRESS)
        self._address = address = Address(*listening.getsockname()[:2])
        self._site = Site(Policy(settings, self._domain), self._metrics)
        self._serving = Serving(make_app(self._site, ENDPOINTS), listening, tls)
        return {DOOR: f"{'https' if tls is not None else 'http'}://{address}"}

    async def settle(self) -> None:
        if self._address is not None:
            await asyncio.to_thread(remember, self._address, self._layout.host(self._host), ADDRESS)

    def _tls(self, settings: HttpSettings) -> ssl.SSLContext | None:
        if not settings.certs:
            return None
        context = Tls.load(self._layout.directory / settings.certs, Role.HOST, self._host).acceptor
        context.verify_mode = ssl.CERT_OPTIONAL  # others have tokens
        return context

    def on_turn(self, late_ns: int) -> None:
        self._metrics.on_turn(late_ns)

    def on_serving(self, interior: Interior) -> None:
        if self._site is not None:
            self._entering = asyncio.get_running_loop().create_task(self._enter(self._site, interior))

    async def _enter(self, site: Site, interior: Interior) -> None:
        """Be a client of the domain, through this host at first."""
        endpoint = replace(interior.endpoint, expected=Expected(roles=frozenset({Role.HOST})))
        while True:
            self._client = client = Domain(
                endpoint,
                [Address.parse(interior.session.address)],
                CallPolicy(duration_ns=round(DURATION_S_DEFAULT * SECOND)),
                ClientConfig(),
                insecure=False,
            )
            try:
                await client.__aenter__()
            except HoldfastError as error:
                log.warning("the HTTP door cannot reach its own host", why=str(error))
                await asyncio.sleep(RETRY_S)
            else:
                site.let_in(interior, client)
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
