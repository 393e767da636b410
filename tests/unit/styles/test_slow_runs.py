"""Methods that compute for long, in every style (E15): beside the loop, one at a time."""

import pytest
from fake_group import FakeGroup
from group_classes import A, call, definition, sent
from style_groups import ALL, PASSIVE, told

import holdfast as hf
from holdfast.execution.crash_attempts import NO_GROUP, POISON_LIMIT, Attempt
from holdfast.execution.records import Ran, decode_record
from holdfast.model.calls import Request
from holdfast.model.ids import GroupId
from holdfast.model.outcome import Outcome, Poisoned, Raised, Returned, encode_outcome
from holdfast.styles.config import StyleConfig

RUNS: list[str] = []
"""What ran, in which order, on whatever member."""


class Mill:
    """Grinds slowly."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.times: list[float] = []

    @hf.slow
    def grind(self, what: str) -> int:
        RUNS.append(what)
        self.lines.append(what)
        self.times.append(hf.context.time())
        return len(self.lines)

    @hf.slow
    def refuse(self, why: str) -> None:
        self.lines.append(why)
        raise ValueError(why)

    @hf.slow
    def later(self, what: str) -> None:
        hf.context.call_later(0.0, self.note, what)

    def note(self, what: str) -> int:
        self.lines.append(what)
        return len(self.lines)

    @hf.query
    def read(self) -> list[str]:
        return list(self.lines)

    @hf.query(anytime=True)
    def peek(self) -> list[str]:
        return list(self.lines)


class Apart(FakeGroup):
    is_slow_apart = True


def group(style: str, **config: int) -> Apart:
    RUNS.clear()
    made = Apart(style, definition(Mill), StyleConfig(**config))
    made.clock.step_ns = 1000
    return made


def outcomes(made: FakeGroup) -> dict[int, Outcome]:
    return {
        number: outcome
        for _, numbers, found in told(made)
        for number, outcome in zip(numbers, found, strict=True)
    }


def lines(made: FakeGroup, name: str) -> list[str]:
    execution = made.replicas[name].execution
    return [] if execution is None else list(execution.line.instance.lines)  # type: ignore[attr-defined]  # a Mill


def finish(made: FakeGroup) -> None:
    """Let all that compute come to their end, and settle, until nothing more happens."""
    for _ in range(20):
        made.settle()
        for slow in made.slow.values():
            slow.end()
        made.settle()
        if not any(slow.under_way for slow in made.slow.values()):
            return
    raise AssertionError("slow methods without end")


@pytest.mark.parametrize("style", ALL)
def test_calls_wait_while_it_runs_and_it_takes_effect_before_them(style: str) -> None:
    made = group(style)
    made.replicas["a"].on_calls("t", sent(call(1, "note", "first"), call(2, "grind", "slow")))
    made.replicas["a"].on_calls("u", sent(call(3, "note", "behind")))
    made.settle()
    assert outcomes(made) == {1: Returned(1)}
    assert lines(made, "a") == ["first"], "a schedule has not let it run"
    assert [slow.begun for slow in made.slow.values()] == [1, 0, 0], "only the primary computes ahead"
    finish(made)
    assert outcomes(made) == {2: Returned(2), 3: Returned(3)}
    assert lines(made, "a") == ["first", "slow", "behind"]


@pytest.mark.parametrize("style", ALL)
def test_two_never_run_at_a_time(style: str) -> None:
    made = group(style)
    made.replicas["a"].on_calls("t", sent(call(1, "grind", "one"), call(2, "grind", "two")))
    for _ in range(3):
        made.settle()
        assert sum(len(slow.under_way) for name, slow in made.slow.items() if name == "a") <= 1
        made.slow["a"].end()
    finish(made)
    assert outcomes(made) == {1: Returned(1), 2: Returned(2)}
    assert lines(made, "a") == ["one", "two"]


@pytest.mark.parametrize("style", ALL)
def test_what_it_raises_is_its_reply(style: str) -> None:
    made = group(style)
    made.replicas["a"].on_calls("t", sent(call(1, "refuse", "no")))
    finish(made)
    (found,) = outcomes(made).values()
    assert isinstance(found, Raised)
    assert lines(made, "a") == ["no"]


@pytest.mark.parametrize("style", ["active", "warm"])
def test_members_compute_it_where_it_took_effect_and_agree(style: str) -> None:
    made = group(style)
    made.replicas["a"].on_calls("t", sent(call(1, "grind", "x"), call(2, "note", "y")))
    finish(made)
    for name in "bc":
        made.replicas[name].keep_up()
    finish(made)
    assert lines(made, "a") == lines(made, "b") == lines(made, "c") == ["x", "y"]
    states = {made.replicas[name].execution.line.instance.times[0] for name in "abc"}  # type: ignore[union-attr]
    assert len(states) == 1, "the time is that of the call, on every member"
    assert made.faults == []


@pytest.mark.parametrize("style", ALL)
@pytest.mark.parametrize("is_crash", [True, False])
@pytest.mark.parametrize("has_ended", [True, False])
def test_a_new_primary_computes_what_the_old_one_had_begun(
    style: str, is_crash: bool, has_ended: bool
) -> None:
    """Whether or not the old one had ended: it takes effect once, and where the new one ordered it."""
    made = group(style)
    made.replicas["a"].on_calls("t", sent(call(1, "grind", "x"), call(2, "note", "y")))
    made.settle()
    late = made.slow["a"]
    assert late.begun == 1
    if has_ended:
        late.end()  # it has ended, and its end is not ordered yet
    made.fail_over("b", is_crash=is_crash)
    late.end()  # or it ends when nobody wants it any more
    finish(made)
    made.replicas["b"].on_calls("again", sent(call(1, "grind", "x"), call(2, "note", "y")))
    finish(made)
    assert outcomes(made) == {1: Returned(1), 2: Returned(2)}
    assert lines(made, "b") == ["x", "y"]
    assert made.faults == []
    ran = [each for each in made.final if isinstance(decode_record(each.body), Ran)]
    assert len(ran) == 1


@pytest.mark.parametrize("style", ALL)
def test_a_late_result_is_not_that_of_another_object(style: str) -> None:
    """A primary loses its epoch while it computes, and leads again: the first result is nobody's (E15)."""
    made = group(style)
    made.replicas["a"].on_calls("t", sent(call(1, "grind", "x")))
    made.settle()
    late = made.slow["a"].under_way.pop()
    made.fail_over("b", is_crash=False)
    made.settle()
    made.fail_over("a", is_crash=False)
    made.settle()
    work, then = late
    then(work())
    made.settle()
    assert outcomes(made) == {}, "the second run has not ended"
    assert lines(made, "a") == []
    finish(made)
    made.replicas["a"].on_calls("again", sent(call(1, "grind", "x")))
    finish(made)
    assert outcomes(made) == {1: Returned(1)}
    assert lines(made, "a") == ["x"]


