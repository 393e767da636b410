"""Classes that change under a group: a record is executed only by the code that made it (E7)."""

from typing import Any

import pytest
from fake_group import FakeGroup
from group_classes import A, B, call, sent
from style_groups import ALL, CONFIG, PASSIVE, pass_interval

import holdfast as hf
from holdfast.execution.definition import CannotUpgrade, Definition, OtherCode
from holdfast.execution.execution import Execution
from holdfast.execution.records import Forward, NestedReply, Upgraded, decode_record, encode_arguments
from holdfast.model.calls import Request
from holdfast.model.code import UNKNOWN, Code
from holdfast.model.errors import Unavailable
from holdfast.model.ids import Position
from holdfast.model.outcome import Returned, decode_outcome, encode_outcome


class First:
    """Adds the given amount."""

    factor = 1

    def __init__(self) -> None:
        self.value = 0

    def add(self, amount: int) -> int:
        self.value += amount * self.factor
        return self.value

    async def fetch(self, amount: int) -> int:
        self.value += amount * self.factor
        self.value += await hf.context.group("other").get()
        return self.value

    def later(self, delay_s: float) -> int:
        return hf.context.call_later(delay_s, "add", 1)

    @hf.query
    def get(self) -> int:
        return self.value


class Second(First):
    """Adds twice the given amount."""

    factor = 2


class Third:
    """Has other attributes."""

    def __init__(self) -> None:
        self.total = 0
        self.upgrades: list[str] = []

    def upgraded(self, from_version: str) -> None:
        self.upgrades = [*getattr(self, "upgrades", []), from_version]
        if not hasattr(self, "total"):
            self.total = self.__dict__.pop("value")

    def add(self, amount: int) -> int:
        self.total += amount * 100
        return self.total

    @hf.query
    def get(self) -> int:
        return self.total


class Forgetful:
    """Has an attribute that it never sets."""

    def __init__(self) -> None:
        self.value = 0
        self.names: list[str] = []

    def get(self) -> int:
        return self.value


def defined(cls: type, version: str) -> Definition:
    return Definition("g", cls, cls, code=Code(version, version * 8))


ONE, TWO, THREE, FOUR = (
    defined(cls, str(number)) for number, cls in enumerate((First, Second, Third, Forgetful), 1)
)


def group(style: str, *, keeps: bool = True) -> FakeGroup:
    made = FakeGroup(style, ONE, CONFIG)
    made.clock.step_ns = 1000
    if keeps:
        for kept in made.kept_classes.values():
            kept.append(ONE)
    made.settle()
    return made


def add(made: FakeGroup, *numbers: int) -> None:
    made.replicas[made.primary].on_calls("t", sent(*(call(number, "add", 1) for number in numbers)))
    made.settle()


def values(made: FakeGroup) -> list[Any]:
    """The results of the calls that have been answered."""
    outcomes = [decode_outcome(each) for _, _, outcomes in made.answers for each in outcomes]
    made.answers.clear()
    return [each.value if isinstance(each, Returned) else each for each in outcomes]


def value(made: FakeGroup, name: str) -> Any:
    found = made.replicas[name].on_stale_query(Request(B, 1), "get", encode_arguments((), {}))
    outcome = decode_outcome(found)
    assert isinstance(outcome, Returned)
    return outcome.value


def settle(made: FakeGroup) -> None:
    """Run until nothing changes, with the processes of old code."""
    for _ in range(20):
        made.settle()
        for old in made.old_code.values():
            old.end()
    made.settle()


def deploy(made: FakeGroup, definition: Definition, *names: str) -> None:
    """Restart these members with that class, one by one; no other member is left when the last restarts. The
    first leads afterwards."""
    for name in names:
        made.classes[name] = definition
        if name != made.primary:
            made.crash(name)
            made.restart(name)
    if made.primary in names:
        old = made.primary
        (to, *_) = (name for name in names if name != old)
        made.fail_over(to, is_crash=True)
        made.restart(old)


def upgrades(made: FakeGroup) -> list[tuple[Position, Upgraded]]:
    found = [(each.first, decode_record(each.body)) for each in made.final]
    return [(first, record) for first, record in found if isinstance(record, Upgraded)]


@pytest.mark.parametrize("style", ALL)
def test_the_first_record_of_a_group_says_what_makes_the_others(style: str) -> None:
    made = group(style)
    add(made, 1, 2)
    assert upgrades(made) == [(1, Upgraded(UNKNOWN, ONE.code))]
    assert values(made) == [1, 2]


