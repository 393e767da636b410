"""Requests about streams, and their answers."""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from holdfast.model.ids import GroupId, HostId
from holdfast.model.reference import Name

NAME_CHARACTERS_MAX: Final = 100
StreamName = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
SourceName = Annotated[str, Meta(max_length=NAME_CHARACTERS_MAX)]


class BindStream(Struct, frozen=True, kw_only=True, tag="bind_stream"):
    """Bind a stream to a group: its members take the stream's messages from now on. A stream that is bound to
    that group already gets these properties."""

    name: StreamName
    group: Name
    source: SourceName = ""
    """The name of a source that has no key; empty: the stream's."""
    levels: Annotated[int, Meta(ge=1, le=16)] = 2
    """How many priorities its messages have, from 0, the highest."""
    exact: bool = True
    cumulative: bool = False
    created: bool = True
    back: bool = False
    before: bool = False
    is_paced: bool = True
    """Whether sources wait for credit, and what goes beyond it is refused."""
    is_open: bool | None = None
    """Whether datagrams without a key are taken; None: only where all hosts are on this machine."""
    multicast: Annotated[str, Meta(max_length=100)] = ""
    """A multicast group that members join, as ``address:port``."""
    nonce: str = ""
    """Chosen by the requester: the same request sent again has no further effect."""


class UnbindStream(Struct, frozen=True, kw_only=True, tag="unbind_stream"):
    """Forget a stream."""

    name: StreamName
    nonce: str = ""


class ListStreams(Struct, frozen=True, kw_only=True, tag="list_streams"):
    """Asks which streams there are, and where their members listen."""

    name: SourceName = ""
    """Only that one."""
    group: Annotated[str, Meta(max_length=300)] = ""
    """Only those of that group, and also where its members are."""


class OpenSource(Struct, frozen=True, kw_only=True, tag="open_source"):
    """A source begins to live: asks for its incarnation and its key, which is made if there is none."""

    name: StreamName
    source: SourceName = ""
    nonce: str = ""


class MakeSourceKey(Struct, frozen=True, kw_only=True, tag="make_source_key"):
    """Make a key for a source that is no Python program, or show the one it has. Requires an admin."""

    name: StreamName
    source: StreamName
    is_dropped: bool = False
    """Forget it instead: what it seals is refused from now on."""
    nonce: str = ""


class InspectStreams(Struct, frozen=True, kw_only=True, tag="inspect_streams"):
    """To one host: what its members know of the streams of a group, or of one stream."""

    name: SourceName = ""
    group: Annotated[str, Meta(max_length=300)] = ""
    query: Annotated[str, Meta(max_length=200)] = ""
    """A query of the group's class without arguments, to be answered by each member itself: what is equal
    everywhere, such as a digest."""


class EndStreamRule(Struct, frozen=True, kw_only=True, tag="end_stream_rule"):
    """To the host of the leader: end a rule by which messages are ignored (LOSS-70), or all of a stream that
    last until it is in step again. Requires an admin."""

    name: StreamName
    rule: int = 0
    """0: those that last until sync."""


class LoseStream(Struct, frozen=True, kw_only=True, tag="lose_stream"):
    """To one host: throw a part of a stream's datagrams away, to see what happens. Requires an admin, and a
    domain that allows chaos. Ends with the process."""

    name: StreamName
    part: Annotated[float, Meta(ge=0, le=1)]


class StreamMember(Struct, frozen=True, kw_only=True):
    """A member that takes a stream's messages."""

    host: HostId
    udp: str = ""
    tcp: str = ""
    is_primary: bool = False


class StreamInfo(Struct, frozen=True, kw_only=True):
    """One stream. Scripts read this interface: it changes only by additions."""

    name: str
    number: int
    group: GroupId
    group_name: str
    """Empty if the group is gone."""
    source: str
    levels: int
    exact: bool
    cumulative: bool
    created: bool
    back: bool
    before: bool
    is_open: bool
    is_paced: bool
    multicast: str
    sources: tuple[str, ...]
    """Those that have a key."""
    members: tuple[StreamMember, ...] = ()
    epoch: int = 0


class StreamList(Struct, frozen=True, kw_only=True, tag="streams"):
    streams: tuple[StreamInfo, ...]
    members: tuple[StreamMember, ...] = ()
    """Those of the group that was asked for."""


class SourceOpened(Struct, frozen=True, kw_only=True, tag="source_opened"):
    """What a source needs to send."""

    stream: StreamInfo
    incarnation: int
    key: int = 0
    secret: str = ""
    """Hexadecimal digits; empty if it seals nothing."""


class SourceKeyMade(Struct, frozen=True, kw_only=True, tag="source_key"):
    stream: str
    source: str
    key: int = 0
    secret: str = ""


class StreamFigures(Struct, frozen=True, kw_only=True):
    """What one member knows of one stream."""

    name: str
    incarnation: int = 0
    source: str = ""
    delivered: int = 0
    """The highest number below which everything was delivered or passed over."""
    highest: int = 0
    """The highest number that the source said it has sent."""
    held: int = 0
    credit: int = 0
    """The highest number that the source may send."""
    loss: float = 0.0
    counts: dict[str, int] = {}


class StreamRule(Struct, frozen=True, kw_only=True):
    number: int
    stream: str
    text: str


class StreamDecision(Struct, frozen=True, kw_only=True):
    """What was decided about a loss."""

    stream: str
    incarnation: int
    first: int
    last: int
    action: str
    by: str
    came_to: str = ""
    at_ns: int = 0


class StreamsInspected(Struct, frozen=True, kw_only=True, tag="streams_inspected"):
    host: HostId
    is_leader: bool = False
    is_active: bool = False
    """Whether this member has an object."""
    streams: tuple[StreamFigures, ...] = ()
    rules: tuple[StreamRule, ...] = ()
    decisions: tuple[StreamDecision, ...] = ()
    """Oldest first."""
    answer: dict[str, Any] = {}
    """What the object here answered to the query, under its name."""
    kernel_drops: int = 0
    refused: dict[str, int] = {}
    """Datagrams that belong to no stream here."""
    decided_by: str = ""
    """Who decides about losses, as the class says: a host, or ``group`` and its name; empty: the leader."""


class StreamRulesEnded(Struct, frozen=True, kw_only=True, tag="stream_rules_ended"):
    count: int


class StreamLost(Struct, frozen=True, kw_only=True, tag="stream_lost"):
    """What part of the stream this host throws away now."""

    host: HostId
    name: str
    part: float


StreamOrder = (
    BindStream
    | UnbindStream
    | ListStreams
    | OpenSource
    | MakeSourceKey
    | InspectStreams
    | EndStreamRule
    | LoseStream
)
StreamAnswer = StreamList | SourceOpened | SourceKeyMade | StreamsInspected | StreamRulesEnded | StreamLost
