"""Bugs planted in how slow methods are executed (E15)."""

from collections.abc import Callable
from typing import Any, Final

from holdfast.execution.queue import OperationQueue
from holdfast.execution.records import Call
from holdfast.execution.slow_run import SlowRun
from holdfast.model.ids import ClientId
from holdfast.sim.runner.planted import Planting
from holdfast.styles.slow_runs import SlowRuns

_start = OperationQueue.start


def _start_beside(line: OperationQueue, each: Call, client: ClientId, *more: Any) -> bytes | None:
    """Starts an operation although a slow one has started."""
    slow, line.slow = line.slow, None
    outcome = _start(line, each, client, *more)
    if slow is not None:
        line.slow = slow
    return outcome


def _take_any_result(runs: SlowRuns, slow: SlowRun, leave: Callable[[], None], outcome: bytes) -> None:
    """Takes a result for that of the object that is there by now, if the call is the same."""
    leave()
    now = runs.current()
    if now is not None and now.request == slow.request:
        now.is_begun, now.outcome = True, outcome
        runs._ports.again()


_bug: Final = Planting("groups", runs_max=100)

PLANTED = (
    _bug(
        "starts-beside-a-slow-one",
        "E15",
        "an operation starts while a slow one of its group runs",
        OperationQueue,
        "start",
        _start_beside,
    ),
    _bug(
        "late-result-of-a-slow-one",
        "E15",
        "the result of a slow method counts after its epoch was lost, and its object with it",
        SlowRuns,
        "_on_done",
        _take_any_result,
    ),
)
