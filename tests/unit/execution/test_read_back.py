"""No state becomes a checkpoint unless it was read back and compared (E9)."""

import enum
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from functools import cached_property
from typing import Any, NamedTuple, TypedDict

import msgspec
import pytest
from fake_group import FakeGroup
from group_classes import call, definition, run, sent
from style_groups import ALL, CONFIG, INTERVAL_NS, PASSIVE, told

import holdfast as hf
from holdfast.execution.capture import Capture, NotCapturable
from holdfast.execution.execution import Execution
from holdfast.model.errors import Overloaded
from holdfast.model.ids import SECOND
from holdfast.model.outcome import Returned
from holdfast.styles.config import StyleConfig

LARGE = msgspec.structs.replace(CONFIG, inline_state_bytes_max=1)


# --- what is reported about one value


class Colour(enum.IntEnum):
    RED = 1


@dataclass
class Job:
    due: datetime | None = None
    tags: list[str] = field(default_factory=list)
    parent: "Job | None" = None

    @cached_property
    def length(self) -> int:
        return len(self.tags)


class Point(NamedTuple):
    x: int
    y: int


class Entry(TypedDict):
    amount: int


class Normalising(msgspec.Struct):
    name: str

    def __post_init__(self) -> None:
        self.name = self.name.lower()


class Held:
    jobs: dict[str, Job]
    rows: list[tuple[int, str]]
    flags: set[int]
    entry: Entry
    one: Job | int | None
    at: datetime
    point: Point
    named: Normalising


def held(**attributes: object) -> Held:
    instance = Held()
    vars(instance).update(attributes)
    return instance


def with_more() -> Job:
    job = Job()
    job.more = 1  # type: ignore[attr-defined]  # the mistake
    return job


def seen(job: Job) -> Job:
    assert job.length == len(job.tags)
    return job


