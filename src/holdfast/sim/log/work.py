"""What the scenario's host does with its log: append, drop, read back, write checkpoints, settle."""

import random
from typing import Final

from holdfast.model.errors import Conflict, Corruption, Overloaded
from holdfast.model.ids import Epoch, GroupId, Position, StoreId
from holdfast.sim.checkers.ledger import appended, dropped, floored, operations
from holdfast.sim.log.account import Account
from holdfast.sim.node import NodePorts
from holdfast.sim.options import MICROSECOND, MILLISECOND
from holdfast.storage.checkpoint import Checkpoint
from holdfast.storage.checkpoints import CheckpointStore
from holdfast.storage.files import LogConfig
from holdfast.storage.log import Log
from holdfast.storage.record import Kind, Point, encode

CONFIG: Final = LogConfig(
    file_bytes=16 << 10,
    batch_bytes_max=4 << 10,
    gather_bytes_max=64 << 10,
    group_bytes_max=16 << 10,
    files_max=10,
)
CHUNK_BYTES: Final = 512
GROUPS: Final = tuple(map(GroupId, (1, 2, 3, 4)))
"""The last is quiet and writes no checkpoints: it must be copied forward."""
QUIET: Final = GROUPS[-1]
DRAWN: Final = (*map(GroupId, (1, 2, 3) * 21), QUIET)
CHECKPOINTS: Final = dict(enumerate(map(GroupId, (1, 1, 2, 3)), start=8))
"""Which number of 64, drawn at each turn, lets which group write a checkpoint."""
PADDINGS: Final = tuple(map(bytes, (0, 0, 0, 0, 0, 20, 100, 900)))
TURN_NS: Final = (200 * MICROSECOND, MILLISECOND, MILLISECOND, 3 * MILLISECOND)
COMPARE_NS: Final = 40 * MILLISECOND
BURST: Final = 8
"""Calls that arrive together with one in eight turns: some batches hold many records."""


class Work:
    """The work of one opening."""

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
            # First the account: the host may die inside the call, its batch already on the disk.
            self._account.is_doubtful = False
            self.log.clear_doubt()

    def _turn(self, rng: random.Random) -> None:
        # One draw for a turn and one for each append: drawing would else take half the time.
        drawn = rng.getrandbits(32)
        self._append(rng.getrandbits(32))
        if not drawn & 7:
            # Calls that arrive together are events of their own: a host may end between two of them.
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
        """A record that continues another history than ours must be refused (S2)."""
        tail = self.log.tail(group)
        astray = Point(tail.position, tail.epoch, tail.checksum ^ 1)
        try:
            self.log.append_received(_from_another(group, astray, b"astray", 1))
        except (Conflict, Overloaded):
            return
        self._account.violation("S2", f"group {group}: took a record that does not continue {tail}")

    def _drop(self, rng: random.Random) -> None:
        """Drop what lies beyond some record that is in no checkpoint yet."""
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
        # A tail that was cut in doubt may end before the checkpoint that the log has just taken up.
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
    """A record after *tail*, as another member would send it."""
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
    """The state that a checkpoint there holds."""
    return f"{store}/{group}/{position} ".encode() * (20 + position % 50)
