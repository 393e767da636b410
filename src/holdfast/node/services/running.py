"""The services of a host: parts that run beside its groups, each where its role is.

A service is entered once, in :mod:`.service_table`: its name, the role of the hosts that run it, how it is
made, and which kinds of frames it takes from other hosts. It has a directory of its own below the host's, and
makes connections of its own. Services start in the order of the table, after the store is open and before
groups are, and stop in the opposite order, after the groups.

None of a service's failures may end the host, except a failing disk (D1). A service that fails is stopped,
reported as a fault, and shown by `holdfast status`; the host and its other services go on.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import structlog

from holdfast.authority.recipe import Authority
from holdfast.authority.sessions import Session
from holdfast.machine.files import make_durably
from holdfast.machine.workers import Workers
from holdfast.model.errors import DISK_ERRORS, HoldfastError, Unavailable
from holdfast.model.host_parts import ServiceStatus
from holdfast.model.ids import HostId
from holdfast.model.ports import Trace
from holdfast.net import Address, ConnectionSettings, Kind, Role
from holdfast.net.handshake import Admission
from holdfast.node.host_config import HostConfig
from holdfast.node.port_table import HostPorts
from holdfast.storage.volume import translated

DIRECTORY: Final = "services"
"""The directory within the host's that has one for each service."""
CLOSE_S: Final = 15.0
"""A service that has not stopped by then is left behind: the process ends, and the service with it."""

log = structlog.get_logger("holdfast.services")


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """What a host gives to a service as it makes it."""

    host: HostId
    directory: Path
    """The service's own. It exists when the service is started, and not before."""
    endpoint: ConnectionSettings
    """The identity with which the host talks to others."""
    listen_at: Address
    """Where the host listens; services take other ports."""
    ports: HostPorts
    """The ports of this host, if they are fixed."""
    reached: Callable[[Address], Address]
    """How others reach an address of this machine."""
    trace: Trace
    workers: Workers
    authority: Authority
    config: HostConfig
    service_of: Callable[[str], "Service"]
    """Another service of this host that runs; raises ``Unavailable``. For any time after the start."""
    detail_of: Callable[[HostId, str], str]
    """What another host's session says under that name; empty if it says nothing. For any thread."""
    on_disk_failed: Callable[[HoldfastError], None]
    """To be told when the disk fails: the host ends (D1). For any thread."""
    on_failed: Callable[[HoldfastError], None]
    """To be told when the service can do nothing any more. For any thread."""


