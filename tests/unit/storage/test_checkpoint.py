"""Checkpoints are complete or absent, checked chunk by chunk, and two are kept (D3)."""

from collections.abc import Callable

import pytest

from holdfast.model.errors import Corruption, HoldfastError
from holdfast.model.ids import Epoch, GroupId, Position
from holdfast.model.ports import Token
from holdfast.sim import MILLISECOND, NodePorts, Options, World
from holdfast.storage.checkpoint import Checkpoint, checkpoint_name, checkpoint_of, read_chunk, verify
from holdfast.storage.checkpoints import CheckpointStore
from holdfast.storage.record import Point

GROUP = GroupId(5)


class Machine:
    """A machine whose host keeps checkpoints."""

    def __init__(self) -> None:
        self.world = World(Options(scenario="log", seed=1))
        self.done: list[Checkpoint] = []
        self.failed: list[HoldfastError] = []
        self.node = self.world.add_node("a", self._build, supervised=False)

    def _build(self, ports: NodePorts) -> "Machine":
        def on_synced(token: Token, ok: bool) -> None:
            assert self.store.on_synced(token, ok)

        self.disk = ports.disk("store", on_synced)
        self.store = CheckpointStore(self.disk, salt=7, on_failed=self.failed.append, chunk_bytes=100)
        return self

    def begin(self, position: int, state: bytes) -> Callable[[], None]:
        """Write a checkpoint without its end; the returned function finishes it."""
        writer = self.store.begin(GROUP, Point(Position(position), Epoch(1), position * 3))
        for start in range(0, len(state), 70):
            writer.write(state[start : start + 70])
        return lambda: self.store.finish(writer, self.done.append)

    def write(self, position: int, state: bytes) -> None:
        self.begin(position, state)()
        self.run()

    def run(self) -> None:
        self.world.run_until(self.world.now + 50 * MILLISECOND)

    def restart(self, *, power_cut: bool = True) -> None:
        (self.node.power_cut if power_cut else self.node.kill)()
        self.node.start()

    def state(self) -> bytes | None:
        chosen = self.store.choose(GROUP)
        return b"".join(self.store.read(chosen.checkpoint)) if chosen.checkpoint else None


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 1000])
def test_a_finished_checkpoint_survives_a_power_cut(size: int) -> None:
    machine = Machine()
    state = bytes(range(256)) * 4
    machine.write(10, state[:size])
    assert [done.size for done in machine.done] == [size]
    machine.restart()
    assert machine.state() == state[:size]
    assert machine.store.positions(GROUP) == [10]


def test_an_unfinished_one_is_removed() -> None:
    """A checkpoint does not count before its content and its name are synced."""
    machine = Machine()
    machine.write(10, b"old")
    machine.begin(20, b"new" * 100)
    machine.run()
    machine.restart(power_cut=False)
    assert machine.store.positions(GROUP) == [10]
    assert machine.disk.list() == [checkpoint_name(GROUP, Position(10))]


def test_two_of_one_position_are_written_at_the_same_time() -> None:
    """The simulator's detect, seed 261: a member wrote its own state where it was receiving the primary's,
    and the host ended because its file was gone. They count once: the log reaches back to the one before."""
    machine = Machine()
    machine.write(10, b"before")
    finish_received = machine.begin(20, b"received" * 30)
    finish_own = machine.begin(20, b"its own" * 20)
    finish_received()
    machine.run()
    assert machine.state() == b"received" * 30
    finish_own()
    machine.run()
    assert machine.failed == []
    assert machine.state() == b"its own" * 20
    assert machine.store.floor(GROUP) == 10
    assert machine.disk.list() == [checkpoint_name(GROUP, Position(position)) for position in (10, 20)]


def test_two_are_kept_and_the_log_keeps_what_lies_behind_the_older() -> None:
    machine = Machine()
    assert machine.store.floor(GROUP) is None
    machine.write(10, b"a")
    assert machine.store.floor(GROUP) is None
    for position in (20, 30):
        machine.write(position, b"b")
    assert machine.store.positions(GROUP) == [20, 30]
    assert machine.store.floor(GROUP) == 20


