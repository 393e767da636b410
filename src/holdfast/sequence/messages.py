"""The messages between the members of a group, and between hosts about all their groups.

Each names its group and the sender's epoch; receivers refuse older epochs (S2). None is trusted to
arrive, to arrive once, or in order.
"""

from msgspec import Struct

from holdfast.authority.views import ViewMember
from holdfast.model.deadlock import GiveWay, Probe
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Opening, Position, StoreId
from holdfast.storage.record import Point

# --- primary and backups


class Submit(Struct, frozen=True, array_like=True, tag="submit"):
    """Primary to follower: these records come after *previous*; also the news of a commit, or of an epoch."""

    group: GroupId
    epoch: Epoch
    incarnation: Incarnation
    """Of the follower, as the primary knows it: another one must say first what it holds (V5)."""
    previous: Point
    records: tuple[bytes, ...]
    committed: Position
    tail: Point
    """Where the primary's log ended when it won this epoch: others drop what lies beyond (M3)."""
    is_unproven: bool
    """The primary was restarted since it was listed, and nobody has seen since whether its store went back:
    a backup that holds more takes the group over instead of dropping it (V5)."""


class Accepted(Struct, frozen=True, array_like=True, tag="accepted"):
    """Follower to primary: my log equals yours up to here, and that survives a power cut (S3)."""

    group: GroupId
    epoch: Epoch
    store: StoreId
    incarnation: Incarnation
    up_to: Position
    beat: int
    """The primary's host's latest heartbeat when this was written: what it confirms begins there (R1)."""
    beat_of: Incarnation = Incarnation(0)
    """The process whose heartbeat that was: another begins to count anew. *Without it:* a follower that has
    not heard a new process yet confirms it, by an old number, until that one has beaten as often."""
    log_bytes: int = 0
    """What my records take that no checkpoint of mine stands for: a primary takes fewer calls in time.
    *Without it:* a backup's checkpoints fail while the primary's do not; its log is full, it acknowledges
    nothing any more, and nothing that would free its log is ever committed (D4)."""


class Refused(Struct, frozen=True, array_like=True, tag="refused"):
    """I know of this later epoch."""

    group: GroupId
    epoch: Epoch


class Knows(Struct, frozen=True, array_like=True, tag="knows"):
    """To a claimant: I hold what you must not lack; release the group to me (V5)."""

    group: GroupId
    epoch: Epoch
    committed: Position


class Hello(Struct, frozen=True, array_like=True, tag="group_hello"):
    """Follower to primary: who I am and what I hold, the newest point first (M3); also the range request."""

    group: GroupId
    epoch: Epoch
    store: StoreId
    incarnation: Incarnation
    opening: Opening
    points: tuple[Point, ...]


class Released(Struct, frozen=True, array_like=True, tag="released"):
    """The primary of this epoch has ended its reads and commits: claim now (K5)."""

    group: GroupId
    epoch: Epoch
    why: str = ""
    """For the group's history, where it was not a person's wish."""


class Yield(Struct, frozen=True, array_like=True, tag="yield"):
    """To the primary, for a person: let the in-sync backup on *to* take over (K5)."""

    group: GroupId
    epoch: Epoch
    to: HostId


class Waived(Struct, frozen=True, array_like=True, tag="waived"):
    """Its sender could claim as well, but has much to load first, or the wrong time: do not wait for it."""

    group: GroupId
    epoch: Epoch


# --- comparing before a claim (V5, D2)


class Compare(Struct, frozen=True, array_like=True, tag="compare"):
    """What do you hold?"""

    group: GroupId
    epoch: Epoch


class Compared(Struct, frozen=True, array_like=True, tag="compared"):
    group: GroupId
    epoch: Epoch
    store: StoreId
    tail: Point
    committed: Position
    is_doubtful: bool


# --- asking before a forced recovery


class Inspect(Struct, frozen=True, array_like=True, tag="inspect"):
    """What do you hold? Asked for a person, of a member in any role; *number* is the question's."""

    group: GroupId
    epoch: Epoch
    number: int


