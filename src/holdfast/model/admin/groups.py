"""Requests about groups, and their answers; any host answers.

These are the bodies of the frames ``GROUP_ORDER`` and ``GROUP_ANSWER``, each after the number of its
question. New fields get defaults and go last.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from holdfast.model.admin.domain import (
    DomainInspected,
    DomainOrder,
    IndexList,
    IndexOrder,
    ListIndexes,
    ListTransactions,
    TransactionList,
)
from holdfast.model.admin.hosts import HostAnswer, HostOrder, ListHosts
from holdfast.model.admin.objects import (
    FactoryList,
    FaultNotifierShown,
    GroupReference,
    ListFactories,
    ObjectCreated,
    ObjectOrder,
    PropertiesShown,
    PropertyOrder,
    ShowFaultNotifier,
    ShowProperties,
    ShowReference,
)
from holdfast.model.admin.streams import ListStreams, StreamAnswer, StreamOrder
from holdfast.model.admin.upgrades import CodeChangeInfo, CodeInfo, CodeOrder, UpgradeTried
from holdfast.model.errors import HoldfastError, InvalidRequest
from holdfast.model.ids import Epoch, GroupId, HostId
from holdfast.model.reference import MEMBERS_MAX, Name
from holdfast.model.versions import Decoder

ARGUMENTS_BYTES_MAX: Final = 64 << 10
CLASS_CHARACTERS_MAX: Final = 300
PROPERTIES_CHARACTERS_MAX: Final = 64 << 10


def min_in_sync_default(replicas: int) -> int:
    """The default of ``min_in_sync``: two for groups of three or more members, which then can lose one host
    and serve on. In a group of two, neither member could serve without the other, so it is one there; then a
    network cut followed by the loss of a host can lose acknowledged operations."""
    return 2 if replicas >= 3 else 1


class CreateGroup(Struct, frozen=True, kw_only=True, tag="create"):
    """Create a group of that class, placed on live hosts."""

    name: Name
    class_name: Annotated[str, Meta(max_length=CLASS_CHARACTERS_MAX)]
    """``package.module:Class``, found in the hosts' application directory."""
    style: str = ""
    """The replication style. Empty: that of the class's or the domain's properties, or warm_passive."""
    replicas: Annotated[int, Meta(ge=0, le=MEMBERS_MAX)] = 0
    """The number of members. 0: that of the properties, or 3."""
    arguments: Annotated[str, Meta(max_length=ARGUMENTS_BYTES_MAX)] = "[]"
    """The arguments of the object's constructor, as a JSON array."""
    min_in_sync: Annotated[int, Meta(ge=0, le=MEMBERS_MAX)] = 0
    """How many members hold an operation before it is acknowledged; 0: :func:`min_in_sync_default`."""
    nonce: str = ""
    """Chosen by the requester: the same request sent again creates only one group."""
    durability: str = "disk"
    """Where in-sync members hold an operation when it is acknowledged: on ``disk`` or in ``memory``."""
    on_total_loss: str = "wait"
    """What a group in memory does when its last in-sync process is gone: ``wait`` for a person, or
    ``restart`` from its newest checkpoint (V4)."""
    minimum: Annotated[int, Meta(ge=0, le=MEMBERS_MAX)] = 0
    """How many members are maintained, by creating new ones elsewhere when hosts are lost. 0: that of the
    properties, or all *replicas*."""
    membership: str = ""
    """Who maintains the members: the ``infrastructure``, or the ``application`` by adding and removing them.
    Empty: that of the properties, or the infrastructure."""
    properties: Annotated[str, Meta(max_length=PROPERTIES_CHARACTERS_MAX)] = "{}"
    """Other properties to set at creation, as a JSON object."""
    hosts: Annotated[tuple[HostId, ...], Meta(max_length=MEMBERS_MAX)] = ()
    """The hosts that have its members, and no others (W2); empty: the manager chooses."""
    never_lead: Annotated[tuple[HostId, ...], Meta(max_length=MEMBERS_MAX)] = ()
    """Those of them whose members never lead (W3)."""


class DeleteGroup(Struct, frozen=True, kw_only=True, tag="delete"):
    """Delete the group of that name, and its state."""

    name: Name


class ListGroups(Struct, frozen=True, kw_only=True, tag="list"):
    """Asks which groups exist; with *name*, only for the one of that name."""

    name: str = ""
    is_whole: bool = False
    """Include the groups that the domain created for itself."""


class ShowHistory(Struct, frozen=True, kw_only=True, tag="history"):
    """Asks for the history of the group of that name."""

    name: Name


class AddMember(Struct, frozen=True, kw_only=True, tag="add_member"):
    """Give the group a member on *host*; it is in sync once it has caught up."""

    name: Name
    host: HostId
    own: Annotated[str, Meta(max_length=300)] = ""
    """The object on that host that becomes the member, which the application created itself, as
    ``package.module:name``; empty: the factory there creates one."""


class RemoveMember(Struct, frozen=True, kw_only=True, tag="remove_member"):
    """Remove the group's member on *host*; it leaves as soon as the group can do without it."""

    name: Name
    host: HostId


