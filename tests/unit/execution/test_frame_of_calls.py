"""The calls of one frame, taken in one loop: what is kept of each is what is kept of a call taken alone."""

from holdfast.execution.definition import Definition
from holdfast.execution.execution import Execution
from holdfast.execution.records import Call, Calls, Sent, Stamp, encode_arguments, encode_calls
from holdfast.model.csn import Csn
from holdfast.model.ids import ClientId, Position, ReplicaId

BEGUN_S = 1_000_000
CLIENT = ClientId("c")


class Counter:
    def __init__(self) -> None:
        self.value = 0

    def add(self) -> int:
        self.value += 1
        return self.value


def order(execution: Execution, at_s: int, *numbers: int, lasts_s: int = 60) -> list[bytes | None]:
    calls = [Call(each, "add", encode_arguments((), {}), BEGUN_S + lasts_s) for each in numbers]
    sent = Sent(CLIENT, 1, BEGUN_S + 1000, encode_calls(calls))
    stamp = Stamp(Csn(at_s, 1, ReplicaId(1)), 0)
    return execution.apply(Position(execution.position + 1), Calls(stamp, sent)).outcomes


def test_replies_are_forgotten_when_they_expire() -> None:
    """X2: otherwise the table grows for as long as its client lives."""
    execution = Execution(Definition("counter", Counter, Counter))
    order(execution, BEGUN_S, 1, 2, 3)
    assert len(execution.retention) == 3
    order(execution, BEGUN_S + 61, 4, lasts_s=200)
    assert len(execution.retention) == 1


def test_a_number_that_stands_twice_in_a_frame_is_executed_once() -> None:
    """X1: the repetition gets the first reply."""
    execution = Execution(Definition("counter", Counter, Counter))
    first, again, other = order(execution, BEGUN_S, 7, 7, 8)
    assert first == again != other
    assert order(execution, BEGUN_S, 8) == [other]