def test_a_group_that_begins_anew_has_no_floor_of_its_former_life() -> None:
    """After a forced recovery a member holds less than before. If the floor still came from forgotten
    checkpoints, the log would be asked to drop records that it does not have yet (V4)."""
    machine = Machine()
    for position in (900, 1000):
        machine.write(position, b"given up")
    machine.store.forget(GROUP)
    machine.write(95, b"new")
    assert machine.store.floor(GROUP) is None
    machine.write(120, b"newer")
    assert machine.store.floor(GROUP) == 95


def test_a_rotted_newest_falls_back_to_the_older_one_loudly() -> None:
    """The damage is reported with its place, and the older checkpoint serves completely."""
    machine = Machine()
    machine.write(10, b"older" * 50)
    machine.write(20, b"newer" * 50)
    name = checkpoint_name(GROUP, Position(20))
    at = machine.disk.read(name, 0, 1000).index(b"newernewer")
    machine.disk.write_at(name, at + 3, b"X")
    chosen = machine.store.choose(GROUP)
    assert chosen.checkpoint is not None
    assert chosen.checkpoint.point.position == 10
    assert [error.file for error in chosen.damaged] == [name]
    assert machine.state() == b"older" * 50


def test_every_flipped_bit_is_seen() -> None:
    """Whatever rots (header, hashes, chunks, end), the checkpoint is not served."""
    machine = Machine()
    machine.write(10, b"state" * 50)
    name = checkpoint_name(GROUP, Position(10))
    whole = machine.disk.read(name, 0, 10_000)
    for offset in range(len(whole)):
        # The hash at the end also covers the salt and the chain's point.
        machine.disk.write_at(name, offset, bytes([whole[offset] ^ 1]))
        with pytest.raises(Corruption):
            verify(machine.disk, name)
        machine.disk.write_at(name, offset, whole[offset : offset + 1])
    verify(machine.disk, name)


def test_chunks_can_be_read_alone() -> None:
    """State transfer can resume at any chunk."""
    machine = Machine()
    state = bytes(range(250))
    machine.write(10, state)
    (done,) = machine.done
    assert done.chunks == 3
    assert read_chunk(machine.disk, done, 2) == state[200:]
    assert read_chunk(machine.disk, done, 0) == state[:100]


def test_a_failed_sync_is_told_and_the_checkpoint_does_not_count() -> None:
    """D1: a failed sync is reported and final."""
    machine = Machine()
    finish = machine.begin(10, b"state")
    machine.node.disk.failing_syncs = 1
    finish()
    machine.run()
    assert len(machine.failed) == 1
    assert machine.done == []
    assert machine.store.positions(GROUP) == []


def test_another_stores_checkpoints_are_removed() -> None:
    """A damaged checkpoint stays: nobody can say whose it is, so the damage is reported."""
    machine = Machine()
    machine.write(10, b"mine")
    machine.write(20, b"mine too")
    name = checkpoint_name(GROUP, Position(20))
    machine.disk.write_at(name, 8, b"\xff")  # inside the salt
    other = CheckpointStore(machine.disk, salt=8, on_failed=machine.failed.append)
    assert other.positions(GROUP) == [20]
    assert len(other.choose(GROUP).damaged) == 1
    assert machine.disk.list() == []


def test_names() -> None:
    name = checkpoint_name(GROUP, Position(10))
    assert checkpoint_of(name) == (5, 10)
    for unfinished in (".part", ".2.part", ".copy"):
        assert checkpoint_of(name + unfinished) == (5, 10)
    for other in (
        name + ".bak",
        name + ".2",
        name + ".part.copy",
        "log-00000001",
        "checkpoint-1-2",
        "checkpoint-x-y",
        "store",
    ):
        assert checkpoint_of(other) is None
