"""What a trial of new code finds on a group's state (E7)."""

from typing import Any

import pytest
from test_old_code import GROUP, records

from holdfast.model.code import Code
from holdfast.model.ids import Position
from holdfast.node.trial import Trial, added, attributes, replayed, shape
from holdfast.styles.definition import Definition
from holdfast.styles.execution import Execution
from holdfast.styles.operation import Upgraded, decode_record

ONE, TWO = Code("1", "1" * 32), Code("2", "2" * 32)


class Counter:
    """As it was."""

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
    """After add(1) and add(2), by the old code."""
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


def test_attributes_that_are_new_changed_or_left_over_are_named(state: bytes) -> None:
    definition = defined(Doubling, TWO)
    execution = Execution.load(definition, state)
    assert list(shape(definition, execution.line.instance)) == [
        "the state has name, and a new object has not: it is kept as it is"
    ]
    before = attributes(definition, execution.line.instance)
    execution.apply(Position(4), Upgraded(ONE, TWO))
    assert list(added(before, attributes(definition, execution.line.instance))) == ["made is new"]


def test_an_attribute_of_another_type_is_named(state: bytes) -> None:
    class Texts(Counter):
        def __init__(self) -> None:
            self.count: Any = "0"
            self.name = "x"

    definition = defined(Texts, TWO)
    loaded = Execution.load(definition, state).line.instance
    assert list(shape(definition, loaded)) == ["count is of type int in the state, str in a new object"]


def test_what_the_new_code_would_have_made_of_the_last_calls_is_told(state: bytes) -> None:
    """And nothing, where it would have made the same."""
    last = list(records(ONE, "add 1", "add 2"))
    for cls, differs in ((Doubling, ["count"]), (Counter, [])):
        definition = defined(cls, TWO)
        loaded = attributes(definition, Execution.load(definition, state).line.instance)
        said = list(replayed(definition, ONE, trial(3), loaded, None, last))
        named = [each.partition(", ")[2].split()[0] for each in said]
        assert [name for name in named if name == "count"] == differs


def test_a_tail_that_does_not_reach_the_state_is_not_compared() -> None:
    last = list(records(ONE, "add 1", "add 2"))
    assert list(replayed(defined(Doubling, TWO), ONE, trial(9), {}, None, last)) == []
