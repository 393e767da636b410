"""Active groups, and stateless ones."""

import pytest
from fake_group import FakeClock, FakeGroup
from group_classes import Counter, Spy, call, definition, sent
from style_groups import CONFIG, catch_up, group, lines, pass_interval, told, write

import holdfast as hf
from holdfast.model.errors import Overloaded, Unavailable
from holdfast.model.ids import SECOND, Position
from holdfast.model.outcome import Raised, Returned, decode_outcome, encode_outcome
from holdfast.sequence.ports import Captured
from holdfast.styles.stateless import Stateless


@pytest.mark.covers("FTC-8", "FTC-20", "FTC-130")
def test_every_active_member_executes_in_the_same_order_and_one_answers() -> None:
    made = group("active")
    write(made, 1, 2)
    write(made, 3)
    made.settle()
    assert lines(made, "a") == lines(made, "b") == lines(made, "c") == ["line 1", "line 2", "line 3"]
    assert [numbers for _, numbers, _ in told(made)] == [[1, 2], [3]]


def test_active_members_execute_nothing_that_is_not_committed() -> None:
    """E1."""
    made = group("active")
    write(made, 1)
    made.replicas["a"].turn()
    made.replicate("b")
    made.commit()
    assert Spy.runs == []


@pytest.mark.covers("FTC-286", "FTC-300")
def test_a_new_active_member_gets_the_state_and_what_follows() -> None:
    made = group("active")
    write(made, 1)
    pass_interval(made)
    made.crash("c")
    write(made, 2)
    made.settle()
    Spy.runs.clear()
    made.restart("c", is_wiped=True)
    made.settle()
    assert lines(made, "c") == ["line 1", "line 2"]
    assert Spy.runs == []
    write(made, 3)
    made.settle()
    assert lines(made, "c") == ["line 1", "line 2", "line 3"]
    assert Spy.runs == ["line 3"] * 3
    told(made)
    made.fail_over("c", is_crash=True)
    write(made, 1, token="again")  # its reply came with the state
    write(made, 3, token="again")  # and this one is of what followed
    made.settle()
    assert [(token, numbers) for token, numbers, _ in told(made)] == [("again", [1]), ("again", [3])]
    assert lines(made, "c") == ["line 1", "line 2", "line 3"]


def test_a_mark_that_is_refused_is_ordered_again() -> None:
    """Otherwise no checkpoint would ever be made again, and the log would grow until no calls are taken."""
    made = group("active")
    write(made, 1)
    made.settle()
    made.members["a"].refuses = Overloaded("full for the moment")
    pass_interval(made)
    assert made.members["a"].checkpoint is None
    made.members["a"].refuses = None
    made.settle()
    pass_interval(made)
    assert made.members["a"].checkpoint is not None


def behind(made: FakeGroup) -> None:
    """b returns with much to execute, of which each record takes more than a fifth of a slice."""
    made.crash("b")
    for number in range(1, 101):
        write(made, number)
        made.settle()
    made.restart("b")
    made.clock.step_ns = CONFIG.slice_ns // 10


def test_a_member_that_is_behind_executes_slice_by_slice() -> None:
    """Executing a whole log in one event would look like a hang, and end one candidate after the other."""
    made = group("active")
    behind(made)
    replica = made.replicas["b"]
    made.tell_commit("b", made.members["a"].committed)
    reached = 0
    while reached < 100:
        assert 0 < replica.reached - reached <= 5
        assert "b" in made.woken, "it asks for a turn to go on in"
        reached = replica.reached
        made.woken.clear()
        replica.turn()
    assert lines(made, "b") == lines(made, "a")
    assert [position for position in made.members["b"].read_from if position > 1] == [], "it reads them once"


def test_what_is_committed_while_a_member_catches_up_is_executed_after_that() -> None:
    made = group("active")
    behind(made)
    made.tell_commit("b", Position(50))
    assert made.replicas["b"].reached < 50
    made.tell_commit("b", made.members["a"].committed)
    made.wake()
    assert lines(made, "b") == lines(made, "a")