class Service(Protocol):
    """One service of one host."""

    async def listen(self) -> Mapping[str, str]:
        """Listen, if the service does; returns what the session's details shall say about it. The host is
        still starting and nothing watches its disk yet, so this writes nothing."""

    async def start(self) -> None:
        """Begin to work; the store is open. Raises what keeps it from that."""

    def on_frame(self, host: HostId, kind: Kind, payload: bytes) -> None:
        """Take a frame of one of the kinds in the table. Raises ``msgspec.DecodeError``."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ServiceEntry:
    """One row of the table of services."""

    name: str
    role: str | None
    """The hosts that run it: those of this role, or all of them."""
    make: Callable[[ServiceContext], Service]
    kinds: frozenset[Kind] = frozenset()
    """What it takes from other hosts on the host's own connections. Connections that it makes itself are not
    meant."""
    files_max: int = 0
    """The most files and connections that it has open at a time."""


@dataclass(slots=True)
class _Running:
    entry: ServiceEntry
    directory: Path
    service: Service | None = None
    state: str = "starting"
    why: str = ""


class HostServices:
    """The services that one host runs."""

    def __init__(self, table: Iterable[ServiceEntry], roles: frozenset[str], directory: Path) -> None:
        """*directory* is the host's."""
        self._running = {
            each.name: _Running(each, directory / DIRECTORY / each.name)
            for each in table
            if each.role is None or each.role in roles
        }
        self._by_kind = {kind: each for each in self._running.values() for kind in each.entry.kinds}
        self._loop = asyncio.get_running_loop()
        self._details: Mapping[HostId, Mapping[str, str]] = {}
        self._on_disk_failed: Callable[[HoldfastError], None] = lambda _: None
        self._on_fault: Callable[[str, str], None] | None = None
        self._is_closing = False

    # --- its life

    async def listen(self, context: Callable[..., ServiceContext]) -> Mapping[str, str]:
        """Make the services and let them listen; returns what the session shall say about them. *context* is
        given what this table knows."""
        details: dict[str, str] = {}
        for name, each in self._running.items():
            try:
                each.service = each.entry.make(
                    context(
                        directory=each.directory,
                        detail_of=self.detail_of,
                        service_of=self.running,
                        on_disk_failed=self._disk_failed,
                        on_failed=lambda error, name=name: self._call_soon(self._fail, name, error),
                    )
                )
                details |= await each.service.listen()
            except HoldfastError as error:
                self._fail(name, error)
        return details

    async def start(self, on_disk_failed: Callable[[HoldfastError], None]) -> None:
        """Start what listens, one after the other. Raises the errors of a failing disk (D1); *on_disk_failed*
        is told of those that come later."""
        self._on_disk_failed = on_disk_failed
        for name, each in self._running.items():
            if each.service is None or each.state == "failed":
                continue
            try:
                await asyncio.to_thread(_make, each.directory)
                await each.service.start()
            except DISK_ERRORS:
                raise
            except HoldfastError as error:
                self._fail(name, error)
            if each.state == "starting":
                each.state = "runs"
                log.info("a service runs", service=name)

    def report_to(self, on_fault: Callable[[str, str], None]) -> None:
        """Tell *on_fault* the name of each service that has failed or fails, and why."""
        self._on_fault = on_fault
        for name, each in self._running.items():
            if each.state == "failed":
                on_fault(name, each.why)

    async def close(self) -> None:
        """Stop all, the last first."""
        self._is_closing = True
        for name, each in reversed(self._running.items()):
            if each.service is not None:
                try:
                    async with asyncio.timeout(CLOSE_S):
                        await each.service.close()
                except (TimeoutError, HoldfastError) as error:
                    log.warning("a service did not stop in order", service=name, why=repr(error))
            each.state = "stopped"

    # --- what it hears

    @property
    def admits(self) -> Admission:
        """The kinds of frames that the host takes for its services, from hosts only."""
        return dict.fromkeys(self._by_kind, frozenset({Role.HOST}))

    def takes(self, kind: Kind) -> bool:
        return kind in self._by_kind

    def on_frame(self, host: HostId, kind: Kind, payload: bytes) -> None:
        """Hand a frame to the service of its kind; one that does not run is as good as one on a host that is
        down. Raises ``msgspec.DecodeError``."""
        running = self._by_kind[kind]
        if running.service is not None and running.state == "runs":
            running.service.on_frame(host, kind, payload)

    def on_hosts(self, sessions: Mapping[HostId, Session]) -> None:
        """Note the sessions of the domain's hosts, where each says where its services listen."""
        self._details = {host: session.details for host, session in sessions.items()}

    def detail_of(self, host: HostId, name: str) -> str:
        return self._details.get(host, {}).get(name, "")

    # --- what it shows

    @property
    def status(self) -> tuple[ServiceStatus, ...]:
        return tuple(
            ServiceStatus(name=name, state=each.state, why=each.why) for name, each in self._running.items()
        )

    def running(self, name: str) -> Service:
        """A service that runs. Raises ``Unavailable``, which says why it does not."""
        each = self._running.get(name)
        if each is None:
            raise Unavailable(f"this host does not run {name}")
        if each.service is None or each.state != "runs":
            raise Unavailable(f"{name} does not run here: {each.why or each.state}")
        return each.service

    # --- failures

    def _call_soon(self, work: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work, *arguments)

    def _disk_failed(self, error: HoldfastError) -> None:
        self._call_soon(self._on_disk_failed, error)

    def _fail(self, name: str, error: HoldfastError) -> None:
        each = self._running[name]
        if self._is_closing or each.state == "failed":
            return
        each.state, each.why = "failed", str(error)
        log.error("a service has failed", service=name, why=each.why)
        if self._on_fault is not None:
            self._on_fault(name, each.why)


def _make(directory: Path) -> None:
    try:
        make_durably(directory)
    except OSError as error:
        raise translated(error, str(directory)) from error