class MoveGroup(Struct, frozen=True, kw_only=True, tag="move"):
    """Bring the group to exactly these hosts, member by member, and keep it there (W2); with none, let the
    manager choose again."""

    name: Name
    hosts: Annotated[tuple[HostId, ...], Meta(max_length=MEMBERS_MAX)] = ()
    never_lead: Annotated[tuple[HostId, ...], Meta(max_length=MEMBERS_MAX)] = ()
    """Those of them whose members never lead (W3)."""
    nonce: str = ""
    """Chosen by the requester: the same request sent again has no further effect."""


class SetPrimary(Struct, frozen=True, kw_only=True, tag="set_primary"):
    """Make the in-sync member on *host* primary (K5). Any host accepts this request."""

    name: Name
    host: HostId
    is_any_style: bool = False
    """Also for a group that is not passive: that member then orders its operations."""


class ExplainGroup(Struct, frozen=True, kw_only=True, tag="explain"):
    """Asks why the group of that name is in its present state."""

    name: Name


class InspectGroup(Struct, frozen=True, kw_only=True, tag="inspect"):
    """Asks what each member of that group holds, and what would be lost if the group continued from it."""

    name: Name


class RecoverGroup(Struct, frozen=True, kw_only=True, tag="recover"):
    """Let a group that cannot go on by itself continue from what *source* holds, under a new generation (V4).
    Requires an admin who has seen what continuing from *epoch* gives up: a later view is left alone."""

    name: Name
    source: HostId
    epoch: Epoch
    agreed_to: str = ""
    """The text of the losses that a person has seen: if the losses differ by then, nothing is done. Empty if
    nobody was asked."""


class WithoutObject(Struct, frozen=True, kw_only=True):
    """A member that holds everything acknowledged, but not the object (O3, E8)."""

    host: HostId
    why: str
    since_ns: int = 0
    """Since when, by its wall clock; 0 if unknown."""
    never_leads: bool = False
    """Whether its object would differ from the one that answered calls. If not, the member leads if nobody
    else can."""


class GroupInfo(Struct, frozen=True, kw_only=True):
    """One group, as a host knows it. Scripts read this interface: it changes only by additions."""

    name: str
    group: GroupId
    class_name: str
    style: str
    epoch: Epoch
    primary: HostId
    in_sync: tuple[HostId, ...]
    placed_on: tuple[HostId, ...]
    min_in_sync: int
    durability: str = "disk"
    leaving: tuple[HostId, ...] = ()
    """Hosts whose member should leave and has not left yet."""
    minimum: int = 0
    """How many members are maintained."""
    membership: str = "infrastructure"
    """Who maintains the members."""
    on_total_loss: str = "wait"
    without_object: tuple[WithoutObject, ...] = ()
    """Members that reported that they have no object; only in answers for which each was asked: `group show`
    and `explain`."""
    code: CodeInfo | None = None
    """The code that last served the group, as far as is known."""
    codes: dict[HostId, CodeInfo] = {}
    """The code of its class on the hosts in session that should have members, as far as they have reported
    it."""
    upgrade: CodeInfo | None = None
    """The code with which a person wants the group to continue, until it does."""
    named: tuple[HostId, ...] = ()
    """The hosts that are to have its members, and no others (W2); empty if the manager chooses."""
    never_lead: tuple[HostId, ...] = ()
    """The hosts whose members never lead (W3)."""


class GroupExplained(Struct, frozen=True, kw_only=True, tag="explained"):
    """Explanations of a group's state for people; empty where there is nothing to say."""

    group: GroupInfo
    is_served: bool
    """Whether its primary takes calls, because its object exists."""
    members: tuple[str, ...]
    """One text for each member that is not in sync, has no object, or leaves."""
    group_says: tuple[str, ...]
    """Why nobody serves the group."""
    manager_says: tuple[str, ...]
    """What the manager does about it, or waits for."""
    manager: HostId = HostId("")
    code_says: tuple[str, ...] = ()
    """About hosts whose class differs from the code that serves the group, and about a requested upgrade."""
    checkpoint_says: tuple[str, ...] = ()
    """About each member whose last checkpoint failed, and what to do about it (E9)."""


class GroupList(Struct, frozen=True, kw_only=True, tag="groups"):
    groups: tuple[GroupInfo, ...]


class ViewInfo(Struct, frozen=True, kw_only=True):
    """One view of a group: when, who, why; and for a claim, how long its steps took after the reason to claim
    arose. Scripts read this interface: it changes only by additions."""

    epoch: Epoch
    at_ns: int
    primary: HostId
    in_sync: tuple[HostId, ...]
    why: str
    host: HostId
    text: str
    claimed_ms: float | None = None
    committed_ms: float | None = None
    ready_ms: float | None = None
    replayed: int | None = None
    silent_ms: float | None = None
    """For how long the old primary's host had been silent when the reason to claim arose."""


