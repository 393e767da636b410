"""A primary keeps its log for members that catch up, within bounds, and for nobody else (M4)."""

from types import SimpleNamespace
from typing import Any

from holdfast.groups.backend import MemoryCheckpoints
from holdfast.model.ids import Epoch, GroupId, HostId, Position
from holdfast.sequence.config import SequenceConfig
from holdfast.sequence.log_hold import LogHold
from holdfast.sequence.memory_log import MemoryLog
from holdfast.sequence.ports import Captured
from holdfast.sim import Options, World
from holdfast.sim.engine.node import Life
from holdfast.storage.scratch import ScratchStore
from holdfast.styles.config import StyleConfig

GROUP = GroupId(1)
B, C = HostId("b"), HostId("c")
CONFIG = SequenceConfig(hold_ns=1000, hold_bytes=500)
BODY = bytes(10)


def _fail(error: Exception) -> None:
    raise error


class Primary:
    """A primary in memory that takes a checkpoint whenever the test says so."""

    def __init__(self) -> None:
        self.log = MemoryLog(lambda _: None)
        world = World(Options(scenario="log", seed=1))
        disk = world.add_node("a", lambda ports: None, supervised=False).disk.open("store", Life(), None)
        scratch = ScratchStore(disk, salt=1, on_failed=_fail)
        self.checkpoints = MemoryCheckpoints(self.log, lambda work: work(), scratch, large_bytes=1000)
        self.order(10)
        self.on: Any = SimpleNamespace(
            group=GROUP, now=0, config=CONFIG, store=self, ports=SimpleNamespace(checkpoints=self.checkpoints)
        )
        self.hold = LogHold(self.on)

    def order(self, records: int) -> None:
        for _ in range(records):
            self.log.append(GROUP, Epoch(1), BODY)

    def checkpoint(self) -> None:
        self.checkpoints.keep(GROUP, Captured(self.log.tail(GROUP).position, b"state"))

    @property
    def floor(self) -> Any:
        return self.log.floor(GROUP)

    def live_bytes(self) -> int:
        return self.log.live_bytes(GROUP)

    def point_at(self, position: Position) -> Any:
        return self.log.point_at(GROUP, position)

    def go_on(self) -> int:
        """Order and checkpoint more, and return where the log begins then."""
        self.order(5)
        self.checkpoint()
        return self.floor.position


def test_the_log_behind_a_state_on_offer_stays_until_the_learner_has_caught_up() -> None:
    made = Primary()
    made.hold.offered(B, Position(10))
    assert [made.go_on() for _ in range(3)] == [10, 10, 10]
    made.hold.acknowledged(B, Position(20))
    assert made.go_on() == 10, "what it says it holds may be older than what it acknowledged"
    made.hold.keep_only([])
    assert made.floor.position == 30


def test_it_is_kept_for_the_one_that_needs_most() -> None:
    made = Primary()
    made.hold.agreed(B, Position(4))
    made.hold.offered(C, Position(10))
    assert made.go_on() == 4
    made.hold.keep_only([C])
    assert made.floor.position == 10
    made.hold.end()
    assert made.floor.position == 15


def test_nothing_is_kept_for_a_learner_that_makes_no_progress() -> None:
    """Asking again and being offered again are no progress; the next chunk is."""
    made = Primary()
    made.hold.offered(B, Position(10))
    made.hold.fetched(B, 0)
    made.on.now = 900
    made.hold.fetched(B, 1)
    made.on.now = 1800
    made.hold.offered(B, Position(10))
    assert made.go_on() == 10
    made.on.now = 2000
    made.hold.fetched(B, 1)
    made.hold.offered(B, Position(10))
    made.hold.keep_only([B])
    assert made.floor.position == 15
    made.hold.offered(B, Position(15))
    assert made.go_on() == 20
    made.hold.offered(B, Position(20))
    made.hold.fetched(B, 0)
    assert made.go_on() == 20


def test_a_long_log_is_let_go_first_up_to_what_the_learner_has_and_then_altogether() -> None:
    made = Primary()
    made.hold.offered(B, Position(10))
    made.order(45)
    made.hold.acknowledged(B, Position(30))
    made.checkpoint()
    made.hold.keep_only([B])
    assert made.floor.position == 30
    made.order(40)
    made.hold.keep_only([B])
    made.checkpoint()
    made.hold.keep_only([B])
    assert made.floor.position == 95
    assert made.go_on() == 100, "what it lacks is gone: it is offered another state"
    made.hold.offered(B, Position(100))
    assert made.go_on() == 100


def test_an_acknowledgement_of_what_is_no_record_changes_nothing() -> None:
    made = Primary()
    made.hold.offered(B, Position(10))
    made.hold.acknowledged(B, Position(9_999))
    assert made.go_on() == 10


def test_no_call_is_refused_for_the_sake_of_a_learner() -> None:
    """D4: the log is let go before it is so long that checkpoints follow each other."""
    assert SequenceConfig().hold_bytes < StyleConfig().long_log_bytes
