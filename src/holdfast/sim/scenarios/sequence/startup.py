"""How a simulated host opens its log, and how it keeps checkpoints.

A host determines its identity, numbers its opening, recovers its log, and opens its session and its clock:
the same steps as a production host takes, on the production parts. A store that the authority does not know
in this form, or that is damaged below its mark, is created anew, and its members join as new (V5, D2).

Checkpoints are those that members make of their own state, and those that learners receive.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from holdfast.authority import sessions, stores
from holdfast.authority.contract import LeaseGrant, LeaseGranted
from holdfast.authority.identity import Identity, ensure_identity
from holdfast.authority.recipe import Recipe, Recipes, Seen
from holdfast.authority.sessions import ensure_replica
from holdfast.groups.backend import MemoryCheckpointReceiver
from holdfast.groups.checkpoint_keeper import CheckpointReceiver
from holdfast.groups.stamps import Stamps
from holdfast.model.code import Code
from holdfast.model.errors import Corruption, HoldfastError
from holdfast.model.host_roles import DEFAULT_ROLES
from holdfast.model.ids import GroupId, HostId, Incarnation, Nonce, Opening, Position, ReplicaId, StoreId
from holdfast.model.ports import Token
from holdfast.sequence.memory_log import MemoryLog
from holdfast.sequence.ports import Captured, Kept
from holdfast.sim.engine.node import NodePorts
from holdfast.storage.checkpoint import Checkpoint, CheckpointWriter
from holdfast.storage.checkpoints import CheckpointStore
from holdfast.storage.free_space import FreeSpace
from holdfast.storage.identity import Store, StoreIdentity, load
from holdfast.storage.log import Log
from holdfast.storage.record import Point
from holdfast.storage.recovery import scan
from holdfast.storage.scratch import ScratchStore
from holdfast.storage.segments import LogConfig, salt_of

DIRECTORY: Final = "store"
LOG: Final = LogConfig(
    file_bytes=64 << 10,
    batch_bytes_max=16 << 10,
    gather_bytes_max=256 << 10,
    # Beyond what styles refuse calls at there is room for all that the calls in line still lead to, as there
    # is in production.
    group_bytes_max=128 << 10,
    files_max=8,
)
CHUNK_BYTES: Final = 2048
LEASE_SECONDS: Final = 3600
"""So long that no host of a run loses its session; no failover depends on it (A3)."""


class HostProcess(ABC):
    """The process of a host, as its agent and the faults see it."""

    @property
    @abstractmethod
    def incarnation(self) -> Incarnation | None:
        """The incarnation that the authority issued; None before."""


class Opened:
    """A host's open store and session."""

    def __init__(
        self,
        ports: NodePorts,
        recipes: Recipes,
        then: Callable[[], None],
        *,
        has_clock: bool = False,
        codes: dict[str, Code] | None = None,
        roles: tuple[str, ...] = DEFAULT_ROLES,
    ) -> None:
        """*has_clock*: the host stamps operations, so its clock is opened too.

        *codes*: the code of its classes. *roles*: what the host is for.
        """
        self._codes = codes
        self._roles = roles
        self.log: Log
        self.checkpoints: CheckpointStore
        self.scratch: ScratchStore
        self.store: StoreId
        self.opening: Opening
        self.incarnation: Incarnation
        self.identity: Seen[Identity]
        self.stamps: Stamps
        self.on_durable: Callable[[int], None] = lambda number: None
        self.on_failed: Callable[[HoldfastError], None] = lambda error: None
        """Told what ends the process."""
        self._ports = ports
        self._recipes = recipes
        self._then = then
        self._has_clock = has_clock
        self._name = HostId(ports.name)
        self._nonces = 0
        self._log: Log | None = None
        self._checkpoints: CheckpointStore | None = None
        self._scratch: ScratchStore | None = None
        self._stamps: Stamps | None = None
        self._disk = ports.disk(DIRECTORY, self._on_synced)
        self._identity = StoreIdentity(self._disk, self._loaded(), self._stop)
        if self._identity.store is None or self._identity.store.host != self._name:
            self._found()
        else:
            self._begin_opening()

    def nonce(self) -> Nonce:
        self._nonces += 1
        return Nonce(f"{self._name}/{self._ports.incarnation}/{self._nonces}")

    # --- the store

    def _loaded(self) -> Store | None:
        try:
            return load(self._disk)
        except Corruption:
            return None

    def _found(self) -> None:
        store = StoreId(f"{self._name}-{self._ports.incarnation}-{self._nonces}")
        self._ports.trace.note("found", store=store)
        self.nonce()
        self._identity.found(store, self._name, self._begin_opening)

    def _begin_opening(self) -> None:
        def begun() -> None:
            self._recipes.start(self._raise_number(), self._raised)

        self._identity.begin_opening(self.nonce(), begun)

    def _raise_number(self) -> Recipe[bool]:
        store = self._identity.store
        assert store is not None
        assert store.intent is not None
        while True:
            answer = yield from stores.raise_opening(
                store.store, expected=store.opening, expected_nonce=store.nonce, nonce=store.intent
            )
            if isinstance(answer, Seen):
                return True
            if isinstance(answer, stores.Stranger | stores.Behind):
                return False

    def _raised(self, is_ours: bool) -> None:
        if is_ours:
            self._identity.finish_opening(self._recover)
        else:
            self._ports.node.world.sometimes("a store was a stranger")
            self._found()

    def _recover(self) -> None:
        store = self._identity.store
        assert store is not None
        found = scan(self._disk, salt=salt_of(store.store), sector=LOG.sector_bytes)
        if found.is_damaged:
            self._ports.node.world.sometimes("a damaged store was given up")
            self._found()
            return
        if found.is_doubtful:
            self._ports.node.world.sometimes("a tail was in doubt")
        self.store, self.opening = store.store, store.opening
        self._checkpoints = CheckpointStore(
            self._disk, salt=salt_of(store.store), on_failed=self._stop, chunk_bytes=CHUNK_BYTES
        )
        self._scratch = ScratchStore(
            self._disk, salt=salt_of(store.store), on_failed=self._stop, chunk_bytes=CHUNK_BYTES
        )
        self._log = Log(
            self._disk,
            found,
            store=store.store,
            opening=store.opening,
            config=LOG,
            on_open=lambda: self._recipes.start(self._open_session(), lambda _: self._open_stamps()),
            on_durable=lambda number: self.on_durable(number),
            on_stopped=self._stop,
            trace=self._ports.trace,
        )
        self._log.open()

    # --- the session

    def _open_session(self) -> Recipe[None]:
        while True:
            found = yield from ensure_identity("simulated", nonce=self.nonce())
            if isinstance(found, Seen):
                self.identity = found
                break
        while True:
            granted = yield LeaseGrant(LEASE_SECONDS)
            if not isinstance(granted, LeaseGranted):
                continue
            # Each lease gets its own nonce: under the old nonce, a session whose lease ended unnoticed would
            # stay gone.
            session = yield from sessions.open_session(
                self._name,
                lease=granted.lease,
                address=f"{self._name}:1",
                nonce=self.nonce(),
                codes=self._codes,
                roles=self._roles,
            )
            if isinstance(session, Seen):
                self.incarnation = session.value.incarnation
                return

    # --- the clock

    def _open_stamps(self) -> None:
        if self._has_clock:
            self._recipes.start(self._number_clock(), self._open_clock)
        else:
            self._opened()

    def _number_clock(self) -> Recipe[ReplicaId]:
        while True:
            replica = yield from ensure_replica(self._name, nonce=self.nonce())
            if isinstance(replica, Seen):
                return replica.value.replica

    def _open_clock(self, replica: ReplicaId) -> None:
        ports = self._ports
        self.stamps = self._stamps = Stamps(
            replica,
            clock=ports.clock,
            timers=ports.timers,
            disk=self._disk,
            trace=ports.trace,
            on_failed=self._stop,
        )
        assert self._log is not None
        try:
            self._stamps.open(self._opened, is_new=not self._log.groups())
        except Corruption as error:
            self.fail(error)

    def _opened(self) -> None:
        assert self._log is not None
        assert self._checkpoints is not None
        assert self._scratch is not None
        self.log, self.checkpoints, self.scratch = self._log, self._checkpoints, self._scratch
        self._then()

    def _on_synced(self, token: Token, ok: bool) -> None:
        for part in (self._log, self._checkpoints, self._scratch, self._stamps, self._identity):
            if part is not None and part.on_synced(token, ok):
                return

    def _stop(self, error: HoldfastError) -> None:
        self.on_failed(error)
        self._ports.stop(f"{error.code}: {error}")

    @property
    def id(self) -> StoreId:
        return self.store

    def space(self) -> FreeSpace | None:
        return self._ports.node.disk.space()

    def fail(self, error: HoldfastError) -> None:
        """Stop because the disk cannot be used any more.

        A damaged store is moved away by a person, at once here.
        """
        if isinstance(error, Corruption):
            self.give_up()
        else:
            self._stop(error)

    def give_up(self) -> None:
        """Give up a store that cannot be used: the next start creates another (D2)."""
        self._ports.node.disk.wipe()
        self._ports.stop("the store is damaged")


