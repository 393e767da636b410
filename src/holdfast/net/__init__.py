"""The native protocol: msgpack frames over TCP or mutual TLS, pipelined, with named bounds.

This package owns the framing, the handshake (version, domain, role, id), the life of a connection and its
back-pressure, the domain's certificates, and the proofs of those who have none. It does not know what frames
mean: each subsystem has its range of :class:`Kind` and decodes its own payloads with typed decoders.

``frame``, ``handshake``, ``credentials`` and ``session`` are the protocol without IO; ``handshake`` also says
which roles servers admit, ``places`` and ``frame_memory`` how many peers they serve and how much those may
make them keep. ``connection`` runs the protocol on asyncio (use uvloop), over a ``layer``, plain or with the
certificates of ``tls``, and with the back-pressure of ``flow``. ``tcp`` listens and connects, ``link``
reconnects; ``requests`` adds questions with answers and a bounded inbox. ``udp`` is apart from all that:
datagrams, of which others know what they mean.
"""

from holdfast.net.address import Address
from holdfast.net.connection import Connection
from holdfast.net.connection_settings import ConnectionSettings
from holdfast.net.credentials import ClientKey, Credentials, DomainSecret, ProvenBy
from holdfast.net.frame import Kind, NotConnected, Reason, Why
from holdfast.net.handshake import Admission, Expected, PeerIdentity, Role
from holdfast.net.limits import Limits
from holdfast.net.link import Link
from holdfast.net.receiver import Receiver
from holdfast.net.requests import Inbox, NotHeard, Requests, split_number, with_number
from holdfast.net.tcp import Server, connect, serve
from holdfast.net.tls import Tls

__all__ = [
    "Address",
    "Admission",
    "ClientKey",
    "Connection",
    "ConnectionSettings",
    "Credentials",
    "DomainSecret",
    "Expected",
    "Inbox",
    "Kind",
    "Limits",
    "Link",
    "NotConnected",
    "NotHeard",
    "PeerIdentity",
    "ProvenBy",
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
