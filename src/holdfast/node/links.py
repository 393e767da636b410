"""The links on which the members of groups on different hosts talk to each other, and where a host listens.

Each host connects to every other host and sends only on its own links; the sequence resends what a broken
link loses. So no answer depends on which of the two connections of a pair is up.

At first a host listens wherever a port is free, and remembers it; later processes listen there again if
they can. While at least one host is up to say where the others are, nothing depends on that. After all
hosts were gone at once, clients know nothing but the old addresses.
"""

import asyncio
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random, SystemRandom
from typing import Final, TypeVar

import msgspec

from holdfast.authority.sessions import LOCATION, Session
from holdfast.machine.files import write_durably
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import HostId
from holdfast.model.versions import Decoder
from holdfast.net import Address, Connection, ConnectionSettings, Expected, Kind, Link, Reason, Role
from holdfast.sequence.messages import SequenceMessage
from holdfast.storage.volume import translated

_encode: Final = msgspec.msgpack.Encoder().encode
sequence_messages: Final[Decoder[SequenceMessage]] = Decoder(SequenceMessage)
decode_sequence: Final = sequence_messages.decode
"""Decodes a frame of the sequence. Raises ``LaterKind``, or ``msgspec.DecodeError`` for anything else."""


class HostLinks:
    """A Network port whose peers are hosts."""

    def __init__(self, own: HostId, endpoint: ConnectionSettings, *, random: Random) -> None:
        self._own = own
        self._endpoint = endpoint
        self._random = random
        self._addresses: dict[HostId, Address] = {}
        self._locations: dict[HostId, str] = {}
        self._links: dict[HostId, Link] = {}
        self._closing: dict[asyncio.Task[None], None] = {}

    def set_peers(self, sessions: Mapping[HostId, Session]) -> None:
        """Connect to these hosts at their current addresses.

        A host that is gone keeps its link and last address, because a missing session at the authority does
        not prove that it no longer listens.
        """
        for host, session in sessions.items():
            address, location = Address.parse(session.address), session.details.get(LOCATION, "")
            if host == self._own:
                continue
            if host in self._links and self._locations[host] != location:
                self._unlink(host)  # its certificate must say the new one
            is_known = host in self._links and self._addresses.get(host) == address
            self._addresses[host], self._locations[host] = address, location
            if host not in self._links:
                self._links[host] = self._link(host)
            elif not is_known:
                self._links[host].hurry()

    def send(self, peer: str, message: object) -> None:
        """Send *message* if the link is up. Delivery is not guaranteed."""
        link = self._links.get(HostId(peer))
        if link is not None and (connection := link.connection) is not None:
            connection.send(Kind.SEQUENCE, _encode(message))

    def send_as(self, kind: Kind, peer: HostId, message: object) -> None:
        """Send a message of another *kind*, likewise."""
        link = self._links.get(peer)
        if link is not None and (connection := link.connection) is not None:
            connection.send(kind, _encode(message))

    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links.values()), *self._closing)

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        raise msgspec.ValidationError(f"a host sends no {kind.name} on a link that another opened")

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        return None

    def _unlink(self, host: HostId) -> None:
        task = asyncio.get_running_loop().create_task(self._links.pop(host).close())
        self._closing[task] = None
        task.add_done_callback(lambda done: self._closing.pop(done))

    def _link(self, host: HostId) -> Link:
        expected = Expected(roles=frozenset({Role.HOST}), id=host, location=self._locations[host])
        return Link(
            f"host {host}",
            lambda: self._addresses[host],
            lambda _: self,
            replace(self._endpoint, expected=expected),
            random=self._random,
        )


ADDRESS: Final = "address"
"""The file in the host's directory that says where it listened last."""
PORTS: Final = range(20_000, 32_000)
"""These are below the range that systems use for outgoing connections. Such a connection could occupy the
port of a host that is down, which would then have to listen elsewhere.
"""
TRIES_MAX: Final = 20
PORTS_AHEAD: Final = range(10_000, 20_000)
"""Agents and authorities get their ports before they are started. No host takes one of these meanwhile."""

Listening = TypeVar("Listening")


async def listen(
    at: Address, directory: Path, serve: Callable[[Address], Awaitable[Listening]], file: str = ADDRESS
) -> Listening:
    """Listen at *at*. If its port is 0, prefer the port that *file* in *directory* remembers, else find a
    free one. Raises ``Unavailable``.

    A machine that has moved to another address keeps its ports: whoever knows it by a name still finds it.
    """
    if at.port:
        return await serve(at)
    last = remembered(directory, file)
    if last is not None:
        with suppress(Unavailable):
            return await serve(Address(at.host, last.port))
    for _ in range(TRIES_MAX):
        with suppress(Unavailable):
            return await serve(Address(at.host, secrets.choice(PORTS)))
    return await serve(at)


def remembered(directory: Path, file: str = ADDRESS) -> Address | None:
    """Where the host of *directory* listens or last listened; None if unknown."""
    try:
        return Address.parse((directory / file).read_text(encoding="ascii").strip())
    except (OSError, UnicodeDecodeError, InvalidRequest):
        return None


def remember(address: Address, directory: Path, file: str = ADDRESS) -> None:
    """Keep *address* durably for the next process.

    Raises ``NoSpace`` or ``DiskFailed``: a disk that fails its host once has failed for good, whatever it
    was used for (D1).
    """
    if remembered(directory, file) == address:
        return
    try:
        write_durably(directory / file, str(address).encode("ascii"))
    except OSError as error:
        raise translated(error, str(directory / file)) from error


def free_addresses(host: str, count: int, among: Sequence[int] = PORTS_AHEAD) -> list[Address]:
    """Addresses on which nothing listens, for processes that will listen there in a moment, and again
    whenever they are restarted.

    *Without their own range:* the system gives the port to an outgoing connection in between, and the agent
    or the authority cannot start until that connection has ended.
    """
    found: list[Address] = []
    tried = SystemRandom().sample(among, min(count * TRIES_MAX, len(among)))
    for port in (*tried, *([0] * count)):
        with suppress(OSError), socket.create_server((host, port)) as free:
            found.append(Address(host, free.getsockname()[1]))
        if len(found) == count:
            return found
    raise Unavailable(f"no port is free at {host}")
