"""The host: the process that houses members. It locks its store, opens a session, opens its store, serves.

The order matters. The store is locked before anything else and until the process is gone (PROTOCOL K2). The
incarnation comes with the session (V2), before the store is opened under a new number (V5) and before
the first heartbeat. Nothing is promised to anyone until all of that is durable.
"""

import asyncio
import os
import secrets
import signal
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec
import structlog

from holdfast.authority.recipe import Authority
from holdfast.authority.sessions import Session
from holdfast.machine import MachineRandom
from holdfast.model.ids import HostId, Incarnation, Nonce
from holdfast.model.units import MILLISECOND
from holdfast.net import (
    Address,
    Connection,
    Endpoint,
    Identity,
    Kind,
    Reason,
    Role,
    Server,
    serve,
    split_number,
    with_number,
)
from holdfast.node.agents import Agents
from holdfast.node.authorities import connect_authority
from holdfast.node.heart import Heart, LoopPulse
from holdfast.node.heartbeats import HeartbeatConfig, PeerState, Vitals
from holdfast.node.layout import Description, Layout
from holdfast.node.messages import HostReport, PeerReport
from holdfast.node.peers import Peers
from holdfast.node.session import SessionKeeper
from holdfast.node.store import HostStore
from holdfast.storage.lock import DirectoryLock, Holder

ANY_LOOPBACK_PORT: Final = Address("127.0.0.1", 0)

log = structlog.get_logger("holdfast.host")
_encode = msgspec.msgpack.Encoder().encode


class Host:
    """One host of a domain on this machine."""

    def __init__(self, layout: Layout, description: Description, host: HostId) -> None:
        self._host = host
        self._directory = layout.host(host)
        self._description = description
        self._started = datetime.now(UTC).isoformat(timespec="seconds")
        self._stop = asyncio.Event()
        self._pulse = LoopPulse()
        self._authority: Authority = connect_authority(description, self._endpoint(Incarnation(0)))
        self._keeper = SessionKeeper(self._authority, _fresh_nonce)
        self._heart = Heart(host, description.domain, listen=ANY_LOOPBACK_PORT, config=HeartbeatConfig())
        self._store = HostStore(self._directory, host, self._authority, _fresh_nonce)
        self._server: Server | None = None
        self._agents: Agents | None = None

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, or until the host must not go on (an error says why)."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        lock = DirectoryLock.take(self._directory, self._holder(None))
        heartbeat_address = self._heart.listen()
        self._server = await serve(ANY_LOOPBACK_PORT, lambda _: self, self._endpoint(Incarnation(0)))
        session = await self._keeper.open(
            self._host,
            address=str(self._server.address),
            heartbeat_address=str(heartbeat_address),
            agent_address=self._description.agent_address,
        )
        lock.leave_word(self._holder(session.incarnation))
        await self._store.open()
        self._heart.start(session.incarnation, self._vitals)
        self._agents = Agents(
            self._description.agent_address,
            self._endpoint(session.incarnation),
            random=MachineRandom().stream("agents"),
            report=self.report,
        )
        log.info("host serves", host=self._host, incarnation=session.incarnation, address=session.address)
        await self._serve_until_stopped(self._agents)

    async def _serve_until_stopped(self, agents: Agents) -> None:
        peers = Peers(self._authority, self._on_peers)
        tasks = [
            asyncio.create_task(work)
            for work in (
                self._stop.wait(),
                self._keeper.keep(),
                peers.follow(),
                agents.report_always(),
                self._store.failed(),
            )
        ]
        done, running = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._close(agents)
        for task in done:
            task.result()  # a failure ends the process with its reason

    async def _close(self, agents: Agents) -> None:
        self._heart.stop()
        await agents.close()
        if self._server is not None:
            await self._server.close()
        await self._store.close()
        await self._keeper.close()
        await self._authority.close()

    # --- what it knows of itself and others

    def report(self) -> HostReport:
        session = self._keeper.session
        return HostReport(
            host=self._host,
            incarnation=session.incarnation,
            pid=os.getpid(),
            address=session.address,
            store=self._store.id,
            opening=self._store.opening,
            log_bytes=self._store.log_bytes,
            in_session=self._keeper.is_held,
            peers=tuple(_peer_report(each) for each in self._heart.heard),
            deaths=tuple(self._agents.deaths) if self._agents else (),
        )

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if kind is not Kind.STATUS_REQUEST:
            raise msgspec.ValidationError(f"a host takes no {kind.name} yet")
        number, _ = split_number(payload)
        connection.send(Kind.STATUS_REPLY, with_number(number, _encode(self.report())))

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        return None

    def _on_peers(self, sessions: Mapping[HostId, Session]) -> None:
        self._heart.set_peers(sessions)
        if self._agents is not None:
            self._agents.set_peers(sessions)

    def _vitals(self) -> Vitals:
        return Vitals(loop_age_ns=self._pulse.age_ns(), sync_age_ns=self._store.oldest_sync_age_ns())

    def _endpoint(self, incarnation: Incarnation) -> Endpoint:
        return Endpoint(Identity(self._description.domain, Role.HOST, self._host, incarnation))

    def _holder(self, incarnation: Incarnation | None) -> Holder:
        return Holder(
            pid=os.getpid(), what=f"host {self._host}", since=self._started, incarnation=incarnation
        )


def _fresh_nonce() -> Nonce:
    return Nonce(secrets.token_hex(16))


def _peer_report(state: PeerState) -> PeerReport:
    return PeerReport(
        host=state.host,
        incarnation=state.incarnation,
        heard_ms=None if state.heard_age_ns is None else round(state.heard_age_ns / MILLISECOND, 1),
        silent=state.is_silent,
        hears_us=state.hears_us,
    )