@pytest.mark.parametrize("style", ALL)
def test_queries_see_the_state_before_it(style: str) -> None:
    """Also those that may see an operation half done: another thread changes the object."""
    made = group(style)
    made.replicas["a"].on_calls("t", sent(call(1, "note", "before"), call(2, "grind", "slow")))
    made.settle()
    made.replicas["a"].on_calls("q", sent(call(3, "read"), call(4, "peek")))
    made.settle()
    found = outcomes(made)
    assert found[3] == found[4] == Returned(["before"])
    finish(made)
    made.replicas["a"].on_calls("q", sent(call(5, "peek")))
    made.settle()
    assert outcomes(made)[5] == Returned(["before", "slow"])


@pytest.mark.parametrize("style", ALL)
def test_no_state_is_captured_while_it_runs(style: str) -> None:
    made = group(style)
    made.replicas["a"].on_calls("t", sent(call(1, "note", "before")))
    made.settle()
    made.replicas["a"].on_calls("t", sent(call(2, "grind", "slow")))
    made.settle()
    execution = made.replicas["a"].execution
    assert execution is not None
    assert not execution.is_at_rest
    assert not execution.may_be_asked
    assert made.replicas["a"].settle() is False
    finish(made)
    assert execution.is_at_rest


@pytest.mark.parametrize("style", ALL)
def test_timers_that_it_sets_fire_after_it(style: str) -> None:
    made = group(style)
    made.replicas["a"].on_calls("t", sent(call(1, "later", "timed")))
    made.settle()
    made.clock.time_ns += 10**9
    for replica in made.replicas.values():
        replica.turn()
    made.settle()
    assert lines(made, "a") == []
    finish(made)
    made.replicas["a"].turn()
    finish(made)
    assert lines(made, "a") == ["timed"]


@pytest.mark.parametrize("style", ALL)
def test_one_that_ends_processes_is_given_up_before_it_runs_again(style: str) -> None:
    """E4: the others know what the dead process was computing, and the group goes on without it."""
    made = group(style)
    made.replicas["a"].on_calls("t", sent(call(1, "grind", "deadly"), call(2, "note", "y")))
    made.settle()
    assert [slow.begun for slow in made.slow.values()] == [1, 0, 0], "not every member runs it at first"
    for name in "bc":
        for attempt in range(1, POISON_LIMIT + 1):
            made.attempts[name].ended(Attempt(GroupId(0), A, 1, 1, attempt))
    made.slow["a"].under_way.clear()  # its process has died of it
    made.fail_over("b", is_crash=True)
    finish(made)
    made.replicas["b"].on_calls("again", sent(call(1, "grind", "deadly"), call(2, "note", "y")))
    finish(made)
    found = outcomes(made)
    assert isinstance(found[1], Poisoned)
    assert found[2] == Returned(1)
    assert made.slow["b"].begun == 0
    assert "deadly" not in RUNS


