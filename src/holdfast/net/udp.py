"""Datagrams over UDP: unicast and multicast sockets on an event loop, with bounded work per turn.

asyncio's own datagram endpoint asks for 256 KiB with each receive and is several times slower than reading
the socket when the loop says that it is readable. That is done here: up to ``PER_TURN`` datagrams in a turn,
so that a flood delays others and does not starve them; the rest waits in the kernel's buffer, and what does
not fit there is dropped and counted (:attr:`UdpSocket.kernel_drops`). Those of a turn are handed on together:
whoever can treat many as one does.

Multicast is confined to one interface: a socket joins the group on that interface's address and binds to the
group's, so that it hears nothing else.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import struct
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final

from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.net.address import Address

PER_TURN: Final = 64
"""The most datagrams that are handed on in one turn of the loop: some milliseconds of work."""
DATAGRAM_BYTES_MAX: Final = 65_536
BUFFER_BYTES: Final = 8 << 20
"""What is asked of the kernel for datagrams that wait. It grants at most ``net.core.rmem_max``."""

_SO_MEMINFO: Final = 55
_MEMINFO_DROPS: Final = 8
"""The place of the drops in what the kernel says of a socket's memory (sock_diag)."""
_MEMINFO: Final = struct.Struct("9I")
_SO_RCVBUFFORCE: Final = 33

_FLEETING: Final = frozenset(
    {errno.ECONNREFUSED, errno.ENOBUFS, errno.EAGAIN, errno.EPERM, errno.ENETUNREACH}
)
"""What may happen without being wrong: nobody listens yet, or the queue is full. UDP promises nothing."""

Sender = tuple[str, int]
Received = list[tuple[bytes, Sender]]
"""Datagrams, and where each came from. With IPv6, a sender has two members more."""
OnDatagrams = Callable[[Received], None]
log: Final = logging.getLogger("holdfast.udp")
"""The standard one: sources and destinations use this module, and a client has nothing else."""


class UdpSocket:
    """One socket. *on_datagrams* is called with the datagrams of one turn; *on_turn* after that."""

    def __init__(
        self, wire: socket.socket, on_datagrams: OnDatagrams, on_turn: Callable[[], None] = lambda: None
    ) -> None:
        self._wire = wire
        self._on_datagrams = on_datagrams
        self._on_turn = on_turn
        self._loop = asyncio.get_running_loop()
        self._is_open = True
        self.received = 0
        self.unsent = 0
        """Datagrams that the kernel did not take."""
        host, port = wire.getsockname()[:2]
        self.address = Address(host, port)
        self._loop.add_reader(wire.fileno(), self._read)

    def send(self, to: Sender, data: bytes) -> None:
        """Send a datagram, without any promise."""
        if not self._is_open:
            return
        try:
            self._wire.sendto(data, to)
        except OSError as error:
            self.unsent += 1
            if error.errno not in _FLEETING:
                log.warning("a datagram of %d bytes was not sent to %s: %s", len(data), to, error)

    def multicast_on(self, interface: str, ttl: int) -> None:
        """Send to multicast groups on the interface with that address; *ttl* 0 stays on this machine. Raises
        ``Unavailable``."""
        try:
            self._wire.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
            self._wire.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
            self._wire.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        except OSError as error:
            raise Unavailable(f"cannot send to multicast groups on {interface}: {error}") from None

    @property
    def kernel_drops(self) -> int:
        """Datagrams that came and found the buffer full, since the socket was opened."""
        if not self._is_open:
            return 0
        try:
            found = self._wire.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
            return int(_MEMINFO.unpack(found)[_MEMINFO_DROPS])
        except (OSError, struct.error):
            return 0  # a kernel older than 4.6

    @property
    def buffer_bytes(self) -> int:
        """What the kernel granted."""
        return self._wire.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._wire.fileno())
            self._wire.close()

    def _read(self) -> None:
        receive, found = self._wire.recvfrom, list[tuple[bytes, Sender]]()
        try:
            for _ in range(PER_TURN):
                found.append(receive(DATAGRAM_BYTES_MAX))
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno not in _FLEETING:  # an ICMP error of something that was sent is told here
                log.warning("a datagram was not received: %s", error)
        self.received += len(found)
        self._on_datagrams(found)
        if self._is_open:
            self._on_turn()


def one_by_one(on_datagram: Callable[[Sender, bytes], None]) -> OnDatagrams:
    """For those who take one datagram at a time."""

    def on_datagrams(received: Received) -> None:
        for data, sender in received:
            on_datagram(sender[:2], data)

    return on_datagrams


def open_udp(
    at: Address,
    on_datagrams: OnDatagrams,
    on_turn: Callable[[], None] = lambda: None,
    *,
    buffer_bytes: int = BUFFER_BYTES,
) -> UdpSocket:
    """A socket at *at*; with port 0, at any that is free. Raises ``Unavailable``."""
    wire = _socket(at, buffer_bytes)
    try:
        wire.bind((at.host, at.port))
    except OSError as error:
        wire.close()
        raise Unavailable(f"cannot listen at {at} by UDP: {error}") from None
    return UdpSocket(wire, on_datagrams, on_turn)


def join_multicast(
    group: Address,
    interface: str,
    on_datagrams: OnDatagrams,
    on_turn: Callable[[], None] = lambda: None,
    *,
    buffer_bytes: int = BUFFER_BYTES,
) -> UdpSocket:
    """A socket that hears a multicast group on the interface with that address. Several of one machine may.
    Raises ``Unavailable``, ``InvalidRequest``."""
    require_multicast(group)
    wire = _socket(group, buffer_bytes)
    try:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        wire.bind((group.host, group.port))
        joined = socket.inet_aton(group.host) + socket.inet_aton(interface)
        wire.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
    except OSError as error:
        wire.close()
        raise Unavailable(f"cannot join {group} on {interface}: {error}") from None
    return UdpSocket(wire, on_datagrams, on_turn)


def require_multicast(group: Address) -> None:
    """Raises ``InvalidRequest`` if *group* is no multicast address of IPv4."""
    try:
        found = ip_address(group.host)
    except ValueError:
        found = None
    if found is None or found.version != 4 or not found.is_multicast or not group.port:
        raise InvalidRequest(f"{group} is no multicast group: 224.0.0.0 to 239.255.255.255, and a port")


def _socket(at: Address, buffer_bytes: int) -> socket.socket:
    wire = socket.socket(socket.AF_INET6 if ":" in at.host else socket.AF_INET, socket.SOCK_DGRAM)
    wire.setblocking(False)
    try:
        wire.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, buffer_bytes)  # for processes with that right
    except OSError:
        with contextlib.suppress(OSError):
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    return wire
