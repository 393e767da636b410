"""A client's connections: one to every host it knows, opened again when it ends.

A host may have several addresses. While a process is connected, its other addresses rest until that
connection ends.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from holdfast.calling.client_heartbeats import ClientHeartbeats
from holdfast.calling.config import ClientConfig
from holdfast.machine.real_ports import LoopTimers, MachineClock, MachineRandom
from holdfast.model.calls import (
    Calls,
    Pong,
    Reads,
    RefusalCode,
    ToClient,
    Turned,
    decode_to_client,
    encode_message,
)
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId
from holdfast.model.versions import LaterKind
from holdfast.net import Address, Connection, ConnectionSettings, Kind, Link, Reason, Why


class HostEvents(Protocol):
    """Receives the events of the connections."""

    def on_up(self, host: HostId) -> None: ...

    def on_down(self, host: HostId) -> None: ...

    def on_message(self, host: HostId, message: ToClient) -> None: ...


class HostConnections:
    """The hosts of a domain, as one client reaches them. It is also the Network port of the client's
    parts."""

    def __init__(
        self, endpoint: ConnectionSettings, events: HostEvents, config: ClientConfig, *, insecure: bool
    ) -> None:
        self._endpoint = endpoint
        self._events = events
        self._insecure = insecure
        self._links: dict[Address, Link] = {}
        self._connections: dict[HostId, Connection] = {}
        self._resting: dict[Address, HostId] = {}
        """Other addresses of hosts that are connected."""
        self._random = MachineRandom().stream("links")
        self._closing: dict[asyncio.Task[None], None] = {}
        self._timers: list[LoopTimers] = []
        self._heartbeats = ClientHeartbeats(
            clock=MachineClock(),
            timers=self._make_timers,
            network=self,
            give_up=self._give_up,
            interval_ns=config.heartbeat_interval_ns,
            timeout_ns=config.heartbeat_timeout_ns,
        )

    @property
    def connected(self) -> list[HostId]:
        return list(self._connections)

    @property
    def failures(self) -> list[str]:
        """Why hosts could not be reached at the last attempt, each reason once."""
        return list(dict.fromkeys(link.failure for link in self._links.values() if link.failure))

    def keep(self, wanted: Iterable[Address]) -> None:
        """Connect to these addresses, and close the connections to all others."""
        addresses = dict.fromkeys(wanted)
        self._resting = {address: host for address, host in self._resting.items() if address in addresses}
        for address in [each for each in self._links if each not in addresses]:
            self._unlink(address)
        for address in addresses:
            if address in self._resting:
                continue
            if address not in self._links:
                self._links[address] = self._link(address)
            elif self._links[address].connection is None:
                self._links[address].hurry()

    def send(self, peer: str, message: object) -> None:
        host = HostId(peer)
        connection = self._connections.get(host)
        if connection is None:
            return
        try:
            connection.send(Kind.CALL, encode_message(message))  # type: ignore[arg-type]  # cores send these
        except InvalidRequest as error:
            # The message is longer than this host takes. It is reported as the host would, after the sender
            # is done.
            if isinstance(message, Calls | Reads):
                turned = Turned(message.frame, message.group, RefusalCode.INVALID, str(error))
                asyncio.get_running_loop().call_soon(self._events.on_message, host, turned)

    async def close(self) -> None:
        self.keep(())
        for timers in self._timers:
            timers.close()
        await asyncio.gather(*self._closing)

    def _link(self, address: Address) -> Link:
        return Link(
            str(address),
            lambda: address,
            partial(self._on_open, address),
            self._endpoint,
            random=self._random,
            insecure=self._insecure,
        )

    def _unlink(self, address: Address) -> None:
        task = asyncio.get_running_loop().create_task(self._links.pop(address).close())
        self._closing[task] = None
        task.add_done_callback(lambda done: self._closing.pop(done))

    def _make_timers(self, on_timer: Callable[[object], None]) -> LoopTimers:
        timers = LoopTimers(asyncio.get_running_loop(), on_timer)
        self._timers.append(timers)
        return timers

    def _on_open(self, address: Address, connection: Connection) -> "HostConnections":
        host = HostId(connection.peer.id)
        known = self._connections.get(host)
        if known is not None and known.peer.incarnation == connection.peer.incarnation:
            # The same process at another of its addresses: one connection is enough.
            connection.close()
            if address in self._links:
                self._resting[address] = host
                self._unlink(address)
            return self
        if known is not None:
            known.close(Reason(Why.DONE, "the host was started anew"))
        self._connections[host] = connection
        self._heartbeats.on_connected(host)
        self._events.on_up(host)
        return self

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        host = HostId(connection.peer.id)
        if kind is not Kind.CALL_ANSWER or self._connections.get(host) is not connection:
            return
        self._heartbeats.on_heard(host)
        try:
            message = decode_to_client(payload)
        except LaterKind:
            return  # the host has a later version, and this message is not needed here
        if not isinstance(message, Pong):
            self._events.on_message(host, message)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        host = HostId(connection.peer.id)
        if self._connections.get(host) is connection:
            del self._connections[host]
            self._heartbeats.on_disconnected(host)
            self._wake(host)
            self._events.on_down(host)

    def _wake(self, host: HostId) -> None:
        """Try the resting addresses of a host whose connection has ended."""
        for address in [each for each, known in self._resting.items() if known == host]:
            del self._resting[address]
            self._links[address] = self._link(address)

    def _give_up(self, host: HostId) -> None:
        self._connections[host].close(Reason(Why.IDLE, "no answer to heartbeats"))