BERLIN = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        (
            {"jobs": {"a": Job(due=12.5)}},  # type: ignore[arg-type]
            "Held.jobs['a'].due: annotated datetime | None, holds float 12.5",
        ),
        (
            {"jobs": {"a": Job(parent=Job(tags=["x", 5]))}},  # type: ignore[list-item]
            "Held.jobs['a'].parent.tags[1]: annotated str, holds int 5",
        ),
        ({"jobs": {7: Job()}}, "Held.jobs key 7: annotated str, holds int 7"),
        ({"rows": [(1, "a"), (2, 3)]}, "Held.rows[1][1]: annotated str, holds int 3"),
        ({"rows": [(n, "x") for n in range(300)] + [(1, None)]}, "Held.rows[300][1]: annotated str, holds"),
        ({"rows": [(n, "x" * 99) for n in range(9000)] + [(1, b"")]}, "Held.rows[9000][1]: annotated str"),
        ({"entry": {"amount": "much"}}, "Held.entry['amount']: annotated int, holds str 'much'"),
        ({"one": Job(tags=[b"raw"])}, "Held.one.tags[0]: annotated str, holds bytes b'raw'"),  # type: ignore[list-item]
        ({"one": Point(1, 2)}, "Held.one: annotated Job | int | None, holds Point"),
        ({"point": Point(1, "2")}, "Held.point.y: annotated int, holds str '2'"),  # type: ignore[arg-type]
        ({"flags": {Colour.RED}}, "Held.flags member <Colour.RED: 1> holds Colour <Colour.RED: 1> and would"),
        ({"anything": [1, (2, 3)]}, "Held.anything[1] holds tuple (2, 3) and would come back as list [2, 3]"),
        ({"anything": {"a": Colour.RED}}, "Held.anything['a'] holds Colour <Colour.RED: 1> and would"),
        ({"anything": defaultdict(int, a=1)}, "Held.anything holds defaultdict"),
        ({"anything": Job()}, "Held.anything holds Job"),
        ({"at": datetime(2026, 1, 1, 12, tzinfo=BERLIN)}, "Held.at holds datetime"),
        ({"named": msgspec.convert({"name": "x"}, Normalising)}, ""),
        ({"one": with_more()}, "Held.one.more holds int 1 and would come back as None"),
        ({"anything": {"a": {"b": object()}}}, "Held.anything['a']['b'] cannot be captured"),
        ({"anything": "\ud800"}, "Held.anything cannot be captured"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_in_pieces", [False, True])
def test_what_would_not_come_back_is_named_by_its_place(
    attributes: dict[str, object], says: str, is_in_pieces: bool
) -> None:
    capture, instance = Capture(Held), held(**attributes)

    def take() -> None:
        list(capture.pieces_of(instance, Held)) if is_in_pieces else capture.state_of(instance, Held)

    if not says:
        take()
        return
    with pytest.raises(NotCapturable) as raised:
        take()
    assert str(raised.value).startswith(says)


def test_a_value_that_a_type_changes_as_it_is_read_is_refused() -> None:
    loud = Normalising("x")
    loud.name = "LOUD"
    with pytest.raises(NotCapturable, match=r"Held\.named\.name holds str 'LOUD' and would come back as str"):
        Capture(Held).state_of(held(named=loud), Held)


@pytest.mark.parametrize(
    "attributes",
    [
        {"anything": [float("nan"), -0.0, float("inf"), True, 1, None, "x", b"y", {1: {}}, {"a": []}]},
        {"jobs": {str(n): Job(datetime.now(UTC) if n % 2 else None, ["t"], Job()) for n in range(300)}},
        {"at": datetime(2026, 1, 1)},
        {"one": seen(Job())},
        {"flags": {1, 2, 3}, "point": Point(1, 2), "entry": {"amount": 1}},
    ],
)
def test_what_comes_back_as_it_went_is_taken(attributes: dict[str, object]) -> None:
    capture, instance = Capture(Held), held(**attributes)
    capture.state_of(instance, Held)
    list(capture.pieces_of(instance, Held))


class Private:
    __slots__ = ("__hidden", "shown")

    def __init__(self) -> None:
        self.__hidden = [1]
        self.shown = 2

    def hidden(self) -> list[int]:
        return self.__hidden


def test_a_private_slot_is_part_of_the_state() -> None:
    capture, instance = Capture(Private), Private()
    instance.hidden().append(5)
    assert capture.restored(capture.state_of(instance), Private).hidden() == [1, 5]


# --- classes that encode their state themselves


class Own:
    """Holds names whose order does not matter, and encodes them in whatever order it has them."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.handle = object()

    def get_state(self) -> bytes:
        return "/".join(self.names).encode()

    def set_state(self, state: bytes) -> None:
        self.names = state.decode().split("/")[::-1] if state else []


class Forgetting(Own):
    def set_state(self, state: bytes) -> None:
        self.names = state.decode().split("/")[:1]


class Timed(Own):
    count = 0

    def get_state(self) -> bytes:
        Timed.count += 1
        return super().get_state() + b"@%d" % Timed.count

    def set_state(self, state: bytes) -> None:
        super().set_state(state.partition(b"@")[0])


class Listed(list[int]):
    """Its state is more than its attributes, which are equal and so prove nothing."""

    def get_state(self) -> bytes:
        return bytes(self)

    def set_state(self, state: bytes) -> None:
        pass


def with_names(cls: type[Own]) -> Own:
    made = cls()
    made.names = [f"name {number}" for number in range(40)]
    return made


@pytest.mark.parametrize("cls", [Own, Timed])
def test_a_state_in_another_order_is_the_same_and_one_that_never_is_the_same_is_taken(cls: type[Own]) -> None:
    Capture(cls).state_of(with_names(cls), cls)


def test_a_state_of_the_classs_own_that_does_not_come_back_is_refused() -> None:
    with pytest.raises(NotCapturable, match=r"Forgetting\.set_state does not bring back"):
        Capture(Forgetting).state_of(with_names(Forgetting), Forgetting)
    with pytest.raises(NotCapturable, match=r"Listed\.set_state does not bring back"):
        Capture(Listed).state_of(Listed([1, 2]), Listed)


# --- what belongs to the object


class Clocked:
    def __init__(self) -> None:
        self.rung = 0

    def later(self) -> None:
        hf.context.call_later(1, self.ring, 3)

    def ring(self, times: int) -> None:
        self.rung += times


def test_a_timer_whose_method_is_gone_is_no_part_of_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    execution = Execution(definition(Clocked))
    run(execution, call(1, "later"))
    execution.save()
    list(execution.pieces())
    monkeypatch.delitem(execution.definition.interface.operations, "ring")
    for take in (execution.save, lambda: list(execution.pieces())):
        with pytest.raises(NotCapturable, match=r"timer 1 calls .* no method 'ring'"):
            take()


# --- groups


@dataclass
class Task:
    due: datetime | None = None


class Scheduler:
    """A field annotated ``datetime | None`` holds a float."""

    tasks: dict[str, Task]

    def __init__(self) -> None:
        self.tasks = {}

    def spoil(self, name: str) -> int:
        self.tasks[name] = Task(due=12.5)  # type: ignore[arg-type]  # the mistake
        return len(self.tasks)

    def mend(self) -> int:
        for task in self.tasks.values():
            task.due = None
        return len(self.tasks)

    def add(self, name: str) -> int:
        self.tasks[name] = Task()
        return len(self.tasks)


class Refusing:
    """Its ``set_state`` rejects what ``get_state`` returns."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def spoil(self, name: str) -> int:
        return self.add(f"!{name}")

    def mend(self) -> int:
        self.names = [name.removeprefix("!") for name in self.names]
        return len(self.names)

    def add(self, name: str) -> int:
        self.names.append(name)
        return len(self.names)

    def get_state(self) -> bytes:
        return msgspec.json.encode(self.names)

    def set_state(self, state: bytes) -> None:
        names = msgspec.json.decode(state, type=list[str])
        if any(name.startswith("!") for name in names):
            raise ValueError("names begin with a letter")
        self.names = names


class Changing:
    """Its decoded state is another value: pairs come back as lists."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def spoil(self, name: str) -> int:
        self.rows.append((name, 1))
        return len(self.rows)

    def mend(self) -> int:
        self.rows = [row if isinstance(row, str) else row[0] for row in self.rows]
        return len(self.rows)

    def add(self, name: str) -> int:
        self.rows.append(name)
        return len(self.rows)


KINDS = {
    Scheduler: "Scheduler.tasks['x'].due: annotated datetime | None, holds float 12.5",
    Refusing: "Refusing.set_state does not take what Refusing.get_state gave: ValueError: names begin",
    Changing: "Changing.rows[1] holds tuple ('x', 1) and would come back as list ['x', 1]",
}


def do(made: FakeGroup, number: int, method: str, *args: object) -> Any:
    made.answers.clear()
    made.replicas[made.primary].on_calls("t", sent(call(number, method, *args)))
    made.settle()
    ((_, _, outcomes),) = told(made)
    assert isinstance(outcomes[0], Returned)
    return outcomes[0].value


def capture_now(made: FakeGroup) -> None:
    """Let one interval pass, and let all copies that were started finish."""
    made.clock.time_ns += INTERVAL_NS
    made.settle()
    for copies in made.copies.values():
        copies.end()
    made.settle()


def positions(made: FakeGroup) -> dict[str, int]:
    return {
        name: each.checkpoint.position if each.checkpoint is not None else 0
        for name, each in made.members.items()
    }


@pytest.mark.parametrize("config", [CONFIG, LARGE], ids=["between calls", "in a copy"])
@pytest.mark.parametrize("style", ALL)
@pytest.mark.parametrize("cls", KINDS)
def test_a_state_that_cannot_be_read_back_is_no_checkpoint_and_the_group_serves_on(
    cls: type, style: str, config: StyleConfig
) -> None:
    made = FakeGroup(style, definition(cls), config)
    made.clock.step_ns = 1000
    assert do(made, 1, "add", "first") == 1
    capture_now(made)
    good = positions(made)
    assert min(good.values()) >= 1
    assert do(made, 2, "spoil", "x") == 2
    for _ in range(5):
        capture_now(made)
    assert positions(made) == good, "the last good checkpoint stays"
    faults = [(name, kind) for name, kind, _ in made.faults]
    assert set(faults) <= {(name, "checkpoint_failed") for name in "abc"}
    assert ("a", "checkpoint_failed") in faults
    assert len(set(faults)) == len(faults), "each member tells it once"
    assert all(KINDS[cls] in text for _, _, text in made.faults)
    assert KINDS[cls] in made.replicas["a"].why_no_checkpoint
    assert do(made, 3, "add", "y") == 3, "it serves on"
    # Every process ends; the log still has everything since the last good checkpoint.
    for name in "abc":
        made.crash(name)
    for name in "abc":
        made.start(name)
        made.replicas[name].on_following()
    made.fail_over("b", is_crash=False)
    made.settle()
    assert do(made, 4, "add", "z") == 4, "nothing is lost"
    # The object is consistent again, and so are its checkpoints.
    assert do(made, 5, "mend") == 4
    made.clock.time_ns += config.copy_retry_most_ns
    capture_now(made)
    capture_now(made)
    assert made.replicas["b"].why_no_checkpoint == ""
    assert positions(made)["b"] > good["b"]


class Noted:
    """The reports about checkpoints from all members."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    def note(self, kind: str, **_: object) -> None:
        if kind in ("checkpoint_failed", "checkpoints_well"):
            self.kinds.append(kind)

    def take(self) -> list[str]:
        kinds, self.kinds = self.kinds, []
        return kinds


@pytest.mark.parametrize("style", PASSIVE)
def test_nothing_is_well_because_a_process_has_ended(style: str) -> None:
    """A process that starts from the last good checkpoint has captured nothing yet. The member that becomes
    primary reports its first success, because only then is the earlier failure over."""
    made = FakeGroup(style, definition(next(iter(KINDS))), CONFIG)
    noted = made.trace = Noted()
    for name in "abc":
        made.crash(name)
        made.start(name)
        made.replicas[name].on_following()
    made.fail_over("a", is_crash=False)
    made.settle()
    assert noted.take() == []
    assert do(made, 1, "add", "first") == 1
    capture_now(made)
    assert set(noted.take()) == {"checkpoints_well"}
    assert do(made, 2, "add", "second") == 2
    capture_now(made)
    assert noted.take() == [], "once"
    assert do(made, 3, "spoil", "x") == 3
    capture_now(made)
    assert "checkpoint_failed" in noted.take()
    made.crash("a")
    made.start("a")
    made.replicas["a"].on_following()
    made.fail_over("b", is_crash=False)
    made.settle()
    assert "checkpoints_well" not in noted.take()
    assert do(made, 4, "mend") == 3
    made.clock.time_ns += CONFIG.copy_retry_most_ns
    capture_now(made)
    capture_now(made)
    assert noted.take()[-1] == "checkpoints_well"


@pytest.mark.parametrize("config", [CONFIG, LARGE], ids=["between calls", "in a copy"])
@pytest.mark.parametrize("style", ALL)
def test_attempts_come_after_longer_and_longer_pauses_and_reasons_are_told_once(
    style: str, config: StyleConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many keys cannot be read, they have one reason."""
    saved: list[int] = []
    save = Execution.save

    def counted(execution: Execution) -> bytes:
        saved.append(execution.position)
        return save(execution)

    monkeypatch.setattr(Execution, "save", counted)
    config = msgspec.structs.replace(config, checkpoint_interval_ns=1, copy_retry_most_ns=64 * SECOND)
    made = FakeGroup(style, definition(Scheduler), config, names="a")
    made.clock.step_ns = 1000
    for number in range(1, 121):
        do(made, number, "spoil", f"job {number}")
        made.copies["a"].end()
        made.clock.time_ns += SECOND
    assert len(made.faults) == 1
    attempts = len(saved) + made.copies["a"].begun
    assert 5 <= attempts <= 10, "in two minutes it is tried after 1, 2, 4, ... seconds"
    if style != "warm":  # warm advances its backups all the time
        assert made.members["a"].tail - 120 <= 10


@pytest.mark.parametrize("style", ALL)
def test_calls_are_refused_with_the_reason_when_the_log_is_full(style: str) -> None:
    config = msgspec.structs.replace(
        CONFIG, long_log_bytes=600, log_bytes_max=1500, checkpoint_bytes=190, sent_state_bytes_max=90
    )
    made = FakeGroup(style, definition(Scheduler), config)
    do(made, 1, "spoil", "x")
    with pytest.raises(Overloaded, match=r"waits for checkpoints, .* failed: Scheduler\.tasks\['x'\]\.due"):
        for number in range(2, 200):
            do(made, number, "add", f"job {number}")
    assert number > 5, "not before"


@pytest.mark.parametrize("style", PASSIVE)
def test_no_member_is_given_a_state_that_cannot_be_read(style: str) -> None:
    """A learner, and backups that are sent the state, get one that can be read, and replay the rest."""
    made = FakeGroup(style, definition(Refusing), CONFIG)
    do(made, 1, "add", "first")
    do(made, 2, "spoil", "x")
    made.restart("c", is_wiped=True)
    for number in range(3, 20):
        do(made, number, "add", f"more {number}")
        made.clock.time_ns += SECOND
    assert {kind for _, kind, _ in made.faults} <= {"checkpoint_failed"}
    made.fail_over("c", is_crash=True)
    made.settle()
    assert do(made, 20, "add", "last") == 20


@pytest.mark.parametrize("style", ALL)
def test_a_small_state_that_takes_long_to_read_back_goes_to_copies_for_a_while(style: str) -> None:
    """Otherwise the checkpoint would stop calls for longer than it may (E5)."""
    made = FakeGroup(style, definition(Scheduler), CONFIG, names="a")
    made.clock.step_ns = CONFIG.inline_capture_ns_max + 1
    for number in range(1, 30):
        do(made, number, "add", f"job {number}")
        capture_now(made)
    assert 10 <= made.copies["a"].begun <= 29
    assert made.members["a"].checkpoint is not None
    assert made.faults == []
