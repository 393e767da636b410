"""Simulated connections: they deliver in order, deliver nothing twice, and deliver nothing after a loss.

A lost packet is not sent again: everything after it waits until one end closes the connection. Both ends
contribute to the name of a connection, so that a packet of an earlier connection is never taken for one of
this.
"""

from collections.abc import Callable, Hashable
from typing import Final

from msgspec import Struct

from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND

OPEN_NS: Final = 60 * MILLISECOND
"""How long a client waits before it tries again to connect."""

OPEN: Final = "open"
OPENED: Final = "opened"
DATA: Final = "data"
RESET: Final = "reset"


class Packet(Struct, frozen=True, array_like=True, tag="packet"):
    kind: str
    caller: str
    """The connecting end's part of the connection's name."""
    accepter: str = ""
    """The accepting end's part of the connection's name."""
    number: int = 0
    body: bytes = b""
    is_answer: bool = False
    """Whether the accepting end sent the packet; a node may be connected to itself."""


class Stream:
    """One end of a connection."""

    def __init__(self, peer: str, caller: str, accepter: str, *, is_accepted: bool) -> None:
        self.peer = peer
        self.caller = caller
        self.accepter = accepter
        self.is_accepted = is_accepted
        self._sent = 0
        self._taken = 0
        self._early: dict[int, bytes] = {}

    def packet(self, body: bytes) -> Packet:
        self._sent += 1
        return Packet(DATA, self.caller, self.accepter, self._sent, body, self.is_accepted)

    def take(self, packet: Packet) -> list[bytes]:
        """Take in *packet* and return the bodies that can now be delivered in order."""
        if packet.number > self._taken:
            self._early[packet.number] = packet.body
        ready = []
        while self._taken + 1 in self._early:
            self._taken += 1
            ready.append(self._early.pop(self._taken))
        return ready


class Acceptor:
    """The accepting end of all connections to one host."""

    def __init__(self, ports: NodePorts, on_body: Callable[[Stream, bytes], None]) -> None:
        self._ports = ports
        self._on_body = on_body
        self._streams: dict[str, Stream] = {}
        self._opened = 0

    def on_packet(self, peer: str, packet: Packet) -> None:
        if packet.kind == OPEN:
            self._opened += 1
            accepter = f"{self._ports.name}#{self._ports.incarnation}/{self._opened}"
            self._streams[accepter] = Stream(peer, packet.caller, accepter, is_accepted=True)
            self._ports.network.send(peer, Packet(OPENED, packet.caller, accepter, is_answer=True))
            return
        stream = self._streams.get(packet.accepter)
        if packet.kind == RESET:
            self._streams.pop(packet.accepter, None)
        elif stream is None:
            self._ports.network.send(peer, Packet(RESET, packet.caller, packet.accepter, is_answer=True))
        else:
            for body in stream.take(packet):
                self._on_body(stream, body)

    def send(self, stream: Stream, body: bytes) -> None:
        if self._streams.get(stream.accepter) is stream:
            self._ports.network.send(stream.peer, stream.packet(body))

    def end(self, stream: Stream) -> None:
        if self._streams.pop(stream.accepter, None) is not None:
            packet = Packet(RESET, stream.caller, stream.accepter, is_answer=True)
            self._ports.network.send(stream.peer, packet)


class Connector:
    """The connecting end of a client: it keeps one connection to every host, and reconnects when one ends."""

    def __init__(
        self,
        ports: NodePorts,
        hosts: tuple[str, ...],
        *,
        on_up: Callable[[str], None],
        on_down: Callable[[str], None],
        on_body: Callable[[str, bytes], None],
    ) -> None:
        self._ports = ports
        self._hosts = hosts
        self._on_up, self._on_down, self._on_body = on_up, on_down, on_body
        self._streams: dict[str, Stream] = {}
        self._trying: dict[str, str] = {}
        self._tries = 0
        self._timers = ports.timers(self._on_timer)
        self._on_timer("open")

    def keep(self, hosts: tuple[str, ...]) -> None:
        """Keep connections to these hosts only."""
        self._hosts = hosts
        for host in [each for each in self._streams if each not in hosts]:
            self.end(host)

    def send(self, host: str, body: bytes) -> None:
        stream = self._streams.get(host)
        if stream is not None:
            self._ports.network.send(host, stream.packet(body))

    def end(self, host: str) -> None:
        stream = self._streams.pop(host, None)
        if stream is not None:
            self._ports.network.send(host, Packet(RESET, stream.caller, stream.accepter))
            self._on_down(host)

    def on_packet(self, host: str, packet: Packet) -> None:
        stream = self._streams.get(host)
        if packet.kind == OPENED:
            if stream is None and self._trying.get(host) == packet.caller:
                self._streams[host] = Stream(host, packet.caller, packet.accepter, is_accepted=False)
                self._on_up(host)
        elif stream is None or stream.accepter != packet.accepter or stream.caller != packet.caller:
            return
        elif packet.kind == RESET:
            del self._streams[host]
            self._on_down(host)
        else:
            for body in stream.take(packet):
                self._on_body(host, body)

    def _on_timer(self, tag: Hashable) -> None:
        for host in self._hosts:
            if host not in self._streams:
                self._tries += 1
                self._trying[host] = f"{self._ports.name}#{self._ports.incarnation}/{self._tries}"
                self._ports.network.send(host, Packet(OPEN, self._trying[host]))
        self._timers.set(OPEN_NS, "open")