class OnDisk:
    """The checkpoints of every group in one store; the log is pruned up to them."""

    def __init__(self, log: Log, checkpoints: CheckpointStore) -> None:
        self._log = log
        self._checkpoints = checkpoints
        self._under_way: Counter[GroupId] = Counter()
        self._held: dict[GroupId, Position] = {}

    def is_under_way(self, group: GroupId) -> bool:
        """Whether a checkpoint of the group is being written: its files must not be removed then."""
        return self._under_way[group] > 0

    def receive(self, group: GroupId, point: Point, size: int) -> CheckpointReceiver:
        """Begin to receive a learner's state."""
        return CheckpointReceiver(self._checkpoints.begin(group, point), partial(self._finish, group))

    def keep(self, group: GroupId, captured: Captured) -> None:
        """Keep a member's own state, and then only the part of the log that follows it."""
        point = self._log.point_at(group, captured.position)
        assert point is not None
        received = self.receive(group, point, captured.size)
        received.write(captured.state)
        received.finish(lambda _: self._raise_floor(group), lambda: None)

    def hold(self, group: GroupId, log: Position | None, state: Position | None) -> None:
        """Keep the log beyond *log*, and the checkpoint at *state*, for members that catch up (M4)."""
        if log is None:
            self._held.pop(group, None)
        else:
            self._held[group] = log
        self._checkpoints.hold(group, state)
        self._raise_floor(group)

    def _finish(self, group: GroupId, writer: CheckpointWriter, then: Callable[[Kept], None]) -> None:
        self._under_way[group] += 1
        self._checkpoints.finish(writer, lambda done: self._finished(group, done, then))

    def _finished(self, group: GroupId, done: Checkpoint, then: Callable[[Kept], None]) -> None:
        self._under_way[group] -= 1
        then(self._checkpoints.stored(done))

    def _raise_floor(self, group: GroupId) -> None:
        floor = self._checkpoints.floor(group)
        held = self._held.get(group)
        if floor is not None and held is not None:
            floor = min(floor, held)
        if floor is not None and floor > self._log.floor(group).position:
            self._log.set_floor(group, floor)
            self._log.flush()


class InMemory:
    """Checkpoints that are never kept: a member in memory ends with its process."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._held: dict[GroupId, Position] = {}
        self._newest: dict[GroupId, Position] = {}

    def keep(self, group: GroupId, captured: Captured) -> None:
        """Keep only the part of the log that follows a member's own state."""
        self._newest[group] = captured.position
        self._prune(group)

    def hold(self, group: GroupId, log: Position | None, state: Position | None) -> None:
        """Keep the log beyond *log* for members that catch up (M4)."""
        if log is None:
            self._held.pop(group, None)
        else:
            self._held[group] = log
        self._prune(group)

    def _prune(self, group: GroupId) -> None:
        newest = self._newest.get(group)
        if newest is not None:
            floor = min(newest, self._held.get(group, newest))
            is_there = self._log.point_at(group, floor) is not None
            if is_there and floor > self._log.floor(group).position:
                self._log.set_floor(group, floor)

    def receive(self, group: GroupId, point: Point, size: int) -> MemoryCheckpointReceiver:
        return MemoryCheckpointReceiver(point, lambda captured, then: then(captured))
