"""A backup scans for steps; the records after a step count towards the next checkpoint, not the last."""

from collections.abc import Generator

from fake_group import FakeClock
from style_groups import group, lines, write

from holdfast.execution.records import Forward, encode_record
from holdfast.model.ids import MILLISECOND, SECOND, Epoch, GroupId, Position
from holdfast.storage.record import Record
from holdfast.styles.config import StyleConfig
from holdfast.styles.replay import StepScanner

STEP = encode_record(Forward())
CALLS = b"\x92\x00" + bytes(98)
"""Not a step: it has another tag."""


def record(position: int, body: bytes) -> Record:
    return Record(GroupId(1), Epoch(1), Position(position), 1, 0, 0, body)


def found(looking: Generator[None, None, Position]) -> Position:
    while True:
        try:
            next(looking)
        except StopIteration as end:
            return Position(end.value)


def test_a_record_counts_once_and_when_it_is_passed() -> None:
    grown: list[int] = []
    looking = StepScanner(StyleConfig(), FakeClock(), grown.append, lambda _: None)
    page = [record(1, CALLS), record(2, STEP), record(3, CALLS), record(4, STEP), record(5, CALLS)]
    assert found(looking.last_step([page])) == 4
    assert grown == []
    looking.passed(Position(2))
    assert grown == [len(CALLS) + len(STEP)]
    assert found(looking.last_step([page])) == 4  # the scan was stopped, and starts again
    looking.passed(Position(4))
    assert sum(grown) == 2 * (len(CALLS) + len(STEP))
    looking.took_steps()
    assert sum(grown) == 3 * len(CALLS) + 2 * len(STEP)
    assert looking.without_steps == 5


def test_where_there_is_no_step_everything_is_passed() -> None:
    grown: list[int] = []
    looking = StepScanner(StyleConfig(), FakeClock(), grown.append, lambda _: None)
    assert found(looking.last_step([[record(1, CALLS)], [record(2, CALLS)]])) == 0
    looking.took_steps()
    assert sum(grown) == 2 * len(CALLS)


def test_while_the_log_is_long_a_look_is_due_whatever_is_new() -> None:
    """D4: a full log is freed by a checkpoint, and no call makes the next scan due any more."""
    config, clock = StyleConfig(), FakeClock()
    clock.step_ns = 0
    looking = StepScanner(config, clock, lambda _: None, lambda _: None)
    looking.ended(Position(1), config.long_log_bytes)
    assert not looking.is_due(Position(2), config.long_log_bytes)
    clock.time_ns += SECOND
    assert not looking.is_due(Position(1), config.long_log_bytes)
    assert not looking.is_due(Position(2), config.long_log_bytes - 1)
    assert looking.is_due(Position(2), config.long_log_bytes)


def test_a_warm_backup_keeps_up_with_few_long_calls() -> None:
    """E5: what a backup has to replay when it takes over is counted in time, not in calls."""
    config = StyleConfig(checkpoint_interval_ns=10**6 * SECOND, sent_state_bytes_max=1)
    made = group("warm", config=config)
    made.clock.step_ns = 10 * MILLISECOND
    for number in range(1, 11):
        write(made, number)
        made.settle()
    assert made.members["b"].committed < config.scan_positions
    assert len(lines(made, "b")) >= 8
