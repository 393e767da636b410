"""Sets in what members compare byte by byte have one order, whatever process encodes them (E8)."""

import enum
import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar

import msgspec
import pytest

import holdfast as hf
from holdfast.execution.definition import Definition
from holdfast.execution.execution import Execution
from holdfast.execution.interface import Interface
from holdfast.execution.records import Call, Calls, Sent, Stamp, encode_arguments, encode_calls
from holdfast.model.calls import Request
from holdfast.model.csn import Csn
from holdfast.model.ids import ClientId, Position, ReplicaId
from holdfast.model.outcome import Returned, decode_outcome, encode_returned, encode_returned_in_order
from holdfast.model.set_order import DEPTH_MAX, TooDeep, in_order, may_hold_sets

BEGUN_S = 1_767_225_600
NAMES = [f"name {number}" for number in range(12)]


@dataclass
class Plain:
    name: str
    due: datetime | None = None
    parts: list["Plain"] = field(default_factory=list)


@dataclass
class Tagged:
    name: str
    tags: set[str]


class Order(msgspec.Struct, frozen=True, tag="order", omit_defaults=True):
    number: int
    tags: frozenset[str] = frozenset()


class Row(msgspec.Struct, array_like=True):
    number: int
    of: dict[str, list[int]] = {}


class Base(msgspec.Struct):
    number: int


class Derived(Base):
    tags: set[str] = set()


class Pair(NamedTuple):
    x: int
    y: Any


class Point(NamedTuple):
    x: int
    y: int | None


class Typed(TypedDict):
    names: list[str]


class TypedWithSet(TypedDict, total=False):
    names: set[str]


class Colour(enum.Enum):
    RED = "red"


class Group(enum.Enum):
    BOTH = frozenset({"red", "blue"})


T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    content: T


@dataclass
class Unresolved:
    of: "NotAName"  # type: ignore[name-defined]  # noqa: F821


AccountId = NewType("AccountId", str)
Tags = NewType("Tags", set)

HOLD_NONE = [
    int, str, None, bytes, bool, float, datetime, type(None), int | None, list[str], tuple[int, ...],
    tuple[int, str], dict[str, int], dict[str, list[dict[str, float | None]]], Plain, list[Plain], Row,
    Point, Typed, Colour, AccountId, Literal["a", 5], Annotated[int, msgspec.Meta(ge=0)],
    Sequence[int], Mapping[str, Plain],
]  # fmt: skip
MAY_HOLD = [
    Any, object, set, set[str], frozenset[int], list, dict, tuple, list[set[int]], dict[str, set[str]],
    dict[frozenset[str], int], tuple[int, set[int]], set[str] | None, Tagged, list[Tagged], Order, Base, Pair,
    TypedWithSet, Group, Box, Box[int], Box[set[int]], Unresolved, Tags, Annotated[set[int], "few"],
    Iterable[int], Collection[str], T, list[Any],
]  # fmt: skip


@pytest.mark.parametrize("annotation", HOLD_NONE, ids=str)
def test_an_annotation_that_can_hold_no_set_takes_the_plain_encoder(annotation: Any) -> None:
    assert not may_hold_sets(annotation)


@pytest.mark.parametrize("annotation", MAY_HOLD, ids=str)
def test_one_that_may_or_does_not_say_is_looked_through(annotation: Any) -> None:
    assert may_hold_sets(annotation)


class Shop:
    def count(self) -> int: ...  # type: ignore[empty-body]

    async def rows(self) -> dict[str, list[Plain]]: ...  # type: ignore[empty-body]

    def tagged(self) -> list[Tagged]: ...  # type: ignore[empty-body]

    def anything(self): ...  # type: ignore[no-untyped-def]


def test_it_is_decided_once_per_method() -> None:
    operations = Interface(Shop).operations
    assert operations["count"].encode is operations["rows"].encode is encode_returned
    assert operations["tagged"].encode is operations["anything"].encode is encode_returned_in_order


@pytest.mark.parametrize(
    ("method", "functions"),
    [("add", ["add", "leave"]), ("values", ["values", "encoded", "encode_returned", "leave"])],
)
def test_a_method_with_a_plain_annotation_makes_no_more_python_calls(
    method: str, functions: list[str]
) -> None:
    """From the call to its bytes there is the method alone if it returns a number or the like, and two more
    functions for a container; then the frame of calls is left."""
    made: list[str] = []
    execution = Execution(Definition("shop", Counter, Counter))
    run(execution, 1, method)

    def see(frame: Any, event: str, argument: object) -> None:
        if event == "call":
            made.append(frame.f_code.co_name)

    sys.setprofile(see)
    try:
        run(execution, 2, method)
    finally:
        sys.setprofile(None)
    assert made[made.index(method) :][: len(functions)] == functions
    assert "in_order" not in made


class Counter:
    def __init__(self) -> None:
        self.value = 0

    def add(self) -> int:
        self.value += 1
        return self.value

    def values(self) -> list[int]:
        return [self.value]


def bytes_of(value: object) -> bytes:
    return encode_returned_in_order(value)


NUMBERS = [number << 16 for number in range(6)]
"""Their hashes are the same in every process and collide, so a set has them in the order of insertion."""


