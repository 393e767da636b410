"""What ``holdfast check`` finds by calling a class's methods: states that cannot be read back, and replays
that differ."""

import enum
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict

import msgspec
import pytest

import holdfast as hf
from holdfast.cli.check import exercised
from holdfast.execution.definition import Definition
from holdfast.sim.exercise import CannotMake, Exercised, Values, exercise


def tried(cls: Callable[..., Any], operations: int = 300, seed: int = 1) -> Exercised:
    assert isinstance(cls, type)
    return exercise(Definition("check", cls, cls), operations=operations, seed=seed)


# --- values


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Part:
    name: str
    colour: Colour = Colour.RED
    parts: list["Part"] = field(default_factory=list)


class Order(msgspec.Struct):
    item: str
    number: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1


class Row(TypedDict, total=False):
    amount: float


class Pair(NamedTuple):
    x: int
    y: str | None


AccountId = NewType("AccountId", str)
KINDS = [
    int, float, str, bytes, bool, None | int, datetime, Colour, Part, Order, Row, Pair, AccountId, Any,
    list[int], set[str], frozenset[int], dict[str, list[Part]], tuple[int, str], tuple[int, ...],
    Literal["a", 5], Annotated[int, msgspec.Meta(gt=2)], int | str | None,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_values_are_of_the_type_that_was_asked_for(kind: Any) -> None:
    values = Values(Random(3))
    for _ in range(50):
        value = values.of(kind)
        back = msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=kind)
        assert back == value or value != value or isinstance(value, dict | list | Part | Order)


def test_a_type_of_which_nothing_is_known_is_said() -> None:
    with pytest.raises(CannotMake, match="socket"):
        Values(Random(1)).of(socket.socket)


def test_what_an_object_returned_is_among_its_arguments() -> None:
    values = Values(Random(1))
    values.saw("account-77")
    assert "account-77" in [values.of(AccountId) for _ in range(30)]


# --- classes


@dataclass
class Job:
    name: str
    due: datetime | None = None


class Scheduler:
    """A class whose mistake shows only after a job was put off."""

    jobs: dict[str, Job]

    def __init__(self) -> None:
        self.jobs = {}

    def add(self, name: str) -> None:
        self.jobs[name] = Job(name)

    def put_off(self, name: str, seconds: float) -> None:
        self.jobs[name].due = hf.context.time() + seconds  # type: ignore[assignment]  # a float

    def drop(self, name: str) -> None:
        del self.jobs[name]

    @hf.query
    def count(self) -> int:
        return len(self.jobs)


def test_a_state_that_cannot_be_read_back_is_found_with_the_shortest_way_to_it() -> None:
    (found,) = tried(Scheduler).found
    assert found.kind == "state"
    assert found.what.startswith("Scheduler.jobs['")
    assert "].due: annotated datetime | None, holds float" in found.what
    assert [each.method for each in found.operations] == ["add", "put_off"]
    assert found.operations[0].arguments["name"] == found.operations[1].arguments["name"]


def test_the_same_seed_finds_the_same() -> None:
    assert tried(Scheduler, seed=5).found == tried(Scheduler, seed=5).found


class Well:
    """A class that uses one of everything, and does nothing wrong."""

    rows: dict[str, tuple[int, Colour]]
    jobs: list[Job]

    def __init__(self) -> None:
        self.rows = {}
        self.jobs = []

    def put(self, name: str, number: int, colour: Colour = Colour.RED) -> int:
        if number < 0:
            raise ValueError(name)
        self.rows[name] = (number, colour)
        return len(self.rows)

    def later(self, name: str) -> None:
        hf.context.call_later(5, self.put, name, 1, Colour.BLUE)

    async def ask(self, name: str) -> Any:
        found = await hf.context.group(name).get(name)
        self.jobs.append(Job(str(found)))
        return found

    @hf.query
    def get(self, name: str) -> int:
        return self.rows[name][0]


def test_nothing_is_found_in_a_class_that_is_well() -> None:
    result = tried(Well, 600)
    assert (result.found, result.not_made, result.is_finished) == ([], {}, True)
    assert result.operations == 600


class Sharing:
    """A class with two attributes that become one list: when read back they are two."""

    def __init__(self) -> None:
        self.all: list[int] = []
        self.latest: list[int] = []

    def add(self, number: int) -> int:
        self.latest = self.all
        self.latest.append(number)
        return len(self.all)


class Growing:
    """A class whose number outgrows what can be encoded, while queries are made."""

    def __init__(self) -> None:
        self.number = 1

    def grow(self) -> None:
        self.number = 1 << 70

    @hf.query
    def read(self) -> int:
        return self.number % 7


class Nesting:
    def __init__(self) -> None:
        self.held: list[list[int]] = []

    def nest(self) -> None:
        self.held.append(self.held)  # type: ignore[arg-type]  # the mistake

    @hf.query
    def read(self) -> int:
        return len(self.held)


class Guessing:
    def __init__(self) -> None:
        self.at = 0

    def mark(self) -> int:
        self.at = time.perf_counter_ns()
        return self.at


class Remembering:
    """A class whose state belongs to the class instead of the object."""

    shared: list[int] = []  # noqa: RUF012  # the mistake

    def add(self, number: int) -> int:
        self.shared.append(number)
        return len(self.shared)


class Asking:
    def __init__(self) -> None:
        self.asked = 0

    @hf.query
    def ask(self) -> int:
        self.asked += 1
        return self.asked


class Losing:
    """A class whose ``set_state`` forgets what was removed."""

    def __init__(self) -> None:
        self.held: list[int] = []
        self.gone: list[int] = []

    def add(self, number: int) -> None:
        self.held.append(number)

    def remove(self, number: int) -> None:
        self.held.remove(number)
        self.gone.append(number)

    def get_state(self) -> bytes:
        return msgspec.json.encode([self.held, self.gone])

    def set_state(self, state: bytes) -> None:
        self.held = msgspec.json.decode(state)[0]


@pytest.mark.parametrize(
    ("cls", "kind", "says", "operations"),
    [
        (Sharing, "state", "Sharing.latest holds the same list as Sharing.all", 1),
        (Growing, "state", "Growing.number", 1),
        (Nesting, "state", "Nesting.held", 1),
        (Guessing, "replay", "a replay of mark gives", 1),
        (Remembering, "replay", "a replay of add gives", 1),
        (Asking, "query", "ask is marked as a query and changes the state", 1),
        (Losing, "state", "Losing.set_state does not bring back", 2),
    ],
)
def test_other_mistakes_are_found(cls: type, kind: str, says: str, operations: int) -> None:
    found = tried(cls).found[0]
    assert found.kind == kind
    assert found.what.startswith(says)
    assert len(found.operations) == operations


class Odd:
    def send(self, through: Callable[[], None]) -> None:
        raise AssertionError("it is not called")

    def spin(self, times: int) -> None:
        while True:
            pass

    def add(self) -> None:
        pass


def test_what_cannot_be_called_is_said_and_what_never_ends_is_ended() -> None:
    result = exercised(Definition("check", Odd, Odd), operations=50, seed=1)
    assert list(result.not_made) == ["send"]
    assert "through" in result.not_made["send"]
    assert list(result.too_slow) == ["spin"]
    assert result.operations == 50
    assert result.found == []
