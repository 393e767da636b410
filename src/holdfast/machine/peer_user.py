"""Which user is at the other end of a TCP connection on loopback.

The kernel knows the owner of every socket of this machine. It is asked for exactly one socket, by the
addresses of both ends (``sock_diag``): the answer takes some microseconds however many sockets there are.
Where that is not possible (some containers forbid it), the table in ``/proc/net`` is read, up to a bound.

Only a socket that has an inode counts, that is one that a process holds. For one that was closed the kernel
reports user 0, so a stranger could pass for root by closing its socket right after it sent a request.
"""

import ipaddress
import socket
import struct
from typing import Final

NETLINK_SOCK_DIAG: Final = 4
SOCK_DIAG_BY_FAMILY: Final = 20
REQUEST: Final = 1
ESTABLISHED: Final = 1
IN_USE: Final = frozenset({ESTABLISHED, 4, 5, 8})
"""States in which a socket may have an owner: established, and half closed by either end."""
ANSWER_S: Final = 0.1
"""The kernel answers at once; this only ends a wait that cannot happen."""
TABLE_BYTES_MAX: Final = 4 << 20
"""Some 25,000 connections: reading that takes tens of milliseconds. Beyond it nobody is told apart."""

_HEADER: Final = struct.Struct("=IHHII")
_ASKED: Final = struct.Struct("=BBBxI")
_ANSWER: Final = struct.Struct("=BBBBHH16s16sIIIIIIII")
"""The head of ``inet_diag_msg``: family, state, timer, retransmissions, the two ports, the two addresses,
interface, two cookies, expiry, both queues, user, inode."""

End = tuple[str, int]
"""An address and a port, as sockets give them."""


def user_of_peer(peer: End, here: End) -> int | None:
    """The id of the user whose socket is at *peer*, connected to *here*; None if nobody can say."""
    try:
        ends = (_packed(peer[0]), peer[1]), (_packed(here[0]), here[1])
    except ValueError:
        return None
    try:
        return _asked(*ends)
    except OSError:
        return _looked_up(*ends)


def _packed(address: str) -> bytes:
    """The address in four or sixteen bytes; an IPv4 address inside IPv6 is one of IPv4."""
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).packed


def _asked(peer: tuple[bytes, int], here: tuple[bytes, int]) -> int | None:
    family = socket.AF_INET if len(peer[0]) == 4 else socket.AF_INET6
    ports = struct.pack("!HH", peer[1], here[1])
    addresses = peer[0].ljust(16, b"\0") + here[0].ljust(16, b"\0")
    any_socket = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
    body = _ASKED.pack(family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF) + ports + addresses + any_socket
    head = _HEADER.pack(_HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG) as asking:
        asking.settimeout(ANSWER_S)
        asking.send(head + body)
        answer = asking.recv(8192)
    kind = _HEADER.unpack_from(answer)[1]
    if kind != SOCK_DIAG_BY_FAMILY or len(answer) < _HEADER.size + _ANSWER.size:
        return None  # there is no such socket (any more)
    found = _ANSWER.unpack_from(answer, _HEADER.size)
    state, user, inode = found[1], found[-2], found[-1]
    return user if state in IN_USE and inode else None


def _looked_up(peer: tuple[bytes, int], here: tuple[bytes, int]) -> int | None:
    wanted = [_in_table(*peer), _in_table(*here)]
    name = "tcp" if len(peer[0]) == 4 else "tcp6"
    try:
        with open(f"/proc/net/{name}", encoding="ascii") as table:
            lines = table.read(TABLE_BYTES_MAX).splitlines()[1:]
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        if fields[1:3] == wanted:
            is_in_use = int(fields[3], 16) == ESTABLISHED and fields[9] != "0"
            return int(fields[7]) if is_in_use else None
    return None


def _in_table(address: bytes, port: int) -> str:
    words = [address[index : index + 4][::-1].hex().upper() for index in range(0, len(address), 4)]
    return f"{''.join(words)}:{port:04X}"
