"""Logging and recovery by the checklist: what a complete log contains, and what a successor takes from it."""

from typing import Any

import msgspec
import pytest
from fake_group import FakeGroup
from group_classes import A, B, call, definition, sent

import holdfast as hf
from holdfast.execution.records import Executed, Request, Update, decode_record, encode_arguments
from holdfast.model.ids import SECOND
from holdfast.model.outcome import Returned, decode_outcome
from holdfast.styles.config import StyleConfig

INTERVAL_NS = 10 * SECOND
CONFIG = StyleConfig(checkpoint_interval_ns=INTERVAL_NS, scan_positions=1)
STEPPING = StyleConfig(checkpoint_interval_ns=INTERVAL_NS, replay_budget_ns=1, scan_positions=1)
"""Every call is followed by an update."""
LARGE = StyleConfig(checkpoint_interval_ns=INTERVAL_NS, scan_positions=1, inline_state_bytes_max=100)
ALL = ("cold", "warm", "active")

done: list[str] = []
"""What any object of the class below did, on any member."""


class Journal:
    """Keeps lines in the order they came, and reports what changed since it was last asked, unless told not
    to."""

    is_mute = False

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._told = 0

    def write(self, line: str) -> int:
        done.append(f"write {line}")
        self.lines.append(line)
        return len(self.lines)

    def get_state(self) -> bytes:
        if Journal.is_mute:
            raise hf.NoStateAvailable("not now")
        self._told = len(self.lines)
        return msgspec.msgpack.encode(self.lines)

    def set_state(self, state: bytes) -> None:
        done.append("set_state")
        self.lines = msgspec.msgpack.decode(state)

    def get_update(self) -> bytes:
        if Journal.is_mute:
            raise hf.NoUpdateAvailable("not now")
        told, self._told = self._told, len(self.lines)
        return msgspec.msgpack.encode(self.lines[told:])

    def set_update(self, update: bytes) -> None:
        if update == b"spoilt":
            raise hf.InvalidUpdate("spoilt")
        done.append("set_update")
        self.lines += msgspec.msgpack.decode(update)


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    done.clear()
    Journal.is_mute = False
    yield
    Journal.is_mute = False


def group(style: str, config: StyleConfig = CONFIG) -> FakeGroup:
    made = FakeGroup(style, definition(Journal), config)
    made.clock.step_ns = 1000
    return made


def write(made: FakeGroup, *numbers: int, client: Any = A) -> None:
    made.replicas[made.primary].on_calls(
        "t", sent(*(call(number, "write", f"{client}{number}") for number in numbers), client=client)
    )


def lines(made: FakeGroup, name: str) -> list[str]:
    execution = made.replicas[name].execution
    assert execution is not None
    journal = execution.line.instance
    assert isinstance(journal, Journal)
    return journal.lines


@pytest.mark.covers("FTC-290")
@pytest.mark.parametrize("style", ALL)
def test_a_successor_has_everything_in_the_order_in_which_it_came(style: str) -> None:
    """The calls of two clients are interleaved; their order is that of the log, before and after a
    failover."""
    made = group(style)
    for number in (1, 2, 3):
        write(made, number, client=B)
        write(made, number, client=A)
    made.settle()
    came = ["b1", "a1", "b2", "a2", "b3", "a3"]
    assert lines(made, "a") == came
    made.fail_over("c", is_crash=True)
    assert lines(made, "c") == came


@pytest.mark.covers("FTC-297")
def test_recovery_takes_the_newest_state_then_later_updates_then_later_calls() -> None:
    """A member that starts from its disk alone applies each part once, in that order, and nothing earlier."""
    made = group("cold", STEPPING)
    write(made, 1)
    made.settle()
    made.clock.time_ns += INTERVAL_NS
    made.settle()
    assert made.members["b"].floor >= 1, "call 1 is in a state, and its record is gone"
    write(made, 2)
    made.settle()
    made.clock.time_ns += INTERVAL_NS
    made.settle()
    write(made, 3)
    made.settle()
    done.clear()
    made.fail_over("b", is_crash=True)
    assert lines(made, "b") == ["a1", "a2", "a3"]
    assert done[0] == "set_state"
    assert done.count("set_state") == 1, "earlier states are ignored"
    assert done[1:] == ["write a3"]


@pytest.mark.covers("FTC-291")
@pytest.mark.parametrize("style", ALL)
def test_a_state_stands_where_it_was_asked_for_however_late_it_comes(style: str) -> None:
    """A copy of the process writes the state while calls continue: their effects come after it, and are
    replayed."""
    made = group(style, LARGE)
    write(made, *range(1, 31))
    made.settle()
    before = made.members["a"].committed
    made.clock.time_ns += INTERVAL_NS
    made.settle()
    asked_by = made.members["a"].committed
    write(made, 31, 32)
    made.settle()
    assert made.members["a"].checkpoint is None, "it has not come yet"
    made.copies["a"].end()
    checkpoint = made.members["a"].checkpoint
    assert checkpoint is not None
    assert before <= checkpoint.position <= asked_by < made.members["a"].committed
    assert (b"a30" in checkpoint.state, b"a31" in checkpoint.state) == (True, False)
    made.fail_over("b", is_crash=True)
    made.restart("a")
    made.settle()
    made.fail_over("a", is_crash=True)
    made.settle()
    assert lines(made, "a") == [f"a{number}" for number in range(1, 33)]


