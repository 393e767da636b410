"""What a trial of new code reports about a group's state (E7)."""

from typing import Any

import msgspec
import pytest
from old_counter import GROUP, records

import holdfast
from holdfast.app_code.trial_process import (
    Trial,
    Value,
    added,
    attributes,
    in_line,
    methods,
    replayed,
    shape,
)
from holdfast.execution.definition import Definition
from holdfast.execution.execution import Execution
from holdfast.execution.records import NestedReply, Stamp, Upgraded, decode_record
from holdfast.model.calls import Request
from holdfast.model.code import Code
from holdfast.model.csn import Csn
from holdfast.model.ids import ClientId, Position, ReplicaId
from holdfast.model.outcome import encode_returned

ONE, TWO = Code("1", "1" * 32), Code("2", "2" * 32)


class Counter:
    """The old code."""

    def __init__(self) -> None:
        self.count = 0
        self.name = "x"

    def add(self, by: int) -> int:
        self.count += by
        return self.count


class Doubling(Counter):
    """Adds twice as much, and has other attributes."""

    def __init__(self) -> None:
        self.count = 0
        self.made = 0

    def add(self, by: int) -> int:
        return super().add(2 * by)

    def upgraded(self, from_version: str) -> None:
        self.made = 7


def defined(cls: type, code: Code) -> Definition:
    return Definition(group="g", cls=cls, fresh=cls, code=code)


@pytest.fixture
def state() -> bytes:
    """The state after add(1) and add(2), by the old code."""
    execution = Execution(defined(Counter, ONE))
    for each in records(ONE, "add 1", "add 2"):
        execution.apply(each.first, decode_record(each.body))
    return execution.save()


def trial(position: int) -> Trial:
    return Trial(
        record=GROUP,
        app="",
        allowed=(),
        memory_bytes=0,
        position=Position(position),
        state_chunks=1,
        checkpoint_position=Position(0),
        checkpoint_chunks=0,
    )


class Renamed:
    """The same class with every name changed."""

    def __init__(self) -> None:
        self.total = 0
        self.name = "x"

    def increase(self, by: int) -> int:
        self.total += by
        return self.total

    def upgraded(self, from_version: str) -> None:
        self.total = self.count
        del self.count

    count: int


def upgraded(cls: type, state: bytes) -> tuple[Definition, Any, dict[str, Value], dict[str, Value]]:
    """The object after the upgrade, and its attributes before and after."""
    definition = defined(cls, TWO)
    execution = Execution.load(definition, state)
    before = attributes(definition, execution.line.instance)
    execution.apply(Position(4), Upgraded(ONE, TWO))
    return definition, execution.line.instance, before, attributes(definition, execution.line.instance)


def test_attributes_that_are_new_changed_or_left_over_are_named(state: bytes) -> None:
    definition, instance, before, after = upgraded(Doubling, state)
    assert list(shape(definition, instance)) == ["name stays as it is, though a new object has none"]
    assert list(added(before, after)) == ["made is new: 7"]


def test_values_that_change_are_shown_as_they_are_read(state: bytes) -> None:
    class Counting(Counter):
        def upgraded(self, from_version: str) -> None:
            self.count += 100

    _, _, before, after = upgraded(Counting, state)
    assert list(added(before, after)) == ["count is changed as the class is upgraded: 3 becomes 103"]


def test_what_is_renamed_is_told_once(state: bytes) -> None:
    """An attribute that the upgrade removes is not also reported as kept or as different, and calls of
    removed methods are not compared."""
    definition, instance, before, after = upgraded(Renamed, state)
    assert list(added(before, after)) == [
        "total is new: 3",
        "count is removed as the class is upgraded: 3",
    ]
    assert list(shape(definition, instance)) == []
    kept = {name: each for name, each in after.items() if name in before}
    last = list(records(ONE, "add 1", "add 2"))
    assert list(replayed(definition, ONE, trial(3), kept, None, last)) == [
        "the calls since the beginning cannot be compared: Renamed has no add"
    ]
    assert list(methods(definition, ["add", "increase"])) == [
        "add is no method of Renamed any more: calls of it are refused"
    ]


