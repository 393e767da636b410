"""A later process does not load checkpoints of an object that was not the group's (E8)."""

from storage_machine import FIRST, A, Machine

from holdfast.model.ids import Position
from holdfast.model.ports import Token
from holdfast.sim.engine.node import Life
from holdfast.storage.checkpoint import Checkpoint
from holdfast.storage.checkpoints import CheckpointStore
from holdfast.storage.record import Point

ROUNDS = 10
"""More rounds than the sync of one checkpoint or mark takes."""


class Store:
    """Checkpoints on a disk that can lose power."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._asked: list[Token] = []
        disk = machine.disk.open("checkpoints", Life(), lambda token, ok: self._asked.append(token))
        self.checkpoints = CheckpointStore(disk, salt=7, on_failed=_fail)

    def settle(self) -> None:
        for _ in range(ROUNDS):
            self._machine.run()
            asked, self._asked[:] = self._asked[:], []
            for token in asked:
                self.checkpoints.on_synced(token, True)

    def keep(self, position: int) -> None:
        done: list[Checkpoint] = []
        writer = self.checkpoints.begin(A, Point(Position(position), FIRST, 1))
        writer.write(b"state")
        self.checkpoints.finish(writer, done.append)
        self.settle()
        assert done


def test_the_mark_outlives_the_process_until_there_is_another_state() -> None:
    machine = Machine()
    machine.open()
    store = Store(machine)
    store.keep(8)
    store.keep(16)
    store.checkpoints.void(A, Position(16))
    assert store.checkpoints.void_up_to(A) is None, "what was found equal stays"
    store.checkpoints.void(A, Position(8))
    store.settle()
    again = Store(machine)
    assert again.checkpoints.void_up_to(A) == 16
    assert again.checkpoints.positions(A) == [8, 16], "a person may go on from them"
    again.keep(20)
    assert again.checkpoints.void_up_to(A) is None
    assert Store(machine).checkpoints.void_up_to(A) is None


def test_a_group_that_is_forgotten_leaves_no_mark() -> None:
    machine = Machine()
    machine.open()
    store = Store(machine)
    store.keep(8)
    store.checkpoints.void(A, Position(0))
    store.checkpoints.void(A, Position(0))
    store.settle()
    store.checkpoints.forget(A, lambda: None)
    store.settle()
    assert Store(machine).checkpoints.void_up_to(A) is None


def _fail(error: Exception) -> None:
    raise error
