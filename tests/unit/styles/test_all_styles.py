"""What every style does in normal operation and at failover: replies, queries, timers and outcomes."""

import msgspec
import pytest
from fake_group import FakeGroup
from group_classes import A, B, Counter, Spy, call, sent
from style_groups import ALL, PASSIVE, group, lines, pass_interval, told, write

from holdfast.execution.interface import BadCall
from holdfast.execution.records import Calls, Executed, LaneSent, TimerFired, decode_record, encode_arguments
from holdfast.model.calls import Request
from holdfast.model.csn import Csn
from holdfast.model.errors import Overloaded, Unavailable
from holdfast.model.ids import SECOND
from holdfast.model.outcome import Refused, Returned, Unknown, encode_outcome


@pytest.mark.parametrize("style", ALL)
def test_a_query_of_a_lane_sees_what_was_called_before_it(style: str) -> None:
    """X5: this holds even if both come in one frame."""
    made = group(style)
    frame = sent(call(1, "write", "x"), call(2, "read"), call(3, "write", "y"))
    lane = LaneSent(*msgspec.structs.astuple(frame), is_ordered=True)
    made.replicas["a"].on_calls("t", lane)
    made.settle()
    answers = {n: o for _, ns, os in told(made) for n, o in zip(ns, os, strict=True)}
    assert answers[2] == Returned(["x"])


@pytest.mark.covers("FTC-100")
@pytest.mark.parametrize("style", ALL)
def test_replies_leave_after_commit(style: str) -> None:
    """S4: not when the call was executed, and not when only some members have it."""
    made = group(style)
    write(made, 1, 2)
    made.replicas["a"].turn()
    made.replicate("b")
    made.commit()
    assert told(made) == []
    made.replicate("c")
    made.commit()
    assert told(made) == [("t", [1, 2], [Returned(1), Returned(2)])]


@pytest.mark.covers("FTC-103", "FTC-112")
@pytest.mark.parametrize("style", ALL)
def test_a_repetition_waits_for_the_first_and_gets_its_reply(style: str) -> None:
    made = group(style)
    write(made, 1)
    write(made, 1, token="again")
    assert told(made) == []
    made.settle()
    assert told(made) == [("t", [1], [Returned(1)]), ("again", [1], [Returned(1)])]
    before = made.members["a"].tail
    write(made, 1, token="later")
    assert told(made) == [("later", [1], [Returned(1)])]
    assert made.members["a"].tail == before, "what is known needs no place in the sequence"


@pytest.mark.parametrize("style", ALL)
def test_a_query_is_answered_once_what_it_saw_is_committed_and_reading_is_allowed(style: str) -> None:
    """S4, R1, R2."""
    made = group(style)
    write(made, 1)
    primary = made.replicas["a"]
    primary.on_calls("q", sent(call(1, "read"), client=B))
    primary.turn()
    seen = [] if style == "active" else ["line 1"]
    assert told(made) == ([("q", [1], [Returned(seen)])] if style == "active" else [])
    made.settle()
    made.members["a"].may = False
    assert told(made)[-1][0] == ("t" if style == "active" else "q")
    primary.on_calls("doubtful", sent(call(2, "read"), client=B))
    primary.turn()
    assert told(made) == []
    made.members["a"].asked.pop()(True)
    assert told(made) == [("doubtful", [2], [Returned(["line 1"])])]
    primary.on_calls("deposed", sent(call(3, "read"), client=B))
    primary.turn()
    made.members["a"].asked.pop()(False)
    assert told(made) == []
    assert made.forsaken == ["deposed"]


@pytest.mark.parametrize("style", ALL)
def test_queries_of_a_mixed_frame_are_not_ordered(style: str) -> None:
    made = group(style)
    made.replicas["a"].on_calls("t", sent(call(1, "read"), call(2, "write", "x"), call(3, "read")))
    assert made.members["a"].tail == 1
    made.settle()
    found = {number: each for _, numbers, outcomes in told(made) for number, each in zip(numbers, outcomes)}  # noqa: B905
    assert found == {1: Returned([]), 2: Returned(1), 3: Returned([])}