@pytest.mark.covers("FTC-291")
def test_an_update_stands_where_it_was_asked_for() -> None:
    """Calls before and after the update are on the correct side of it in the log of every member."""
    made = group("warm", STEPPING)
    write(made, 1)
    made.settle()
    write(made, 2)
    made.replicas["a"].turn()
    write(made, 3)
    made.settle()
    for name in "bc":
        kinds = [type(decode_record(record.body)) for record in made.members[name].log]
        assert kinds[-4:] == [Executed, Update, Executed, Update]
        assert lines(made, name) == ["a1", "a2", "a3"]


@pytest.mark.covers("FTC-292", "FTC-298")
def test_an_update_that_was_asked_for_and_not_given_changes_nothing() -> None:
    """An update that was not returned is no update: backups replay the calls, and the next complete update
    starts after them."""
    made = group("warm", STEPPING)
    write(made, 1)
    made.settle()
    Journal.is_mute = True
    done.clear()
    write(made, 2)
    made.settle()
    assert done == ["write a2"] * 3, "by every member, from the log"
    Journal.is_mute = False
    for number in (3, 4):
        write(made, number)
        made.settle()
    for name in "abc":
        assert lines(made, name) == ["a1", "a2", "a3", "a4"]
    assert not made.faults


@pytest.mark.covers("FTC-305")
def test_an_update_that_is_refused_counts_as_a_failed_object() -> None:
    """InvalidUpdate: that member loses its object, reports it, and recovers with a state."""
    made = group("warm", STEPPING)
    write(made, 1)
    made.settle()
    execution = made.replicas["a"].execution
    assert execution is not None
    journal = execution.line.instance
    journal.get_update = lambda: b"spoilt"  # type: ignore[attr-defined]  # one object gives a bad one
    write(made, 2)
    made.settle()
    assert {(name, kind) for name, kind, _ in made.faults} == {("b", "object_failed"), ("c", "object_failed")}
    assert made.replicas["b"].execution is None


@pytest.mark.covers("FTC-285")
@pytest.mark.parametrize("style", ALL)
def test_a_class_that_knows_nothing_of_logging_is_recovered_all_the_same(style: str) -> None:
    """The application implements no logging or recovery interface: an ordinary class has none of them."""
    made = FakeGroup(style, definition(Plain), CONFIG)
    made.clock.step_ns = 1000
    made.replicas["a"].on_calls("t", sent(call(1, "put", "x"), call(2, "put", "y")))
    made.settle()
    made.clock.time_ns += INTERVAL_NS
    made.settle()
    made.replicas["a"].on_calls("t", sent(call(3, "put", "z")))
    made.settle()
    made.fail_over("b", is_crash=True)
    found = made.replicas["b"].on_stale_query(Request(B, 1), "all", encode_arguments((), {}))
    assert decode_outcome(found) == Returned(["x", "y", "z"])


class Plain:
    """An ordinary class, as its author wrote it."""

    def __init__(self) -> None:
        self.things: list[str] = []

    def put(self, thing: str) -> None:
        self.things.append(thing)

    @hf.query
    def all(self) -> list[str]:
        return list(self.things)


def with_large_checkpoints(style: str, cls: type = Plain) -> FakeGroup:
    made = FakeGroup(style, definition(cls), LARGE)
    made.replicas["a"].on_calls("t", sent(call(1, "put", "x" * 2 * LARGE.inline_state_bytes_max)))
    made.settle()
    made.clock.time_ns += INTERVAL_NS
    made.replicas["a"].on_calls("t", sent(call(2, "put", "y")))
    made.settle()
    for copies in made.copies.values():
        copies.end()
    made.settle()
    assert made.members["b"].checkpoint is not None
    return made


@pytest.mark.parametrize("style", ALL)
def test_a_large_state_is_loaded_before_it_is_needed(style: str) -> None:
    """A restarted member reports that it has much to load, until it has loaded it; a warm one loads without
    being called. A cold one is never nearer than the others."""
    made = with_large_checkpoints(style)
    made.crash("b")
    made.restart("b")
    assert made.replicas["b"].is_near() is (style == "cold")
    made.wake()
    assert made.replicas["b"].is_near()
    assert (made.replicas["b"].execution is None) is (style == "cold")


class Giving(Plain):
    refuses = False

    def get_state(self) -> bytes:
        return "/".join(self.things).encode()

    def set_state(self, state: bytes) -> None:
        if self.refuses:
            raise ImportError("a library is missing")
        self.things = state.decode().split("/") if state else []


def test_a_large_state_that_cannot_be_loaded_costs_the_object_and_not_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other groups of its host must continue to be served (FTC-310)."""
    made = with_large_checkpoints("warm", Giving)
    monkeypatch.setattr(Giving, "refuses", True)
    made.crash("b")
    made.restart("b")
    made.wake()
    assert [(name, kind) for name, kind, _ in made.faults] == [("b", "object_failed")]
    assert not made.replicas["b"].is_near(), "it leaves claims to others"


def test_a_small_state_is_not_loaded_before_it_is_needed() -> None:
    """A host that starts with thousands of idle groups does not make their objects."""
    made = FakeGroup("warm", definition(Plain), CONFIG)
    made.replicas["a"].on_calls("t", sent(call(1, "put", "x")))
    made.settle()
    made.clock.time_ns += INTERVAL_NS
    made.replicas["a"].on_calls("t", sent(call(2, "put", "y")))
    made.settle()
    assert made.members["b"].checkpoint is not None
    made.crash("b")
    made.restart("b")
    made.wake()
    assert made.replicas["b"].execution is None
    assert made.replicas["b"].is_near()