@pytest.mark.parametrize("style", ALL)
@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_new_code_does_not_rewrite_what_was_answered(style: str, has_checkpoint: bool) -> None:
    """Ten are added and acknowledged; then the method adds twice as much. After a restart the value is still
    10, and new calls continue from there."""
    made = group(style)
    add(made, *range(1, 6))
    if has_checkpoint:
        pass_interval(made)
    add(made, *range(6, 11))
    assert values(made) == list(range(1, 11))
    deploy(made, TWO, "a", "b", "c")
    settle(made)
    assert made.old_code[made.primary].began
    add(made, 11)
    assert values(made) == [12]
    assert [record for _, record in upgrades(made)][1:] == [Upgraded(ONE.code, TWO.code)]
    assert not made.faults


@pytest.mark.parametrize("style", ALL)
def test_every_member_comes_to_the_same_state(style: str) -> None:
    made = group(style)
    add(made, 1, 2, 3)
    deploy(made, TWO, "a", "b", "c")
    settle(made)
    add(made, 4, 5)
    pass_interval(made)
    settle(made)
    for number, successor in enumerate(("c", "a", "b"), 6):
        if successor != made.primary:
            made.fail_over(successor, is_crash=False)
        settle(made)
        assert made.replicas[successor].is_ready
        add(made, number)
        settle(made)
    assert values(made) == [1, 2, 3, 5, 7, 9, 11, 13]
    assert not made.faults
    assert len(upgrades(made)) == 2


@pytest.mark.parametrize("style", ALL)
def test_without_the_code_that_made_it_nothing_is_served(style: str) -> None:
    """The reason says how many operations are affected, since when, and what to do."""
    made = group(style, keeps=False)
    add(made, 1, 2, 3)
    deploy(made, TWO, "a", "b", "c")
    settle(made)
    assert not made.replicas[made.primary].is_ready
    with pytest.raises(Unavailable, match="3 operations since the beginning were made by code 1"):
        made.replicas[made.primary].on_calls("t", sent(call(4, "add", 1)))
    _, why = made.passed_on[0]
    assert why == (
        "3 operations since the beginning were made by code 1 (11111111); here is 2 (22222222): "
        "put 1 (11111111) back, or `holdfast group upgrade g --replay`"
    )
    assert {kind for _, kind, _ in made.faults} == {"other_code"}
    # With its code restored, it serves as before.
    deploy(made, ONE, "a", "b", "c")
    settle(made)
    add(made, 4)
    assert values(made)[-1] == 4


class Lost:
    """A kept copy that cannot run: what it needs beside its module is not kept."""

    def __init__(self) -> None:
        raise FileNotFoundError("rates.json")

    def add(self, amount: int) -> int:
        return amount


@pytest.mark.parametrize("style", ALL)
def test_new_code_replays_if_a_person_wants_it_and_the_kept_copy_cannot_run(style: str) -> None:
    """At once, and not only when the copy is due to be tried again; without the order it never does."""
    made = group(style, keeps=False)
    for kept in made.kept_classes.values():
        kept += [Definition("g", Lost, Lost, code=ONE.code), TWO]
    add(made, 1, 2, 3)
    deploy(made, TWO, "a", "b", "c")
    settle(made)
    assert not made.replicas[made.primary].is_ready
    assert "a kept copy was tried, and" in made.faults[-1][2]
    made.may_replay = ONE.code.is_same
    settle(made)
    assert made.replicas[made.primary].is_ready
    add(made, 4)
    assert values(made)[-1] == 8


@pytest.mark.parametrize("style", ALL)
def test_a_kept_copy_that_can_run_goes_before_new_code_that_may_replay(style: str) -> None:
    made = group(style)
    for kept in made.kept_classes.values():
        kept.append(TWO)
    made.may_replay = ONE.code.is_same
    add(made, 1, 2, 3)
    deploy(made, TWO, "a", "b", "c")
    settle(made)
    add(made, 4)
    assert values(made)[-1] == 5


