"""The connections between masters of one suffix: one for each pair, made by the one whose name comes first.

They are connections of their own, with the identity of the host (certificates or the domain's secret) and
the bounds of all connections; what may be on its way is bounded by the window that each end gives
(:mod:`holdfast.directory.replication.supplier`). Whoever is no peer, or whose link people have cut, is
refused.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Final, Protocol

import msgspec

from holdfast.directory.replication.messages import Message, decode_message, encode_message
from holdfast.model.backoff import Backoff
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import MILLISECOND, HostId
from holdfast.net import (
    Address,
    Connection,
    ConnectionSettings,
    Expected,
    Kind,
    Link,
    Reason,
    Receiver,
    Role,
    Why,
)

PAUSES: Final = Backoff(first_ns=20 * MILLISECOND, most_ns=500 * MILLISECOND)
"""A peer that was refused, or is gone, is tried again that often."""
ENDED: Final = Reason(Why.DONE, "the session has ended")
NO_PEER: Final = Reason(Why.REFUSED, "no replication with this host now")


class PeerEvents(Protocol):
    """Who is told of connections: a replica, or a store that takes a copy."""

    def on_up(self, peer: str) -> None: ...

    def on_down(self, peer: str) -> None: ...

    def on_message(self, peer: str, message: Message) -> None: ...


class PeerLinks:
    """The Links port of one host (:class:`holdfast.directory.replication.ports.Links`)."""

    def __init__(
        self,
        own: HostId,
        endpoint: ConnectionSettings,
        where: Callable[[HostId], Address | None],
        *,
        random: Random,
    ) -> None:
        """*where* says where a host's directory listens now; None if that is not known."""
        self._own = own
        self._endpoint = endpoint
        self._where = where
        self._random = random
        self._events: PeerEvents | None = None
        self._peers: frozenset[HostId] = frozenset()
        self._links: dict[HostId, Link] = {}
        self._connections: dict[str, Connection] = {}
        self._closing: dict[asyncio.Task[None], None] = {}

    # --- whom it connects

    def attach(self, events: PeerEvents) -> None:
        """Tell *events* of connections from now on; until then peers are refused."""
        self._events = events

    def detach(self) -> None:
        """End all connections, and refuse new ones."""
        self._events = None
        self.set_peers(())

    def set_peers(self, peers: Iterable[HostId]) -> None:
        """Be connected to these, and to no others."""
        self._peers = frozenset(each for each in peers if each != self._own)
        for host in [each for each in self._links if each not in self._peers]:
            self._unlink(host)
        for peer in [each for each in self._connections if each not in self._peers]:
            self._drop(peer)
        for host in sorted(self._peers):
            if self._own < host and host not in self._links:
                self._links[host] = self._link(host)

    @property
    def connected(self) -> tuple[str, ...]:
        return tuple(sorted(self._connections))

    def hurry(self) -> None:
        """Somebody may be back, or elsewhere: try now."""
        for link in self._links.values():
            if link.connection is None:
                link.hurry()

    async def shut(self) -> None:
        self.detach()
        await asyncio.gather(*self._closing)

    # --- the port

    def send(self, peer: str, message: Message) -> None:
        connection = self._connections.get(peer)
        if connection is not None:
            connection.send(Kind.DIRECTORY, encode_message(message))

    def close(self, peer: str) -> None:
        """End the connection to *peer*, if there is one, without a word to the events."""
        connection = self._connections.pop(peer, None)
        if connection is not None:
            connection.close(ENDED)

    # --- the receiver

    def accepted(self, connection: Connection) -> Receiver:
        """A host has connected to this one."""
        peer = connection.peer.id
        if HostId(peer) not in self._peers or self._events is None or peer >= self._own:
            connection.close(NO_PEER)
        else:
            self._up(connection)
        return self

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        peer = connection.peer.id
        if self._events is None or self._connections.get(peer) is not connection:
            return  # late words of a connection that was given up
        if kind is not Kind.DIRECTORY:
            raise msgspec.ValidationError(f"masters send each other no {kind.name}")
        try:
            message = decode_message(payload)
        except InvalidRequest as fault:
            raise msgspec.ValidationError(str(fault)) from None
        self._events.on_message(peer, message)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        peer = connection.peer.id
        if self._connections.get(peer) is connection:
            del self._connections[peer]
            if self._events is not None:
                self._events.on_down(peer)

    # --- internal

    def _link(self, host: HostId) -> Link:
        settings = replace(self._endpoint, expected=Expected(roles=frozenset({Role.HOST}), id=host))
        return Link(
            f"directory of {host}",
            lambda: self._where(host),
            self._up,
            settings,
            random=self._random,
            backoff=PAUSES,
        )

    def _up(self, connection: Connection) -> Receiver:
        peer = connection.peer.id
        if self._events is None:
            connection.close(NO_PEER)
            return self
        self.close(peer)  # an earlier connection, whose end was not noticed yet
        self._connections[peer] = connection
        self._events.on_up(peer)
        return self

    def _drop(self, peer: str) -> None:
        self.close(peer)
        if self._events is not None:
            self._events.on_down(peer)

    def _unlink(self, host: HostId) -> None:
        task = asyncio.get_running_loop().create_task(self._links.pop(host).close())
        self._closing[task] = None
        task.add_done_callback(lambda done: self._closing.pop(done))
