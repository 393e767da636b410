"""The links between hosts: how members of groups on different hosts speak to each other.

Each host connects to every other and sends on its own link only; what a broken link loses, the sequence sends
again. So no answer depends on which of the two connections of a pair is up.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Final

import msgspec

from holdfast.authority.sessions import Session
from holdfast.model.ids import HostId
from holdfast.model.versions import Decoder
from holdfast.net import Address, Connection, Endpoint, Expected, Kind, Link, Reason, Role
from holdfast.sequence.messages import GroupMessage, HostMessage

_encode: Final = msgspec.msgpack.Encoder().encode
_messages: Final[Decoder[GroupMessage | HostMessage]] = Decoder(GroupMessage | HostMessage)


def decode_sequence(payload: bytes) -> GroupMessage | HostMessage:
    """Raises ``LaterKind``, and ``msgspec.DecodeError`` for anything else."""
    return _messages.decode(payload)


class HostLinks:
    """A Network port of which the peers are hosts."""

    def __init__(self, own: HostId, endpoint: Endpoint, *, random: Random) -> None:
        self._own = own
        self._endpoint = endpoint
        self._random = random
        self._addresses: dict[HostId, Address] = {}
        self._links: dict[HostId, Link] = {}

    def set_peers(self, sessions: Mapping[HostId, Session]) -> None:
        """Be linked to these hosts, where they listen now; a host that is gone keeps its link and its
        last address, since no session at the authority is no proof that it does not listen."""
        for host, session in sessions.items():
            address = Address.parse(session.address)
            if host == self._own or self._addresses.get(host) == address:
                continue
            self._addresses[host] = address
            if host in self._links:
                self._links[host].hurry()
            else:
                self._links[host] = self._link(host)

    def send(self, peer: str, message: object) -> None:
        """Send it if the link is up; no promise either way."""
        self.send_as(Kind.SEQUENCE, HostId(peer), message)

    def send_as(self, kind: Kind, peer: HostId, message: object) -> None:
        """The same, of another kind of message."""
        link = self._links.get(peer)
        if link is not None and link.connection is not None:
            link.send(kind, _encode(message))

    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links.values()))

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        raise msgspec.ValidationError(f"a host sends no {kind.name} on a link that another opened")

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        return None

    def _link(self, host: HostId) -> Link:
        expected = Expected(roles=frozenset({Role.HOST}), id=host)
        return Link(
            f"host {host}",
            lambda: self._addresses[host],
            lambda _: self,
            replace(self._endpoint, expected=expected),
            random=self._random,
        )
