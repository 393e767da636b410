"""The LDAP door of a host: it serves whichever replicas the host has, and nobody while it has none.

The port is the host's own for as long as the host has its files; while there is no replica it is closed, so
that clients go to another master instead of waiting. When one of several suffixes leaves, all clients are
told to come again: their searches may hold what goes.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
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
from holdfast.ldap.tls_files import DoorFiles, DoorTls
from holdfast.machine.process_tuning import spare_what_stays
from holdfast.machine.trace import LibraryLog
from holdfast.model.csn import Csn
from holdfast.model.errors import HoldfastError, InvalidRequest, Unavailable
from holdfast.model.ids import HostId
from holdfast.net import Address, Role
from holdfast.net.tls import TlsFiles
from holdfast.node.gateway import HostContext
from holdfast.node.layout import Description, Layout
from holdfast.node.links import listen, remember
from holdfast.node.services.directory_service import LDAP, LDAPS, NAME, ClientCounts, DirectoryService
from holdfast.settings.file import read_applied

ADDRESS: Final = "ldap-address"
"""The file in the host's directory that says where its door was last."""
SECURE_ADDRESS: Final = "ldaps-address"
LOOK_S: Final = 5.0
"""How often certificates are looked at that may have been renewed."""
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
        self._layout = layout
        self._host = host
        self._directory = layout.host(host)
        self._description = description
        self._at = Address(description.here.host, description.ports_of(host).ldap)
        self._address: Address | None = None
        self._secure: Address | None = None
        """Where LDAPS is."""
        self._tls: DoorTls | None = None
        self._looked = monotonic()
        self._must_be_secure = not self._at.is_loopback
        """Whether passwords are taken over TLS alone."""
        self._service: Service | None = None
        self._server: LdapServer | None = None
        self._hasher: PasswordThreads | None = None
        self._entering: asyncio.Task[None] | None = None
        self._served: dict[str, ServedReplica] = {}
        """What is served, by suffix."""
        self._changing = asyncio.Lock()
        """Of several replicas one begins or ends at a time."""
        self._is_closed = False

    async def open(self) -> Mapping[str, str]:
        try:
            self._tls = self._load_tls()
            self._address = await listen(self._at, self._directory, free_port, ADDRESS)
            details = {LDAP: str(self._description.reached(self._address))}
            if self._tls is not None:
                at = Address(self._at.host, self._description.ports_of(self._host).ldaps)
                self._secure = await listen(at, self._directory, free_port, SECURE_ADDRESS)
                details[LDAPS] = str(self._description.reached(self._secure))
        except (InvalidRequest, Unavailable) as error:
            self._address = None
            log.error("there is no LDAP door", why=str(error))
            return {f"{LDAP}_problem": str(error)}
        return details

    def _load_tls(self) -> DoorTls | None:
        """The certificate that settings name, or the host's own, if the domain has certificates."""
        directory = self._layout.directory
        config = read_applied(directory, os.environ).settings.ldap
        self._must_be_secure = self._must_be_secure or config.require_tls
        if config.certificate:
            ca = directory / config.ca if config.ca else None
            return DoorTls(DoorFiles(directory / config.certificate, directory / config.key, ca))
        if self._description.certs:
            certs = Path(self._description.certs)
            _, certificate, key = TlsFiles(certs, f"{Role.HOST}-{self._host}").paths
            # The domain's CA signs hosts and programs, not persons: nobody is an entry by it.
            return DoorTls(DoorFiles(certificate, key))
        return None

    async def settle(self) -> None:
        for address, file in ((self._address, ADDRESS), (self._secure, SECURE_ADDRESS)):
            if address is not None:
                await asyncio.to_thread(remember, address, self._directory, file)

    def on_turn(self, late_ns: int) -> None:
        if self._tls is not None and monotonic() - self._looked > LOOK_S:
            self._looked = monotonic()
            self._tls.look()

    def on_serving(self, host_context: HostContext) -> None:
        try:
            service = host_context.services.running(NAME)
        except Unavailable as error:
            log.error("the LDAP door stays closed", why=str(error))
            return
        if self._address is not None and isinstance(service, DirectoryService):
            service.count_clients = self._counts
            self._entering = asyncio.get_running_loop().create_task(service.set_door(self.on_replica))

    async def close(self) -> None:
        self._is_closed = True
        if self._entering is not None:
            self._entering.cancel()
            await asyncio.gather(self._entering, return_exceptions=True)
        await self._leave()

    def _counts(self) -> ClientCounts:
        service = self._service
        if service is None:
            return ClientCounts(0, 0, 0)
        return ClientCounts(service.connections, service.operations, service.searches)

    # --- replicas

    async def on_replica(self, suffix: str, served: ServedReplica | None) -> None:
        """Another replica of *suffix* serves, or none."""
        async with self._changing:
            if served is not None and self._served.get(suffix) is served:
                return  # told twice
            gone = self._served.pop(suffix, None)
            if served is not None:
                self._served[suffix] = served
            if gone is not None:
                await self._leave()
            if self._service is not None and served is not None:
                self._add(self._service, served)
            elif self._served and self._service is None and not self._is_closed:
                await self._enter()
            if served is not None:
                spare_what_stays()  # the tree and the schema, of which collections would find nothing

    def _add(self, service: Service, served: ServedReplica) -> None:
        served.replica.gate = lambda: check_write(served)
        service.add(served.replica, OtherMasters(served))

    async def _enter(self) -> None:
        """Serve all that there is."""
        loop = asyncio.get_running_loop()
        self._hasher = hasher = PasswordThreads(loop)
        first, *others = self._served.values()
        first.replica.gate = lambda: check_write(first)
        service = Service(
            first.replica,
            DoorPorts(monotonic, secrets.token_bytes, hasher, changes.info),
            DoorLimits(connections=CLIENTS_MAX),
            DoorPolicy(require_tls=self._must_be_secure),
            __version__,
            OtherMasters(first),
        )
        for each in others:
            self._add(service, each)
        self._service = service
        self._server = LdapServer(service, loop, None if self._tls is None else self._tls.context)
        assert self._address is not None, "it is told of replicas once it has an address"
        await self._listen(self._server, self._address)
        if self._secure is not None:
            await self._listen(self._server, self._secure, is_tls=True)

    async def _listen(self, server: LdapServer, at: Address, *, is_tls: bool = False) -> None:
        for _ in range(TRIES):
            try:
                await server.listen(at.host, at.port, is_tls=is_tls)
            except OSError as error:
                log.warning("the LDAP port is taken; trying again", at=str(at), why=str(error))
                await asyncio.sleep(TRY_S)
            else:
                log.info("the LDAP door is open", at=str(at), is_tls=is_tls)
                return
        raise InvalidRequest(f"somebody else listens at {at}")

    async def _leave(self) -> None:
        server, self._server = self._server, None
        self._service = None
        if server is not None:
            try:
                await server.close()
            except TimeoutError:
                log.warning("some LDAP clients did not leave in time")
        if self._hasher is not None:
            self._hasher.close()
            self._hasher = None


class OtherMasters:
    """The other masters as a second store (:class:`.service.SecondStore`)."""

    def __init__(self, served: ServedReplica) -> None:
        self._served = served
        self.is_asked = served.replicator.config.acknowledge_stores > 1

    def check_room(self) -> None:
        self._served.replicator.acknowledgements.check_room()

    def wait(self, csn: Csn, answer: Callable[[HoldfastError | None], None]) -> None:
        self._served.replicator.acknowledge(csn, answer)


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
