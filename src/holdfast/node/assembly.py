"""Builds a host's groups and binds them to this process: its loop, links, log and application classes.

:func:`open_groups` does that. :class:`OutboundHosts` holds the connections on which this host's groups call
groups on other hosts, in this domain and in others; towards those hosts, this host is a client.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from holdfast.app_code.copies import CodeCopies
from holdfast.app_code.known_code import KnownCode
from holdfast.app_code.loader import app_directories
from holdfast.app_code.replayer import CodeReplayer
from holdfast.authority.driver import AuthorityDriver, insist
from holdfast.authority.identity import Identity, ensure_identity
from holdfast.authority.recipe import Authority, Seen, perform
from holdfast.authority.sessions import ReplicaRecord, Session, ensure_replica
from holdfast.calling.config import ClientConfig
from holdfast.calling.connections import HostConnections, HostEvents
from holdfast.execution.crash_attempts import Slot
from holdfast.faults.backlog import Reports
from holdfast.groups.host_groups import HostGroups
from holdfast.groups.ports import Finding, GroupsPorts
from holdfast.groups.settings import GroupsConfig
from holdfast.machine import LoopTimers, MachineClock, MachineRandom
from holdfast.machine.real_ports import fresh_nonce
from holdfast.model.calls import ToClient
from holdfast.model.code import Code
from holdfast.model.ids import GroupId, HostId
from holdfast.model.ports import Trace
from holdfast.model.reference import OtherDomain
from holdfast.net import Address, ClientKey, ConnectionSettings, Expected, PeerIdentity, Role, Tls
from holdfast.net.handshake import NAME_CHARACTERS_MAX
from holdfast.node.crash_note import open_slot, read_slot
from holdfast.node.faults.detector import FaultDetector
from holdfast.node.fork_checkpoint import HugePages, ProcessCopies
from holdfast.node.heartbeat_thread import HeartbeatThread
from holdfast.node.lease_note_file import open_lease_note
from holdfast.node.links import HostLinks
from holdfast.node.object_files import ObjectDirectory
from holdfast.node.slow_threads import SlowThreads
from holdfast.node.store import HostStore
from holdfast.node.tracing import onlooker_of
from holdfast.sequence.lease_heartbeats import LeaseHeartbeats
from holdfast.sequence.leases import LeaseNote
from holdfast.shipping.shipping_thread import ShippingThread

ABROAD: Final = "abroad"
"""The directory among a machine's certificates with those that other domains have given it."""


class OutboundHosts:
    """The connections to hosts that this host's groups call: implements
    :class:`holdfast.groups.ports.Callees`.

    Set ``events`` before anything is called.
    """

    events: HostEvents

    def __init__(
        self,
        endpoint: ConnectionSettings,
        config: ClientConfig,
        key_of: Callable[[str], ClientKey],
        certs_abroad: Path | None = None,
    ) -> None:
        """*key_of* returns the key that another domain gave to this one. It raises ``InvalidRequest``.
        *certs_abroad* has a directory for each other domain, with the certificate that it gave us."""
        endpoint = replace(endpoint, expected=Expected(roles=frozenset({Role.HOST})))
        self._me = endpoint.identity
        self._endpoint = endpoint
        self._certs_abroad = certs_abroad
        self._config = config
        self._key_of = key_of
        self._hosts = HostConnections(endpoint, self, config, insecure=False)
        self._abroad: list[OutboundHosts] = []

    @property
    def connected(self) -> list[HostId]:
        return self._hosts.connected

    def send(self, peer: str, message: object) -> None:
        self._hosts.send(peer, message)

    def keep(self, addresses: Iterable[str]) -> None:
        self._hosts.keep(Address.parse(each) for each in addresses)

    def abroad(self, other: OtherDomain, events: HostEvents) -> "OutboundHosts":
        """Connect to the hosts of another domain as a client.

        Beyond loopback that takes a certificate of the other domain: a directory of its name with its
        ``ca.pem`` and ``client-DOMAIN.HOST.pem``, where DOMAIN and HOST are ours. On loopback a key will do.
        Raises ``InvalidRequest`` if an address cannot be parsed, if that certificate cannot be used, or if
        there is neither.
        """
        for each in other.addresses:
            Address.parse(each)
        name = f"{self._me.domain}.{self._me.id}"[:NAME_CHARACTERS_MAX]
        certs = None if self._certs_abroad is None else self._certs_abroad / other.name
        if certs is not None and certs.is_dir():
            settings = ConnectionSettings(
                PeerIdentity(other.name, Role.CLIENT, name), tls=Tls.load(certs, Role.CLIENT, name)
            )
        else:
            key = self._key_of(other.name)
            identity = PeerIdentity(other.name, Role.CLIENT, key.name)
            settings = ConnectionSettings(identity, credentials=key, insecure=self._endpoint.insecure)
        made = OutboundHosts(settings, self._config, self._key_of)
        made.events = events
        self._abroad.append(made)
        return made

    async def close(self) -> None:
        for each in self._abroad:
            await each.close()
        await self._hosts.close()

    def on_up(self, host: HostId) -> None:
        self.events.on_up(host)

    def on_down(self, host: HostId) -> None:
        self.events.on_down(host)

    def on_message(self, host: HostId, message: ToClient) -> None:
        self.events.on_message(host, message)


PRUNE_AFTER_S: Final = 60.0
"""When to delete unused copies of code: by then the host knows which code its groups need."""

