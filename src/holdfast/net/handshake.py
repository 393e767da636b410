"""The handshake: Hello from the end that connects, Welcome or Goodbye from the end that accepts.

The messages are arrays whose fields are only ever added at the end, so that every version can read the
versions in any other version's Hello and refuse it with a clear reason.

Whom a server admits, and to what: each names the roles for every kind of frame that it takes.

What a table does not name nobody may send. A role that may send nothing at all is refused in the handshake.
With TLS the role is the certificate's; without it, on loopback, it is what the peer says of itself.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from holdfast.model.errors import InvalidRequest
from holdfast.net.frame import UNDECODABLE, Kind, Reason, Why, plain_text

MAGIC: Final = "holdfast"
OLDEST_VERSION: Final = 1
NEWEST_VERSION: Final = 1

HANDSHAKE_BYTES_MAX: Final = 1024
"""Bound on a Hello, Welcome or Goodbye. Peers unknown so far get no more memory than this."""


class Role(StrEnum):
    """What a process is in its domain; with TLS the certificate must say the same (K2)."""

    HOST = "host"
    AGENT = "agent"
    CLIENT = "client"
    AUTHORITY = "authority"
    ADMIN = "admin"


ANY_ROLE: Final = frozenset(Role)

NAME_CHARACTERS_MAX: Final = 100
NAME_PATTERN: Final = f"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{NAME_CHARACTERS_MAX - 1}}}\\Z"
"""Domains and ids: what fits a file name, a certificate's URI and a log line as it stands."""

Name = Annotated[str, Meta(pattern=NAME_PATTERN)]
Number = Annotated[int, Meta(ge=0)]


def check_name(what: str, name: str) -> None:
    """Raise ``InvalidRequest`` unless *name* can be a domain or an id."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise InvalidRequest(
            f"{what} {name!r}: must be 1 to 100 letters, digits, dots, dashes or underscores, "
            "the first a letter or digit"
        )


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """Who one end of a connection is."""

    domain: str
    role: Role
    id: str
    incarnation: int = 0
    """The process's number, where the role has one (V2)."""

    def __post_init__(self) -> None:
        check_name("domain", self.domain)
        check_name("id", self.id)

    def __str__(self) -> str:
        return f"{self.role} {self.id}"


@dataclass(frozen=True, slots=True)
class CertifiedName:
    """Who the peer's certificate says it is."""

    domain: str
    role: Role
    id: str


@dataclass(frozen=True, slots=True)
class Expected:
    """Whom an end is willing to talk to; None and ANY_ROLE leave it open."""

    roles: frozenset[Role] = ANY_ROLE
    id: str | None = None


class Hello(Struct, frozen=True, array_like=True):
    magic: str
    oldest_version: int
    newest_version: int
    domain: Name
    role: Role
    id: Name
    incarnation: Number
    payload_bytes_max: Number
    """The longest payload the sender of this message takes."""
    idle_ms: Number
    """How long its sender waits for a word before it gives the peer up."""


class Welcome(Struct, frozen=True, array_like=True):
    version: int
    domain: Name
    role: Role
    id: Name
    incarnation: Number
    payload_bytes_max: Number
    idle_ms: Number


class Goodbye(Struct, frozen=True, array_like=True):
    why: str
    """A value of ``Why``, or one that a later version added."""
    message: str


class _Versions(Struct, array_like=True):
    """As much of a Hello as every version can read."""

    magic: str
    oldest_version: int
    newest_version: int


_encode = msgspec.msgpack.Encoder().encode
_decode_versions = msgspec.msgpack.Decoder(_Versions).decode
_decode_hello = msgspec.msgpack.Decoder(Hello).decode
_decode_welcome = msgspec.msgpack.Decoder(Welcome).decode
_decode_goodbye = msgspec.msgpack.Decoder(Goodbye).decode


def encode_hello(ours: PeerIdentity, payload_bytes_max: int, idle_ms: int) -> bytes:
    return _encode(
        Hello(
            MAGIC,
            OLDEST_VERSION,
            NEWEST_VERSION,
            ours.domain,
            ours.role,
            ours.id,
            ours.incarnation,
            payload_bytes_max,
            idle_ms,
        )
    )


def encode_welcome(ours: PeerIdentity, version: int, payload_bytes_max: int, idle_ms: int) -> bytes:
    return _encode(
        Welcome(version, ours.domain, ours.role, ours.id, ours.incarnation, payload_bytes_max, idle_ms)
    )


def encode_goodbye(reason: Reason) -> bytes:
    return _encode(Goodbye(reason.why, plain_text(reason.message)))


@dataclass(frozen=True, slots=True)
class Agreed:
    """What the handshake settled."""

    peer: PeerIdentity
    version: int
    payload_bytes_max: int
    """The longest payload the peer takes."""
    idle_ms: int
    """How long the peer waits for a word from this end."""


