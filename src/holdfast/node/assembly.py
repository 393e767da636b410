"""Binds the housing of groups to this process: its event loop, links, log and the application's classes.

The hosts that this host's groups call, in its own domain and in others: it is a client of theirs.
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
from holdfast.groups.ports import Finding, GroupsConfig, GroupsPorts
from holdfast.machine import LoopTimers, MachineClock, MachineRandom
from holdfast.machine.real_ports import fresh_nonce
from holdfast.model.calls import ToClient
from holdfast.model.code import Code
from holdfast.model.ids import GroupId, HostId
from holdfast.model.ports import Trace
from holdfast.model.reference import OtherDomain
from holdfast.net import Address, ConnectionSettings, Expected, PeerIdentity, Role
from holdfast.net.handshake import NAME_CHARACTERS_MAX
from holdfast.node.crash_note import open_slot, read_slot
from holdfast.node.faults.detector import FaultDetector
from holdfast.node.fork_checkpoint import HugePages, ProcessCopies
from holdfast.node.heartbeat_thread import HeartbeatThread
from holdfast.node.links import HostLinks
from holdfast.node.store import HostStore
from holdfast.node.tracing import onlooker_of
from holdfast.sequence.lease_heartbeats import LeaseHeartbeats


class OutboundHosts:
    """The :class:`holdfast.groups.ports.Callees` of a process. Set ``events`` before anything is called."""

    events: HostEvents

    def __init__(self, endpoint: ConnectionSettings, config: ClientConfig) -> None:
        endpoint = replace(endpoint, expected=Expected(roles=frozenset({Role.HOST})))
        self._me = endpoint.identity
        self._config = config
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
        """The hosts of another domain, of which this host is a client. On loopback alone: it has no
        certificate by which another domain would know it. Raises ``InvalidRequest`` for what is no
        address."""
        for each in other.addresses:
            Address.parse(each)
        name = f"{self._me.domain}.{self._me.id}"[:NAME_CHARACTERS_MAX]
        made = OutboundHosts(ConnectionSettings(PeerIdentity(other.name, Role.CLIENT, name)), self._config)
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
"""By then a host has housed what it houses, and knows which code that is of."""

LOOK_S: Final = 10.0
"""Between two looks at which groups are served by other code than this host has."""

log = structlog.get_logger("holdfast.groups")


async def open_groups(
    session: Session,
    store: HostStore,
    authority: Authority,
    questions: AuthorityDriver,
    links: HostLinks,
    heart: HeartbeatThread,
    callees: OutboundHosts,
    hosts: Iterable[HostId],
    domain: str,
    directory: Path,
    trace: Trace,
    on_finding: Callable[[Finding], None],
    reports: Reports,
    announce: Callable[[Mapping[str, Code]], None],
) -> tuple[HostGroups, FaultDetector]:
    """Learn from the authority what a host of groups must know, open its clock, and house its groups; and
    have somebody report what is seen of them."""
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
    code_copies = CodeCopies(directory)
    old_code = CodeReplayer(code_copies, store.directory, store.adopt, store.fail, app_directories())

    def on_fault(group: GroupId, kind: str, what: str) -> None:
        log.error("a fault of an object", group=group, kind=kind, what=what)
        witness.on_fault(group, kind, what)

    codes = KnownCode(session.host, code_copies, announce=announce, fail=store.fail, on_fault=on_fault)
    last = read_slot(directory)
    slot = open_slot(directory, session.incarnation)
    config = GroupsConfig()
    beats = LeaseHeartbeats(
        incarnation=session.incarnation, clock=MachineClock(), network=heart, config=config.leases
    )
    heart.carry(beats)
    # The witness is there before anything can be seen: nothing happens until the groups start.
    ports = _ports(
        domain,
        questions,
        links,
        beats,
        callees,
        copies,
        codes,
        old_code,
        slot,
        trace,
        on_finding,
        on_fault,
        lambda: witness,
    )
    groups = HostGroups(session.host, session.incarnation, store, stamps, identity, hosts, ports, config)
    witness = FaultDetector(
        session.host,
        domain,
        groups.directory,
        reports,
        MachineClock(),
        is_heard=partial(_is_heard, heart),
        later=asyncio.get_running_loop().call_later,
    )
    callees.events = groups.nesting
    if last is not None:
        # Nobody else may have seen it: this may be the only host.
        groups.suspects.on_death(session.host, *last)
    groups.start()
    _look_again(codes, groups)
    asyncio.get_running_loop().call_later(
        PRUNE_AFTER_S, lambda: codes.prune(groups.directory.records, groups.kept)
    )
    return groups, witness


def _look_again(codes: KnownCode, groups: HostGroups) -> None:
    """At the codes of groups, every so often, as long as the process lives."""
    codes.look(groups.directory.records)
    asyncio.get_running_loop().call_later(LOOK_S, _look_again, codes, groups)


def _ports(
    domain: str,
    questions: AuthorityDriver,
    links: HostLinks,
    beats: LeaseHeartbeats,
    callees: OutboundHosts,
    copies: ProcessCopies,
    codes: KnownCode,
    old_code: CodeReplayer,
    slot: Slot,
    trace: Trace,
    on_finding: Callable[[Finding], None],
    on_fault: Callable[[GroupId, str, str], None],
    witness: Callable[[], FaultDetector],
) -> GroupsPorts:
    loop = asyncio.get_running_loop()

    def timers(on_timer: Callable[[Hashable], None]) -> LoopTimers:
        return LoopTimers(loop, on_timer)

    def soon(work: Callable[[], None]) -> None:
        loop.call_soon(work)

    def on_halted(group: GroupId, why: str) -> None:
        log.error("a member has stopped", group=group, why=why)
        witness().on_halted(group, why)

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
        soon=soon,
        define=codes.define,
        nonce=fresh_nonce,
        on_fault=on_fault,
        slot=slot,
        on_halted=on_halted,
        on_finding=on_finding,
        on_view=lambda view: witness().on_view(view),
        on_skew=lambda skew_ns: witness().on_skew(skew_ns),
        beats=beats,
        copies=copies,
        old_code=old_code,
        onlooker=partial(onlooker_of, codes.host),
    )


def _is_heard(heart: HeartbeatThread, host: HostId) -> bool:
    return any(each.host == host and not each.is_silent for each in heart.heard)