class Held(Struct, frozen=True, array_like=True, tag="held"):
    """This I hold."""

    group: GroupId
    epoch: Epoch
    """The highest this member knows of."""
    number: int
    member: ViewMember
    """As a view would list it now."""
    tail: Point
    committed: Position
    is_doubtful: bool
    role: str
    is_serving: bool
    rank: int = 0
    """Whether it could lead (:class:`.role.Rank`)."""
    why: str = ""
    """It has no object, for this reason."""
    since_ns: int = 0
    """And has had none since then, by its wall clock."""
    is_ready: bool = True
    """Of one that serves: its object takes calls."""


# --- members without their object (O3, E8)


class Lacking(Struct, frozen=True, array_like=True, tag="lacking"):
    """Backup to primary, again and again while it is so: I hold the sequence and not the object, do not let
    me lead. Once more when that is over."""

    group: GroupId
    epoch: Epoch
    store: StoreId
    incarnation: Incarnation
    rank: int
    """A :class:`.role.Rank`."""
    why: str
    wants_state: bool
    """Offer me one that stands for *found_at* at least: my log is whole, and stays."""
    found_at: Position


# --- checkpoints for learners (M3, M4) and for members without their object (E8)


class Offer(Struct, frozen=True, array_like=True, tag="offer"):
    """Primary to learner: our logs do not meet; begin from this state. Or: this is the state you lack."""

    group: GroupId
    epoch: Epoch
    point: Point
    size: int
    chunk_bytes: int
    digest: bytes


class Fetch(Struct, frozen=True, array_like=True, tag="fetch"):
    """Learner to primary: that chunk of the state offered at that position."""

    group: GroupId
    epoch: Epoch
    position: Position
    number: int


class Chunk(Struct, frozen=True, array_like=True, tag="chunk"):
    group: GroupId
    epoch: Epoch
    position: Position
    number: int
    data: bytes


GroupMessage = (
    Submit
    | Accepted
    | Refused
    | Knows
    | Hello
    | Released
    | Yield
    | Waived
    | Compare
    | Compared
    | Inspect
    | Held
    | Lacking
    | Offer
    | Fetch
    | Chunk
)


# --- host to host: leases (R1, R3, K3)


class Beat(Struct, frozen=True, array_like=True, tag="beat"):
    """I am here. *heard_age_ns*: how long ago I last heard you."""

    incarnation: Incarnation
    number: int
    heard_age_ns: int
    wall_ns: int = 0
    """What time it is here (X4); 0 from a host that stamps nothing."""


class BeatAnswer(Struct, frozen=True, array_like=True, tag="beat_answer"):
    """I shall claim no group of that incarnation of yours before my grace for beat *number* has run out."""

    incarnation: Incarnation
    """Of the answering host."""
    of_incarnation: Incarnation
    number: int


class Confirm(Struct, frozen=True, array_like=True, tag="confirm"):
    """Are you still in these epochs?"""

    groups: tuple[tuple[GroupId, Epoch], ...]


class Confirmed(Struct, frozen=True, array_like=True, tag="confirmed"):
    """In these I am, as of your heartbeat *beat*."""

    incarnation: Incarnation
    groups: tuple[tuple[GroupId, Epoch], ...]
    beat: int
    beat_of: Incarnation = Incarnation(0)
    """As in :class:`Accepted`."""


class Died(Struct, frozen=True, array_like=True, tag="died"):
    """A host's own agent has proof that this incarnation of it is dead (K2)."""

    host: str
    incarnation: Incarnation


# --- host to host: how far a group has come (S7)


class HowFar(Struct, frozen=True, array_like=True, tag="how_far"):
    """Backup to primary: what is committed by now? *number* is the question's."""

    group: GroupId
    number: int


class ThisFar(Struct, frozen=True, array_like=True, tag="this_far"):
    """From a primary that may read (R1): all that anybody was told before you asked lies within this."""

    group: GroupId
    number: int
    position: Position


HostMessage = Beat | BeatAnswer | Confirm | Confirmed | Died | HowFar | ThisFar | Probe | GiveWay
"""The last two are about groups that wait for each other (E10)."""
