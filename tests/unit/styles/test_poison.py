"""Calls that crash the processes that execute them, in every style (E4)."""

from dataclasses import replace
from pathlib import Path

import pytest
from fake_group import FakeClock, FakeGroup
from group_classes import A, B, Counter, Spy, call, definition, sent
from slot_notes import Notes
from stored_words import Words, stored, words_of
from style_groups import INTERVAL_NS, group, lines, pass_interval, told, write

from holdfast.execution.crash_attempts import NO_GROUP, Attempt, CrashSuspicions
from holdfast.execution.execution import Execution
from holdfast.execution.records import Stamp, decode_calls, decode_record, stamp_of
from holdfast.model.calls import Request
from holdfast.model.csn import ZERO
from holdfast.model.errors import Unavailable
from holdfast.model.ids import SECOND, ClientId, Position
from holdfast.model.outcome import Poisoned, Refused, Returned, decode_outcome, encode_outcome
from holdfast.styles.stateless import Stateless


def test_a_passive_call_that_ends_processes_is_given_up() -> None:
    """E4."""
    made = group("warm")
    made.attempts["a"].ended(Attempt(NO_GROUP, A, 1, 1, 2))
    write(made, 1, 2)
    made.settle()
    assert told(made) == [("t", [1], [Poisoned(2, "write('line 1')")]), ("t", [2], [Returned(1)])]
    assert Spy.runs == ["line 2"]
    assert [kind for _, kind, _ in made.faults] == ["poisoned"]
    made.attempts["b"].ended(Attempt(NO_GROUP, A, 1, 1, 2))
    made.fail_over("b", is_crash=True)
    write(made, 1, token="again")
    made.settle()
    assert told(made)[-1] == ("again", [1], [Poisoned(2, "write('line 1')")])
    assert lines(made, "b") == ["line 2"]


def test_a_call_that_ended_one_process_is_tried_once_more() -> None:
    """E4: a host may have been killed while the call happened to run."""
    made = group("warm")
    made.attempts["a"].ended(Attempt(NO_GROUP, A, 1, 100, 1))
    write(made, 1)
    made.settle()
    assert told(made) == [("t", [1], [Returned(1)])]


def test_an_operation_that_ends_processes_after_it_waited_is_given_up_where_it_waits() -> None:
    """E4: the call was ordered without an outcome, so every replay reaches it; the calls behind it
    continue."""
    made = group("warm")
    made.replicas["a"].on_calls("t", sent(call(1, "ask", "x"), call(2, "write", "behind")))
    made.settle()
    for name in "bc":
        made.attempts[name].ended(Attempt(NO_GROUP, A, 1, 1, 2))
    made.outgoing.clear()
    made.fail_over("b", is_crash=True)
    made.settle()
    made.replicas["b"].on_calls("again", sent(call(1, "ask", "x"), call(2, "write", "behind")))
    made.settle()
    assert [(numbers, outcomes) for token, numbers, outcomes in told(made) if token == "again"] == [
        ([1], [Poisoned(2, "ask('x')")]),
        ([2], [Returned(1)]),
    ]
    assert lines(made, "b") == ["behind"]


def test_a_call_that_was_answered_and_cannot_be_executed_again_costs_the_object_not_the_host() -> None:
    """E4: the call can be neither given up nor skipped."""
    made = group("warm")
    write(made, 1)
    made.settle()
    made.attempts["b"].ended(Attempt(NO_GROUP, A, 1, 1, 2))
    made.fail_over("b", is_crash=True)
    with pytest.raises(Unavailable):
        write(made, 2)
    assert [(name, kind) for name, kind, _ in made.faults] == [("b", "object_failed")]
    assert Spy.runs == ["line 1"]


def test_a_query_that_ends_processes_is_given_up_without_a_record() -> None:
    """E4."""
    made = group("warm")
    made.attempts["a"].ended(Attempt(NO_GROUP, A, 1, 1, 2))
    tail = made.members["a"].tail
    made.replicas["a"].on_calls("q", sent(call(1, "read")))
    made.settle()
    assert told(made) == [("q", [1], [Poisoned(2)])]
    assert made.members["a"].tail == tail


def test_an_active_call_that_ends_processes_is_given_up_by_all() -> None:
    """E4: the record that gives up the call follows it, and is known before the call is executed."""
    made = group("active")
    write(made, 1, 2)
    made.replicas["a"].turn()
    for name in "abc":
        made.replicate(name)
    made.attempts["b"].ended(Attempt(NO_GROUP, A, 1, 1, 2))
    made.attempts["c"].ended(Attempt(NO_GROUP, A, 1, 1, 1))  # c has heard of one crash only
    made.fail_over("b", is_crash=True)
    assert Spy.runs == []
    with pytest.raises(Unavailable):
        made.replicas["b"].on_calls("q", sent(call(1, "read"), client=B))
    made.settle()
    assert Spy.runs == ["line 2"] * 2
    write(made, 1, 2, token="again")
    made.settle()
    assert told(made)[-2:] == [
        ("again", [1], [Poisoned(2, "write('line 1')")]),
        ("again", [2], [Returned(1)]),
    ]


