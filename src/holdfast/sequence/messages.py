"""The messages between the members of a group, and between hosts about all their groups.

Each group message names its group and the sender's epoch; receivers refuse older epochs (S2). The protocol
does not rely on any message to arrive, to arrive once, or to arrive in order.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from holdfast.authority.views import ViewMember
from holdfast.model.deadlock import GiveWay, Probe
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Nonce, Opening, Position, StoreId
from holdfast.storage.record import Point

# --- primary and backups


class Submit(Struct, frozen=True, array_like=True, tag="submit"):
    """Primary to follower: these records come after *previous*. Also announces a commit or a new epoch."""

    group: GroupId
    epoch: Epoch
    incarnation: Incarnation
    """The follower's incarnation as the primary knows it; another process must first say what it holds
    (V5)."""
    previous: Point
    records: tuple[bytes, ...]
    committed: Position
    tail: Point
    """Where the primary's log ended when it won this epoch; followers drop what lies beyond it (M3)."""
    is_unproven: bool
    """The primary was restarted since it was listed, and nobody has checked since whether its disk reverted
    to an older state. A backup that holds more takes over the group instead of dropping its records (V5)."""


class IfWon(Struct, frozen=True, array_like=True, tag="if_won"):
    """Claimant to the others, sent with its claim: if the view with this nonce stands, take this as if it
    came then. Whether the claim is won, the authority says and not this message (K1)."""

    group: GroupId
    epoch: Epoch
    """The epoch that it claims from."""
    nonce: Nonce
    submit: Submit
    """The claimant's first in the epoch that it would win."""


class Accepted(Struct, frozen=True, array_like=True, tag="accepted"):
    """Follower to primary: my log equals yours up to here, and that survives a power cut (S3)."""

    group: GroupId
    epoch: Epoch
    store: StoreId
    incarnation: Incarnation
    up_to: Position
    beat: int
    """The latest heartbeat from the primary's host when this was written; it confirms leases from then on
    (R1)."""
    beat_of: Incarnation = Incarnation(0)
    """The process that sent that heartbeat; a new process numbers its heartbeats from the beginning. *Without
    it:* a follower that has not heard the new process yet confirms it with an old number, until the new
    process has sent as many heartbeats."""
    log_bytes: int = 0
    """The bytes of my records that no checkpoint of mine covers, so that the primary takes fewer calls in
    time. *Without it:* a backup's checkpoints fail while the primary's do not; its log is full, it
    acknowledges nothing any more, and nothing that would free its log is ever committed (D4)."""
    lacks_space: bool = False
    """My disk has too little free space for more (D5)."""


class Refused(Struct, frozen=True, array_like=True, tag="refused"):
    """Follower to sender: I know of this later epoch."""

    group: GroupId
    epoch: Epoch


class Knows(Struct, frozen=True, array_like=True, tag="knows"):
    """Backup to claimant: I hold records that you must not lack; release the group to me (V5)."""

    group: GroupId
    epoch: Epoch
    committed: Position


class Hello(Struct, frozen=True, array_like=True, tag="group_hello"):
    """Follower to primary: who I am and what I hold, the newest point first (M3). Also asks for missing
    records."""

    group: GroupId
    epoch: Epoch
    store: StoreId
    incarnation: Incarnation
    opening: Opening
    points: tuple[Point, ...]


class Released(Struct, frozen=True, array_like=True, tag="released"):
    """Primary to its successor: I have ended my reads and commits in this epoch; claim now (K5)."""

    group: GroupId
    epoch: Epoch
    why: str = ""
    """The reason, for the group's history; not set if a person asked for the hand-over."""


class Yield(Struct, frozen=True, array_like=True, tag="yield"):
    """To the primary, on behalf of a person: hand over to the in-sync backup on *to* (K5)."""

    group: GroupId
    epoch: Epoch
    to: HostId


class Waived(Struct, frozen=True, array_like=True, tag="waived"):
    """Backup to backups: I could claim too, but come last or never; do not wait for me."""

    group: GroupId
    epoch: Epoch
    is_behind: bool = False
    """I hold less than you, who never lead: nobody can claim but you (V5, W3)."""


# --- comparing before a claim (V5, D2)


class Compare(Struct, frozen=True, array_like=True, tag="compare"):
    """Claimant to the other members: what do you hold?"""

    group: GroupId
    epoch: Epoch


class Compared(Struct, frozen=True, array_like=True, tag="compared"):
    group: GroupId
    epoch: Epoch
    store: StoreId
    tail: Point
    committed: Position
    is_doubtful: bool


# --- questions before a forced recovery


class Inspect(Struct, frozen=True, array_like=True, tag="inspect"):
    """To a member in any role, on behalf of a person: what do you hold? *number* identifies the question."""

    group: GroupId
    epoch: Epoch
    number: int


