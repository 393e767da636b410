"""What may be ordered about groups, and what is known of them: asked of any host, answered by it.

The bodies of frames ``GROUP_ORDER`` and ``GROUP_ANSWER``, each behind the number of its question.
New fields get defaults and go last.
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
from holdfast.model.admin.hosts import Deafen, Deafened, DrainHost, HostList, ListHosts, RemoveHost
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
from holdfast.model.admin.upgrades import CodeChangeInfo, CodeInfo, CodeOrder, UpgradeTried
from holdfast.model.errors import HoldfastError, InvalidRequest
from holdfast.model.ids import Epoch, GroupId, HostId
from holdfast.model.reference import MEMBERS_MAX, Name
from holdfast.model.versions import Decoder

ARGUMENTS_BYTES_MAX: Final = 64 << 10
CLASS_CHARACTERS_MAX: Final = 300
PROPERTIES_CHARACTERS_MAX: Final = 64 << 10


def min_in_sync_default(replicas: int) -> int:
    """Two for groups of three or more, which then lose one host and serve on. Of two members neither could
    serve without the other: there it is one, and a cut followed by a fire can lose what was acknowledged."""
    return 2 if replicas >= 3 else 1


class CreateGroup(Struct, frozen=True, kw_only=True, tag="create"):
    """Make a group of that class, placed on live hosts."""

    name: Name
    class_name: Annotated[str, Meta(max_length=CLASS_CHARACTERS_MAX)]
    """``package.module:Class``, to be found in the hosts' application directory."""
    style: str = ""
    """Empty: as the properties say that are set for the class or the domain, or warm_passive."""
    replicas: Annotated[int, Meta(ge=0, le=MEMBERS_MAX)] = 0
    """0: as the properties say, or 3."""
    arguments: Annotated[str, Meta(max_length=ARGUMENTS_BYTES_MAX)] = "[]"
    """What the object is made with, as a JSON array."""
    min_in_sync: Annotated[int, Meta(ge=0, le=MEMBERS_MAX)] = 0
    """How many members hold an operation before it is acknowledged; 0: :func:`min_in_sync_default`."""
    nonce: str = ""
    """Of whoever orders it: the same order sent again makes one group."""
    durability: str = "disk"
    """Where in-sync members hold an operation when it is acknowledged: on ``disk`` or in ``memory``."""
    on_total_loss: str = "wait"
    """What a group in memory does when its last in-sync process is gone: ``wait`` for a person, or
    ``restart`` from its newest checkpoint (V4)."""
    minimum: Annotated[int, Meta(ge=0, le=MEMBERS_MAX)] = 0
    """How many members are kept, by making new ones elsewhere when hosts are lost; 0: as the properties say,
    or all *replicas*."""
    membership: str = ""
    """Who keeps them: the ``infrastructure``, or the ``application`` by adding and removing members. Empty:
    as the properties say, or the infrastructure."""
    properties: Annotated[str, Meta(max_length=PROPERTIES_CHARACTERS_MAX)] = "{}"
    """Other properties asked for at its creation, as a JSON object."""


class DeleteGroup(Struct, frozen=True, kw_only=True, tag="delete"):
    """End the group of that name, and forget its state."""

    name: Name


class ListGroups(Struct, frozen=True, kw_only=True, tag="list"):
    """Which groups are there? *name*: only the one of that name."""

    name: str = ""
    is_whole: bool = False
    """With those that the domain made for itself."""


class ShowHistory(Struct, frozen=True, kw_only=True, tag="history"):
    """What became of the group of that name?"""

    name: Name


class AddMember(Struct, frozen=True, kw_only=True, tag="add_member"):
    """Let the group have a member on *host*; it is in-sync once it has caught up."""

    name: Name
    host: HostId
    own: Annotated[str, Meta(max_length=300)] = ""
    """The object there that shall be the member, which the application made itself, as
    ``package.module:name``; empty: the factory there makes one."""


