"""The handshake, and which roles a server admits.

The connecting end sends a Hello; the accepting end answers with a Welcome or a Goodbye. The messages are
arrays that only ever grow at the end, so that every version can read the version numbers in any other
version's Hello and refuse it with a clear reason. With TLS the certificates say who both ends are, and the
Welcome ends the handshake. Without TLS each end then proves itself (:mod:`.credentials`), the accepting end
first; its Ready ends the handshake.

For every kind of frame that a server accepts, its :data:`Admission` table names the roles that may send it.
Nobody may send a kind that the table does not name. A role that may send nothing is refused in the handshake.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from holdfast.model.errors import InvalidRequest
from holdfast.net.credentials import NONCE_BYTES, ProvenBy
from holdfast.net.frame import UNDECODABLE, Kind, Reason, Why, plain_text

MAGIC: Final = "holdfast"
OLDEST_VERSION: Final = 2
NEWEST_VERSION: Final = 2
"""Version 1 let a peer without a certificate say who it is; nobody believes that any more."""

HANDSHAKE_BYTES_MAX: Final = 1024
"""The longest frame of the handshake. A peer that is not yet known gets no more memory than this."""


class Role(StrEnum):
    """The role of a process in its domain. With TLS the certificate must name the same role (K2)."""

    HOST = "host"
    AGENT = "agent"
    CLIENT = "client"
    AUTHORITY = "authority"
    ADMIN = "admin"


ANY_ROLE: Final = frozenset(Role)

NAME_CHARACTERS_MAX: Final = 100
NAME_PATTERN: Final = f"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{NAME_CHARACTERS_MAX - 1}}}\\Z"
"""The form of domains and ids: they fit unchanged in a file name, a certificate's URI and a log line."""

Name = Annotated[str, Meta(pattern=NAME_PATTERN)]
Number = Annotated[int, Meta(ge=0)]
NonceBytes = Annotated[bytes, Meta(max_length=NONCE_BYTES)]
AddressText = Annotated[str, Meta(max_length=100)]


def check_name(what: str, name: str) -> None:
    """Raise ``InvalidRequest`` unless *name* can be a domain or an id."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise InvalidRequest(
            f"{what} {name!r}: must be 1 to 100 letters, digits, dots, dashes or underscores, "
            "the first a letter or digit"
        )


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """The identity of one end of a connection."""

    domain: str
    role: Role
    id: str
    incarnation: int = 0
    """The number of the process, for roles that have one (V2)."""

    def __post_init__(self) -> None:
        check_name("domain", self.domain)
        check_name("id", self.id)

    def __str__(self) -> str:
        return f"{self.role} {self.id}"


@dataclass(frozen=True, slots=True)
class CertifiedName:
    """The identity in the peer's certificate."""

    domain: str
    role: Role
    id: str
    location: str = ""
    """Where the machine of a host is; empty when the certificate does not say."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The peers that an end accepts. None and ANY_ROLE accept any."""

    roles: frozenset[Role] = ANY_ROLE
    id: str | None = None
    location: str | None = None
    """Where the peer has said that it is. Its certificate, if it has one, must say the same."""


class Hello(Struct, frozen=True, array_like=True):
    magic: str
    oldest_version: int
    newest_version: int
    domain: Name
    role: Role
    id: Name
    incarnation: Number
    payload_bytes_max: Number
    """The longest payload that the sender of this message accepts."""
    idle_ms: Number
    """How long the sender waits for a message before it gives the peer up."""
    proven_by: ProvenBy
    """How the sender will prove who it is."""
    nonce: NonceBytes
    """Fresh random bytes; empty with a certificate."""


class Welcome(Struct, frozen=True, array_like=True):
    version: int
    domain: Name
    role: Role
    id: Name
    incarnation: Number
    payload_bytes_max: Number
    idle_ms: Number
    nonce: NonceBytes
    reached_at: AddressText
    """The address at which the accepting end was reached: no relay can be between it and a peer that dialed
    the same."""


class Goodbye(Struct, frozen=True, array_like=True):
    why: str
    """A value of ``Why``, or one that a later version added."""
    message: str


class _Versions(Struct, array_like=True):
    """The part of a Hello that every version can read."""

    magic: str
    oldest_version: int
    newest_version: int


_encode = msgspec.msgpack.Encoder().encode
_decode_versions = msgspec.msgpack.Decoder(_Versions).decode
_decode_hello = msgspec.msgpack.Decoder(Hello).decode
_decode_welcome = msgspec.msgpack.Decoder(Welcome).decode
_decode_goodbye = msgspec.msgpack.Decoder(Goodbye).decode


def encode_hello(
    ours: PeerIdentity, payload_bytes_max: int, idle_ms: int, proven_by: ProvenBy, nonce: bytes
) -> bytes:
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
            proven_by,
            nonce,
        )
    )


def encode_welcome(
    ours: PeerIdentity, version: int, payload_bytes_max: int, idle_ms: int, nonce: bytes, reached_at: str
) -> bytes:
    return _encode(
        Welcome(
            version,
            ours.domain,
            ours.role,
            ours.id,
            ours.incarnation,
            payload_bytes_max,
            idle_ms,
            nonce,
            reached_at,
        )
    )


def encode_goodbye(reason: Reason) -> bytes:
    return _encode(Goodbye(reason.why, plain_text(reason.message)))


@dataclass(frozen=True, slots=True)
class Agreed:
    """The result of the handshake."""

    peer: PeerIdentity
    version: int
    payload_bytes_max: int
    """The longest payload that the peer accepts."""
    idle_ms: int
    """How long the peer waits for a message from this end."""
    proven_by: ProvenBy
    """How the peer proves who it is."""


