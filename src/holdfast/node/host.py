"""The host process, which runs members of groups: it locks its store, opens a session and the store, and
serves.

The order matters. The store is locked before anything in it is read and stays locked until the process is
gone (K2). The session gives the host its incarnation (V2); then the store is opened under a new number (V5).
Peers hear nothing from the host before that, and it promises nothing to anyone until all of that is durable.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from holdfast.admin.client_rights import NO_RULES, ClientRules
from holdfast.admin.control_plane import ControlPlane
from holdfast.admin.fault_injection import PartitionFilter
from holdfast.admin.reconciler import Reconciler
from holdfast.admin.snapshot import DomainSnapshot, fault_location, location_of
from holdfast.app_code.loader import offer_classes
from holdfast.authority.driver import AuthorityDriver
from holdfast.authority.recipe import Authority
from holdfast.authority.sessions import Session
from holdfast.faults.backlog import Backlog
from holdfast.faults.monitor import Monitoring
from holdfast.groups.host_groups import HostGroups
from holdfast.machine import LogTrace, MachineClock, MachineRandom
from holdfast.machine.real_ports import fresh_nonce
from holdfast.machine.trace import CountingTrace
from holdfast.machine.workers import Workers
from holdfast.model.errors import Corruption, DiskFailed, NoSpace
from holdfast.model.host_roles import DIRECTORY
from holdfast.model.ids import SECOND, HostId, Incarnation
from holdfast.net import (
    Address,
    Connection,
    Kind,
    Reason,
    Receiver,
    Server,
    serve,
)
from holdfast.net.handshake import HOST_ADMITS
from holdfast.net.secret_file import read_key
from holdfast.node.agent_links import AgentLinks
from holdfast.node.assembly import ABROAD, OutboundHosts, open_groups
from holdfast.node.client_filter import ClientFilter
from holdfast.node.early_calls import EarlyCalls, refuse_early
from holdfast.node.endpoints import host_endpoint, incarnated
from holdfast.node.faults.consumer import FaultConsumer
from holdfast.node.faults.detector import DetectorReports, FaultDetector
from holdfast.node.faults.directory_faults import DirectoryFaults
from holdfast.node.faults.shipper import FaultShipper
from holdfast.node.frame_dispatch import FrameDispatch
from holdfast.node.gateway import Gateway, HostContext
from holdfast.node.heartbeat_thread import HeartbeatThread, LoopPulse
from holdfast.node.heartbeats import Vitals
from holdfast.node.host_config import HostConfig
from holdfast.node.host_report import HostReporter
from holdfast.node.layout import Description, Layout
from holdfast.node.links import HostLinks, listen, remember
from holdfast.node.machines import DomainMachines
from holdfast.node.orderly_stop import stop_in_order, until_one_ends
from holdfast.node.services.running import HostServices, ServiceContext, ServiceEntry
from holdfast.node.services.service_table import SERVICES
from holdfast.node.services.shipping_service import shipping_of
from holdfast.node.session import SessionKeeper, SessionPeers, connect_authority
from holdfast.node.store import STORE, HostStore, advice
from holdfast.storage.lock import DirectoryLock, Holder

log = structlog.get_logger("holdfast.host")


class Host:
    """One host of a domain on this machine."""

    def __init__(
        self,
        layout: Layout,
        description: Description,
        host: HostId,
        *,
        config: HostConfig | None = None,
        doors: Sequence[Gateway] = (),
        clients: ClientRules = NO_RULES,
        services: Sequence[ServiceEntry] = SERVICES,
    ) -> None:
        """*doors* are other ways in. *clients* says what named clients may do. *services* is the table of
        those that hosts run, each where its role is. Raises ``InvalidRequest`` if its certificate cannot be
        used."""
        self._clients = clients
        self._host = host
        self._key_of = partial(read_key, layout.directory)
        ports = description.ports_of(host)
        self._listen_at = Address(description.here.host, ports.native)
        self._config = config = config or HostConfig()
        self._endpoint = replace(host_endpoint(layout, description, host), limits=config.connections)
        self._directory = layout.host(host)
        self._workers = Workers()
        self._services = HostServices(services, frozenset(description.roles_of(host)), self._directory)
        self._description = description
        self._started = datetime.now(UTC).isoformat(timespec="seconds")
        self._stop = asyncio.Event()
        self._doors = doors
        self._pulse = LoopPulse(self._on_turn)
        self._trace = CountingTrace(LogTrace())
        self._authority: Authority = connect_authority(
            description, self._endpoint, layout, config=config.authority, moves=config.moves
        )
        self._questions = AuthorityDriver(self._authority)
        self._machines = DomainMachines(self._authority, description)
        self._keeper = SessionKeeper(self._authority, fresh_nonce)
        self._reports = Backlog(MachineClock())
        self._partition = PartitionFilter()
        self._heartbeat_thread = HeartbeatThread(
            host,
            self._endpoint,
            listen=Address(description.here.host, ports.heartbeats),
            config=config.heartbeats,
            partition=self._partition,
        )
        self._store: HostStore | None = None
        self._groups: HostGroups | None = None
        self._monitoring: Monitoring | None = None
        self._server: Server | None = None
        self._agents: AgentLinks | None = None
        self._links: HostLinks | None = None
        self._early = EarlyCalls()
        self._callees: OutboundHosts | None = None
        self._dispatch: FrameDispatch | None = None
        self.on_frame: Callable[[Connection, Kind, bytes], None] = self._on_early_frame
        """Takes a frame; of the dispatch itself once there is one, since every frame comes by here."""
        self._control: ControlPlane | None = None

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, or until the host must stop; the error raised then says why."""
        offer_classes(Path(self._description.app), self._description.allowed_classes)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        # Never released by the code: the lock ends with the process, and not before (K2).
        lock = DirectoryLock.take(self._directory, self._holder(None))
        try:
            await until_one_ends(self._stopped_in_order(), self._open_session_and_serve(lock))
        except (Corruption, DiskFailed, NoSpace) as error:
            error.add_note(advice(error, self._directory / STORE))
            raise
        finally:
            await self._close()

    async def _stopped_in_order(self) -> None:
        await self._stop.wait()
        if self._groups is not None:
            await stop_in_order(self._groups)

    async def _open_session_and_serve(self, lock: DirectoryLock) -> None:
        heartbeat_address = self._heartbeat_thread.listen()
        self._server = await listen(
            self._listen_at,
            self._directory,
            lambda address: serve(
                address,
                self._receiver,
                self._endpoint,
                admits={**HOST_ADMITS, **self._services.admits},
                refusal=self._clients.refusal,
            ),
        )
        details = [self._description.details_of(self._host), *[await door.open() for door in self._doors]]
        listening = partial(self._service_context, self._server.address)
        details.append(await self._services.listen(listening))
        await self._machines.wait_admitted(self._host)
        reached = self._description.reached
        session = await self._keeper.open(
            self._host,
            address=str(reached(self._server.address)),
            heartbeat_address=str(reached(heartbeat_address)),
            agent_address=str(reached(Address.parse(self._description.agent_address))),
            agent=self._description.agent,
            details={name: value for each in details for name, value in each.items()},
            roles=self._description.roles_of(self._host),
        )
        lock.leave_word(self._holder(session.incarnation))
        await until_one_ends(self._keeper.keep(), self._serve(session))

    async def _serve(self, session: Session) -> None:
        """Open the store and the groups, then serve until the disk fails or another part ends."""
        config, directory = self._config, self._directory
        store = HostStore(directory, self._host, self._authority, fresh_nonce, config.log, config.clock)
        self._store = store
        # From here on, a hung disk or a loop that stands still ends the host (K3); it has no peers yet.
        self._heartbeat_thread.start(session.incarnation, self._vitals)
        await store.open()
        await self._services.start(store.fail)
        await asyncio.to_thread(remember, Address.parse(session.address), self._directory)
        for door in self._doors:
            await door.settle()
        endpoint, random = incarnated(self._endpoint, session.incarnation), MachineRandom()
        self._links = links = HostLinks(self._host, endpoint, random=random.stream("links"))
        hosts, domain = self._machines.hosts, self._description.domain
        abroad = Path(self._description.certs) / ABROAD if self._description.certs else None
        self._callees = callees = OutboundHosts(endpoint, config.calls, self._key_of, abroad)
        findings = DetectorReports(self._reports, domain, session)
        self._reports.name = f"{self._host}:{session.incarnation}"
        groups, detector = await open_groups(
            session,
            store,
            self._authority,
            self._questions,
            links,
            self._heartbeat_thread,
            callees,
            hosts,
            domain,
            self._directory,
            self._trace,
            findings.on_finding,
            self._reports,
            self._keeper.announce,
            partial(shipping_of, self._services),
            self._config.groups,
        )
        self._groups, self._monitoring = groups, groups.liveness_checks.monitoring
        self._services.report_to(detector.on_service_failed)
        if DIRECTORY in self._description.roles_of(self._host):
            faults = DirectoryFaults(
                self._host,
                domain,
                lambda: fault_location(self._host, location_of(session)),
                self._reports,
                asyncio.get_running_loop().call_later,
            )
            self._trace.listeners.append(faults.on_note)
        self._control = control = ControlPlane(
            session,
            self._directory,
            self._authority,
            links,
            fresh_nonce,
            trace=self._trace,
            on_failed=store.fail,
            heard_at=groups.heard_at,
            config=config.control,
        )
        reconciler = self._manager(groups, control)
        reporter = HostReporter(
            session,
            self._keeper,
            store,
            groups,
            self._heartbeat_thread,
            self._partition,
            self._services,
            self._workers,
            self._pulse,
            deaths=lambda: tuple(self._agents.deaths) if self._agents else (),
        )
        self._agents = agents = AgentLinks(
            self._description.own_agent,
            endpoint,
            own_reached=session.agent_address,
            random=random.stream("agents"),
            report=reporter.report,
            on_death=partial(self._on_death, groups, control),
            on_attempt=groups.suspects.on_death,
            on_hang=lambda died: findings.on_hang(died, groups.catalog),
            on_died=detector.on_died,
        )
        self._dispatch = FrameDispatch(
            groups,
            self._authority,
            self._partition,
            reconciler,
            control,
            hosts,
            self._services,
            self._workers,
            agents.report,
            allows_chaos=self._description.allows_chaos,
            stop=self._stop.set,
        )
        self._early.hand_to(self._dispatch.on_frame)
        self.on_frame = self._dispatch.on_frame
        host_context = HostContext(
            domain=domain,
            session=session,
            endpoint=endpoint,
            groups=groups,
            authority=self._authority,
            admin_dispatch=self._dispatch.admin_dispatch,
            control=control,
            report=agents.report,
            notes=self._trace.counts,
            listeners=self._trace.listeners,
            reports=self._reports,
            services=self._services,
            clients=self._clients,
            config=config,
        )
        for door in self._doors:
            door.on_serving(host_context)
        log.info("host serves", host=self._host, incarnation=session.incarnation, address=session.address)
        peers = SessionPeers(self._authority, lambda sessions: self._on_peers(groups, detector, sessions))
        notifiers = self._dispatch.notifiers
        shipper = FaultShipper(self._host, self._reports, notifiers, groups, endpoint)
        consumer = FaultConsumer(control, notifiers, groups, endpoint, reconciler.on_told)
        control.start()
        await until_one_ends(
            peers.follow(),
            self._machines.follow(),
            agents.report_always(),
            control.follow(),
            reconciler.work(),
            shipper.work(),
            consumer.work(),
            store.failed(),
        )

    def _service_context(self, address: Address, **known: Any) -> ServiceContext:
        description = self._description
        return ServiceContext(
            host=self._host,
            endpoint=self._endpoint,
            listen_at=address,
            ports=description.ports_of(self._host),
            reached=description.reached,
            trace=self._trace,
            workers=self._workers,
            authority=self._authority,
            config=self._config,
            **known,
        )

    def retune(self, config: HostConfig) -> None:
        """Go on with other settings, of those that a running host can take (:mod:`holdfast.settings`)."""
        self._config = config
        self._heartbeat_thread.retune(config.heartbeats)
        if self._groups is not None:
            self._groups.tuning.tune(config.groups)

    def _manager(self, groups: HostGroups, control: ControlPlane) -> Reconciler:
        """Build this host's reconciler, its part in managing the domain."""
        loss_ns = round(self._description.loss_s * SECOND)
        snapshot = DomainSnapshot(
            groups.catalog,
            self._machines.hosts,
            MachineClock(),
            loss_ns=loss_ns,
            removed=lambda: control.state().removed,
        )
        return Reconciler(groups, self._authority, control, snapshot, fresh_nonce)

    async def _close(self) -> None:
        """Release everything, in an order in which the heartbeat thread watches the disk to the last."""
        for door in self._doors:
            await door.close()
        if self._agents is not None:
            await self._agents.close()
        if self._dispatch is not None:
            await self._dispatch.close()
        if self._control is not None:
            await self._control.close()
        await self._services.close()
        await self._workers.close()
        await self._questions.close()
        for each in (self._callees, self._links):
            if each is not None:
                await each.close()
        if self._server is not None:
            await self._server.close()
        if self._store is not None:
            await self._store.close()
        self._heartbeat_thread.stop()
        await self._keeper.close()
        await self._authority.close()

    # --- what it knows of itself and others

    def _on_early_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        """Handle a frame that comes while the host is starting: any answer would soon be wrong."""
        if kind is Kind.GROUP_ORDER:
            refuse_early(self._host, connection, payload)
        elif kind is Kind.CALL:
            self._early.keep(connection, payload)

    def _receiver(self, connection: Connection) -> Receiver:
        rights = self._clients.rights(connection.peer, connection.proven_by)
        catalog = None if self._groups is None or self._dispatch is None else self._groups.catalog
        return self if rights is None else ClientFilter(self, rights, catalog)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self._early.on_closed(connection)
        if self._dispatch is not None:
            self._dispatch.on_closed(connection)

    def _on_peers(
        self, groups: HostGroups, detector: FaultDetector, sessions: Mapping[HostId, Session]
    ) -> None:
        self._keeper.check(sessions)
        detector.on_sessions(sessions)  # before the heartbeat thread forgets whom it has heard
        self._heartbeat_thread.set_peers(sessions)
        groups.on_hosts(sessions)
        self._services.on_hosts(sessions)
        if self._links is not None:
            self._links.set_peers(sessions)
        if self._agents is not None:
            self._agents.set_peers(sessions)

    def _on_death(
        self, groups: HostGroups, control: ControlPlane, host: HostId, incarnation: Incarnation, age_ns: int
    ) -> None:
        if (host, incarnation) == (groups.me.host, groups.me.incarnation):
            log.error("an agent reports this host dead, which is false; reads are confirmed by the authority")
        else:
            control.on_death(host, incarnation)  # first: one call, while groups may be thousands
        groups.on_death(host, incarnation, age_ns)

    def _on_turn(self, late_ns: int) -> None:
        for door in self._doors:
            door.on_turn(late_ns)

    def _vitals(self) -> Vitals:
        sync_age_ns = 0 if self._store is None else self._store.oldest_sync_age_ns()
        limit_ns = None if self._monitoring is None else self._monitoring.least_timeout_ns
        return Vitals(self._pulse.age_ns(), sync_age_ns, limit_ns)

    def _holder(self, incarnation: Incarnation | None) -> Holder:
        return Holder(
            pid=os.getpid(), what=f"host {self._host}", since=self._started, incarnation=incarnation
        )
