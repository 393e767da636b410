"""Old records are executed again by the code that made them, and the outcomes are compared (E7, E8)."""

import pytest
from group_classes import call, sent, stamp

from holdfast.execution.definition import Definition
from holdfast.execution.execution import Execution
from holdfast.execution.records import Executed, Record, Upgraded, encode_record
from holdfast.model.code import UNKNOWN, Code
from holdfast.model.ids import Epoch, GroupId, Position
from holdfast.model.outcome import encode_returned
from holdfast.storage.record import Record as Stored
from holdfast.styles.code_change import continued
from holdfast.styles.divergence import Diverged

CODE = Code("1", "1" * 8)


class Counter:
    def __init__(self) -> None:
        self.value = 0

    def add(self) -> int:
        self.value += 1
        return self.value


COUNTER = Definition("g", Counter, Counter, code=CODE)


def answered(*values: int) -> list[Stored]:
    """The first records of a group: each call was answered with one of *values*."""
    records: list[Record] = [Upgraded(UNKNOWN, CODE)]
    for number, value in enumerate(values, 1):
        records.append(Executed(stamp(), sent(call(number, "add")), [encode_returned(value)]))
    return [
        Stored(GroupId(1), Epoch(1), Position(first), 1, 0, 0, encode_record(each))
        for first, each in enumerate(records, 1)
    ]


def test_what_was_answered_comes_out_again() -> None:
    found = continued(COUNTER, None, answered(1, 2, 3))
    assert isinstance(found, Execution)
    assert found.position == 4


def test_an_object_that_answers_otherwise_is_not_the_one_that_answered() -> None:
    """*Without it:* every member differs and the group waits for an operator; after an edit of the class a
    kept copy of the old code replays without comparison, and the group continues with a state that was never
    acknowledged."""
    with pytest.raises(Diverged, match="recorded"):
        continued(COUNTER, None, answered(1, 7))


def test_a_stand_in_that_a_person_asked_for_may_differ() -> None:
    found = continued(COUNTER, None, answered(1, 7), is_stand_in=True)
    assert isinstance(found, Execution)