class RemoveMember(Struct, frozen=True, kw_only=True, tag="remove_member"):
    """Let the group have no member on *host*; it leaves as soon as it can be spared."""

    name: Name
    host: HostId


class SetPrimary(Struct, frozen=True, kw_only=True, tag="set_primary"):
    """Let the in-sync member on *host* be primary, whoever is (K5). Any host takes it."""

    name: Name
    host: HostId
    is_any_style: bool = False
    """Also of a group that is not passive: let that member order its operations."""


class ExplainGroup(Struct, frozen=True, kw_only=True, tag="explain"):
    """Why is the group of that name as it is?"""

    name: Name


class InspectGroup(Struct, frozen=True, kw_only=True, tag="inspect"):
    """What does each member of that group hold, and what would be lost if the group went on from there?"""

    name: Name


class RecoverGroup(Struct, frozen=True, kw_only=True, tag="recover"):
    """Let a group that cannot go on by itself go on from what *source* holds, under a new generation (V4).
    From an admin who has seen what *epoch* gives up: any later view is left alone."""

    name: Name
    source: HostId
    epoch: Epoch
    agreed_to: str = ""
    """The losses that a person has seen, in words: if others show when it is done, it is not done. Empty when
    nobody was asked."""


class WithoutObject(Struct, frozen=True, kw_only=True):
    """A member that holds all that was acknowledged, and not the object (O3, E8)."""

    host: HostId
    why: str
    since_ns: int = 0
    """By its wall clock; 0 when that is not known."""
    never_leads: bool = False
    """Its object would not be the one that answered; if not, it leads if nobody else can."""


class GroupInfo(Struct, frozen=True, kw_only=True):
    """One group, as a host knows it. An interface: scripts read it, so it changes only by adding."""

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
    """Hosts that shall have no member any more, and have not left yet."""
    minimum: int = 0
    """How many members are kept."""
    membership: str = "infrastructure"
    """Who keeps them."""
    on_total_loss: str = "wait"
    without_object: tuple[WithoutObject, ...] = ()
    """Members that have none and said so; only where each was asked: `group show` and `explain`."""
    code: CodeInfo | None = None
    """By which it was last served, as far as is known."""
    codes: dict[HostId, CodeInfo] = {}
    """Its class as the hosts in session have it that shall have members, as far as they have told."""
    upgrade: CodeInfo | None = None
    """What a person wishes it to go on with, until it does."""


class GroupExplained(Struct, frozen=True, kw_only=True, tag="explained"):
    """In words, for people; empty where there is nothing to say."""

    group: GroupInfo
    is_served: bool
    """Its primary takes calls: the object is there."""
    members: tuple[str, ...]
    """Of each member that is not in sync, has no object, or leaves."""
    group_says: tuple[str, ...]
    """Why nobody serves it."""
    manager_says: tuple[str, ...]
    """What the manager does about it, or waits for."""
    manager: HostId = HostId("")
    code_says: tuple[str, ...] = ()
    """Of hosts whose class is another than the group is served by, and of what is wished."""
    checkpoint_says: tuple[str, ...] = ()
    """Of each member whose last checkpoint failed, and what to do about it (E9)."""


class GroupList(Struct, frozen=True, kw_only=True, tag="groups"):
    groups: tuple[GroupInfo, ...]


class ViewInfo(Struct, frozen=True, kw_only=True):
    """One view of a group: when, who, why; and for a claim, how long its steps took since there was ground
    for it. An interface: scripts read it, so it changes only by adding."""

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
    """How long before that ground the old primary's host was last heard."""


class GivenUpInfo(Struct, frozen=True, kw_only=True):
    """A call that is not tried again, since it ended so many processes (E4). An interface: changes by
    adding."""

    at_ns: int
    request: str
    """The client, and the number it gave the call."""
    call: str
    attempts: int


class UnkeptInfo(Struct, frozen=True, kw_only=True):
    """A member whose last checkpoint failed, and why (E9): the one before and the log after it stay, until
    that is too long. An interface: changes by adding."""

    at_ns: int
    host: HostId
    why: str