def test_an_attribute_of_another_type_is_named(state: bytes) -> None:
    class Texts(Counter):
        def __init__(self) -> None:
            self.count: Any = "0"
            self.name = "x"

    definition = defined(Texts, TWO)
    loaded = Execution.load(definition, state).line.instance
    assert list(shape(definition, loaded)) == ["count is of type int, and str in a new object"]


def test_what_the_new_code_would_have_made_of_the_last_calls_is_told(state: bytes) -> None:
    """Nothing is reported when the new code would have made the same."""
    last = list(records(ONE, "add 1", "add 2"))
    would = "had the new code executed the calls since the beginning, count would be 6; it stays 3"
    for cls, differs in ((Doubling, [would]), (Counter, [])):
        definition, _, before, after = upgraded(cls, state)
        kept = {name: each for name, each in after.items() if name in before}
        assert list(replayed(definition, ONE, trial(3), kept, None, last)) == differs


def test_calls_since_a_checkpoint_are_executed_on_a_state_that_is_upgraded() -> None:
    """*Without it:* what the upgrade would have set is missing, every call fails, and everything would be
    reported as different."""

    class Counting(Counter):
        made: int

        def add(self, by: int) -> int:
            self.made += 1
            return super().add(by)

        def upgraded(self, from_version: str) -> None:
            self.made = 0

    first, second, third = records(ONE, "add 1", "add 2")
    execution = Execution(defined(Counter, ONE))
    for each in (first, second):
        execution.apply(each.first, decode_record(each.body))
    checkpoint = execution.save()
    execution.apply(third.first, decode_record(third.body))
    definition, _, before, after = upgraded(Counting, execution.save())
    kept = {name: each for name, each in after.items() if name in before}
    wanted = msgspec.structs.replace(trial(3), checkpoint_position=Position(2))
    assert list(replayed(definition, ONE, wanted, kept, checkpoint, [third])) == []


def test_a_tail_that_does_not_reach_the_state_is_not_compared() -> None:
    last = list(records(ONE, "add 1", "add 2"))
    assert list(replayed(defined(Doubling, TWO), ONE, trial(9), {}, None, last)) == []


class Asking(Counter):
    """Each call waits for another group."""

    async def ask(self) -> int:
        self.count += await holdfast.context.group("other").total()
        return self.count


class AskingMore(Asking):
    """New code that takes the state of `Asking` over."""

    def upgraded(self, from_version: str) -> None:
        self.count += 100


def busy_state() -> bytes:
    """The state between two calls of a busy group: the first has ended, the second stands in line."""
    execution = Execution(defined(Asking, ONE))
    saved: list[bytes] = []
    for each in records(ONE, "ask", "ask"):
        execution.apply(each.first, decode_record(each.body))
    waits = execution.outgoing()
    assert waits is not None
    execution.when_at_rest(lambda: saved.append(execution.save()))
    stamp = Stamp(Csn(2_000, 0, ReplicaId(1), 0))
    answer = encode_returned(5)
    caller = Request(ClientId("c"), 2)
    execution.apply(Position(4), NestedReply(stamp, *caller, waits.call, answer))
    return saved[0]


def test_new_code_is_tried_on_the_state_before_calls_that_wait_in_line() -> None:
    """*Without it:* a group that waits for another whenever it is looked at could not be upgraded."""
    definition = defined(AskingMore, TWO)
    execution = Execution.load(definition, busy_state())
    assert in_line(execution) == ["tried on the state at position 4, before 1 call that waits in line there"]
    execution.apply(Position(5), Upgraded(ONE, TWO))
    assert execution.line.instance.count == 105
    assert in_line(execution) == []


def test_calls_that_wait_for_another_group_are_not_compared_and_that_is_told() -> None:
    last = list(records(ONE, "add 1", "ask"))
    assert list(replayed(defined(AskingMore, TWO), ONE, trial(3), {}, None, last)) == [
        "the calls since the beginning cannot be compared: "
        "one of them waits for another group or for its own end"
    ]