def judge_hello(
    payload: bytes, ours: PeerIdentity, expected: Expected, certified: CertifiedName | None
) -> Agreed | Reason:
    """What the accepting end makes of a Hello."""
    try:
        versions = _decode_versions(payload)
        if versions.magic != MAGIC:
            return Reason(Why.MALFORMED, "the first frame is not a Holdfast hello")
        version = min(NEWEST_VERSION, versions.newest_version)
        if version < max(OLDEST_VERSION, versions.oldest_version):
            return Reason(Why.VERSION, _no_common_version(versions))
        hello = _decode_hello(payload)
    except UNDECODABLE as error:
        return Reason(Why.MALFORMED, f"hello: {error}")
    peer = PeerIdentity(hello.domain, hello.role, hello.id, hello.incarnation)
    objection = _objection(peer, ours, expected, certified)
    return objection or Agreed(peer, version, hello.payload_bytes_max, hello.idle_ms)


def judge_welcome(
    payload: bytes, ours: PeerIdentity, expected: Expected, certified: CertifiedName | None
) -> Agreed | Reason:
    """What the connecting end makes of a Welcome."""
    try:
        welcome = _decode_welcome(payload)
    except UNDECODABLE as error:
        return Reason(Why.MALFORMED, f"welcome: {error}")
    if not OLDEST_VERSION <= welcome.version <= NEWEST_VERSION:
        return Reason(Why.VERSION, f"the peer chose version {welcome.version}, which was not offered")
    peer = PeerIdentity(welcome.domain, welcome.role, welcome.id, welcome.incarnation)
    objection = _objection(peer, ours, expected, certified)
    return objection or Agreed(peer, welcome.version, welcome.payload_bytes_max, welcome.idle_ms)


def read_goodbye(payload: bytes) -> Reason:
    """The peer's reason. A Goodbye that cannot be read ends the connection all the same."""
    try:
        goodbye = _decode_goodbye(payload)
    except UNDECODABLE as error:
        return Reason(Why.MALFORMED, f"goodbye: {error}")
    why = Why(goodbye.why) if goodbye.why in Why._value2member_map_ else Why.REFUSED
    return Reason(why, plain_text(goodbye.message), by_peer=True)


def _objection(
    peer: PeerIdentity, ours: PeerIdentity, expected: Expected, certified: CertifiedName | None
) -> Reason | None:
    if peer.domain != ours.domain:
        return Reason(Why.REFUSED, f"peer is of domain {peer.domain!r}, this is domain {ours.domain!r}")
    if certified is not None and certified != CertifiedName(peer.domain, peer.role, peer.id):
        return Reason(
            Why.REFUSED,
            f"the certificate is of {certified.role} {certified.id} in domain {certified.domain!r}, "
            f"the peer says it is {peer}",
        )
    if peer.role not in expected.roles:
        return Reason(Why.REFUSED, f"role {peer.role} is not admitted here")
    if expected.id is not None and peer.id != expected.id:
        return Reason(Why.REFUSED, f"expected {expected.id}, found {peer}")
    return None


def _no_common_version(versions: _Versions) -> str:
    return (
        f"peer speaks versions {versions.oldest_version} to {versions.newest_version}, "
        f"this end {OLDEST_VERSION} to {NEWEST_VERSION}"
    )


Admission = Mapping[Kind, frozenset[Role]]

_HOSTS: Final = frozenset({Role.HOST})
_CALLERS: Final = frozenset({Role.HOST, Role.CLIENT, Role.ADMIN})

AUTHORITY_ADMITS: Final[Admission] = {
    # Whoever asks here may read and write every key: who is primary, what groups are of, where they are.
    Kind.AUTHORITY_ASK: frozenset({Role.HOST, Role.AGENT, Role.ADMIN}),
}
AGENT_ADMITS: Final[Admission] = {
    Kind.AGENT_REPORT: _HOSTS,
    Kind.STATUS_REQUEST: frozenset({Role.HOST, Role.AGENT, Role.ADMIN}),
}
HEART_ADMITS: Final[Admission] = {Kind.HEARTBEAT: _HOSTS}
HOST_ADMITS: Final[Admission] = {
    Kind.SEQUENCE: _HOSTS,
    Kind.CONTROL: _HOSTS,
    Kind.CALL: _CALLERS,
    # Each order names its own roles besides (node.permission).
    Kind.GROUP_ORDER: _CALLERS,
    Kind.STATUS_REQUEST: frozenset({Role.HOST, Role.AGENT, Role.ADMIN}),
}


def roles_in(admits: Admission) -> frozenset[Role]:
    """Those that may send anything at all."""
    return frozenset[Role]().union(*admits.values())


def kinds_of(role: Role, admits: Admission) -> frozenset[Kind]:
    """Those that *role* may send."""
    return frozenset(kind for kind, roles in admits.items() if role in roles)
