"""The native protocol: msgpack frames over TCP or mutual TLS, pipelined, every bound named.

Owns the framing, the handshake (version, domain, role, id), the life of a connection and its back-pressure,
and the domain's certificates. Leaves what frames mean to whoever sends and receives them: each subsystem has
its range of :class:`Kind` and decodes its own payloads, with typed decoders.

``frame``, ``handshake`` and ``session`` are the protocol without IO. ``connection`` drives it on asyncio (run
it on uvloop), over a ``layer`` that is plain or TLS and with the back-pressure of ``flow``; ``tcp`` listens
and connects, and ``admission`` says whom servers let in. ``inbox``, ``requests`` and ``reconnect`` are ways
to use a connection.
"""

from holdfast.net.address import Address
from holdfast.net.connection import Connection, Receiver
from holdfast.net.frame import Kind, NotConnected, Reason, Why
from holdfast.net.handshake import Admission, Expected, PeerIdentity, Role
from holdfast.net.limits import Limits
from holdfast.net.requests import Inbox, NotHeard, Requests, split_number, with_number
from holdfast.net.tcp import Backoff, Link, Server, connect, serve
from holdfast.net.tls import ConnectionSettings, Tls

__all__ = [
    "Address",
    "Admission",
    "Backoff",
    "Connection",
    "ConnectionSettings",
    "Expected",
    "Inbox",
    "Kind",
    "Limits",
    "Link",
    "NotConnected",
    "NotHeard",
    "PeerIdentity",
    "Reason",
    "Receiver",
    "Requests",
    "Role",
    "Server",
    "Tls",
    "Why",
    "connect",
    "serve",
    "split_number",
    "with_number",
]
