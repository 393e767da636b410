"""Scratch files are checked as checkpoints are, and no process reads those of another."""

from collections.abc import Callable

import pytest

from holdfast.model.errors import DiskFailed, HoldfastError
from holdfast.model.ids import Epoch, GroupId, Position
from holdfast.model.ports import Token
from holdfast.sequence.ports import Kept, chunks_of
from holdfast.sim import MILLISECOND, NodePorts, Options, World
from holdfast.storage.checkpoints import CheckpointStore
from holdfast.storage.record import Point
from holdfast.storage.scratch import PREFIX, ScratchStore

GROUP = GroupId(5)
STATE = bytes(range(256)) * 4


class Machine:
    """A machine whose host keeps checkpoints and scratch files on one disk."""

    def __init__(self) -> None:
        self.world = World(Options(scenario="log", seed=1))
        self.failed: list[HoldfastError] = []
        self.node = self.world.add_node("a", self._build, supervised=False)

    def _build(self, ports: NodePorts) -> "Machine":
        def on_synced(token: Token, ok: bool) -> None:
            assert self.checkpoints.on_synced(token, ok) != self.scratch.on_synced(token, ok)

        self.disk = ports.disk("store", on_synced)
        self.checkpoints = CheckpointStore(self.disk, salt=7, on_failed=self.failed.append, chunk_bytes=100)
        self.scratch = ScratchStore(self.disk, salt=7, on_failed=self.failed.append, chunk_bytes=100)
        return self

    def write(self, position: int, state: bytes = STATE, into: CheckpointStore | None = None) -> Kept:
        store = into or self.scratch
        writer = store.begin(GROUP, Point(Position(position), Epoch(1), position * 3))
        writer.write(state)
        kept: list[Kept] = []
        store.finish(writer, lambda done: kept.append(store.stored(done)))
        self.run()
        return kept[0]

    def run(self) -> None:
        self.world.run_until(self.world.now + 50 * MILLISECOND)


@pytest.mark.parametrize(
    "end", [lambda machine: machine.node.kill(), lambda machine: machine.node.power_cut()]
)
def test_opening_the_store_removes_what_an_earlier_process_left(end: Callable[[Machine], None]) -> None:
    """Finished ones, those that a copy was writing and those that were being received; no checkpoint."""
    machine = Machine()
    machine.write(10, into=machine.checkpoints)
    kept = machine.write(20)
    assert b"".join(chunks_of(kept)) == STATE
    name, framing = machine.scratch.framing(GROUP, Point(Position(30), Epoch(1), 90))
    machine.disk.append(name, framing.header)
    machine.scratch.begin(GROUP, Point(Position(40), Epoch(1), 120)).write(STATE)
    machine.run()
    assert len([each for each in machine.disk.list() if each.startswith(PREFIX)]) == 3
    end(machine)
    machine.node.start()
    assert machine.checkpoints.positions(GROUP) == [10]
    assert machine.scratch.positions(GROUP) == []
    assert not [each for each in machine.disk.list() if each.startswith(PREFIX)]


def test_a_copy_writes_under_the_name_by_which_it_is_adopted() -> None:
    machine = Machine()
    point = Point(Position(30), Epoch(1), 90)
    name, framing = machine.scratch.framing(GROUP, point)
    assert name.startswith(PREFIX)
    for part in (framing.header, *framing.framed(STATE), framing.end()):
        machine.disk.append(name, part)
    adopted: list[bool] = []
    machine.scratch.adopt(framing.described, lambda: adopted.append(True))
    machine.run()
    assert adopted
    assert b"".join(chunks_of(machine.scratch.stored(framing.described))) == STATE
    assert machine.checkpoints.positions(GROUP) == []


def test_damage_is_a_failure_of_the_disk() -> None:
    """Nobody has to look at the file: the next process begins without it."""
    machine = Machine()
    kept = machine.write(20)
    (name,) = [each for each in machine.disk.list() if each.startswith(PREFIX)]
    machine.disk.write_at(name, 300, b"\xff\xfe\xfd")
    with pytest.raises(DiskFailed, match="damaged"):
        list(chunks_of(kept))


def test_all_go_but_the_named_one_and_the_one_that_is_held() -> None:
    machine = Machine()
    for position in (10, 20, 30, 40):
        machine.write(position)
    assert machine.scratch.positions(GROUP) == [10, 20, 30, 40]
    machine.scratch.hold(GROUP, Position(20))
    machine.scratch.keep_only(GROUP, Position(40))
    assert machine.scratch.positions(GROUP) == [20, 40]
    machine.scratch.hold(GROUP, None)
    machine.scratch.keep_only(GROUP, None)
    assert machine.scratch.positions(GROUP) == []