@pytest.mark.parametrize(
    "made",
    [
        lambda tags: {"tags": tags},
        lambda tags: [1, [tags]],
        lambda tags: ("a", frozenset(tags)),
        lambda tags: Tagged("a", tags),
        lambda tags: {"b": [Order(1, frozenset(tags))], "a": 1},
        lambda tags: Box(Pair(1, {"x": tags})),
        lambda tags: {frozenset(tags): 1, "b": tags},
        lambda tags: {frozenset({each}) for each in tags},
        lambda tags: {(each, frozenset(tags)) for each in tags},
    ],
)
def test_a_set_has_one_order_wherever_it_stands(made: Any) -> None:
    one, two = {*NUMBERS}, {*reversed(NUMBERS)}
    assert list(one) != list(two)
    assert bytes_of(made(one)) == bytes_of(made(two))


@pytest.mark.parametrize(
    "made",
    [
        Tagged("a", {"x"}), Order(1, frozenset({"x"})), Order(2), Derived(1, {"y"}),
        {"z": {1}, "a": [2, None]}, Pair(1, {2}), [Colour.RED, {3}], {(1, frozenset({2})): {3}, (1, (2,)): 4},
        {str(number): {number} for number in range(20)}, {frozenset({number}): 1 for number in range(20)},
        {frozenset({number}): 1 for number in range(70_000)},
    ],
    ids=lambda each: str(each)[:40],
)  # fmt: skip
def test_nothing_else_changes_and_the_value_is_left_as_it_is(made: Any) -> None:
    """Sets of one item have only one order: the bytes are those that msgspec makes."""
    assert bytes_of(made) == msgspec.msgpack.encode((0, made))


def test_dictionaries_keep_their_order_and_what_holds_no_set_is_not_copied() -> None:
    rows = {"z": 1, "a": {"y": [1, 2], "b": Plain("x")}}
    assert in_order(rows) is rows
    found = in_order({"z": {2, 1}, "a": rows})
    assert list(found) == ["z", "a"]
    assert found["a"] is rows
    assert found["z"] == [1, 2]


def test_items_of_several_types_have_an_order_too() -> None:
    assert decode_outcome(bytes_of([{None, "a", 1}, {3, "b"}])) == Returned([[1, "a", None], [3, "b"]])


def test_what_has_no_end_is_refused() -> None:
    endless: list[Any] = [{1}]
    endless += [endless, endless]
    with pytest.raises(TooDeep, match=str(DEPTH_MAX)):
        in_order(endless)


# --- in two processes


class Tracker:
    names: set[str]

    def __init__(self) -> None:
        self.names = set(NAMES)

    def dictionary(self) -> dict[str, set[str]]:
        return {"z": self.names, "a": self.names}

    def sets(self) -> list[set[str]]:
        return [self.names, {name.upper() for name in self.names}]

    def tagged(self) -> Tagged:
        return Tagged("a", self.names)

    def order(self) -> Order:
        return Order(1, frozenset(self.names))

    def anything(self) -> Any:
        return {"in": [Box(self.names)], frozenset(self.names): 1}

    def whole(self) -> list[str]:
        return self.names  # type: ignore[return-value]  # a set, which travels as a list

    async def later(self) -> Any:
        return [self.names]

    def fails(self) -> None:
        raise KeyError(frozenset(self.names))

    def fails_too(self) -> None:
        raise ValueError("no such names", {"in": [self.names]})

    def sends(self) -> None:
        hf.context.send("audit").note(self.names, tags=[self.names])

    def sets_timer(self) -> None:
        hf.context.call_later(5, self.take, {"x": self.names})

    def take(self, names: Any) -> None: ...

    async def calls(self) -> None:
        await hf.context.group("audit").note({"x": self.names})


METHODS = [name for name in Interface(Tracker).operations if name != "take"]


def run(execution: Execution, number: int, method: str) -> bytes:
    """The outcome, if there is one, and everything that members compare."""
    call = Call(number, method, encode_arguments((), {}), BEGUN_S + 60)
    sent = Sent(ClientId("c"), number, BEGUN_S + 60, encode_calls([call]))
    stamp = Stamp(Csn(BEGUN_S, number, ReplicaId(1)), 0)
    effects = execution.apply(Position(execution.position + 1), Calls(stamp, sent))
    waits = execution.line.outgoing_of(Request(ClientId("c"), number))
    asked = bytes(waits.arguments) if waits is not None else b""
    return b"|".join(each or b"" for each in effects.outcomes) + asked


def main() -> None:
    """Print the result of each method here, and the digest of everything sent and set."""
    for method in METHODS:
        execution = Execution(Definition("tracker", Tracker, Tracker))
        print(method, run(execution, 1, method), execution.digest().hex())


def test_two_processes_with_other_hash_seeds_encode_the_same() -> None:
    def by(seed: str) -> list[str]:
        code = "import test_set_order; test_set_order.main()"
        here = str(Path(__file__).parent)
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=here,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout.splitlines()

    one, two = by("1"), by("2")
    assert one == two
    assert [line.split()[0] for line in one] == METHODS
    without_names = [line.split()[0] for line in one if NAMES[3] not in line]
    assert without_names == ["sends", "sets_timer"]  # these are in the digest