class GivenUpInfo(Struct, frozen=True, kw_only=True):
    """A call that is not tried again, because it ended that many processes (E4). An interface: it changes
    only by additions."""

    at_ns: int
    request: str
    """The client, and the number that it gave the call."""
    call: str
    attempts: int


class UnkeptInfo(Struct, frozen=True, kw_only=True):
    """A member whose last checkpoint failed, and why (E9). The previous checkpoint and the log after it stay,
    until the log is too long. An interface: it changes only by additions."""

    at_ns: int
    host: HostId
    why: str


class GroupHistory(Struct, frozen=True, kw_only=True, tag="group_history"):
    """The latest views of a group and the latest calls that it gave up, oldest first."""

    group: GroupInfo
    views: tuple[ViewInfo, ...]
    poisoned: tuple[GivenUpInfo, ...] = ()
    checkpoints_failed: tuple[UnkeptInfo, ...] = ()
    code_changes: tuple[CodeChangeInfo, ...] = ()


class HandedOver(Struct, frozen=True, kw_only=True, tag="handed_over"):
    """The group has the new primary; *took_ms* is the time from the request until the old primary knew it."""

    group: GroupInfo
    took_ms: float


class HeldInfo(Struct, frozen=True, kw_only=True):
    """What one member holds, and what continuing from it would give up. An interface: it changes only by
    additions."""

    host: HostId
    epoch: Epoch
    position: int
    committed: int
    """The position up to which the member knows operations to be final."""
    is_listed: bool
    """Whether the member is in sync in the view in force."""
    known_lost: int
    """How many operations the member lacks that are known to be committed."""
    possibly_lost: int
    """How many operations another member holds that may have been committed."""
    text: str


class GroupInspected(Struct, frozen=True, kw_only=True, tag="inspected"):
    group: GroupInfo
    epoch: Epoch
    """The epoch of the inspected view, which :class:`RecoverGroup` must name."""
    is_served: bool
    members: tuple[HeldInfo, ...]
    silent: tuple[HostId, ...]
    """Hosts on which the group is placed and that did not answer."""


class GroupRecovered(Struct, frozen=True, kw_only=True, tag="recovered"):
    group: GroupInfo
    text: str
    """What was given up, as the history records it."""


STARTING: Final = "starting"
"""The error code of a host that cannot carry out requests yet; another host can."""
UNKNOWN_ORDER: Final = "unknown_order"
"""The error code of a host whose version does not know the request; a host with a later version does."""


class OrderRefused(Struct, frozen=True, kw_only=True, tag="refused"):
    """The request was not carried out; *is_final* says that it never will be, as it is written."""

    code: str
    text: str
    is_final: bool
    exception: str = ""
    """The name of the error in the source (FTC section L); empty if it has none."""
    about: str = "{}"
    """The members of the source's exception, as a JSON object."""

    @classmethod
    def by(cls, error: HoldfastError) -> "OrderRefused":
        """The refusal that *error* causes."""
        about = msgspec.json.encode(error.about).decode() if error.exception else "{}"
        is_final = isinstance(error, InvalidRequest)
        return cls(
            code=error.code, text=str(error), is_final=is_final, exception=error.exception, about=about
        )


Order = (
    CreateGroup
    | DeleteGroup
    | ListGroups
    | ShowHistory
    | AddMember
    | RemoveMember
    | MoveGroup
    | SetPrimary
    | ExplainGroup
    | HostOrder
    | IndexOrder
    | InspectGroup
    | RecoverGroup
    | DomainOrder
    | CodeOrder
    | ObjectOrder
    | PropertyOrder
    | StreamOrder
)
Question = (
    ListGroups
    | ShowHistory
    | ExplainGroup
    | ListHosts
    | ShowProperties
    | ShowReference
    | ListFactories
    | ShowFaultNotifier
    | ListIndexes
    | ListTransactions
    | ListStreams
)
"""The requests that change nothing: a client may ask one host after the other."""
Answer = (
    GroupList
    | GroupHistory
    | HandedOver
    | GroupExplained
    | HostAnswer
    | IndexList
    | TransactionList
    | GroupInspected
    | GroupRecovered
    | DomainInspected
    | GroupReference
    | ObjectCreated
    | FactoryList
    | PropertiesShown
    | FaultNotifierShown
    | UpgradeTried
    | StreamAnswer
)
OrderAnswer = Answer | OrderRefused

_encode: Final = msgspec.msgpack.Encoder().encode
_orders: Final[Decoder[Order]] = Decoder(Order)
_answers: Final[msgspec.msgpack.Decoder[OrderAnswer]] = msgspec.msgpack.Decoder(OrderAnswer)


def encode_order(message: Order | OrderAnswer) -> bytes:
    return _encode(message)


def decode_order(body: bytes) -> Order:
    """Decode a request. Raises ``LaterKind``, or ``msgspec.DecodeError`` for anything else."""
    return _orders.decode(body)


def decode_order_answer(body: bytes) -> OrderAnswer:
    """Decode an answer. Raises ``msgspec.DecodeError`` for anything else."""
    return _answers.decode(body)
