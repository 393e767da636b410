"""The messages between clients and hosts: calls, replies, redirections, refusals, heartbeats.

A client numbers its requests to one group upwards and never uses a number twice; every copy of a request
carries the same number and expiration (FTC-93). A frame carries many requests. The host either answers each
request of the frame, in one message or several, or turns away the whole frame without executing any of it.
`Calls.sent` goes into the group's sequence unchanged (:class:`holdfast.execution.records.Sent`).

New fields get defaults and go last.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta, Struct

from holdfast.model.errors import InvalidRequest, OutcomeUnknown
from holdfast.model.ids import ClientId, Epoch, GroupId, HostId, Incarnation, Position
from holdfast.model.reference import NAME_CHARACTERS_MAX, AddressText, Reference
from holdfast.model.versions import Decoder

CALLS_PER_FRAME_MAX: Final = 256
"""The most calls in one frame; more go into another frame, so that the primary starts while the client still
encodes.
"""
REPLIES_PER_FRAME_MAX: Final = 16_384
"""The most replies in one frame, which one commit may send to one client; a host with more sends another
frame.
"""
CALL_BYTES_MAX: Final = 8 << 20
"""The largest arguments of one call, and the largest outcome: well below a connection's longest frame."""
CLIENT_CHARACTERS_MAX: Final = 200
METHOD_CHARACTERS_MAX: Final = 200
CHAIN_CHARACTERS_MAX: Final = 8_000
"""The most characters in the names of all groups that wait for a call; a record holds them beside the longest
call.
"""
TEXT_CHARACTERS_MAX: Final = 1_000
NO_FRAME: Final = 0
"""A frame number that no frame has; they begin at 1."""
STALE_MS_MAX: Final = 86_400_000
HOSTS_MAX: Final = 1_000
"""The most hosts of a domain that one client is told about."""

NUMBER_MAX: Final = (1 << 63) - 1
Number = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
Client = Annotated[ClientId, Meta(max_length=CLIENT_CHARACTERS_MAX)]


class Request(NamedTuple):
    """Identifies a request within its group for ever: the client, and the number that it gave the request."""

    client: ClientId
    number: int

    def __str__(self) -> str:
        """The request as it appears in the middle of a :class:`RequestId`."""
        return f"{self.client}/{self.number}"


class RequestId(NamedTuple):
    """Identifies a request in the whole domain, and says for how long its outcome may be asked for
    (FTC-90)."""

    group: GroupId
    client: ClientId
    number: int
    expiration_s: int
    """The expiration, in the group's time (X4)."""

    def __str__(self) -> str:
        return f"{self.group}/{self.client}/{self.number}/{self.expiration_s}"

    @property
    def request(self) -> Request:
        return Request(self.client, self.number)

    @classmethod
    def parse(cls, text: str) -> "RequestId":
        """Parse an id as ``str`` prints it. Raises ``InvalidRequest``."""
        parts = text.split("/")
        is_one = len(parts) == 4 and 0 < len(parts[1]) <= CLIENT_CHARACTERS_MAX
        if not is_one or not all(map(_is_number, (parts[0], *parts[2:]))):
            raise InvalidRequest(f"request id {text[:300]!r}: must be group/client/number/expiration")
        return cls(GroupId(int(parts[0])), ClientId(parts[1]), int(parts[2]), int(parts[3]))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(NUMBER_MAX)) and int(text) <= NUMBER_MAX


class CallOutcomeUnknown(OutcomeUnknown):
    """Raised when a call may or may not have been executed; ask about ``request_id`` later."""

    def __init__(self, request_id: RequestId, *, waited_s: float) -> None:
        super().__init__(f"request {request_id}", waited_s=waited_s)
        self.request_id = request_id


class Seen(Struct, frozen=True, array_like=True, gc=False):
    """The newest state that a client has seen; a member that is behind it refuses (S7)."""

    epoch: Epoch = Epoch(0)
    position: Position = Position(0)


# --- from a client to a host


class Calls(Struct, frozen=True, array_like=True, tag=1, gc=False):
    """Calls of one client, in the order in which they are to be considered."""

    frame: Number
    """The client's number for this frame; a host that turns it away names it."""
    group: GroupId
    version: Epoch
    """The version of the reference that the client uses (FTC-76)."""
    seen: Seen
    sent: msgspec.Raw
    """A :class:`holdfast.execution.records.Sent`."""


class Reads(Struct, frozen=True, array_like=True, tag=2, gc=False):
    """Queries that any member may answer from a state no older than *stale_ms*."""

    frame: Number
    group: GroupId
    version: Epoch
    seen: Seen
    stale_ms: Annotated[int, Meta(ge=0, le=STALE_MS_MAX)]
    client: Client
    calls: msgspec.Raw
    """A list of :class:`holdfast.execution.records.Call`."""


class Settle(Struct, frozen=True, array_like=True, tag=3, gc=False):
    """Asks what became of a request. If it has not run by now, it never will (X3)."""

    frame: Number
    group: GroupId
    version: Epoch
    seen: Seen
    number: Number
    """The number of this question; the reply carries it."""
    asked_client: Client
    asked_number: Number
    asked_expiration_s: Number
    withdraws: bool = False
    """Also withdraw the request if it is queued and has not begun; only its maker may want that."""


