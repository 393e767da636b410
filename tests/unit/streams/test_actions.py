"""Answers to losses: put together, checked, and taken apart into steps (LOSS-62 to 64, 74)."""

import msgspec
import pytest

from holdfast.streams.actions import (
    BadAction,
    Deed,
    Drop,
    Either,
    Ignore,
    Recover,
    Step,
    Suspend,
    action_of,
    steps_of,
)


def test_alternatives_and_additions() -> None:
    rule = Ignore(topic="a")
    assert steps_of(Recover() | Suspend()) == (Step(Deed.RECOVER), Step(Deed.SUSPEND))
    assert steps_of(Drop() & rule) == steps_of(rule & Drop()) == (Step(Deed.DROP, (rule,)),)
    assert steps_of(rule) == (Step(Deed.DROP, (rule,)),)  # LOSS-74
    assert steps_of(Recover(within_ms=5) & rule | Drop()) == (
        Step(Deed.RECOVER, (rule,), 5),
        Step(Deed.DROP),
    )
    assert steps_of((Recover() | Drop()) & rule) == (Step(Deed.RECOVER, (rule,)), Step(Deed.DROP, (rule,)))
    assert steps_of(Suspend() | Drop()) == (Step(Deed.SUSPEND), Step(Deed.DROP))


@pytest.mark.parametrize(
    "action",
    [
        Drop() | Recover(),
        Drop() & Suspend(),
        Recover() & Drop(),
        Either(()),
        Ignore(for_s=1, for_messages=2),
        Ignore(for_s=1, until_sync=True),
        Either((Recover(),) * 9),
        Drop()
        & Ignore()
        & Ignore()
        & Ignore()
        & Ignore()
        & Ignore()
        & Ignore()
        & Ignore()
        & Ignore()
        & Ignore(),
    ],
)
def test_what_cannot_be_done_is_refused(action: Either) -> None:
    with pytest.raises(BadAction):
        steps_of(action)


def test_an_action_comes_back_as_it_was_returned() -> None:
    action = Recover(attempts=2) | (Drop() & Ignore(priority=(1, 2), for_s=2.5))
    plain = msgspec.msgpack.decode(msgspec.msgpack.encode(action))
    assert action_of(plain) == action


@pytest.mark.parametrize(
    "value",
    [
        None,
        "drop",
        3,
        {"type": "explode"},
        {"type": "ignore", "for_s": -1},
        {"type": "ignore", "topic": "x" * 999},
        {"type": "recover", "within_ms": 0},
    ],
)
def test_nonsense_is_no_action(value: object) -> None:
    with pytest.raises(BadAction):
        action_of(value)


def test_an_answer_nested_without_end_is_refused() -> None:
    action: object = {"type": "drop"}
    for _ in range(200):
        action = {"type": "either", "actions": [action]}
    with pytest.raises(BadAction):
        steps_of(action_of(action))
