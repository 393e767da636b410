"""What the scenario's host does with its log, and what an observer outside the host knows about it.

:class:`Work` appends, drops, reads back, writes checkpoints and settles. :class:`Account` records what the
host reported durable, what the authority holds, and which damage was reported.
"""

import random
from typing import Final

from holdfast.model.errors import Conflict, Corruption, Overloaded
from holdfast.model.ids import Epoch, GroupId, Nonce, Opening, Position, StoreId
from holdfast.sim.checkers.ledger import History, Ledger, appended, dropped, floored, operations
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MICROSECOND, MILLISECOND
from holdfast.sim.engine.world import World
from holdfast.storage.batch import Place
from holdfast.storage.checkpoint import Checkpoint
from holdfast.storage.checkpoints import CheckpointStore
from holdfast.storage.log import Log
from holdfast.storage.record import Kind, Point, encode
from holdfast.storage.segments import LogConfig, file_number

ROT: Final = ("bit_rot", "zero_sector", "rot_tail", "rot_checkpoint")
REPLACED: Final = ("wipe", "copy", "put_back")


class Account:
    """The observer's record of one host; it outlives the host's processes."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.ledger = Ledger()
        self.openings: dict[StoreId, tuple[Opening, Nonce]] = {}
        """What the authority holds for each store."""
        self.stores = 0
        self.is_doubtful = False
        """Whether the log's tail was cut and is still in doubt."""
        self.acknowledged = 0
        self.issued = 0
        """The number of bodies written: each contains its number, so that no two are the same."""
        self._opened_at = Place(0, 0)
        self._rot_before = 0

    def new_store(self) -> StoreId:
        self.stores += 1
        self.ledger = Ledger()
        self.is_doubtful = False
        return StoreId(f"{self.name}-{self.stores}")

    def had(self, kinds: tuple[str, ...]) -> bool:
        """Whether this run has had a fault of these kinds."""
        return any(self.world.faults[kind] for kind in kinds)

    def violation(self, rule: str, message: str) -> None:
        self.world.violation(rule, f"{self.name}: {message}")

    def loud(self, error: Corruption) -> None:
        """Record that damage was reported, which is right only where something was corrupted."""
        self.world.trace.add(f"{self.world.now} {self.name} damage {error}")
        self.world.sometimes("damage was reported")
        if not self.had(ROT):
            self.violation("D2", f"false alarm: {error}")

    def refused(self, reason: str) -> None:
        """Record that the host refused its store, which is right only where a disk was replaced."""
        if self.openings and not self.had(REPLACED) and not self.had(ROT):
            self.violation("V5", f"its own store refused: {reason}")

    def opened(self, state: dict[int, History], end: Place) -> None:
        """Record that the log is open with *state*; this opening writes from *end* on."""
        self.ledger.accept(state)
        self._opened_at = end
        self._rot_before = len(self.world.nodes[self.name].disk.rot)

    def _rot_at_tail(self) -> int:
        """Return how many faults have damaged what the last opening wrote."""
        rot = self.world.nodes[self.name].disk.rot[self._rot_before :]
        places = (Place(file_number(name) or 0, offset) for name, offset in rot)
        return sum(place >= self._opened_at for place in places)

    def recovered(self, state: dict[int, History], *, is_doubtful: bool) -> None:
        """Check what a scan found after a restart."""
        if self.is_doubtful and not is_doubtful:
            self.violation("D2", "the log forgot that its tail is in doubt")
        wrong = self.ledger.objection(state)
        if wrong is None:
            return
        if is_doubtful and (faults := self._rot_at_tail()):
            self.world.sometimes("a rotted tail was cut in doubt")
            wrong = self.ledger.objection(state, lost_reports=faults)
        if wrong is not None:
            self.violation("D2", f"{wrong}; {'in doubt' if is_doubtful else 'without a word'}")


CONFIG: Final = LogConfig(
    file_bytes=16 << 10,
    batch_bytes_max=4 << 10,
    gather_bytes_max=64 << 10,
    group_bytes_max=16 << 10,
    files_max=10,
)
CHUNK_BYTES: Final = 512
GROUPS: Final = tuple(map(GroupId, (1, 2, 3, 4)))
"""The last group is quiet and writes no checkpoints, so its records must be copied forward."""
QUIET: Final = GROUPS[-1]
DRAWN: Final = (*map(GroupId, (1, 2, 3) * 21), QUIET)
CHECKPOINTS: Final = dict(enumerate(map(GroupId, (1, 1, 2, 3)), start=8))
"""A number of 64 is drawn in each turn; this maps some numbers to the group that writes a checkpoint."""
PADDINGS: Final = tuple(map(bytes, (0, 0, 0, 0, 0, 20, 100, 900)))
TURN_NS: Final = (200 * MICROSECOND, MILLISECOND, MILLISECOND, 3 * MILLISECOND)
COMPARE_NS: Final = 40 * MILLISECOND
BURST: Final = 8
"""Calls that arrive together in one of eight turns, so that some batches contain many records."""


