"""A class changes while one of its slow methods has begun: the old code computes it (E7, E15)."""

import pytest
from fake_group import FakeGroup
from group_classes import call, sent
from style_groups import ALL

import holdfast as hf
from holdfast.execution.definition import Definition
from holdfast.execution.records import Ran, Upgraded, decode_record
from holdfast.model.code import Code
from holdfast.model.outcome import Returned, decode_outcome
from holdfast.styles.config import StyleConfig


class One:
    def __init__(self) -> None:
        self.value = 0

    @hf.slow
    def grind(self, by: int) -> int:
        self.value += by
        return self.value


class Two(One):
    @hf.slow
    def grind(self, by: int) -> int:
        self.value += 1000 * by
        return self.value


OLD = Definition("g", One, One, code=Code("1", "1" * 8))
NEW = Definition("g", Two, Two, code=Code("2", "2" * 8))


class Apart(FakeGroup):
    is_slow_apart = True


def settle(made: FakeGroup) -> None:
    """Run until nothing changes, with slow methods and with the processes of old code."""
    for _ in range(20):
        made.settle()
        for old in made.old_code.values():
            old.end()
        for slow in made.slow.values():
            slow.end()
    made.settle()


@pytest.mark.parametrize("style", ALL)
def test_the_old_code_computes_what_had_begun_and_the_new_one_goes_on(style: str) -> None:
    made = Apart(style, OLD, StyleConfig())
    for kept in made.kept_classes.values():
        kept += [OLD, NEW]
    made.clock.step_ns = 1000
    made.settle()
    made.replicas["a"].on_calls("t", sent(call(1, "grind", 1)))
    made.settle()
    assert made.slow["a"].begun == 1
    made.slow["a"].under_way.clear()  # its process ends with it
    for name in "bc":
        made.classes[name] = NEW
        made.crash(name)
        made.restart(name)
    made.classes["a"] = NEW
    made.fail_over("b", is_crash=True)
    made.restart("a")
    settle(made)
    assert made.replicas["b"].is_ready
    made.replicas["b"].on_calls("t", sent(call(1, "grind", 1), call(2, "grind", 1)))
    settle(made)
    found = {
        number: decode_outcome(outcome)
        for _, numbers, outcomes in made.answers
        for number, outcome in zip(numbers, outcomes, strict=True)
    }
    assert found == {1: Returned(1), 2: Returned(1001)}
    records = [decode_record(each.body) for each in made.final]
    first = next(index for index, each in enumerate(records) if isinstance(each, Ran))
    assert any(isinstance(each, Upgraded) for each in records[first:]), "the new code takes over after it"
    assert not made.faults