class Locate(Struct, frozen=True, array_like=True, tag=4):
    """Asks where the group with that name is or, without a name, the group with that id."""

    frame: Number
    name: Annotated[str, Meta(max_length=NAME_CHARACTERS_MAX)]
    group: GroupId = GroupId(0)


class Nested(Struct, frozen=True, array_like=True, tag=6, gc=False):
    """One call that a group makes to another (E3); only hosts send it. Its request id, in *sent*, is derived
    from the calling request's and is not part of the connection's numbering; the reply carries *number*."""

    frame: Number
    group: GroupId
    version: Epoch
    seen: Seen
    number: Number
    sent: msgspec.Raw
    """A :class:`holdfast.execution.records.Sent`."""


class Follow(Struct, frozen=True, array_like=True, tag=7):
    """Asks the host to tell this connection when the group is served from here in a new view, by a
    :class:`Redirected` for :data:`NO_FRAME`. Nothing is guaranteed: a client that calls finds out as well."""

    group: GroupId


class FollowHosts(Struct, frozen=True, array_like=True, tag=8):
    """Asks the host to tell this connection where the hosts of the domain listen, now and whenever that
    changes."""


class Ping(Struct, frozen=True, array_like=True, tag=5):
    """Asks whether the host is alive. The host answers at once, without any group (FTC-119, FTC-120)."""

    number: Number


# --- from a host to a client


class Replies(Struct, frozen=True, array_like=True, tag=16, gc=False):
    """Outcomes of requests, in columns: each number belongs to the outcome at the same index."""

    group: GroupId
    numbers: Annotated[list[int], Meta(max_length=REPLIES_PER_FRAME_MAX)]
    outcomes: Annotated[list[bytes], Meta(max_length=REPLIES_PER_FRAME_MAX)]
    seen: Seen
    """A state that includes everything that these outcomes saw."""
    time_ns: Number
    """The group's time with which the host would stamp an operation now (X4)."""


class Redirected(Struct, frozen=True, array_like=True, tag=17):
    """Nothing of the frame was executed here; this is the newest reference (FTC-78). For :data:`NO_FRAME`:
    nobody asked, but the group has moved."""

    frame: Number
    reference: Reference


class RefusalCode(StrEnum):
    """Why a frame was turned away without executing any of it. A value is never renamed."""

    NOT_PRIMARY = "not_primary"
    UNAVAILABLE = "unavailable"
    """No primary serves, or too few members are in sync."""
    OVERLOADED = "overloaded"
    BEHIND = "behind"
    """This member has not reached what the client has seen, or its state is older than the client accepts
    (S7)."""
    NO_SUCH_GROUP = "no_such_group"
    NOT_HERE = "not_here"
    """This host has no member of that group."""
    BAD_REFERENCE = "bad_reference"
    """The reference is newer than any that the authority has issued (FTC-83)."""
    INVALID = "invalid"
    """The frame exceeds a bound."""


class Turned(Struct, frozen=True, array_like=True, tag=18):
    """The frame was turned away without executing any of it."""

    frame: Number
    group: GroupId
    """The group; 0 if the frame was not for a group."""
    code: RefusalCode
    text: Annotated[str, Meta(max_length=TEXT_CHARACTERS_MAX)] = ""


class Located(Struct, frozen=True, array_like=True, tag=19):
    frame: Number
    reference: Reference
    time_ns: Number


class Pong(Struct, frozen=True, array_like=True, tag=20):
    number: Number


class HostAt(Struct, frozen=True, array_like=True):
    """Where one process of a host listens, as ``host:port``."""

    host: HostId
    incarnation: Incarnation
    address: AddressText


class Whereabouts(Struct, frozen=True, array_like=True, tag=21):
    """The hosts that are in session, as far as this host knows. If two messages name the same host, the one
    with the later incarnation counts. *Without it:* a client speaks to the primary alone; one by one the
    other hosts restart at other addresses; the primary burns, and the client knows no host."""

    hosts: Annotated[tuple[HostAt, ...], Meta(max_length=HOSTS_MAX)]


ToHost = Calls | Reads | Settle | Nested | Locate | Follow | FollowHosts | Ping
ToClient = Replies | Redirected | Turned | Located | Pong | Whereabouts

messages_to_host: Final[Decoder[ToHost]] = Decoder(ToHost)
_to_client: Final[Decoder[ToClient]] = Decoder(ToClient)


encode_message: Final[Callable[[ToHost | ToClient], bytes]] = msgspec.msgpack.Encoder().encode
decode_to_host: Final = messages_to_host.decode
"""Decodes a message to a host. Raises ``LaterKind``, or ``msgspec.DecodeError`` for anything else."""


def decode_to_client(payload: bytes) -> ToClient:
    """Decode a message to a client. Raises as :func:`decode_to_host` does, and ``msgspec.DecodeError`` for
    columns of unequal length."""
    message = _to_client.decode(payload)
    if type(message) is Replies and len(message.numbers) != len(message.outcomes):
        raise msgspec.ValidationError("replies whose columns differ in length")
    return message