@pytest.mark.parametrize("is_one_batch", [False, True])
def test_an_active_timer_that_ends_processes_is_given_up_by_all(is_one_batch: bool) -> None:
    """E4: its firing was committed before the timer was suspected. *Without it:* every host replays the
    firing, and none recovers."""
    made = group("active", Counter)
    made.replicas["a"].on_calls("t", sent(call(1, "remind", 1, "deadly")))
    made.settle()
    made.clock.time_ns += 2 * SECOND
    made.replicas["a"].turn()
    for name in "abc":
        made.replicate(name)
        made.attempts[name].ended(Attempt(NO_GROUP, ClientId("timer/1"), 1, 1, 2))
    if is_one_batch:  # b executes nothing before it knows all records, and the timer is set there as well
        made.start("b")
    made.fail_over("b", is_crash=True)
    made.settle()
    made.restart("a")
    made.replicas["b"].on_calls("t", sent(call(2, "add", 5)))
    made.settle()
    assert told(made)[-1] == ("t", [2], [Returned(5)])
    assert [(name, kind) for name, kind, _ in made.faults] == [("b", "poisoned")]
    for name in "abc":
        execution = made.replicas[name].execution
        assert execution is not None
        assert execution.position == made.members["b"].tail
        assert execution.line.instance.seen == []  # type: ignore[attr-defined]  # a Counter
        assert len(execution.timers) == 0
        assert execution.line.poisoned == {}


def test_an_active_call_given_up_before_it_was_ordered_leaves_nothing_behind() -> None:
    """The end of the call comes first in the sequence and is the only record of it: later calls take the fast
    path again."""
    made = group("active")
    made.attempts["a"].ended(Attempt(NO_GROUP, A, 1, 1, 2))
    write(made, 1, 2)
    made.settle()
    assert told(made) == [("t", [1, 2], [Poisoned(2, "write('line 1')"), Returned(1)])]
    for name in "abc":
        execution = made.replicas[name].execution
        assert execution is not None
        assert execution.line.poisoned == {}


def test_a_call_behind_one_that_may_wait_is_noted_as_it_runs() -> None:
    """E4: methods that may wait are noted one by one, and the rest of their frame is noted again."""

    class Seen(Notes):
        def __init__(self) -> None:
            super().__init__()
            self.at_look: list[object] = []

    notes = Seen()

    class Mixed:
        def __init__(self) -> None:
            self.looks = 0

        def look(self) -> None:
            self.looks += 1
            notes.at_look.append(notes.written[-1])

        async def pause(self) -> None:
            return None

    made = Execution(replace(definition(Mixed), attempts=CrashSuspicions(slot=notes)))
    frame = sent(call(1, "look"), call(2, "pause"), call(3, "look"))
    made.calls(Position(1), Stamp(ZERO), frame, decode_calls(frame.calls))
    assert notes.at_look == [(A, 1, 3, 1)] * 2


def test_stamps_go_on_from_what_was_ordered_behind_a_call_that_may_not_run() -> None:
    """S1: the object of the next primary stops before that call and has not seen the newest stamp, which came
    from a host ahead in time. *Without it:* requests expire too early, by the older stamps."""
    made = group("active")
    made.clock.jump_ns = 5 * SECOND
    write(made, 1, 2)
    made.replicas["a"].turn()
    for name in "abc":
        made.replicate(name)
    made.clock.jump_ns = 0
    made.attempts["b"].ended(Attempt(NO_GROUP, A, 1, 1, 2))
    made.fail_over("b", is_crash=True)
    made.settle()
    member = made.members["b"]
    records = [decode_record(each.body) for each in member.read(Position(1), member.tail)]
    csns = [stamp.csn for stamp in map(stamp_of, records) if stamp is not None]
    assert len(csns) >= 2
    assert csns == sorted(set(csns))


def test_a_stateless_call_that_ended_two_processes_is_not_run_by_a_third() -> None:
    """There is no record of the call: each member relies on the crashes it was told about."""
    runs: list[int] = []

    class Fragile:
        def go(self) -> int:
            runs.append(1)
            return 1

    attempts, faults = CrashSuspicions(), list[tuple[str, str]]()
    member = Stateless(
        definition(Fragile),
        FakeClock(),
        attempts=attempts,
        fault=lambda kind, what: faults.append((kind, what)),
    )
    for host in (1, 2):
        member.execute(sent(call(7, "go")))
        assert len(runs) == host
        attempts.ended(Attempt(NO_GROUP, A, 7, 7, 1))
    _, (outcome,) = member.execute(sent(call(7, "go")))
    assert len(runs) == 2
    assert decode_outcome(outcome) == Poisoned(2, "go()")
    assert faults == [("poisoned", "go() of request a/7 ended 2 processes and is not tried again")]
    assert decode_outcome(member.execute(sent(call(8, "go")))[1][0]) == Returned(1)


