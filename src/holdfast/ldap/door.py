"""The LDAP door of a host: it serves whichever replica the host has, and nobody while it has none.

The port is the host's own for as long as the host has its files; between replicas it is closed, so that
clients go to another master instead of waiting.
"""

import asyncio
import secrets
import socket
from collections.abc import Mapping
from time import monotonic
from typing import Final

import structlog

from holdfast import __version__
from holdfast.directory.hosting.serving import ServedReplica
from holdfast.directory.replication.admission import NotReady, ReferredElsewhere
from holdfast.directory.results import DirectoryError, ResultCode
from holdfast.ldap.limits import DoorLimits
from holdfast.ldap.password_threads import PasswordThreads
from holdfast.ldap.search_task import Referral
from holdfast.ldap.server import LdapServer
from holdfast.ldap.service import DoorPolicy, DoorPorts, Service
from holdfast.machine.process_tuning import spare_what_stays
from holdfast.machine.trace import LibraryLog
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import HostId
from holdfast.net import Address
from holdfast.node.gateway import HostContext
from holdfast.node.layout import Description, Layout
from holdfast.node.links import listen, remember
from holdfast.node.services.directory_service import LDAP, NAME, DirectoryService

ADDRESS: Final = "ldap-address"
"""The file in the host's directory that says where its door was last."""
CLIENTS_MAX: Final = 2_150
"""The most clients of a host's door: with all else, no more files than systems let a process open."""
TRIES: Final = 50
TRY_S: Final = 0.1

log: Final = structlog.get_logger("holdfast.ldap")
changes: Final = LibraryLog("directory")


async def free_port(address: Address) -> Address:
    """An address at which nobody listens. Raises ``Unavailable``."""
    try:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        with socket.create_server((address.host, address.port), family=family) as found:
            return Address(*found.getsockname()[:2])
    except OSError as error:
        raise Unavailable(f"cannot listen at {address}: {error}") from None


class LdapDoor:
    """The LDAP door of a host: implements :class:`holdfast.node.gateway.Gateway`."""

    def __init__(self, layout: Layout, domain: str, host: HostId, description: Description) -> None:
        self._directory = layout.host(host)
        self._description = description
        self._at = Address(description.here.host, description.ports_of(host).ldap)
        self._address: Address | None = None
        self._server: LdapServer | None = None
        self._hasher: PasswordThreads | None = None
        self._entering: asyncio.Task[None] | None = None

    async def open(self) -> Mapping[str, str]:
        try:
            self._address = await listen(self._at, self._directory, free_port, ADDRESS)
        except Unavailable as error:
            log.error("there is no LDAP door", why=str(error))
            return {f"{LDAP}_problem": str(error)}
        return {LDAP: str(self._description.reached(self._address))}

    async def settle(self) -> None:
        if self._address is not None:
            await asyncio.to_thread(remember, self._address, self._directory, ADDRESS)

    def on_turn(self, late_ns: int) -> None:
        return None

    def on_serving(self, host_context: HostContext) -> None:
        try:
            service = host_context.services.running(NAME)
        except Unavailable as error:
            log.error("the LDAP door stays closed", why=str(error))
            return
        if self._address is not None and isinstance(service, DirectoryService):
            self._entering = asyncio.get_running_loop().create_task(service.set_door(self.on_replica))

    async def close(self) -> None:
        if self._entering is not None:
            self._entering.cancel()
            await asyncio.gather(self._entering, return_exceptions=True)
        await self._leave()

    # --- replicas

    async def on_replica(self, served: ServedReplica | None) -> None:
        """Another replica serves, or none."""
        await self._leave()
        if served is None:
            return
        loop = asyncio.get_running_loop()
        self._hasher = hasher = PasswordThreads(loop)
        served.replica.gate = lambda: check_write(served)
        service = Service(
            served.replica,
            DoorPorts(monotonic, secrets.token_bytes, hasher, changes.info),
            DoorLimits(connections=CLIENTS_MAX),
            DoorPolicy(require_tls=not self._at.is_loopback),
            __version__,
        )
        self._server = LdapServer(service, loop)
        await self._listen(self._server)
        spare_what_stays()  # the tree and the schema, of which collections would find nothing

    async def _listen(self, server: LdapServer) -> None:
        assert self._address is not None, "it is told of replicas once it has an address"
        for _ in range(TRIES):
            try:
                await server.listen(self._address.host, self._address.port)
            except OSError as error:
                log.warning("the LDAP port is taken; trying again", at=str(self._address), why=str(error))
                await asyncio.sleep(TRY_S)
            else:
                log.info("the LDAP door is open", at=str(self._address))
                return
        raise InvalidRequest(f"somebody else listens at {self._address}")

    async def _leave(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            try:
                await server.close()
            except TimeoutError:
                log.warning("some LDAP clients did not leave in time")
        if self._hasher is not None:
            self._hasher.close()
            self._hasher = None


def check_write(served: ServedReplica) -> None:
    """Raise what tells an LDAP client why it may not write here, and where it may."""
    try:
        served.replicator.check_write()
    except ReferredElsewhere as elsewhere:
        if elsewhere.masters:
            raise Referral(elsewhere.masters) from None
        raise DirectoryError(ResultCode.UNWILLING_TO_PERFORM, str(elsewhere)) from None
    except NotReady as error:
        raise DirectoryError(ResultCode.UNAVAILABLE, str(error)) from None
