"""A thread with its own event loop that exchanges heartbeats with every peer (R4).

While the host's main loop is busy with a long method or stands still, this thread goes on and reports it.
It shares with the main thread: the time of the main loop's last turn (an integer that the main loop
writes), the sessions of the peers (handed over by ``call_soon_threadsafe``), what was heard from them (an
immutable tuple), and the lease heartbeats that it carries (:mod:`holdfast.sequence.lease_heartbeats` says
why that is safe). It keeps sending heartbeats for a loop that stands still until ``hang_limit_ns``. Then it
ends the host, so that other hosts can take over its groups (K3).
"""

import asyncio
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import uvloop

from holdfast.admin.fault_injection import PartitionFilter
from holdfast.authority.sessions import Session
from holdfast.machine import LogTrace, LoopTimers, MachineClock, MachineRandom, end_on_broken_invariant
from holdfast.machine.child_process import HUNG_STATUS
from holdfast.model.ids import SECOND, HostId, Incarnation
from holdfast.net import (
    Address,
    Connection,
    ConnectionSettings,
    Kind,
    Link,
    Reason,
    Role,
    Server,
    serve,
)
from holdfast.net.handshake import HEARTBEAT_ADMITS
from holdfast.node.endpoints import expecting, incarnated
from holdfast.node.heartbeats import Heartbeat, HeartbeatConfig, Heartbeats, PeerState, Vitals
from holdfast.sequence.lease_heartbeats import LeaseHeartbeats
from holdfast.sequence.messages import Beat, BeatAnswer

START_S: Final = 10.0
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Heartbeat | Beat | BeatAnswer).decode


