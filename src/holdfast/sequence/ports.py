"""What a member needs from its surroundings: the host's log, checkpoints, the application, and the host.

The ports of :mod:`holdfast.model.ports` are passed on unchanged. A member lives within one process of one
host; when the host ends, nothing calls the member any more. :class:`Durability`, one for each log of a host,
tells members when their records are durable. A group that waits for nothing costs nothing when the records of
another are synced.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol

from holdfast.authority.identity import Identity
from holdfast.authority.recipe import Recipes, Seen
from holdfast.authority.views import ViewMember
from holdfast.model.ids import Epoch, GroupId, HostId, Nonce, Position
from holdfast.model.ports import Clock, Network, Random, Timers, Trace
from holdfast.sequence.catchup_limiter import CatchupLimiter
from holdfast.sequence.claim_batches import ClaimBatches
from holdfast.sequence.leases import Leases
from holdfast.sequence.messages import PeerMessage
from holdfast.sequence.role import Fitness
from holdfast.storage.checkpoint import CHUNK_BYTES, Digest
from holdfast.storage.record import ORIGIN, Point, Record


class Durability:
    """Calls back when records are durable, in the order of their numbers. The log says by
    :meth:`on_durable` how many records survive a power cut."""

    def __init__(self) -> None:
        self._durable = 0
        """As the log last said. Whoever asks has appended since the log was opened, so what was durable
        before that need not be known."""
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._asked = 0

    def after(self, number: int, then: Callable[[], None]) -> None:
        """Call *then* once the first *number* records are durable; at once if they already are."""
        if number <= self._durable:
            then()
        else:
            self._asked += 1
            heappush(self._waiting, (number, self._asked, then))

    def on_durable(self, number: int) -> None:
        self._durable = number
        while self._waiting and self._waiting[0][0] <= number:
            heappop(self._waiting)[2]()


Me = ViewMember
"""This member's identity: its host and store, and the incarnation and opening of this process (V1)."""


class GroupLog(Protocol):
    """The part of the host's log that members use: :class:`holdfast.storage.log.Log`, or a log in memory."""

    @property
    def durable(self) -> int: ...

    def append(self, group: GroupId, epoch: Epoch, body: bytes, count: int = 1) -> int: ...

    def append_received(self, encoded: bytes) -> int: ...

    def drop(self, group: GroupId, after: Position, epoch: Epoch) -> int: ...

    def install(self, group: GroupId, point: Point) -> int: ...

    def forget(self, group: GroupId) -> int: ...

    def groups(self) -> list[GroupId]: ...

    def tail(self, group: GroupId) -> Point: ...

    def floor(self, group: GroupId) -> Point: ...

    def followed(self, group: GroupId) -> Epoch: ...

    def live_bytes(self, group: GroupId) -> int: ...

    def point_at(self, group: GroupId, position: Position) -> Point | None: ...

    def read(self, group: GroupId, first: Position, last: Position) -> list[Record]: ...


class Kept(Protocol):
    """An application's whole state as of a committed position, read chunk by chunk."""

    @property
    def position(self) -> Position: ...

    @property
    def size(self) -> int: ...

    @property
    def chunk_bytes(self) -> int:
        """The size of every chunk but the last."""
        ...

    def chunk(self, number: int) -> bytes:
        """One chunk. Raises ``Corruption``, or ``Unavailable`` when the state is no longer stored."""
        ...

    def digest(self) -> bytes:
        """The :class:`holdfast.storage.checkpoint.Digest` of the chunks."""
        ...


@dataclass(frozen=True, slots=True)
class Captured:
    """A state that is held in memory."""

    position: Position
    state: bytes
    chunk_bytes: int = CHUNK_BYTES

    @property
    def size(self) -> int:
        return len(self.state)

    def chunk(self, number: int) -> bytes:
        return self.state[number * self.chunk_bytes : (number + 1) * self.chunk_bytes]

    def digest(self) -> bytes:
        digest = Digest()
        for chunk in chunks_of(self):
            digest.add(chunk)
        return digest.value()