def test_no_call_leaves_while_its_outcome_may_stand_behind_a_deadly_call() -> None:
    """E3: the outcome of the nested call was ordered; the object that takes over stands before the call that
    ends processes. *Without it:* the recorded outcome says that there was no such group, there is one by now,
    and it executes the call."""
    made = group("active")
    made.replicas["a"].on_calls("t", sent(call(1, "ask", "x")))
    made.settle()
    assert len(made.outgoing) == 1
    made.outgoing.clear()
    made.replicas["a"].on_calls("t", sent(call(1, "write", "deadly"), client=B))
    made.replicas["a"].on_nested_outcome(Request(A, 1), 1, encode_outcome(Refused("no_such_group", "")))
    made.replicas["a"].turn()
    for name in "bc":
        made.replicate(name)
        made.attempts[name].ended(Attempt(NO_GROUP, B, 1, 1, 2))
    made.fail_over("b", is_crash=True)
    made.settle()
    assert made.outgoing == []
    execution = made.replicas["b"].execution
    assert execution is not None
    assert execution.is_at_rest


def stored_group(tmp_path: Path) -> FakeGroup:
    """A group of stored objects, each with a checkpoint in which one word stands."""
    made = group("active", Words)
    for name in "abc":
        made.classes[name] = stored(tmp_path / f"{name}.db")
        made.start(name)
    made.members["a"].is_serving = True
    made.replicas["a"].on_serving(made.epoch)
    made.replicas["a"].on_calls("t", sent(call(1, "add", "first")))
    made.settle()
    pass_interval(made)
    for name in "abc":
        made.copies[name].end()
    made.settle()
    assert all(made.members[name].checkpoint is not None for name in "abc")
    return made


def ask_and_flush(made: FakeGroup) -> None:
    """All databases are flushed between two operations, while another stands in line, which runs next."""
    made.replicas["a"].on_calls("t", sent(call(2, "ask")))
    made.replicas["a"].on_calls("t", sent(call(3, "add", "deadly")))
    made.settle()
    made.clock.time_ns += INTERVAL_NS
    made.settle()
    (_, outgoing) = made.outgoing.pop()
    made.outgoing.clear()
    made.replicas["a"].on_nested_outcome(outgoing.caller, 1, encode_outcome(Returned("asked")))
    made.settle()


def end_processes(made: FakeGroup) -> None:
    """What was executed after the flush is rolled back."""
    for name in "abc":
        execution = made.replicas[name].execution
        assert execution is not None
        execution.discard()
    for name in "bc":
        made.start(name)


def test_a_call_in_line_where_a_database_was_flushed_is_given_up_like_any_other(tmp_path: Path) -> None:
    """E4, W7: the flush outlives the process that the next call ends, and the call stands in line in it."""
    made = stored_group(tmp_path)
    ask_and_flush(made)
    for name, crashes in (("b", 2), ("c", 1)):  # c has heard of one crash only
        made.attempts[name].ended(Attempt(NO_GROUP, A, 3, 3, crashes))
    end_processes(made)
    made.fail_over("b", is_crash=True)
    made.settle()
    made.replicas["b"].on_calls("again", sent(call(3, "add", "deadly")))
    made.replicas["b"].on_calls("again", sent(call(4, "add", "last")))
    made.settle()
    assert told(made)[-2:] == [
        ("again", [3], [Poisoned(2, "add('deadly')")]),
        ("again", [4], [Returned(3)]),
    ]
    assert [(name, kind) for name, kind, _ in made.faults] == [("b", "poisoned")]
    for name in "bc":
        execution = made.replicas[name].execution
        assert execution is not None
        assert words_of(execution) == ["first", "asked", "last"]
        assert execution.line.poisoned == {}


def test_a_call_given_up_beyond_a_flush_is_known_when_the_flush_is_reached(tmp_path: Path) -> None:
    """E4, W7: one backlog has the records that are passed over, the call, and its end."""
    made = stored_group(tmp_path)
    ask_and_flush(made)
    made.replicas["a"].on_calls("t", sent(call(5, "add", "deadly, too")))
    made.replicas["a"].turn()
    made.replicate("b")
    made.attempts["b"].ended(Attempt(NO_GROUP, A, 5, 5, 2))
    end_processes(made)
    made.crash("c")
    made.fail_over("b", is_crash=True)
    made.settle()
    made.restart("c")
    made.settle()
    assert [(name, kind) for name, kind, _ in made.faults] == [("b", "poisoned")]
    for name in "bc":
        execution = made.replicas[name].execution
        assert execution is not None
        assert words_of(execution) == ["first", "asked", "deadly"]
        assert execution.line.poisoned == {}