def test_a_successor_that_is_behind_takes_calls_when_it_has_caught_up() -> None:
    made = group("active")
    behind(made)
    made.fail_over("b", is_crash=True)
    assert catch_up(made) > 1
    told(made)
    write(made, 101)
    write(made, 102)
    made.settle()
    assert [numbers for _, numbers, _ in told(made)] == [[101], [102]]
    assert lines(made, "b") == [f"line {number}" for number in range(1, 103)]


def test_a_member_that_is_made_anew_while_it_catches_up_begins_again() -> None:
    made = group("active")
    behind(made)
    made.tell_commit("b", made.members["a"].committed)
    assert 0 < made.replicas["b"].reached < 100
    made.replicas["b"].make_anew("it says that it is not alive")
    made.wake()
    assert lines(made, "b") == lines(made, "a")


class Unsteady:
    """Two members never have the same state of it."""

    made = 0

    def __init__(self) -> None:
        Unsteady.made += 1
        self.number = Unsteady.made

    def add(self) -> int:
        return 1


@pytest.mark.covers("FTC-23")
def test_active_members_that_differ_are_reported() -> None:
    made = group("active", Unsteady)
    made.replicas["a"].on_calls("t", sent(call(1, "add")))
    pass_interval(made)
    made.settle()
    assert {(name, kind) for name, kind, _ in made.faults} == {("b", "divergence"), ("c", "divergence")}


class UnsteadyAsking(Unsteady):
    async def ask(self) -> None:
        await hf.context.group("other").get("x")


def test_active_members_that_differ_are_reported_though_a_method_waits_at_each_mark() -> None:
    """The states are compared where the method ends, which is the same record on all members."""
    made = group("active", UnsteadyAsking)
    made.replicas["a"].on_calls("t", sent(call(1, "ask"), call(2, "ask")))
    made.settle()
    pass_interval(made)
    assert not made.faults
    _, waits = made.outgoing.pop()
    made.outgoing.clear()
    made.replicas["a"].on_nested_outcome(waits.caller, waits.call, encode_outcome(Returned(5)))
    for _ in range(3):
        made.settle()
    assert {(name, kind) for name, kind, _ in made.faults} == {("b", "divergence"), ("c", "divergence")}


@pytest.mark.covers("FTC-126")
def test_a_stateless_member_executes_at_once_and_records_nothing() -> None:
    member = Stateless(definition(Counter), FakeClock())
    frame = sent(call(1, "add", 5), call(2, "remind", 1, "x"), call(3, "fetch", "h", "x"))
    numbers, outcomes = member.execute(frame)
    assert numbers == [1, 2, 3]
    first, *others = map(decode_outcome, outcomes)
    assert first == Returned(5)
    for other in others:
        assert isinstance(other, Raised)
        assert other.type_name.endswith("NotOrdered")
    _, outcomes = member.execute(frame)
    assert decode_outcome(outcomes[0]) != first, "the same request ran again: no reply was kept"


def test_an_active_primary_orders_a_firing_once() -> None:
    made = group("active", Counter)
    made.replicas["a"].on_calls("t", sent(call(1, "remind", 5, "wake")))
    made.settle()
    made.clock.time_ns += 6 * SECOND
    tail = made.members["a"].tail
    for _ in range(3):
        made.replicas["a"].turn()
    assert made.members["a"].tail == tail + 1


class Replaced(Captured):
    """A state whose file is gone, because a newer one has replaced it."""

    def chunk(self, number: int) -> bytes:
        raise Unavailable("replaced")


def test_a_state_that_is_replaced_while_it_is_loaded_is_loaded_from_the_newer_one() -> None:
    """*Without it:* the member counts as one that cannot make its object."""
    made = group("active")
    write(made, 1, 2)
    made.settle()
    pass_interval(made)
    kept = made.members["b"].checkpoint
    assert isinstance(kept, Captured)
    made.replicas["b"].install(Replaced(kept.position, kept.state))
    for _ in range(3):
        made.replicas["b"].turn()
    assert lines(made, "b") == ["line 1", "line 2"]
    assert made.faults == []
