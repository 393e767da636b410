"""What people ask of one master, and what it answers: values, on a connection of their own.

An order goes to the host that it is about. What it changes for good, it changes at the authority first; so it
holds for hosts that are down as well.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId, ReplicaId

TEXT_MAX: Final = 4096
FOUNDING: Final = "founding"
"""The state of a replica that waits for its first entries."""

_Text = Annotated[str, Meta(max_length=TEXT_MAX)]
_Host = Annotated[HostId, Meta(max_length=100)]
_Suffix = Annotated[str, Meta(max_length=TEXT_MAX)]
"""Of which directory an order is, as it is written at the authority; empty if the domain has only one."""


class ShowReplica(Struct, frozen=True, kw_only=True, tag="show"):
    """Say how the replica is: without a suffix, that of the first in the order of their names."""

    suffix: _Suffix = ""


class FoundDirectory(Struct, frozen=True, kw_only=True, tag="found"):
    """Begin a directory here: its top entry and its administrator."""

    suffix: _Text
    secret: Annotated[bytes, Meta(max_length=1024)]
    """The administrator's password, hashed."""
    read_only: Annotated[tuple[_Host, ...], Meta(max_length=1024)] = ()
    """Hosts whose replicas shall be read-only."""
    has_sample: bool = False
    """Whether there shall be a few entries to look at."""


class CutLink(Struct, frozen=True, kw_only=True, tag="cut"):
    """Stop replication between two hosts."""

    one: _Host
    other: _Host
    suffix: _Suffix = ""


class HealLink(Struct, frozen=True, kw_only=True, tag="heal"):
    """Let two hosts replicate again."""

    one: _Host
    other: _Host
    suffix: _Suffix = ""


class AdmitReplica(Struct, frozen=True, kw_only=True, tag="admit"):
    """A host shall have a replica, perhaps for the second time."""

    host: _Host
    is_read_only: bool = False
    suffix: _Suffix = ""


class LeaveDirectory(Struct, frozen=True, kw_only=True, tag="leave"):
    """Say the last word: nothing more is issued here."""

    suffix: _Suffix = ""


class RetireReplica(Struct, frozen=True, kw_only=True, tag="retire"):
    """Call the replica of *host* over, and let the host have none."""

    host: _Host
    force: bool = False
    suffix: _Suffix = ""


class InitialiseReplica(Struct, frozen=True, kw_only=True, tag="initialise"):
    """Throw this host's data away and fill the store anew."""

    source: _Host | None = None
    """From whom; anybody if it is None."""
    force: bool = False
    """Also if something is lost that only this replica has."""
    suffix: _Suffix = ""


class ResetClock(Struct, frozen=True, kw_only=True, tag="reset-clock"):
    """Pass the newest CSN of all replicas, and let peers pull the clock by the limit anew."""

    newest: _Text = ""
    """The newest CSN that any replica has."""
    suffix: _Suffix = ""


Order = (
    ShowReplica
    | FoundDirectory
    | CutLink
    | HealLink
    | AdmitReplica
    | LeaveDirectory
    | RetireReplica
    | InitialiseReplica
    | ResetClock
)


class LinkInfo(Struct, frozen=True, kw_only=True):
    """The link to one peer."""

    peer: HostId
    state: str
    """open, greeting, down, cut."""
    replica: ReplicaId | None = None
    problem: str = ""
    lag_p50_ms: float | None = None
    """From a commit here to the peer's word that it is on its disk, of the last changes."""
    lag_p99_ms: float | None = None
    behind_ms: float = 0.0
    """The age of the oldest change of this master that the peer is not known to have."""
    sent: int = 0
    """How many changes were sent in this session."""


class ReplicaInfo(Struct, frozen=True, kw_only=True, tag="replica"):
    """How one replica is."""

    host: HostId
    state: str
    """none, opening, being filled, founding, catching up, serving."""
    suffix: str = ""
    suffixes: tuple[str, ...] = ()
    """All directories of the domain."""
    replica: ReplicaId | None = None
    is_read_only: bool = False
    is_leaving: bool = False
    vector: str = ""
    csnstate: str = ""
    links: tuple[LinkInfo, ...] = ()
    pending: int = 0
    """Transactions on their way to the disk."""
    conflicts: int = 0
    """How many nobody has resolved."""
    live: tuple[ReplicaId, ...] = ()
    """The replicas that are counted."""
    over: tuple[ReplicaId, ...] = ()
    needs_initialisation: tuple[ReplicaId, ...] = ()
    """Replicas that lack what was trimmed here."""
    copied_bytes: int = 0
    problem: str = ""
    may_write: bool = False


class OrderDone(Struct, frozen=True, tag="done"):
    text: str = ""


class OrderFailed(Struct, frozen=True, tag="failed"):
    code: str
    text: str
    is_final: bool = True
    """Whether asking again changes nothing."""


Answer = ReplicaInfo | OrderDone | OrderFailed

encode: Final = msgspec.msgpack.Encoder().encode
_orders: Final[msgspec.msgpack.Decoder[Order]] = msgspec.msgpack.Decoder(Order)
_answers: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Answer)


def decode_order(body: bytes) -> Order:
    """Raises ``msgspec.DecodeError``."""
    return _orders.decode(body)


def decode_answer(body: bytes) -> Answer:
    """Raises ``InvalidRequest`` for what is no answer."""
    try:
        return _answers.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"not an answer of a master: {error}") from None