class Work:
    """The work of one process on its open log."""

    def __init__(
        self, ports: NodePorts, account: Account, store: StoreId, log: Log, checkpoints: CheckpointStore
    ) -> None:
        self.log = log
        self._account = account
        self._store = store
        self._prefix = store.encode()
        self._checkpoints = checkpoints
        self._rng = ports.random.stream("work")
        self._timers = ports.timers(self._on_timer)
        self._busy: dict[GroupId, Position] = {}
        self._dropped: dict[GroupId, int] = {}
        if log.is_doubtful:
            account.world.sometimes("opened in doubt")
            self._timers.set(COMPARE_NS, "compared")
        self._timers.set(0, "turn")

    def on_durable(self, number: int) -> None:
        account = self._account
        settled = account.ledger.durable(number)
        account.acknowledged += settled
        account.world.operation(settled)

    def _on_timer(self, what: str) -> None:
        if what == "turn":
            self._turn(self._rng)
        elif what == "call":
            self._append(self._rng.getrandbits(32))
        else:
            # The account comes first: the host may die inside the call, with its batch already on the disk.
            self._account.is_doubtful = False
            self.log.clear_doubt()

    def _turn(self, rng: random.Random) -> None:
        # One draw for a turn and one for each append; more would take half of the run's time.
        drawn = rng.getrandbits(32)
        self._append(rng.getrandbits(32))
        if not drawn & 7:
            # Calls that arrive together are separate events, so that a host may end between two of them.
            for _ in range(BURST):
                self._timers.set(0, "call")
        chance = drawn >> 4 & 63
        if chance < 2:
            self._drop(rng)
        elif chance == 3:
            self._read_back(GroupId(rng.randrange(1, 5)))
        elif chance == 4:
            self.log.settle()
        elif chance == 5:
            self._receive_astray(GROUPS[drawn >> 12 & 3])
        elif chance in CHECKPOINTS:
            self._checkpoint(CHECKPOINTS[chance])
        if drawn >> 14 & 1:
            self.log.flush()
        self._timers.set(TURN_NS[drawn >> 10 & 3], "turn")

    def _append(self, drawn: int) -> None:
        log, account = self.log, self._account
        group = DRAWN[drawn & 63]
        count = 1 if drawn >> 6 & 3 else 3
        tail = log.tail(group)
        account.issued += 1
        body = b"%s/%d/%d/%d " % (self._prefix, group, tail.position + 1, account.issued)
        body += PADDINGS[drawn >> 8 & 7]
        try:
            if drawn >> 11 & 7:
                number = log.append(group, tail.epoch or Epoch(1), body, count)
            else:
                number = log.append_received(_from_another(group, tail, body, count))
        except Overloaded:
            account.world.sometimes("an append was refused")
            if group != QUIET:
                self._checkpoint(group)
            return
        account.ledger.asked(number, group, appended(body, count))

    def _receive_astray(self, group: GroupId) -> None:
        """Require that a record that continues a different history is refused (S2)."""
        tail = self.log.tail(group)
        astray = Point(tail.position, tail.epoch, tail.checksum ^ 1)
        try:
            self.log.append_received(_from_another(group, astray, b"astray", 1))
        except (Conflict, Overloaded):
            return
        self._account.violation("S2", f"group {group}: took a record that does not continue {tail}")

    def _drop(self, rng: random.Random) -> None:
        """Drop the tail after some record that is in no checkpoint yet."""
        log, group = self.log, GroupId(rng.randrange(1, 5))
        if group not in log.groups():
            return
        tail = log.tail(group).position
        held = [log.floor(group).position, *self._checkpoints.positions(group)]
        lowest = max(*held, self._busy.get(group, Position(0)), Position(tail - 6))
        after = Position(rng.randint(lowest, tail))
        if log.point_at(group, after) is not None:
            number = log.drop(group, after, Epoch(log.followed(group) + rng.randrange(2)))
            self._account.ledger.asked(number, group, dropped(after))
            self._dropped[group] = number

    def _read_back(self, group: GroupId) -> None:
        ledger = self._account.ledger
        durable = ledger.state.get(group)
        if durable is None or not durable.bodies or ledger.has_waiting(group):
            return
        try:
            records = self.log.read(group, Position(durable.floor + 1), Position(durable.tail))
        except Overloaded:
            return
        except Corruption as error:
            self._account.loud(error)
            raise
        found = [body for record in records for body in operations(record.body, record.count)]
        if found != durable.bodies:
            self._account.violation("D2", f"group {group}: read back something else than was written")

    def _checkpoint(self, group: GroupId) -> None:
        """Write a checkpoint at the last durable record, unless that is about to be dropped."""
        if group in self._busy or self._dropped.get(group, 0) > self.log.durable:
            return
        position = Position(self._account.ledger.acknowledged(group))
        # A tail that was cut in doubt may end before the checkpoint that the log has just installed.
        if position <= self.log.floor(group).position or position in self._checkpoints.positions(group):
            return
        point = self.log.point_at(group, position)
        assert point is not None
        self._busy[group] = position
        writer = self._checkpoints.begin(group, point)
        state = content(self._store, group, position)
        for start in range(0, len(state), 700):
            writer.write(state[start : start + 700])
        self._checkpoints.finish(writer, self._checkpointed)

    def _checkpointed(self, done: Checkpoint) -> None:
        del self._busy[done.group]
        self._account.world.sometimes("a checkpoint was finished")
        floor = self._checkpoints.floor(done.group)
        if floor is not None and floor > self.log.floor(done.group).position:
            number = self.log.set_floor(done.group, floor)
            self._account.ledger.asked(number, done.group, floored(floor))


def _from_another(group: GroupId, tail: Point, body: bytes, count: int) -> bytes:
    """Return a record that follows *tail*, as another member would send it."""
    return encode(
        Kind.DATA,
        previous=tail.checksum,
        group=group,
        epoch=tail.epoch or Epoch(1),
        first=Position(tail.position + 1),
        count=count,
        body=body,
    )


def content(store: StoreId, group: int, position: int) -> bytes:
    """Return the state that a checkpoint at *position* contains."""
    return f"{store}/{group}/{position} ".encode() * (20 + position % 50)