LOOK_S: Final = 10.0
"""How often to check whether groups are served by other code than this host has."""

log = structlog.get_logger("holdfast.groups")


async def open_groups(
    session: Session,
    store: HostStore,
    authority: Authority,
    questions: AuthorityDriver,
    links: HostLinks,
    heartbeat_thread: HeartbeatThread,
    callees: OutboundHosts,
    hosts: Iterable[HostId],
    domain: str,
    directory: Path,
    trace: Trace,
    on_finding: Callable[[Finding], None],
    reports: Reports,
    announce: Callable[[Mapping[str, Code]], None],
    shipping: Callable[[], tuple[ShippingThread, Path]],
    config: GroupsConfig,
) -> tuple[HostGroups, FaultDetector]:
    """Build this host's groups and the detector that reports their faults.

    The authority supplies the domain's identity and this host's replica number, which opens the host's
    clock.
    """
    nonce = fresh_nonce()
    identity: Seen[Identity] = await insist(
        lambda: perform(authority, ensure_identity(domain, nonce=nonce)), Seen
    )
    replica: Seen[ReplicaRecord] = await insist(
        lambda: perform(authority, ensure_replica(session.host, nonce=nonce)), Seen
    )
    stamps = await store.open_stamps(replica.value.replica)
    pages = HugePages(asyncio.get_running_loop().call_soon_threadsafe)
    copies = ProcessCopies(store.directory, store.adopt, store.fail, pages=pages)
    files = ObjectDirectory(directory, store.directory, store.adopt, store.fail, shipping)
    code_copies = CodeCopies(directory)
    old_code = CodeReplayer(code_copies, store.directory, store.adopt, store.fail, app_directories())

    def on_fault(group: GroupId, kind: str, what: str) -> None:
        log.error("a fault of an object", group=group, kind=kind, what=what)
        detector.on_fault(group, kind, what)

    codes = KnownCode(session.host, code_copies, announce=announce, fail=store.fail, on_fault=on_fault)
    last = read_slot(directory)
    slot = open_slot(directory, session.incarnation)
    beats = LeaseHeartbeats(
        incarnation=session.incarnation, clock=MachineClock(), network=heartbeat_thread, config=config.leases
    )
    heartbeat_thread.carry(beats)
    # The detector exists before anything can call it: nothing happens until the groups start.
    ports = _ports(
        domain,
        questions,
        links,
        beats,
        open_lease_note(directory),
        callees,
        copies,
        files,
        codes,
        old_code,
        slot,
        trace,
        on_finding,
        on_fault,
        lambda: detector,
    )
    groups = HostGroups(session.host, session.incarnation, store, stamps, identity, hosts, ports, config)
    detector = FaultDetector(
        session.host,
        domain,
        groups.catalog,
        reports,
        MachineClock(),
        is_heard=partial(_is_heard, heartbeat_thread),
        later=asyncio.get_running_loop().call_later,
    )
    callees.events = groups.outbound_calls
    if last is not None:
        # This may be the only host, so nobody else may have noticed what ended its last process.
        for attempt in last[1]:
            groups.suspects.on_death(session.host, last[0], attempt)
    groups.start()
    _check_codes(codes, groups)
    asyncio.get_running_loop().call_later(
        PRUNE_AFTER_S, lambda: codes.prune(groups.catalog.records, groups.kept)
    )
    return groups, detector


def _check_codes(codes: KnownCode, groups: HostGroups) -> None:
    """Compare the groups' code with this host's now, and every ``LOOK_S`` while the process lives."""
    codes.look(groups.catalog.records)
    asyncio.get_running_loop().call_later(LOOK_S, _check_codes, codes, groups)


def _ports(
    domain: str,
    questions: AuthorityDriver,
    links: HostLinks,
    beats: LeaseHeartbeats,
    lease_note: LeaseNote,
    callees: OutboundHosts,
    copies: ProcessCopies,
    files: ObjectDirectory,
    codes: KnownCode,
    old_code: CodeReplayer,
    slot: Slot,
    trace: Trace,
    on_finding: Callable[[Finding], None],
    on_fault: Callable[[GroupId, str, str], None],
    detector: Callable[[], FaultDetector],
) -> GroupsPorts:
    loop = asyncio.get_running_loop()

    def timers(on_timer: Callable[[Hashable], None]) -> LoopTimers:
        return LoopTimers(loop, on_timer)

    def on_halted(group: GroupId, why: str) -> None:
        log.error("a member has stopped", group=group, why=why)
        detector().on_halted(group, why)

    return GroupsPorts(
        clock=MachineClock(),
        timers=timers,
        network=links,
        callees=callees,
        domain=domain,
        abroad=callees.abroad,
        random=MachineRandom(),
        trace=trace,
        journal=log,
        authority=questions,
        soon=loop.call_soon,
        define=codes.define,
        nonce=fresh_nonce,
        on_fault=on_fault,
        slot=slot,
        on_halted=on_halted,
        on_finding=on_finding,
        on_view=lambda view: detector().on_view(view),
        on_skew=lambda skew_ns: detector().on_skew(skew_ns),
        beats=beats,
        lease_note=lease_note,
        copies=copies,
        files=files,
        old_code=old_code,
        slow=SlowThreads().of,
        onlooker=partial(onlooker_of, codes.host),
    )


def _is_heard(heartbeat_thread: HeartbeatThread, host: HostId) -> bool:
    return any(each.host == host and not each.is_silent for each in heartbeat_thread.heard)