@pytest.mark.parametrize("style", PASSIVE)
def test_a_member_that_dies_of_replaying_it_has_no_object_instead(style: str) -> None:
    """It was answered, so it cannot be given up (E8)."""
    made = group(style)
    made.replicas["a"].on_calls("t", sent(call(1, "grind", "x")))
    finish(made)
    for attempt in range(1, POISON_LIMIT + 1):
        made.attempts["b"].ended(Attempt(GroupId(0), A, 1, 1, attempt))
    made.fail_over("b", is_crash=True)
    made.settle()
    assert not made.replicas["b"].is_ready
    assert made.slow["b"].begun == 0


def test_the_call_is_noted_while_it_runs() -> None:
    """In a note of its own: calls of other groups are noted and cleared meanwhile (E4)."""
    noted: list[str] = []

    class Beside:
        def note(self, group: GroupId, client: str, first: int, last: int, attempts: int) -> None:
            noted.append(f"{client} {first} {attempts}")

        def clear(self) -> None:
            noted.append("clear")

        def apart(self) -> "Beside":
            return self

    class Slot(Beside):
        def note(self, *_: object) -> None:
            return

        def clear(self) -> None:
            return

        def apart(self) -> Beside:
            return Beside()

    made = group("cold")
    made.attempts["a"]._slot = Slot()  # type: ignore[assignment]
    made.replicas["a"].on_calls("t", sent(call(1, "grind", "x")))
    made.settle()
    assert noted == [f"{A} 1 1"]
    finish(made)
    assert noted == [f"{A} 1 1", "clear"]


def test_interleaved_operations_neither_start_nor_resume_beside_it() -> None:
    @hf.interleaved
    class Both(Mill):
        async def ask(self, what: str) -> None:
            self.lines.append(f"asks {what}")
            await hf.context.group("other").get()
            self.lines.append(f"asked {what}")

    made = Apart("active", definition(Both), StyleConfig())
    made.clock.step_ns = 1000
    made.replicas["a"].on_calls("t", sent(call(1, "ask", "1"), call(2, "grind", "slow"), call(3, "ask", "3")))
    made.settle()
    assert made.slow["a"].begun == 0, "an operation waits, and would resume beside it"
    assert lines(made, "a") == ["asks 1"]
    made.replicas["a"].on_nested_outcome(Request(A, 1), 1, encode_outcome(Returned(None)))
    made.settle()
    assert made.slow["a"].begun == 1
    assert lines(made, "a")[:2] == ["asks 1", "asked 1"]
    assert "asks 3" not in lines(made, "a")
    finish(made)
    assert lines(made, "a") == ["asks 1", "asked 1", "slow", "asks 3"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: hf.slow(hf.query(lambda self: None)),
        lambda: hf.query(hf.slow(lambda self: None)),
    ],
)
def test_a_query_is_not_slow(wrong: object) -> None:
    with pytest.raises(TypeError, match="a query cannot be slow"):
        wrong()  # type: ignore[operator]  # it is one of the above


def test_a_method_that_waits_is_not_slow() -> None:
    async def ask(self: object) -> None: ...

    with pytest.raises(TypeError, match="holds up nobody"):
        hf.slow(ask)


def test_a_call_behind_one_is_given_up_although_the_crash_was_told_while_it_computed() -> None:
    """E4: the end of a slow method lets calls run that stand in line, and what is known of them counts then,
    not when the member began to wait for the method."""
    made = group("active")
    made.replicas["a"].on_calls("t", sent(call(1, "grind", "slow"), call(2, "note", "deadly")))
    made.settle()
    made.slow["a"].end()
    made.settle()
    assert lines(made, "a") == ["slow", "deadly"]
    assert lines(made, "b") == [], "it computes"
    assert made.slow["b"].under_way
    for name in "bc":
        made.attempts[name].ended(Attempt(NO_GROUP, A, 2, 2, POISON_LIMIT))
    made.fail_over("b", is_crash=True)
    finish(made)
    assert lines(made, "b") == ["slow"] == lines(made, "c")
    made.replicas["b"].on_calls("again", sent(call(2, "note", "deadly")))
    finish(made)
    assert outcomes(made)[2] == Poisoned(POISON_LIMIT, "note('deadly')")
