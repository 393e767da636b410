"""Where groups in memory keep their states: small ones in memory, large ones in scratch files (E5)."""

from collections.abc import Callable

import pytest
from storage_machine import FIRST, A

from holdfast.groups.backend import MemoryCheckpoints
from holdfast.model.errors import Unavailable
from holdfast.model.ids import Position
from holdfast.model.ports import Token
from holdfast.sequence.memory_log import MemoryLog
from holdfast.sequence.ports import Captured, Kept, chunks_of
from holdfast.sim import MILLISECOND, NodePorts, Options, World
from holdfast.storage.checkpoint import Checkpoint
from holdfast.storage.record import Point
from holdfast.storage.scratch import PREFIX, ScratchState, ScratchStore

LARGE = 100
STATE = b"a large state." * 50


class Host:
    """A process that keeps groups in memory, on a simulated disk."""

    def __init__(self) -> None:
        self.world = World(Options(scenario="log", seed=1))
        self.log = MemoryLog(lambda number: None)
        self.is_short = False
        self.world.add_node("a", self._build, supervised=False)

    def _build(self, ports: NodePorts) -> "Host":
        def on_synced(token: Token, ok: bool) -> None:
            assert self.scratch.on_synced(token, ok)

        self.disk = ports.disk("store", on_synced)
        self.scratch = ScratchStore(self.disk, salt=7, on_failed=_fail, chunk_bytes=64)
        self.kept = MemoryCheckpoints(
            self.log, lambda work: work(), self.scratch, LARGE, lambda: self.is_short
        )
        return self

    def order(self, records: int) -> Point:
        for _ in range(records):
            self.log.append(A, FIRST, b"an operation")
        return self.log.tail(A)

    def receive(self, point: Point, state: bytes, then: Callable[[Kept], None] = lambda _: None) -> None:
        received = self.kept.receive(A, point, len(state))
        assert received is not None
        received.write(state)
        received.finish(then, lambda: pytest.fail("the state was given up"))

    def copy(self, point: Point, state: bytes = STATE) -> Checkpoint:
        """Write a state as a copy of the process does."""
        file = self.kept.framing(A, point)
        assert file is not None
        name, framing = file
        for part in (framing.header, *framing.framed(state), framing.end()):
            self.disk.append(name, part)
        return framing.described

    def adopt(self, point: Point, state: bytes = STATE) -> None:
        self.kept.adopt(A, self.copy(point, state), lambda: None)
        self.run()

    @property
    def files(self) -> list[str]:
        return [name for name in self.disk.list() if name.startswith(PREFIX)]

    @property
    def newest(self) -> Kept:
        found = self.kept.newest(A)
        assert found is not None
        return found

    def run(self) -> None:
        self.world.run_until(self.world.now + 50 * MILLISECOND)


def _fail(error: Exception) -> None:
    raise error


def test_a_large_state_that_is_received_is_in_a_file_and_a_small_one_in_memory() -> None:
    host = Host()
    told: list[Kept] = []
    host.receive(Point(Position(10), FIRST, 1), STATE[:LARGE])
    assert isinstance(host.newest, Captured)
    assert not host.files
    host.receive(Point(Position(20), FIRST, 2), STATE, told.append)
    assert host.newest.position == 10, "it counts when it is whole"
    host.run()
    assert [each.position for each in told] == [20]
    assert isinstance(host.newest, ScratchState)
    assert b"".join(chunks_of(host.newest)) == STATE


def test_the_log_begins_where_a_copied_state_is_once_it_counts() -> None:
    host = Host()
    point = host.order(5)
    host.order(3)
    copied = host.copy(point)
    counted: list[bool] = []
    host.kept.adopt(A, copied, lambda: counted.append(True))
    assert host.log.floor(A).position == 0
    host.run()
    assert counted
    assert host.newest.position == host.log.floor(A).position == 5
    assert len(host.files) == 1


def test_a_replaced_state_is_removed_and_one_that_is_being_sent_stays() -> None:
    """M4: whoever fetches the held one gets it to its end."""
    host = Host()
    host.adopt(host.order(5))
    held = host.newest
    host.kept.hold(A, held.position, held.position)
    host.adopt(host.order(5), b"another state" * 50)
    host.adopt(host.order(5), b"a third state" * 50)
    assert host.scratch.positions(A) == [5, 15]
    assert host.log.floor(A).position == 5
    assert b"".join(chunks_of(held)) == STATE
    host.kept.hold(A, None, None)
    assert host.scratch.positions(A) == [15]
    assert host.log.floor(A).position == 15
    with pytest.raises(Unavailable):
        held.chunk(0)


def test_a_state_that_became_small_leaves_no_file() -> None:
    host = Host()
    host.adopt(host.order(5))
    host.kept.hold(A, Position(5), Position(5))
    host.kept.keep(A, Captured(host.order(5).position, b"small"))
    assert host.scratch.positions(A) == [5], "it is being sent"
    host.kept.hold(A, None, None)
    assert not host.files
    assert host.newest.position == 10


def test_a_copy_that_is_late_does_not_replace_a_state_that_was_received() -> None:
    host = Host()
    copied = host.copy(host.order(5))
    host.receive(Point(Position(20), FIRST, 2), STATE)
    host.run()
    host.kept.adopt(A, copied, lambda: None)
    host.run()
    assert host.newest.position == 20
    assert host.scratch.positions(A) == [20]


def test_a_received_state_replaces_a_later_one_of_the_member_itself() -> None:
    """E8: what the member captured was not the group's object, and the state that mends it may be older."""
    host = Host()
    host.adopt(host.order(10))
    host.receive(Point(Position(8), FIRST, 2), b"the group's own" * 20)
    host.run()
    assert host.newest.position == 8
    assert host.scratch.positions(A) == [8]


def test_forgetting_waits_for_a_file_that_gets_its_name_and_leaves_nothing() -> None:
    """*Without it:* a group that begins here again finds a state of its life before."""
    host = Host()
    host.adopt(host.order(5))
    host.kept.adopt(A, host.copy(host.order(5)), lambda: None)
    receiving = host.kept.receive(A, Point(Position(30), FIRST, 3), len(STATE))
    assert receiving is not None
    receiving.write(STATE)
    forgotten: list[bool] = []
    host.kept.forget(A, lambda: forgotten.append(True))
    assert not forgotten
    host.run()
    assert forgotten
    assert host.kept.newest(A) is None
    assert not host.files
    receiving.abandon()  # as its learner does when it hears of it later
    assert host.log.tail(A).position == 0


def test_a_host_that_is_short_of_space_takes_no_large_state() -> None:
    """D5. A small one takes none of it."""
    host = Host()
    host.is_short = True
    point = host.order(5)
    assert host.kept.framing(A, point) is None
    assert host.kept.receive(A, point, LARGE + 1) is None
    host.receive(point, b"small")
    assert host.newest.position == 5


def test_a_small_state_that_was_received_is_not_replaced_by_an_older_one() -> None:
    """The state that the member captured itself in the meantime is older."""
    host = Host()
    host.receive(Point(Position(58), FIRST, 1), b"as of 58")
    host.kept.keep(A, Captured(Position(8), b"as of 8"))
    assert host.newest.position == 58