class Held(Struct, frozen=True, array_like=True, tag="held"):
    """The answer to Inspect: what this member holds."""

    group: GroupId
    epoch: Epoch
    """The highest epoch that this member knows of."""
    number: int
    member: ViewMember
    """This member as a view would list it now."""
    tail: Point
    committed: Position
    is_doubtful: bool
    role: str
    is_serving: bool
    rank: int = 0
    """How fit the member is to lead (a :class:`.role.Rank`)."""
    why: str = ""
    """Why the member has no object; empty if it has one or only needs to load it."""
    since_ns: int = 0
    """Since when the member has had no object, by its wall clock."""
    is_ready: bool = True
    """For a member that serves: whether its object takes calls."""


# --- members without their object (O3, E8)


class Lacking(Struct, frozen=True, array_like=True, tag="lacking"):
    """Backup to primary: I hold the sequence but not the object; do not let me lead. Sent repeatedly while
    that is so, and once more when it is over."""

    group: GroupId
    epoch: Epoch
    store: StoreId
    incarnation: Incarnation
    rank: int
    """How fit the member is to lead (a :class:`.role.Rank`)."""
    why: str
    wants_state: bool
    """Asks for a state that covers at least *found_at*; my log is complete and I keep it."""
    found_at: Position


# --- checkpoints for learners (M3, M4) and for members without their object (E8)


class Offer(Struct, frozen=True, array_like=True, tag="offer"):
    """Primary to learner: our logs share no point, so start from this state. Or: this is the state you
    lack."""

    group: GroupId
    epoch: Epoch
    point: Point
    size: int
    chunk_bytes: int
    digest: bytes


class Fetch(Struct, frozen=True, array_like=True, tag="fetch"):
    """Learner to primary: send that chunk of the state offered at that position."""

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


# --- what members tell each other beside the sequence (W1)

PEER_BYTES_MAX: Final = 1 << 20
"""The most bytes that a member tells another in one message."""
PART_CHARACTERS_MAX: Final = 64


class PeerMessage(Struct, frozen=True, array_like=True, tag="peer_message"):
    """Member to member: something that the application says to itself elsewhere. It decides nothing (W1)."""

    group: GroupId
    epoch: Epoch
    incarnation: Incarnation
    """The sender's process."""
    part: Annotated[str, Meta(max_length=PART_CHARACTERS_MAX)]
    """The part of the application that it is for."""
    body: Annotated[bytes, Meta(max_length=PEER_BYTES_MAX)]


GroupMessage = (
    Submit
    | IfWon
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
    | PeerMessage
)
BESIDE: Final = (Inspect, PeerMessage)
"""The types of messages that change nothing in the sequence."""


# --- host to host: leases (R1, R3, K3)


class Beat(Struct, frozen=True, array_like=True, tag="beat"):
    """Heartbeat: I am alive. *heard_age_ns* says how long ago I last heard you."""

    incarnation: Incarnation
    number: int
    heard_age_ns: int
    wall_ns: int = 0
    """The sender's wall clock (X4); 0 from a host that sends no timestamps."""


class BeatAnswer(Struct, frozen=True, array_like=True, tag="beat_answer"):
    """I will claim no group of that incarnation of yours before *grace_ns* have passed by my clock since
    heartbeat *number* came; *lease_ns* of it is yours, counted by your clock from when you sent it (R3, R5).
    """

    incarnation: Incarnation
    """The incarnation of the answering host."""
    of_incarnation: Incarnation
    number: int
    lease_ns: int
    grace_ns: int


class Confirm(Struct, frozen=True, array_like=True, tag="confirm"):
    """Primary's host to a backup's host: are your members still in these epochs?"""

    groups: tuple[tuple[GroupId, Epoch], ...]


class Confirmed(Struct, frozen=True, array_like=True, tag="confirmed"):
    """The answer to Confirm: my members are in these epochs, as of your heartbeat *beat*."""

    incarnation: Incarnation
    groups: tuple[tuple[GroupId, Epoch], ...]
    beat: int
    beat_of: Incarnation = Incarnation(0)
    """The process that sent that heartbeat, as in :class:`Accepted`."""


class Died(Struct, frozen=True, array_like=True, tag="died"):
    """Proof from a host's own agent that this incarnation of the host is dead (K2)."""

    host: str
    incarnation: Incarnation


class Stopping(Struct, frozen=True, array_like=True, tag="stopping"):
    """To every other host: this process is about to end in an orderly way (K5). A hint, repeated until it
    ends: hand nothing over to me; once *is_leaving*, I am primary of nothing any more, so drop me before I
    am gone, and calls need not wait for my acknowledgement."""

    incarnation: Incarnation
    is_leaving: bool = False


# --- host to host: the commit position of a group (S7)


class HowFar(Struct, frozen=True, array_like=True, tag="how_far"):
    """Backup to primary: what is committed by now? *number* identifies the question."""

    group: GroupId
    number: int


class ThisFar(Struct, frozen=True, array_like=True, tag="this_far"):
    """From a primary that may read (R1): everything that anybody was told before you asked is within
    *position*."""

    group: GroupId
    number: int
    position: Position


HostMessage = Beat | BeatAnswer | Confirm | Confirmed | Died | Stopping | HowFar | ThisFar | Probe | GiveWay
"""The messages between hosts. The last two concern groups that wait for each other (E10)."""

SequenceMessage = GroupMessage | HostMessage
"""All messages that hosts send each other about their groups."""
