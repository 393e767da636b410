"""What a member asks of its surroundings: the host's log, its checkpoints, the application, the world.

The ports of :mod:`holdfast.model.ports` are passed on as they are. A member lives within one process of one
host: when its host ends, nothing calls it any more.

Waiting for the host's log: who is told when what has become durable.

One for each log of a host. A group that waits for nothing costs nothing when another's records are synced.
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
from holdfast.sequence.role import Fitness
from holdfast.storage.checkpoint import CHUNK_BYTES, Digest
from holdfast.storage.record import ORIGIN, Point, Record


class Durability:
    """Calls back in the order of the records' numbers; *durable* answers how many survive a power cut now."""

    def __init__(self, durable: Callable[[], int]) -> None:
        self._durable = durable
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._asked = 0

    def after(self, number: int, then: Callable[[], None]) -> None:
        """*then* the first *number* records are durable; at once if they are already."""
        if number <= self._durable():
            then()
        else:
            self._asked += 1
            heappush(self._waiting, (number, self._asked, then))

    def on_durable(self, number: int) -> None:
        while self._waiting and self._waiting[0][0] <= number:
            heappop(self._waiting)[2]()


Me = ViewMember
"""Who this member is: its host and store, and this process's incarnation and opening (V1)."""


class GroupLog(Protocol):
    """The host's log, as far as members use it: :class:`holdfast.storage.log.Log`, or one in memory."""

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
    """An application's whole state as of a committed position, to be read chunk by chunk."""

    @property
    def position(self) -> Position: ...

    @property
    def size(self) -> int: ...

    @property
    def chunk_bytes(self) -> int:
        """The size of every chunk but the last."""
        ...

    def chunk(self, number: int) -> bytes:
        """Raises ``Corruption``, and ``Unavailable`` when it is not kept any more."""
        ...

    def digest(self) -> bytes:
        """:class:`holdfast.storage.checkpoint.Digest` of its chunks."""
        ...


@dataclass(frozen=True, slots=True)
class Captured:
    """One that is in memory."""

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
    """What stands on a sequence: a style with its object. None of these may call back into the member but
    for reading; submit from elsewhere."""

    def on_serving(self, epoch: Epoch) -> None:
        """This member is primary, and everything it held when it claimed is committed: it may submit (K1)."""
        ...

    def on_following(self) -> None:
        """It is not, or no longer, primary: what was executed and is not committed must be discarded (E1)."""
        ...

    def on_committed(self, up_to: Position) -> None:
        """Positions up to here are final; ``member.read`` gives them."""
        ...

    def capture(self, at_least: Position = ORIGIN.position) -> Kept | None:
        """The state, for a learner whose log does not meet ours (M3), or for a member without its object
        (E8); None when there is none yet that stands for so much. Its own, never one that was found to
        differ."""
        ...

    def install(self, kept: Kept) -> None:
        """Continue from this state: it stands for everything up to its position."""
        ...

    def keeps(self, kept: Kept) -> None:
        """The host has this checkpoint of records that the member holds, and nobody needs to continue from
        it now."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether the object is there, has all that is committed, and takes calls."""
        ...

    def fitness(self) -> Fitness:
        """Whether it could lead, and if not, why; at every turn, so it should cost nothing."""
        ...

    def on_forced(self) -> None:
        """A person has decided that the group goes on from what this member holds, whatever it is (V4)."""
        ...


class Received(Protocol):
    """A learner's state on its way to the disk."""

    @property
    def unsynced_bytes(self) -> int:
        """Written and not yet synced; no more is asked for while this is much."""
        ...

    def write(self, data: bytes) -> None: ...

    def finish(self, then: Callable[[Kept], None]) -> None:
        """That was all: make it durable as a checkpoint, *then* go on."""
        ...

    def abandon(self) -> None:
        """It is not wanted any more."""
        ...


class Checkpoints(Protocol):
    """Where a learner's received state is kept."""

    def receive(self, group: GroupId, point: Point) -> Received: ...


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
    turnstiles: CatchupLimiter
    log: GroupLog
    durability: Durability
    checkpoints: Checkpoints
    flush: Callable[[], None]
    """Ask that the log be flushed at the end of this turn (S5)."""
    identity: Callable[[], Seen[Identity]]
    """The authority's identity as last read."""
    nonce: Callable[[], Nonce]
    """A mark that no other change ever carries (A1)."""
    on_doubt_settled: Callable[[], None]
    """A member has compared its doubtful tail; when all have, the log's doubt is cleared (D2)."""
    on_superseded: Callable[[GroupId], None]
    """What a member holds is no part of its group's history any more, and it has stopped: forget that, and
    let another take its place, which begins with nothing (V4)."""
    on_lost: Callable[[GroupId], None]
    """A member has found that its group's state is gone with all who held it (V4)."""
    on_halted: Callable[[GroupId, str], None]
    """A member stopped for good and says why (A5)."""


def same(one: ViewMember, other: ViewMember) -> bool:
    """Whether both stand for the same member: the same store on the same host (V1)."""
    return one.host == other.host and one.store == other.store


def peers(members: tuple[ViewMember, ...], me: Me) -> tuple[HostId, ...]:
    """The hosts of the other members."""
    return tuple(member.host for member in members if not same(member, me))
