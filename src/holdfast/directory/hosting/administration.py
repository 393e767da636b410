"""Carries out what people ask of this host's replica (:mod:`.orders`)."""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from holdfast.authority.directories import (
    DirectoryRecord,
    Edit,
    as_founded,
    with_cut,
    with_left,
    with_returned,
    without_cut,
)
from holdfast.directory.hosting.hosted_replica import HostedReplica, ReplicaSurroundings
from holdfast.directory.hosting.orders import (
    AdmitReplica,
    Answer,
    CutLink,
    FoundDirectory,
    HealLink,
    InitialiseReplica,
    LeaveDirectory,
    LinkInfo,
    Order,
    OrderDone,
    ReplicaInfo,
    ResetClock,
    RetireReplica,
    ShowReplica,
)
from holdfast.directory.hosting.sample import sample_entries
from holdfast.directory.hosting.serving import ServedReplica
from holdfast.directory.master import admin_entry, top_entry
from holdfast.directory.replica.snapshot import Suffix
from holdfast.directory.replication.identity import emptied
from holdfast.directory.replication.link import Phase
from holdfast.directory.replication.replicator import Replicator
from holdfast.directory.schema.standard import standard_schema
from holdfast.model.csn import parse
from holdfast.model.errors import HoldfastError, InvalidRequest, Unavailable
from holdfast.model.ids import HostId

SERVING_S: Final = 60.0
"""How long an order waits for the replica that it made."""

KNOWN_TRIES: Final = 500
KNOWN_S: Final = 0.01
"""How often, and after which pauses, a replica that is to be filled anew looks whether others have all that
it has."""

MILLISECOND_NS: Final = 1_000_000

log: Final = structlog.get_logger("holdfast.directory")


