"""Binds the housing of groups to this process: its event loop, links, log and the application's classes."""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from holdfast.authority.identity import Identity, ensure_identity
from holdfast.authority.outcome import Seen
from holdfast.authority.recipe import Authority, perform
from holdfast.authority.replicas import ReplicaRecord, ensure_replica
from holdfast.authority.sessions import Session
from holdfast.faults.reporting import Reports
from holdfast.housing.groups import Groups
from holdfast.housing.ports import Finding, HouseConfig, HousePorts
from holdfast.machine import LoopTimers, MachineClock, MachineRandom
from holdfast.machine.randomness import fresh_nonce
from holdfast.model.code import Code
from holdfast.model.ids import GroupId, HostId
from holdfast.model.ports import Trace
from holdfast.node.callees import HostCallees
from holdfast.node.classes import app_directories
from holdfast.node.code_copies import CodeCopies
from holdfast.node.copying import ProcessCopies
from holdfast.node.executing import open_slot, read_slot
from holdfast.node.heart import Heart
from holdfast.node.host_codes import HostCodes
from holdfast.node.insisting import insist
from holdfast.node.links import HostLinks
from holdfast.node.old_code import OldProcesses
from holdfast.node.onlooking import onlooker_of
from holdfast.node.pages import HugePages
from holdfast.node.questions import Questions
from holdfast.node.store import HostStore
from holdfast.node.witness import Witness
from holdfast.sequence.beats import Beats
from holdfast.styles.attempts import Slot

PRUNE_AFTER_S: Final = 60.0
"""By then a host has housed what it houses, and knows which code that is of."""

LOOK_S: Final = 10.0
"""Between two looks at which groups are served by other code than this host has."""

log = structlog.get_logger("holdfast.groups")


async def open_groups(
    session: Session,
    store: HostStore,
    authority: Authority,
    questions: Questions,
    links: HostLinks,
    heart: Heart,
    callees: HostCallees,
    hosts: Iterable[HostId],
    domain: str,
    directory: Path,
    trace: Trace,
    on_finding: Callable[[Finding], None],
    reports: Reports,
    announce: Callable[[Mapping[str, Code]], None],
) -> tuple[Groups, Witness]:
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
    old_code = OldProcesses(code_copies, store.directory, store.adopt, store.fail, app_directories())

    def on_fault(group: GroupId, kind: str, what: str) -> None:
        log.error("a fault of an object", group=group, kind=kind, what=what)
        witness.on_fault(group, kind, what)

    codes = HostCodes(session.host, code_copies, announce=announce, fail=store.fail, on_fault=on_fault)
    last = read_slot(directory)
    slot = open_slot(directory, session.incarnation)
    config = HouseConfig()
    beats = Beats(incarnation=session.incarnation, clock=MachineClock(), network=heart, config=config.leases)
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
    groups = Groups(session.host, session.incarnation, store, stamps, identity, hosts, ports, config)
    witness = Witness(
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


def _look_again(codes: HostCodes, groups: Groups) -> None:
    """At the codes of groups, every so often, as long as the process lives."""
    codes.look(groups.directory.records)
    asyncio.get_running_loop().call_later(LOOK_S, _look_again, codes, groups)


def _ports(
    domain: str,
    questions: Questions,
    links: HostLinks,
    beats: Beats,
    callees: HostCallees,
    copies: ProcessCopies,
    codes: HostCodes,
    old_code: OldProcesses,
    slot: Slot,
    trace: Trace,
    on_finding: Callable[[Finding], None],
    on_fault: Callable[[GroupId, str, str], None],
    witness: Callable[[], Witness],
) -> HousePorts:
    loop = asyncio.get_running_loop()

    def timers(on_timer: Callable[[Hashable], None]) -> LoopTimers:
        return LoopTimers(loop, on_timer)

    def soon(work: Callable[[], None]) -> None:
        loop.call_soon(work)

    def on_halted(group: GroupId, why: str) -> None:
        log.error("a member has stopped", group=group, why=why)
        witness().on_halted(group, why)

    return HousePorts(
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


def _is_heard(heart: Heart, host: HostId) -> bool:
    return any(each.host == host and not each.is_silent for each in heart.heard)
