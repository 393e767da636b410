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
from holdfast.net.admission import Admission
from holdfast.net.connection import Connection, Receiver
from holdfast.net.endpoint import Endpoint
from holdfast.net.handshake import Expected, Identity, Role
from holdfast.net.inbox import Inbox
from holdfast.net.kind import Kind
from holdfast.net.limits import Limits
from holdfast.net.reason import NotConnected, Reason, Why
from holdfast.net.reconnect import Backoff, Link
from holdfast.net.requests import NotHeard, Requests, split_number, with_number
from holdfast.net.tcp import Server, connect, serve
from holdfast.net.tls import Tls

__all__ = [
    "Address",
    "Admission",
    "Backoff",
    "Connection",
    "Endpoint",
    "Expected",
    "Identity",
    "Inbox",
    "Kind",
    "Limits",
    "Link",
    "NotConnected",
    "NotHeard",
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