class Administration:
    """Carries out orders. *replica* is this host's, if it has one."""

    def __init__(self, around: ReplicaSurroundings, replica: Callable[[], HostedReplica | None]) -> None:
        self._around = around
        self._replica = replica

    async def do(self, order: Order) -> Answer:
        """Raises ``HoldfastError`` that says why not."""
        match order:
            case ShowReplica():
                return self.show()
            case FoundDirectory():
                return await self.plant(order)
            case CutLink(one=one, other=other):
                return await self._edit_link(with_cut(one, other), one, other)
            case HealLink(one=one, other=other):
                return await self._edit_link(without_cut(one, other), one, other)
            case AdmitReplica():
                return await self._admit(order)
            case LeaveDirectory():
                self._served().replicator.leave()
                return OrderDone("it issues nothing more")
            case RetireReplica():
                return await self._retire(order)
            case InitialiseReplica():
                return await self._initialise(order)
            case ResetClock():
                return self._reset_clock(order)

    # --- the directory

    async def plant(self, order: FoundDirectory) -> Answer:
        """Make the first entries, if this host is to begin the directory."""
        around = self._around
        record = around.follower.known()
        if record.is_founded or record.founder != around.host:
            return OrderDone(f"{record.suffix} is there")
        suffix = Suffix(record.suffix, standard_schema())
        admin = f"cn=admin,{suffix.text}"
        served = await self._until_served()
        if served.replica.sight.top() is None:
            await served.execute(top_entry(suffix.dn, admin))
            await served.execute(admin_entry(admin, order.secret))
            for entry in sample_entries(suffix.text) if order.has_sample else ():
                await served.execute(entry)
        await around.change(as_founded)
        return OrderDone(admin)

    async def _until_served(self) -> ServedReplica:
        async with asyncio.timeout(SERVING_S):
            while True:
                replica = self._replica()
                if replica is not None and replica.served is not None:
                    return replica.served
                await asyncio.sleep(0.02)

    async def _admit(self, order: AdmitReplica) -> Answer:
        await self._around.change(with_returned(order.host, is_read_only=order.is_read_only))
        return OrderDone()

    # --- links

    async def _edit_link(self, edit: Edit, one: HostId, other: HostId) -> Answer:
        record = self._around.follower.known()
        for host in (one, other):
            if host not in record.members:
                raise InvalidRequest(
                    f"{host} has no replica of {record.suffix}; these have: {', '.join(record.members)}"
                )
        if one == other:
            raise InvalidRequest("a link is between two hosts")
        await self._around.change(edit)
        return OrderDone()

    # --- replicas

    async def _retire(self, order: RetireReplica) -> Answer:
        around, host = self._around, order.host
        record = around.follower.known()
        if host == around.host:
            raise InvalidRequest("a replica does not retire itself: ask another host")
        if host not in record.replicas:
            raise InvalidRequest(f"{host} has no replica; these have: {', '.join(record.members)}")
        replicator = self._served().replicator
        losses = [
            replicator.retire(each, force=order.force)
            for each in record.ids_of(host)
            if each in replicator.roster.live
        ]
        await around.change(with_left(host))
        return OrderDone("; ".join(losses) or "nothing is lost")

    async def _initialise(self, order: InitialiseReplica) -> Answer:
        replica, served = self._replica(), self._served()
        assert replica is not None, "what serves is there"
        record = self._around.follower.known()
        if order.source is not None and order.source not in record.peers_of(self._around.host):
            raise InvalidRequest(
                f"{order.source} is no peer; these are: {', '.join(record.peers_of(self._around.host))}"
            )
        if not record.peers_of(self._around.host):
            raise InvalidRequest("there is no other replica that could give its data")
        if not order.force and not await self._until_known_elsewhere(served.replicator, order.source):
            raise InvalidRequest(
                f"no connected peer has all that is here ({served.replicator.vector.text()}); what only this "
                "replica has would be lost: wait, or say --force"
            )
        ids = await replica.ids.with_new()
        replica.source = order.source
        await served.mark_for_initialisation(emptied(served.replicator.roster.own, ids))
        served.begin_again("it is to be filled anew")
        return OrderDone("it is being filled; `holdfast directory status` shows how far it is")

    async def _until_known_elsewhere(self, replicator: Replicator, source: HostId | None) -> bool:
        """Whether a peer, or that one, has all that is here; given a moment, since even the heartbeats of an
        idle master are on their way for a while."""
        for _ in range(KNOWN_TRIES):
            if is_known_elsewhere(replicator, source):
                return True
            await asyncio.sleep(KNOWN_S)
        return False

    def _reset_clock(self, order: ResetClock) -> Answer:
        served = self._served()
        generator = served.generator
        before = generator.csnstate()
        newest = served.replicator.vector.newest()
        if order.newest:
            told = parse(order.newest)
            newest = told if newest is None else max(told, newest)
        if newest is not None:
            generator.observe("an administrator", newest, override_reason="clock reset")
        absorbed_ns = generator.absorb_network_offset("clock reset")
        log.warning("clock reset", before=before, now=generator.csnstate(), newest=str(newest))
        return OrderDone(
            f"{absorbed_ns / 1e9:.3f} s that peers had pulled this clock are its own now; before: {before}; "
            f"now: {generator.csnstate()}; all CSNs from here on are greater than {newest}"
        )

    def _served(self) -> ServedReplica:
        replica = self._replica()
        if replica is None or replica.served is None or not replica.served.is_replicating:
            state = "there is none" if replica is None else f"it is {replica.state}"
            raise Unavailable(f"no replica serves here: {state}")
        return replica.served

    # --- what it shows

    def show(self) -> ReplicaInfo:
        around, replica = self._around, self._replica()
        record = around.follower.record
        if replica is None:
            return ReplicaInfo(host=around.host, state="none")
        served, copying = replica.served, replica.copying
        if served is None or not served.is_replicating:
            return ReplicaInfo(
                host=around.host,
                state=replica.state,
                suffix=record.suffix,
                copied_bytes=0 if copying is None else copying.bytes,
                problem="" if copying is None else copying.problem,
            )
        replicator = served.replicator
        roster = replicator.roster
        why = _why_no_write(replicator)
        return ReplicaInfo(
            host=around.host,
            state="serving" if roster.own.is_ready else "catching up",
            suffix=record.suffix,
            replica=roster.replica,
            is_read_only=roster.own.is_read_only,
            is_leaving=roster.own.is_leaving,
            vector=replicator.vector.text(),
            csnstate=served.generator.csnstate(),
            links=tuple(
                self._link(replicator, record, each) for each in record.members if each != around.host
            ),
            pending=served.replica.pending,
            conflicts=len(served.replica.conflicts()),
            live=tuple(roster.live),
            over=tuple(roster.over),
            needs_initialisation=tuple(roster.lagging),
            problem=why,
            may_write=not why,
        )

    def _link(self, replicator: Replicator, record: DirectoryRecord, peer: HostId) -> LinkInfo:
        link = replicator.links.get(peer)
        lag = replicator.lag.of(peer, replicator.now_ns)
        problem = replicator.problems.get(peer)
        said = "" if problem is None else f"{problem.reason}: {problem.why}"
        state = "down"
        if record.is_cut(self._around.host, peer):
            state, said = "cut", ""
        elif link is not None and link.phase is not Phase.ENDED:
            state = link.phase.value
            said = link.shortage or said
        return LinkInfo(
            peer=peer,
            state=state,
            replica=None if link is None else link.replica,
            problem=said,
            lag_p50_ms=_ms(lag.p50_ns),
            lag_p99_ms=_ms(lag.p99_ns),
            behind_ms=_ms(lag.behind_ns) or 0.0,
            sent=0 if link is None or link.supplier is None else link.supplier.sent,
        )


def is_known_elsewhere(replicator: Replicator, source: HostId | None) -> bool:
    """Whether a peer, or that one, has all that this replica has."""
    return any(
        link.supplier is not None and link.supplier.committed.covers_all(replicator.vector)
        for peer, link in replicator.links.items()
        if source is None or peer == source
    )


def _why_no_write(replicator: Replicator) -> str:
    try:
        replicator.check_write()
    except HoldfastError as error:
        return str(error)
    return ""


def _ms(ns: int | None) -> float | None:
    return None if ns is None else round(ns / MILLISECOND_NS, 3)
