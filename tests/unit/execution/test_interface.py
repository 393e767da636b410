"""Which methods of a class are operations, and which calls of them are refused."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from holdfast.execution.interface import BadCall, Interface, query
from holdfast.styles.poison import in_words


class Point(msgspec.Struct):
    x: int
    y: int


@dataclass
class Box:
    corner: Point


class Base:
    def inherited(self) -> str:
        return "base"


class Ledger(Base):
    def deposit(self, account: str, amount: int = 1) -> int:
        return amount

    async def settle(self, *names: str, **amounts: int) -> None:
        return None

    def place(self, box: Box) -> None:
        return None

    def anything(self, value, other: "NotAName" = None):  # type: ignore[no-untyped-def,name-defined] # noqa: F821
        return value

    @query
    def balance(self, account: str) -> int:
        return 0

    def _hidden(self) -> None:
        return None

    def get_state(self) -> bytes:
        return b""

    @staticmethod
    def helper() -> None:
        return None

    limit = 5


interface = Interface(Ledger)


def arguments(method: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return dict(interface.operation(method).arguments(list(args), kwargs).arguments)


def test_public_methods_are_operations_and_marked_ones_are_queries() -> None:
    assert sorted(interface.operations) == ["anything", "balance", "deposit", "inherited", "place", "settle"]
    assert [name for name, each in interface.operations.items() if each.is_query] == ["balance"]
    assert [name for name, each in interface.operations.items() if each.is_async] == ["settle"]


@pytest.mark.parametrize("name", ["nothing", "_hidden", "__init__", "get_state", "helper", "limit", ""])
def test_what_is_not_an_operation_cannot_be_called(name: str) -> None:
    with pytest.raises(BadCall, match="Ledger"):
        interface.operation(name)


@pytest.mark.parametrize("method", ["deposit", "anything", "settle"])
@pytest.mark.parametrize(
    "raw", [b"\x91\xa1\xff", b"\x81\xa1\xff\x01", b"\x91" * 5_000 + b"\x01", b"\x91", b"\x07"]
)
def test_arguments_that_cannot_be_read_are_a_bad_call(method: str, raw: bytes) -> None:
    """Arguments reach every replica undecoded in the log. Each replica refuses text that is not UTF-8 and
    endless nesting to the caller, and none crashes."""
    with pytest.raises(BadCall, match=method):
        interface.operation(method).decoded(raw)


@pytest.mark.parametrize("raw", [b"\x91\xa1\xff", b"\x91" * 5_000 + b"\x01"])
def test_a_call_that_cannot_be_read_has_words_as_well(raw: bytes) -> None:
    assert in_words("deposit", msgspec.Raw(raw)) == "deposit('?')"


def test_an_unknown_method_is_told_which_there_are() -> None:
    with pytest.raises(BadCall, match="it has: anything, balance, deposit"):
        interface.operation("withdraw")


def test_arguments_are_taken_by_position_and_by_name() -> None:
    assert arguments("deposit", "alice", 5) == {"account": "alice", "amount": 5}
    assert arguments("deposit", amount=5, account="alice") == {"account": "alice", "amount": 5}
    assert arguments("settle", "a", "b", alice=1) == {"names": ("a", "b"), "amounts": {"alice": 1}}


@pytest.mark.parametrize(
    ("method", "args", "kwargs", "complaint"),
    [
        ("deposit", [], {}, "missing a required argument: 'account'"),
        ("deposit", ["alice", 1, 2], {}, "too many positional arguments"),
        ("deposit", ["alice"], {"sum": 1}, "unexpected keyword argument 'sum'"),
        ("deposit", ["alice", "five"], {}, "argument amount: Expected `int`, got `str`"),
        ("deposit", [7], {}, "argument account: Expected `str`, got `int`"),
        ("deposit", ["alice", True], {}, "argument amount"),
        ("settle", ["a", 7], {}, "argument names"),
        ("settle", [], {"alice": "much"}, "argument amounts"),
        ("place", [{"corner": {"x": 1}}], {}, "argument box: Object missing required field `y`"),
    ],
)
def test_arguments_that_do_not_fit_are_named(
    method: str, args: list[Any], kwargs: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(BadCall, match=complaint):
        arguments(method, *args, **kwargs)


def test_structs_and_dataclasses_are_built_from_what_travels() -> None:
    assert arguments("place", {"corner": {"x": 1, "y": 2}}) == {"box": Box(Point(1, 2))}


def test_what_is_not_annotated_or_cannot_be_resolved_is_not_checked() -> None:
    assert arguments("anything", {"any": ["thing"]}) == {"value": {"any": ["thing"]}}


class Picky(msgspec.Struct):
    """Rejects values with its own exceptions, which msgspec passes through."""

    name: str

    def __post_init__(self) -> None:
        raise LookupError(f"no {self.name} here")


class Takes:
    def one(self, picky: Picky) -> None:
        return None


@pytest.mark.parametrize("arguments", [[{"name": "x"}], {"picky": {"name": "x"}}])
def test_a_value_that_its_own_type_refuses_is_a_bad_call(arguments: object) -> None:
    """However a user's type rejects a value, the call is refused, and the member continues."""
    operation = Interface(Takes).operation("one")
    with pytest.raises(BadCall, match="no x here"):
        operation.decoded(msgspec.msgpack.encode(arguments))