class GroupHistory(Struct, frozen=True, kw_only=True, tag="group_history"):
    """The latest views of a group, and the latest calls that it gave up, oldest first."""

    group: GroupInfo
    views: tuple[ViewInfo, ...]
    poisoned: tuple[GivenUpInfo, ...] = ()
    checkpoints_failed: tuple[UnkeptInfo, ...] = ()
    code_changes: tuple[CodeChangeInfo, ...] = ()


class HandedOver(Struct, frozen=True, kw_only=True, tag="handed_over"):
    """The group has the new primary; *took_ms*: from the order until the old one knew of that."""

    group: GroupInfo
    took_ms: float


class HeldInfo(Struct, frozen=True, kw_only=True):
    """What one member holds, and what going on from it would give up. An interface: changes by adding."""

    host: HostId
    epoch: Epoch
    position: int
    committed: int
    """Up to here it knows operations to be final."""
    is_listed: bool
    """It is in-sync in the view that stands."""
    known_lost: int
    """Operations known to be committed that it lacks."""
    possibly_lost: int
    """Operations that another member holds and that may have been committed."""
    text: str


class GroupInspected(Struct, frozen=True, kw_only=True, tag="inspected"):
    group: GroupInfo
    epoch: Epoch
    """Of the view that was looked at: what :class:`RecoverGroup` is to name."""
    is_served: bool
    members: tuple[HeldInfo, ...]
    silent: tuple[HostId, ...]
    """Hosts that the group is placed on and that did not answer."""


class GroupRecovered(Struct, frozen=True, kw_only=True, tag="recovered"):
    group: GroupInfo
    text: str
    """What was given up, as the history keeps it."""


STARTING: Final = "starting"
"""The code of a host that can do no order yet; another can."""
UNKNOWN_ORDER: Final = "unknown_order"
"""The code of a host whose version does not know the order; one of a later version does."""


class OrderRefused(Struct, frozen=True, kw_only=True, tag="refused"):
    """It was not done; *is_final*: and never will be, as it is written."""

    code: str
    text: str
    is_final: bool
    exception: str = ""
    """What the source calls it (FTC section L); empty where it has no name for it."""
    about: str = "{}"
    """The members that the source's exception has, as a JSON object."""

    @classmethod
    def by(cls, error: HoldfastError) -> "OrderRefused":
        """Because of *error*."""
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
    | SetPrimary
    | ExplainGroup
    | ListHosts
    | DrainHost
    | IndexOrder
    | RemoveHost
    | InspectGroup
    | RecoverGroup
    | Deafen
    | DomainOrder
    | CodeOrder
    | ObjectOrder
    | PropertyOrder
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
)
"""These change nothing: they may be asked of one host after the other."""
Answer = (
    GroupList
    | GroupHistory
    | HandedOver
    | GroupExplained
    | HostList
    | IndexList
    | TransactionList
    | GroupInspected
    | GroupRecovered
    | Deafened
    | DomainInspected
    | GroupReference
    | ObjectCreated
    | FactoryList
    | PropertiesShown
    | FaultNotifierShown
    | UpgradeTried
)
OrderAnswer = Answer | OrderRefused

_encode: Final = msgspec.msgpack.Encoder().encode
_orders: Final[Decoder[Order]] = Decoder(Order)
_answers: Final[msgspec.msgpack.Decoder[OrderAnswer]] = msgspec.msgpack.Decoder(OrderAnswer)


def encode_order(message: Order | OrderAnswer) -> bytes:
    return _encode(message)


def decode_order(body: bytes) -> Order:
    """Raises ``LaterKind``, and ``msgspec.DecodeError`` for anything else."""
    return _orders.decode(body)


def decode_order_answer(body: bytes) -> OrderAnswer:
    """Raises ``msgspec.DecodeError`` for anything else."""
    return _answers.decode(body)