@pytest.mark.parametrize("style", ALL)
def test_stale_queries_are_answered_by_any_member_that_has_an_object(style: str) -> None:
    made = group(style)
    with pytest.raises(BadCall, match="not a query"):
        made.replicas["a"].on_stale_query(Request(B, 1), "write", encode_arguments(("x",), {}))
    if style == "active":
        assert lines(made, "b") == []
    else:
        with pytest.raises(Unavailable):
            lines(made, "b")
    assert Spy.runs == []


@pytest.mark.parametrize("style", ALL)
def test_asking_for_an_outcome_settles_it(style: str) -> None:
    """X3: a copy that arrives later is not executed either."""
    made = group(style)
    write(made, 1)
    made.settle()
    told(made)
    primary = made.replicas["a"]
    for number in (1, 2):
        primary.on_outcome_asked(f"ask {number}", A, number, 200_000)
    primary.on_outcome_asked("too late", A, 3, 5)
    made.settle()
    known, never, forgotten = (outcomes[0] for _, _, outcomes in told(made))
    assert known == Returned(1)
    assert isinstance(never, Refused)
    assert never.code == "never_runs"
    assert isinstance(forgotten, Unknown)
    write(made, 2)
    made.settle()
    assert isinstance(told(made)[0][2][0], Refused)
    assert "line 2" not in Spy.runs


@pytest.mark.parametrize("style", ALL)
def test_a_query_leaves_no_outcome_and_whoever_asks_is_told_so(style: str) -> None:
    """The query has been answered, and nobody keeps the answer: "it will never run" alone would not be
    true."""
    made = group(style)
    made.replicas["a"].on_calls("query", sent(call(1, "read")))
    made.settle()
    assert told(made)[0][2] == [Returned([])]
    made.replicas["a"].on_outcome_asked("ask", A, 1, 200_000)
    made.settle()
    (found,) = told(made)[0][2]
    assert isinstance(found, Refused)
    assert found.code == "never_runs"
    assert "unless it was a query: these leave no outcome, and can be asked again" in found.text


@pytest.mark.parametrize("style", ALL)
def test_those_who_wait_are_told_to_ask_the_new_primary(style: str) -> None:
    made = group(style)
    write(made, 1)
    made.replicas["a"].on_calls("q", sent(call(1, "read"), client=B))
    made.fail_over("b", is_crash=False)
    assert set(made.forsaken) >= {"t", "q"}
    with pytest.raises(Unavailable):
        write_to(made, "a")


def write_to(made: FakeGroup, name: str) -> None:
    made.replicas[name].on_calls("t", sent(call(9, "write", "x")))


@pytest.mark.parametrize("style", ALL)
def test_an_idle_group_orders_nothing(style: str) -> None:
    made = group(style)
    write(made, 1)
    for _ in range(3):
        pass_interval(made)
    tail = made.members["a"].tail
    for _ in range(5):
        pass_interval(made)
    assert made.members["a"].tail == tail


@pytest.mark.parametrize("style", ALL)
def test_a_timer_fires_once_also_when_the_primary_dies_meanwhile(style: str) -> None:
    """E6."""
    made = group(style, Counter)
    made.replicas["a"].on_calls("t", sent(call(1, "remind", 5, "wake")))
    made.settle()
    assert made.replicas["a"].next_wake_ns() is not None
    made.fail_over("b", is_crash=True)
    made.settle()
    made.clock.time_ns += 6 * SECOND
    made.settle()
    made.replicas["b"].turn()
    made.settle()
    execution = made.replicas["b"].execution
    assert execution is not None
    state = msgspec.msgpack.decode(msgspec.msgpack.decode(execution.save())[5])
    assert state["seen"] == ["wake"]
    assert made.replicas["b"].next_wake_ns() is None


def test_a_due_timer_that_cannot_commit_yet_keeps_nobody_busy() -> None:
    """Its firing is ordered and waits for the backups; meanwhile the primary must not look again and
    again."""
    made = group("active", Counter)
    made.replicas["a"].on_calls("t", sent(call(1, "remind", 5, "wake")))
    made.settle()
    made.clock.time_ns += 6 * SECOND
    made.replicas["a"].turn()
    tail, wake_ns = made.members["a"].tail, made.replicas["a"].next_wake_ns()
    assert wake_ns is not None
    assert wake_ns > made.clock.wall()
    made.replicas["a"].turn()
    assert made.members["a"].tail == tail


