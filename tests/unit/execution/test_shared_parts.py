"""Tests that a state which holds one mutable object at two places is refused (E9)."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from holdfast.execution.capture import Capture, NotCapturable
from holdfast.execution.shared_parts import is_mutable


@dataclass
class Account:
    balance: int = 0
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Fixed:
    name: str


class Struct(msgspec.Struct):
    value: int = 0


class Bank:
    by_id: dict[str, Account]
    vip: list[Account]
    fixed: list[Fixed]
    structs: tuple[Struct, ...]
    mixed: list[Any]
    other: Any

    def __init__(self) -> None:
        self.by_id = {"a": Account(), "b": Account()}
        self.vip = []
        self.fixed = []
        self.structs = ()
        self.mixed = []
        self.other = None


def check(bank: Bank) -> None:
    Capture(Bank).check(bank, Bank)
    pieces = Capture(Bank).pieces_of(bank, Bank)
    assert list(pieces)


def refusal(bank: Bank) -> str:
    with pytest.raises(NotCapturable) as refused:
        Capture(Bank).check(bank, Bank)
    with pytest.raises(NotCapturable, match="holds the same"):
        list(Capture(Bank).pieces_of(bank, Bank))
    return str(refused.value)


def test_an_object_at_two_places_is_named_with_both() -> None:
    bank = Bank()
    bank.vip.append(bank.by_id["a"])
    assert refusal(bank).startswith("Bank.vip[0] holds the same Account as Bank.by_id['a'], and two would")


def test_two_attributes_that_are_one_list() -> None:
    bank = Bank()
    bank.mixed = bank.other = [1]
    assert "Bank.other holds the same list as Bank.mixed" in refusal(bank)


def test_twice_in_one_list() -> None:
    bank = Bank()
    bank.vip = [Account()] * 2
    assert "Bank.vip[1] holds the same Account as Bank.vip[0]" in refusal(bank)


def test_below_parts_that_are_held_once() -> None:
    bank = Bank()
    bank.by_id["b"].tags = bank.by_id["a"].tags
    assert "Bank.by_id['b'].tags holds the same list as Bank.by_id['a'].tags" in refusal(bank)


def test_inside_tuples_and_beside_other_kinds() -> None:
    bank = Bank()
    bank.structs = (Struct(), Struct())
    check(bank)
    shared = {"x": 1}
    bank.mixed = [1, shared, "y"]
    bank.other = {"deep": [[shared]]}
    assert "Bank.other['deep'][0][0] holds the same dict as Bank.mixed[1]" in refusal(bank)


def test_what_cannot_be_changed_may_be_shared() -> None:
    bank = Bank()
    fixed, text = Fixed("x"), "a long text that is shared" * 10
    bank.fixed = [fixed, fixed]
    bank.mixed = [text, text, (1, 2), None, 2.5]
    bank.other = bank.mixed[2]
    with pytest.raises(NotCapturable, match="would come back"):
        check(bank)  # a tuple in a list of anything comes back as a list
    bank.mixed, bank.other = [text, text, None, 2.5], text
    check(bank)


def test_a_large_list_is_looked_at_as_a_whole() -> None:
    """It is read back in parts; what two of them share is found, and parts are not taken for one another."""
    bank = Bank()
    bank.other = [{"n": n} for n in range(200_000)]
    check(bank)
    bank.other[199_999] = bank.other[0]
    assert "Bank.other[199999] holds the same dict as Bank.other[0]" in refusal(bank)


def test_a_state_that_is_captured_again_is_no_second_place() -> None:
    bank, capture = Bank(), Capture(Bank)
    for _ in range(3):
        capture.check(bank, Bank)


@pytest.mark.parametrize(("kind", "can_be"), [(list, True), (Account, True), (Struct, True), (Fixed, False)])
def test_what_can_be_changed(kind: type, can_be: bool) -> None:
    assert is_mutable(kind) is can_be
    assert not is_mutable(tuple)
    assert not is_mutable(str)