@pytest.mark.parametrize("style", ALL)
def test_who_may_not_upgrade_waits_and_says_why(style: str) -> None:
    made = group(style)
    add(made, 1)
    made.why_not_upgrade = lambda code: f"b has {code}"
    deploy(made, TWO, "a", "c")
    settle(made)
    assert made.primary == "c"
    assert not made.replicas["c"].is_ready
    assert made.passed_on[-1] == ("c", "b has 1 (11111111)")
    assert len(upgrades(made)) == 1
    made.fail_over("b", is_crash=False)
    settle(made)
    add(made, 2)
    assert values(made) == [1, 2]
    # The old code has replayed its records; now the new code may continue.
    made.why_not_upgrade = lambda code: ""
    deploy(made, TWO, "b", "a")
    settle(made)
    add(made, 3)
    assert values(made) == [4]


@pytest.mark.parametrize("style", ALL)
def test_a_member_with_the_old_code_gives_its_object_up_at_the_upgrade(style: str) -> None:
    made = group(style)
    add(made, 1)
    deploy(made, TWO, "a", "c")
    settle(made)
    add(made, 2)
    pass_interval(made)
    assert made.replicas["c"].is_ready
    assert made.replicas["b"].execution is None
    with pytest.raises(Unavailable):
        value(made, "b")
    made.fail_over("b", is_crash=False)
    settle(made)
    assert not made.replicas["b"].is_ready or len(upgrades(made)) == 3


@pytest.mark.parametrize("style", ALL)
def test_back_again_the_old_code_goes_on_from_the_newer_state(style: str) -> None:
    made = group(style)
    add(made, 1)
    for kept in made.kept_classes.values():
        kept.append(TWO)
    deploy(made, TWO, "a", "b", "c")
    settle(made)
    add(made, 2)
    deploy(made, ONE, "a", "b", "c")
    settle(made)
    add(made, 3)
    assert values(made) == [1, 3, 4]
    assert [record.to_code for _, record in upgrades(made)] == [ONE.code, TWO.code, ONE.code]


@pytest.mark.parametrize("style", ALL)
def test_an_upgrade_runs_once_and_sees_from_where(style: str) -> None:
    made = group(style)
    add(made, 1, 2)
    deploy(made, THREE, "a", "b", "c")
    settle(made)
    add(made, 3)
    pass_interval(made)
    assert values(made)[-1] == 102
    for name in ("a", "b", "c"):
        made.fail_over(name, is_crash=False)
        settle(made)
        execution = made.replicas[name].execution
        assert execution is not None
        instance = execution.line.instance
        assert isinstance(instance, Third)
        assert (instance.upgrades, instance.total) == (["1"], 102)


@pytest.mark.parametrize("style", ALL)
def test_a_class_that_lacks_what_a_new_object_has_is_refused(style: str) -> None:
    """Nothing is ordered: the old code continues."""
    made = group(style)
    add(made, 1)
    deploy(made, FOUR, "a", "b", "c")
    settle(made)
    assert not made.replicas[made.primary].is_ready
    assert "the state has no names, which a new Forgetful has" in made.passed_on[0][1]
    assert len(upgrades(made)) == 1
    deploy(made, ONE, "a", "b", "c")
    settle(made)
    add(made, 2)
    assert values(made) == [1, 2]


@pytest.mark.parametrize("style", ALL)
def test_a_timer_without_its_method_refuses_the_upgrade(style: str) -> None:
    made = group(style)
    made.replicas["a"].on_calls("t", sent(call(1, "later", 100_000.0)))
    made.settle()
    deploy(made, FOUR, "a", "b", "c")
    settle(made)
    assert not made.replicas[made.primary].is_ready
    with pytest.raises(CannotUpgrade, match="timers are set for add"):
        loaded = Execution.load(Definition("g", Timeless, Timeless, code=FOUR.code), saved_with_timer())
        loaded.apply(Position(loaded.position + 1), Upgraded(ONE.code, FOUR.code))


class Timeless:
    """Has the same attributes, but not the method that a timer calls."""

    def __init__(self) -> None:
        self.value = 0


def saved_with_timer() -> bytes:
    from group_classes import run

    execution = Execution(ONE)
    execution.apply(Position(1), Upgraded(UNKNOWN, ONE.code))
    run(execution, call(1, "later", 5.0))
    return execution.save()


