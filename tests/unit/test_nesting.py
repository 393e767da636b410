"""What the caller is told of a nested call that finds no group (E3)."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from holdfast.authority.groups import NoSuchName
from holdfast.calling.config import ClientConfig
from holdfast.housing.nesting import Nesting
from holdfast.model.calls import Request
from holdfast.model.ids import ClientId, Position
from holdfast.model.outcome import Outcome, Refused, Unknown, decode_outcome
from holdfast.styles.effects import Outgoing


class Caller:
    """The calling group."""

    def __init__(self) -> None:
        self.told: list[Outcome] = []
        self.replica = self

    def on_nested_outcome(self, caller: Request, call: int, outcome: bytes) -> None:
        self.told.append(decode_outcome(outcome))

    def ask_turn(self) -> None:
        return None


@pytest.mark.parametrize(("may_have_left", "expected"), [(False, Refused), (True, Unknown)])
def test_a_group_that_is_gone_was_not_called_unless_an_earlier_copy_may_have_left(
    may_have_left: bool, expected: type[Outcome]
) -> None:
    """A makes the call, which is executed, and dies before it has the answer; the called group is removed; B
    makes the call again. To say "never run" would be a guess, and a wrong one."""
    recipes = SimpleNamespace(start=lambda _, then: then(NoSuchName("stock")))
    directory = SimpleNamespace(find=lambda name: None)
    nesting = Nesting(
        ClientId("h:1"),
        cast(Any, directory),
        cast(Any, None),
        cast(Any, recipes),
        cast(Any, None),
        lambda _: cast(Any, None),
        ClientConfig(),
    )
    caller = Caller()
    outgoing = Outgoing(
        Request(ClientId("c"), 7),
        1,
        "stock",
        "reserve",
        msgspec.Raw(b"\x90"),
        1000,
        ("shop",),
        Position(3),
        may_have_left,
    )
    nesting.call(cast(Any, caller), outgoing)
    assert [type(each) for each in caller.told] == [expected]
