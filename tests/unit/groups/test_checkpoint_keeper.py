"""Tests that the newest checkpoint of a group is the one with the highest position."""

from storage_machine import FIRST, A, Machine

from holdfast.groups.checkpoint_keeper import CheckpointKeeper
from holdfast.model.ids import Position
from holdfast.model.ports import Token
from holdfast.sequence.ports import Captured, Durability, Kept
from holdfast.sim.engine.node import Life
from holdfast.storage.checkpoints import CheckpointStore
from holdfast.storage.record import Point

SYNCS_MAX = 10
"""More turns than one checkpoint needs for its syncs."""


class Silent:
    """A journal that discards everything."""

    def info(self, event: str, **fields: object) -> None: ...
    def warning(self, event: str, **fields: object) -> None: ...
    def error(self, event: str, **fields: object) -> None: ...


def test_a_state_received_is_the_newest_though_an_older_one_is_still_being_written() -> None:
    """A backup's own checkpoint is still being written to a slow disk. The backup is dropped from the view,
    becomes a learner and receives a newer state. It must load that state, because its log begins there."""
    machine = Machine()
    machine.open()
    machine.write(*[b"one operation"] * 8)
    asked: list[Token] = []
    disk = machine.disk.open("checkpoints", Life(), lambda token, ok: asked.append(token))
    store = CheckpointStore(disk, salt=7, on_failed=_fail)
    keeping = CheckpointKeeper(store, machine.log, Durability(), Silent())

    keeping.keep(A, Captured(Position(8), b"as of 8"))
    machine.run()
    own, asked[:] = asked[:], []  # the sync of its file, answered late
    kept: list[Kept] = []
    receiving = keeping.receive(A, Point(Position(58), FIRST, 1), 8)
    assert receiving is not None
    receiving.write(b"as of 58")
    receiving.finish(kept.append, _never)
    for _ in range(SYNCS_MAX):
        machine.run()
        for sync in asked:
            store.on_synced(sync, True)
        asked.clear()
    assert kept
    assert _position(keeping.newest(A)) == 58

    store.on_synced(own[0], True)
    machine.run()
    assert _position(keeping.newest(A)) == 58


def test_a_held_checkpoint_and_the_log_behind_it_stay_until_they_are_let_go() -> None:
    """M4: a learner fetches it. Newer ones are kept as ever, and the one after the hold is not held with
    it."""
    machine = Machine()
    machine.open()
    disk = machine.disk.open("checkpoints", Life(), lambda token, ok: store.on_synced(token, ok) and None)
    store = CheckpointStore(disk, salt=7, on_failed=_fail)
    keeping = CheckpointKeeper(store, machine.log, Durability(), Silent())

    def keep_next() -> None:
        machine.write(b"one operation")
        keeping.keep(A, Captured(machine.log.tail(A).position, b"state"))
        machine.run()

    keep_next()
    held = keeping.newest(A)
    assert held is not None
    keeping.hold(A, held.position, held.position)
    for _ in range(4):
        keep_next()
    assert store.positions(A) == [1, 4, 5]
    assert machine.log.floor(A).position == 1
    assert held.chunk(0) == b"state"
    keeping.hold(A, None, None)
    assert store.positions(A) == [4, 5]
    assert machine.log.floor(A).position == 4


def test_nothing_large_is_begun_where_the_disk_is_short_of_space() -> None:
    """D5, for groups in memory that have their checkpoints on disk: nobody else looks at the space for
    them."""
    machine = Machine()
    machine.open()
    machine.write(b"one operation")
    store = CheckpointStore(machine.disk.open("checkpoints", Life(), None), salt=7, on_failed=_fail)
    durability = Durability()
    keeping = CheckpointKeeper(store, machine.log, durability, Silent(), lambda: True)
    point = machine.log.tail(A)
    assert keeping.framing(A, point) is None
    assert keeping.receive(A, point, 1) is None


def _position(kept: Kept | None) -> Position | None:
    return kept.position if kept is not None else None


def _fail(error: Exception) -> None:
    raise error


def _never() -> None:
    raise AssertionError("a state that stands on nothing cannot fail to come")