def test_a_timer_is_ordered_with_a_stamp_no_earlier_than_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """E6: its method finds that the time is over, also where the host's CSNs lag by more than two seconds."""
    made = group("active", Counter)
    made.replicas["a"].on_calls("t", sent(call(1, "remind", 5, "wake")))
    made.settle()

    def lag(after: Csn, _: int) -> Csn:
        return Csn(after.timestamp, after.sequence + 1, after.replica)

    monkeypatch.setattr(made.replicas["a"]._stamping, "_next_csn", lag)
    made.clock.time_ns += 6 * SECOND
    made.settle()
    records = [decode_record(record.body) for record in made.members["a"].log]
    (fired,) = (each for each in records if isinstance(each, TimerFired))
    assert fired.stamp.time_ns >= fired.due_ns


@pytest.mark.parametrize("style", ALL)
def test_a_timer_set_by_a_clock_that_was_ahead_rings_on_time_elsewhere(style: str) -> None:
    """The group's time advances from its newest stamp, whatever the next primary's clock shows (X4)."""
    made = group(style, Counter)
    made.clock.time_ns += 7200 * SECOND
    made.replicas["a"].on_calls("t", sent(call(1, "remind", 5, "wake")))
    made.settle()
    made.clock.jump_ns = -7200 * SECOND
    made.fail_over("b", is_crash=True)
    made.settle()
    wake_ns = made.replicas["b"].next_wake_ns()
    assert wake_ns is not None
    assert 0 < wake_ns - made.clock.wall() <= 6 * SECOND
    made.clock.time_ns += 6 * SECOND
    made.settle()
    made.settle()
    assert made.replicas["b"].next_wake_ns() is None


@pytest.mark.parametrize("style", PASSIVE)
def test_a_later_reply_is_told_only_when_it_is_final(style: str) -> None:
    """S4: not while only the call is committed; this holds for a repetition, too."""
    made = group(style, Counter)
    made.replicas["a"].on_calls("t", sent(call(1, "add"), call(2, "fetch", "h", "x")))
    made.settle()
    told(made)
    (first, second) = (decode_record(record.body) for record in made.members["a"].log[:2])
    assert isinstance(first, Executed)
    assert isinstance(second, Calls)
    assert second.stamp.csn == first.stamp.csn.part(1)
    _, waits = made.outgoing.pop()
    made.replicas["a"].on_nested_outcome(waits.caller, waits.call, encode_outcome(Returned("x")))
    made.replicas["a"].on_calls("again", sent(call(2, "fetch", "h", "x")))
    assert told(made) == []
    made.settle()
    assert told(made) == [("t", [2], [Returned(["x"])]), ("again", [2], [Returned(["x"])])]


@pytest.mark.parametrize("style", ALL)
def test_of_a_nested_call_is_known_whether_an_earlier_copy_may_have_left(style: str) -> None:
    """The first copy is known to be the first. A copy by another primary, or a second one, may not be."""
    made = group(style)
    made.replicas["a"].on_calls("t", sent(call(1, "ask", "x")))
    made.settle()
    assert [each.may_have_left for _, each in made.outgoing] == [False]
    made.fail_over("b", is_crash=True)
    made.settle()
    assert [each.may_have_left for _, each in made.outgoing] == [False, True]
    outgoing = made.outgoing[-1][1]
    made.members["b"].refuses = Overloaded("no room")
    made.replicas["b"].on_nested_outcome(outgoing.caller, outgoing.call, encode_outcome(Returned(1)))
    made.members["b"].refuses = None
    made.settle()
    assert [each.may_have_left for _, each in made.outgoing] == [False, True, True]
    made.replicas["b"].on_nested_outcome(outgoing.caller, outgoing.call, encode_outcome(Returned(1)))
    made.replicas["b"].on_calls("t", sent(call(2, "ask", "y")))
    made.settle()
    assert made.outgoing[-1][1].caller == Request(A, 2)
    assert not made.outgoing[-1][1].may_have_left