def chunks_of(kept: Kept) -> Iterator[bytes]:
    """The whole state, chunk by chunk."""
    for number in range(-(-kept.size // kept.chunk_bytes)):
        yield kept.chunk(number)


class Application(Protocol):
    """What runs on top of a sequence: a replication style with its object. None of these methods may call
    back into the member except to read; they must submit later, from elsewhere."""

    def on_serving(self, epoch: Epoch) -> None:
        """Called when this member is primary and everything it held at its claim is committed: it may submit
        (K1)."""
        ...

    def on_claiming(self) -> None:
        """Called when this member has asked the authority for its group. It may not get it; but if it does,
        its object should be ready soon."""
        ...

    def on_following(self) -> None:
        """Called when this member is not, or no longer, primary: discard what was executed but not committed
        (E1)."""
        ...

    def on_committed(self, up_to: Position) -> None:
        """Called when positions up to here are final; ``member.read`` returns them."""
        ...

    def capture(self, at_least: Position = ORIGIN.position) -> Kept | None:
        """The object's own state, for a learner whose log does not meet ours (M3) or for a member without its
        object (E8); never a state that was found to differ. None while there is no state that covers
        *at_least*."""
        ...

    def install(self, kept: Kept) -> None:
        """Continue from this state, which covers everything up to its position."""
        ...

    def keeps(self, kept: Kept) -> None:
        """Note that the host has stored this checkpoint of records that the member holds, although nothing
        needs to continue from it now."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether the object exists, contains everything committed, and takes calls."""
        ...

    def fitness(self) -> Fitness:
        """Whether this member could lead, and if not, why. Called in every turn, so it should be cheap."""
        ...

    def on_forced(self) -> None:
        """Called when a person has decided that the group goes on from whatever this member holds (V4)."""
        ...

    def on_peer_message(self, peer: HostId, message: PeerMessage) -> None:
        """Called when the member on *peer* has told this one something, in the present epoch (W1)."""
        ...


class Received(Protocol):
    """A state that a learner receives and writes to the disk."""

    @property
    def unsynced_bytes(self) -> int:
        """Bytes written but not yet synced; the learner asks for no more chunks while there are many."""
        ...

    def when_synced(self, then: Callable[[], None]) -> None:
        """Call *then* once, when some of the unsynced bytes have been synced."""
        ...

    def write(self, data: bytes) -> None: ...

    def finish(self, then: Callable[[Kept], None], failed: Callable[[], None]) -> None:
        """Make the complete state durable as a checkpoint, then call *then*; or call *failed*, after it was
        abandoned, because something that it stands on could not be had."""
        ...

    def abandon(self) -> None:
        """Discard the state, which is no longer wanted."""
        ...


class Checkpoints(Protocol):
    """The store for the states that learners receive."""

    def receive(self, group: GroupId, point: Point, size: int) -> Received | None:
        """Begin to receive a state of *size* bytes. None: this host has no space for it now (D5)."""
        ...

    def hold(self, group: GroupId, log: Position | None, state: Position | None) -> None:
        """Keep the group's log beyond the position *log*, and the checkpoint at *state*, although newer
        checkpoints do not need them; None: keep what those need (M4)."""
        ...


@dataclass(frozen=True, slots=True)
class HostPorts:
    """What all members of one host share."""

    clock: Clock
    timers: Callable[[Callable[[Hashable], None]], Timers]
    network: Network
    random: Random
    trace: Trace
    recipes: Recipes
    claims: ClaimBatches
    leases: Leases
    catchup_limiter: CatchupLimiter
    log: GroupLog
    durability: Durability
    checkpoints: Checkpoints
    flush: Callable[[], None]
    """Request that the log be flushed at the end of this turn (S5)."""
    identity: Callable[[], Seen[Identity]]
    """The authority's identity as last read."""
    nonce: Callable[[], Nonce]
    """Returns a mark that no other change ever carries (A1)."""
    on_doubt_settled: Callable[[], None]
    """Called when a member has compared its doubtful tail; once all have, the log's doubt is cleared (D2)."""
    on_superseded: Callable[[GroupId], None]
    """Called when a member has stopped because its data no longer belongs to its group's history: the host
    deletes the data and starts a new, empty member (V4)."""
    on_lost: Callable[[GroupId], None]
    """Called when a member finds that its group's state is gone, with every process that held it (V4)."""
    on_halted: Callable[[GroupId, str], None]
    """Called when a member has stopped for good, with the reason (A5)."""
    on_won: Callable[[GroupId], None] = lambda _: None
    """Called when a member has won its group from another primary; it does not serve yet (K1)."""
    lacks_space: Callable[[], bool] = lambda: False
    """Whether this host's disk has too little free space for more records or states (D5)."""


def same(one: ViewMember, other: ViewMember) -> bool:
    """Whether both are the same member: the same store on the same host (V1)."""
    return one.host == other.host and one.store == other.store


def peers(members: tuple[ViewMember, ...], me: Me) -> tuple[HostId, ...]:
    """The hosts of the other members."""
    return tuple(member.host for member in members if not same(member, me))
