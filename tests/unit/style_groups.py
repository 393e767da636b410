"""Groups of a Spy in every style, and what tests of styles do with them."""

from typing import Any

import pytest
from fake_group import FakeGroup
from group_classes import B, Spy, call, definition, sent

from holdfast.execution.records import encode_arguments
from holdfast.model.calls import Request
from holdfast.model.errors import Unavailable
from holdfast.model.ids import SECOND
from holdfast.model.outcome import Outcome, Returned, decode_outcome
from holdfast.styles.config import StyleConfig

INTERVAL_NS = 10 * SECOND
CONFIG = StyleConfig(checkpoint_interval_ns=INTERVAL_NS, scan_positions=1, uncommitted_max=50)
PASSIVE = ("cold", "warm")
ALL = ("cold", "warm", "active")
CATCH_UP_NUMBER = 999_999
CATCH_UP_TURNS_MAX = 10_000


def group(style: str, cls: type = Spy, config: StyleConfig = CONFIG) -> FakeGroup:
    """A group at its beginning; nothing has run yet."""
    Spy.runs.clear()
    made = FakeGroup(style, definition(cls), config)
    made.clock.step_ns = 1000
    return made


def write(made: FakeGroup, *numbers: int, token: str = "t") -> None:
    made.replicas[made.primary].on_calls(token, sent(*(call(n, "write", f"line {n}") for n in numbers)))


def told(made: FakeGroup) -> list[tuple[Any, list[int], list[Outcome]]]:
    found = [
        (token, numbers, [decode_outcome(outcome) for outcome in outcomes])
        for token, numbers, outcomes in made.answers
    ]
    made.answers.clear()
    return found


def lines(made: FakeGroup, name: str) -> Any:
    found = made.replicas[name].on_stale_query(Request(B, 1), "read", encode_arguments((), {}))
    outcome = decode_outcome(found)
    assert isinstance(outcome, Returned)
    return outcome.value


def pass_interval(made: FakeGroup) -> None:
    made.clock.time_ns += INTERVAL_NS
    made.settle()


def catch_up(made: FakeGroup) -> int:
    """Turns until the new primary takes calls, each refused until then; how many."""
    successor = made.replicas[made.primary]
    turns = 0
    while not successor.is_ready:
        with pytest.raises(Unavailable):
            write(made, CATCH_UP_NUMBER)
        successor.turn()
        turns += 1
        assert turns < CATCH_UP_TURNS_MAX
    return turns