class LoopPulse:
    """Shows that an event loop turns by writing down the time at regular intervals."""

    INTERVAL_S: Final = 0.05
    LATE_KEPT: Final = 400
    """For so many turns it is known how late they were: those of the last twenty seconds."""

    def __init__(self, on_turn: Callable[[int], None] = lambda late_ns: None) -> None:
        """*on_turn* is called with how late each turn was."""
        self._on_turn = on_turn
        self._clock = MachineClock()
        self._loop = asyncio.get_running_loop()
        self._turned_at = self._clock.now()
        self._late_ns: deque[int] = deque(maxlen=self.LATE_KEPT)
        self._loop.call_later(self.INTERVAL_S, self._turn)

    def late_p99_ns(self) -> int:
        """By how much one turn in a hundred was later than it meant to be, lately. The loop's timers count
        whole milliseconds, so up to one is theirs."""
        found = sorted(self._late_ns)
        return found[min(len(found) * 99 // 100, len(found) - 1)] if found else 0

    def age_ns(self) -> int:
        """How long ago the loop last turned. May be called from any thread."""
        return self._clock.now() - self._turned_at

    def _turn(self) -> None:
        now = self._clock.now()
        late_ns = max(0, now - self._turned_at - round(self.INTERVAL_S * SECOND))
        self._turned_at = now
        self._late_ns.append(late_ns)
        # First of all, because a handler that fails must not make the loop look as if it stood.
        self._loop.call_later(self.INTERVAL_S, self._turn)
        self._on_turn(late_ns)


class HeartbeatThread:
    """The heartbeat thread of a host. It listens after :meth:`listen`, and sends after :meth:`start`."""

    def __init__(
        self,
        host: HostId,
        endpoint: ConnectionSettings,
        *,
        listen: Address,
        config: HeartbeatConfig,
        partition: PartitionFilter,
    ) -> None:
        self._partition = partition
        self._host = host
        self._listen = listen
        self._config = config
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="heart", daemon=True)
        self._is_listening = threading.Event()
        self._failure: Exception | None = None
        self._server: Server | None = None
        self._heartbeats: Heartbeats | None = None
        self._beats: LeaseHeartbeats | None = None
        self._links: dict[HostId, tuple[Incarnation, Link]] = {}
        self._random = MachineRandom().stream("heart")
        self._endpoint = expecting(endpoint, Role.HOST)
        self.heard: tuple[PeerState, ...] = ()
        """What is known of every peer, renewed with every heartbeat. May be read from any thread."""

    # --- called by the main thread

    def listen(self) -> Address:
        """Start the thread and listen; returns the address to which peers send their heartbeats."""
        self._thread.start()
        self._is_listening.wait(START_S)
        if self._failure is not None:
            raise self._failure
        assert self._server is not None
        return self._server.address

    def start(self, incarnation: Incarnation, vitals: Callable[[], Vitals]) -> None:
        """Start to send heartbeats as *incarnation*."""
        self._loop.call_soon_threadsafe(self._start, incarnation, vitals)

    def carry(self, beats: LeaseHeartbeats) -> None:
        """Also exchange lease heartbeats (R4), once the thread has started to send heartbeats."""
        self._loop.call_soon_threadsafe(self._carry, beats)

    def retune(self, config: HeartbeatConfig) -> None:
        """Go on with other settings, from the next heartbeat on."""
        self._loop.call_soon_threadsafe(self._retune, config)

    def set_peers(self, sessions: Mapping[HostId, Session]) -> None:
        self._loop.call_soon_threadsafe(self._set_peers, sessions)

    def stop(self) -> None:
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_S)

    # --- on the heartbeat thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        end_on_broken_invariant(self._loop)
        try:
            self._server = self._loop.run_until_complete(
                serve(self._listen, lambda _: self, self._endpoint, admits=HEARTBEAT_ADMITS)
            )
        except Exception as error:
            self._failure = error
            return
        finally:
            self._is_listening.set()
        self._loop.run_forever()

    def _start(self, incarnation: Incarnation, vitals: Callable[[], Vitals]) -> None:
        self._endpoint = incarnated(self._endpoint, incarnation)
        self._heartbeats = Heartbeats(
            host=self._host,
            incarnation=incarnation,
            clock=MachineClock(),
            timers=lambda on_timer: LoopTimers(self._loop, on_timer),
            network=self,
            trace=LogTrace(host=self._host, incarnation=incarnation),
            vitals=vitals,
            on_unfit=_end_process,
            config=self._config,
        )
        self._heartbeats.start()
        self._show(self._heartbeats)

    def _retune(self, config: HeartbeatConfig) -> None:
        self._config = config
        if self._heartbeats is not None:
            self._heartbeats.config = config

    def _carry(self, beats: LeaseHeartbeats) -> None:
        self._beats = beats
        self._beat_for_leases(beats)

    def _beat_for_leases(self, beats: LeaseHeartbeats) -> None:
        self._loop.call_later(beats.config.interval_ns / SECOND, self._beat_for_leases, beats)
        if self._heartbeats is not None and self._heartbeats.does_loop_turn():
            beats.beat()

    def _show(self, heartbeats: Heartbeats) -> None:
        self.heard = heartbeats.peers()
        self._loop.call_later(self._config.interval_ns / SECOND, self._show, heartbeats)

    def _set_peers(self, sessions: Mapping[HostId, Session]) -> None:
        if self._heartbeats is None:
            return
        others = {host: session for host, session in sessions.items() if host != self._host}
        self._heartbeats.set_peers({host: session.incarnation for host, session in others.items()})
        for host, session in others.items():
            self._link_to(host, session)

    def _link_to(self, host: HostId, session: Session) -> None:
        """Connect to a host. A host that left the authority's list keeps its link.

        A missing session does not prove that the host no longer listens, and leases depend on the link.
        """
        incarnation, link = self._links.get(host, (None, None))
        if incarnation == session.incarnation or not session.heartbeat_address:
            return
        if link is not None:
            self._loop.create_task(link.close())
        self._links[host] = (session.incarnation, self._link(host, session))

    def _link(self, host: HostId, session: Session) -> Link:
        address = Address.parse(session.heartbeat_address)
        endpoint = expecting(self._endpoint, Role.HOST, host)
        return Link(f"heart of {host}", lambda: address, lambda _: self, endpoint, random=self._random)

    def send(self, peer: str, message: object) -> None:
        """Send a heartbeat of either kind: this object is the heartbeats' Network port."""
        if HostId(peer) in self._links:
            self._links[HostId(peer)][1].send(Kind.HEARTBEAT, _encode(message))

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        message = _decode(payload)
        if connection.peer.id in self._partition.to:
            return
        if isinstance(message, Heartbeat):
            if message.host != connection.peer.id:
                raise msgspec.ValidationError(f"{connection.peer} sends heartbeats as {message.host}")
            if self._heartbeats is not None:
                self._heartbeats.on_message(connection.peer.id, message)
        elif self._beats is not None:
            self._beats.on_message(HostId(connection.peer.id), message)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        return None


def _end_process(why: str, stood_ns: int) -> None:
    """End at once the process of a host that cannot work (K3): it cannot be trusted to end in order."""
    print(f"holdfast: this host ends itself: {why}", file=sys.stderr, flush=True)
    os._exit(HUNG_STATUS if stood_ns else 1)