@pytest.mark.parametrize("is_replay_ordered", [False, True])
@pytest.mark.parametrize("style", ALL)
def test_a_method_of_the_old_code_that_waits_is_ended_by_it(style: str, is_replay_ordered: bool) -> None:
    """The new primary makes the call the method waits for, and the old code resumes with the answer. A copy
    that waits has not failed."""
    made = group(style)
    made.may_replay = lambda _: is_replay_ordered
    for kept in made.kept_classes.values():
        kept.append(TWO)
    add(made, 1)
    made.replicas["a"].on_calls("t", sent(call(2, "fetch", 10)))
    made.settle()
    made.outgoing.clear()
    deploy(made, TWO, "a", "b", "c")
    for _ in range(5):
        made.settle()
        for old in made.old_code.values():
            old.end()
        for name in made.replicas:
            made.replicas[name].turn()
    (name, outgoing), *_ = made.outgoing
    made.outgoing.clear()
    assert (name, outgoing.caller, outgoing.call) == (made.primary, Request(A, 2), 1)
    assert outgoing.may_have_left
    made.replicas[name].on_nested_outcome(outgoing.caller, 1, encode_outcome(Returned(500)))
    settle(made)
    assert made.replicas[made.primary].is_ready
    add(made, 3)
    assert values(made)[-1] == 513
    records = [decode_record(each.body) for each in made.final]
    (at,) = (index for index, each in enumerate(records) if isinstance(each, NestedReply))
    assert isinstance(records[at + 1], Upgraded)


@pytest.mark.parametrize("style", ALL)
def test_a_crash_before_the_upgrade_is_committed_leaves_the_old(style: str) -> None:
    made = group(style)
    add(made, 1)
    for name in ("b", "c"):
        made.classes[name] = TWO
        made.crash(name)
        made.restart(name)
    made.fail_over("b", is_crash=True)
    for _ in range(5):
        made.replicas["b"].turn()
        made.wake()
        made.old_code["b"].end()
    assert isinstance(decode_record(made.members["b"].log[-1].body), Upgraded)
    assert not made.replicas["b"].is_ready
    # The member dies; the others never received that record.
    made.classes["c"] = ONE
    made.crash("c")
    made.start("c")
    made.members["c"].committed = made.members["c"].tail
    made.fail_over("c", is_crash=True)
    made.restart("a")
    settle(made)
    add(made, 2)
    assert values(made) == [1, 2]
    assert len(upgrades(made)) == 1


@pytest.mark.parametrize("style", PASSIVE)
def test_a_state_of_other_code_is_kept_and_not_loaded(style: str) -> None:
    """A backup with another class still truncates its log, by the states that the primary sends."""
    made = group(style)
    deploy(made, FOUR, "b")
    add(made, 1, 2, 3)
    pass_interval(made)
    add(made, 4)
    settle(made)
    assert made.replicas["b"].execution is None
    kept = made.members["b"].checkpoint
    assert kept is not None
    assert kept.position == 4
    assert not made.faults


def test_records_that_no_code_executes_are_passed_by_any() -> None:
    execution = Execution(ONE)
    execution.apply(Position(1), Upgraded(UNKNOWN, ONE.code))
    loaded = Execution.load(TWO, execution.save())
    loaded.apply(Position(2), Forward())
    assert (loaded.position, loaded.code, loaded.is_own) == (2, ONE.code, False)
    with pytest.raises(OtherCode) as raised:
        loaded.calls(Position(3), *stamped(), [call(1, "add", 1)])
    assert (raised.value.position, raised.value.made_by, raised.value.here) == (3, ONE.code, TWO.code)
    assert loaded.position == 2


def stamped() -> Any:
    from group_classes import stamp

    return stamp(), sent(call(1, "add", 1))


@pytest.mark.parametrize("style", ["warm", "active"])  # a cold backup keeps the state that is sent anyway
def test_who_never_had_the_old_code_takes_the_state_of_who_had(style: str) -> None:
    """It cannot execute the records before its own class takes over, so it asks for the primary's state."""
    made = group(style)
    made.kept_classes["b"].clear()
    add(made, 1, 2)
    deploy(made, TWO, "a", "b", "c")
    if made.primary == "b":
        made.fail_over("c", is_crash=False)
    settle(made)
    add(made, 3)
    settle(made)
    assert made.replicas["b"].execution is None
    fitness = made.replicas["b"].fitness()
    (at,) = (first for first, record in upgrades(made) if record.to_code == TWO.code)
    assert (fitness.is_without, fitness.wants_state, fitness.found_at) == (True, True, at)
    state = made.replicas[made.primary].capture(at)
    assert state is not None
    made.members["b"].checkpoint = state
    made.replicas["b"].install(state)
    settle(made)
    made.fail_over("b", is_crash=False)
    settle(made)
    add(made, 4)
    assert values(made) == [1, 2, 4, 6]