def judge_hello(
    payload: bytes, ours: PeerIdentity, expected: Expected, certified: CertifiedName | None
) -> Agreed | Reason:
    """Check a Hello at the accepting end."""
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
    if objection is None and certified is None:
        objection = _unproven(hello)
    proven_by = hello.proven_by if certified is None else ProvenBy.CERTIFICATE
    return objection or Agreed(peer, version, hello.payload_bytes_max, hello.idle_ms, proven_by)


def _unproven(hello: Hello) -> Reason | None:
    """Why the sender of a Hello without a certificate can prove nothing, if so."""
    if hello.proven_by is ProvenBy.CERTIFICATE or len(hello.nonce) != NONCE_BYTES:
        return Reason(Why.SECRET, "a peer without a certificate proves that it knows the domain's secret")
    if hello.proven_by is ProvenBy.KEY and hello.role is not Role.CLIENT:
        return Reason(Why.REFUSED, f"a client's key admits clients, not a peer of role {hello.role}")
    return None


def judge_welcome(
    payload: bytes, ours: PeerIdentity, expected: Expected, certified: CertifiedName | None, dialed: str = ""
) -> Agreed | Reason:
    """Check a Welcome at the connecting end, which *dialed* that address if it is not empty."""
    try:
        welcome = _decode_welcome(payload)
    except UNDECODABLE as error:
        return Reason(Why.MALFORMED, f"welcome: {error}")
    if not OLDEST_VERSION <= welcome.version <= NEWEST_VERSION:
        return Reason(Why.VERSION, f"the peer chose version {welcome.version}, which was not offered")
    peer = PeerIdentity(welcome.domain, welcome.role, welcome.id, welcome.incarnation)
    objection = _objection(peer, ours, expected, certified)
    if objection is None and certified is None and dialed and welcome.reached_at != dialed:
        objection = Reason(
            Why.REFUSED, f"what listens at {dialed} passes this on to {peer} at {welcome.reached_at}"
        )
    proven_by = ProvenBy.SECRET if certified is None else ProvenBy.CERTIFICATE
    return objection or Agreed(peer, welcome.version, welcome.payload_bytes_max, welcome.idle_ms, proven_by)


def read_goodbye(payload: bytes) -> Reason:
    """The peer's reason. A Goodbye that cannot be read ends the connection as well."""
    try:
        goodbye = _decode_goodbye(payload)
    except UNDECODABLE as error:
        return Reason(Why.MALFORMED, f"goodbye: {error}")
    why = Why(goodbye.why) if goodbye.why in Why._value2member_map_ else Why.REFUSED
    return Reason(why, plain_text(goodbye.message), by_peer=True)


def _objection(
    peer: PeerIdentity, ours: PeerIdentity, expected: Expected, certified: CertifiedName | None
) -> Reason | None:
    why = _why_not(peer, ours, expected, certified)
    # Both ends are named, because the same text is logged at both of them.
    return None if why is None else Reason(Why.REFUSED, f"{ours} refuses {peer}: {why}")


def _why_not(
    peer: PeerIdentity, ours: PeerIdentity, expected: Expected, certified: CertifiedName | None
) -> str | None:
    if peer.domain != ours.domain:
        return f"the peer is of domain {peer.domain!r}, this is domain {ours.domain!r}"
    if certified is not None:
        if (certified.domain, certified.role, certified.id) != (peer.domain, peer.role, peer.id):
            return (
                f"its certificate is of {certified.role} {certified.id} in domain {certified.domain!r}, "
                f"and it says that it is {peer}"
            )
        if expected.location is not None and certified.location != expected.location:
            return (
                f"its certificate is for location {certified.location!r}, "
                f"and it says that it is at {expected.location!r}"
            )
    if peer.role not in expected.roles:
        return f"role {peer.role} is not admitted here"
    if expected.id is not None and peer.id != expected.id:
        return f"expected {expected.id}"
    return None


def _no_common_version(versions: _Versions) -> str:
    return (
        f"peer speaks versions {versions.oldest_version} to {versions.newest_version}, "
        f"this end {OLDEST_VERSION} to {NEWEST_VERSION}: bring both to the same release of Holdfast"
    )


Admission = Mapping[Kind, frozenset[Role]]

_HOSTS: Final = frozenset({Role.HOST})
_CALLERS: Final = frozenset({Role.HOST, Role.CLIENT, Role.ADMIN})

AUTHORITY_ADMITS: Final[Admission] = {
    # A process that may ask here can read and write every key: primaries, groups and where they are.
    Kind.AUTHORITY_ASK: frozenset({Role.HOST, Role.AGENT, Role.ADMIN}),
}
AGENT_ADMITS: Final[Admission] = {
    Kind.AGENT_REPORT: _HOSTS,
    Kind.STATUS_REQUEST: frozenset({Role.HOST, Role.AGENT, Role.ADMIN}),
}
HEARTBEAT_ADMITS: Final[Admission] = {Kind.HEARTBEAT: _HOSTS}
HOST_ADMITS: Final[Admission] = {
    Kind.SEQUENCE: _HOSTS,
    Kind.CONTROL: _HOSTS,
    Kind.CALL: _CALLERS,
    # Each order also names its own roles (node.permission).
    Kind.GROUP_ORDER: _CALLERS,
    Kind.STATUS_REQUEST: frozenset({Role.HOST, Role.AGENT, Role.ADMIN}),
}


def roles_in(admits: Admission) -> frozenset[Role]:
    """The roles that may send anything at all."""
    return frozenset[Role]().union(*admits.values())


def kinds_of(role: Role, admits: Admission) -> frozenset[Kind]:
    """The kinds of frames that *role* may send."""
    return frozenset(kind for kind, roles in admits.items() if role in roles)
