"""Calls that are refused before anything happens, and what methods may raise."""

from datetime import datetime, tzinfo
from pathlib import Path

import msgspec
import pytest
from fake_group import FakeGroup
from group_classes import A, Counter, Spy, call, sent
from style_groups import ALL, CONFIG, PASSIVE, group, lines, told, write

import holdfast as hf
from holdfast.execution.crash_attempts import CrashSuspicions, NoSlot, Slot
from holdfast.execution.interface import BadCall
from holdfast.execution.records import Call, Sent
from holdfast.model.errors import Overloaded
from holdfast.model.ids import SECOND, ClientId, GroupId, Incarnation
from holdfast.model.outcome import INVALID_POLICY, Raised, Refused, Returned, encode_outcome
from holdfast.node.crash_note import open_slot
from holdfast.sequence.keyed_replies import ENTRY_BYTES, keyed_client
from holdfast.sequence.retention import KEPT_S_MAX


@pytest.mark.parametrize("style", ALL)
def test_a_call_back_into_a_waiting_group_gets_call_cycle(style: str) -> None:
    made = group(style)
    frame = msgspec.structs.replace(sent(call(1, "write", "x")), chain=("g", "h"))
    made.replicas["a"].on_calls("t", frame)
    ((_, _, (outcome,)),) = told(made)
    assert isinstance(outcome, Refused)
    assert outcome.code == "call_cycle"
    assert Spy.runs == []


@pytest.mark.parametrize("style", ALL)
def test_a_frame_that_cannot_be_read_is_refused_and_nothing_happens(style: str) -> None:
    made = group(style)
    for calls in (b"\xc1", b"\x90", msgspec.msgpack.encode([[1, "write"]])):
        with pytest.raises(BadCall):
            made.replicas["a"].on_calls(
                "t", msgspec.structs.replace(sent(call(1, "write", "x")), calls=msgspec.Raw(calls))
            )
    assert made.members["a"].tail == 0


@pytest.mark.parametrize("style", ALL)
def test_the_line_behind_a_call_that_waits_is_bounded(style: str) -> None:
    made = group(style, Counter, msgspec.structs.replace(CONFIG, in_line_max=3))
    made.replicas["a"].on_calls("t", sent(call(1, "fetch", "h", "x")))
    made.settle()
    with pytest.raises(Overloaded, match="3 calls"):
        for number in range(2, 20):
            made.replicas["a"].on_calls("t", sent(call(number, "add")))
            made.settle()


@pytest.mark.parametrize("style", PASSIVE)
def test_a_primary_does_not_run_away_from_its_backups(style: str) -> None:
    made = group(style)
    with pytest.raises(Overloaded):
        for first in range(1, 200, 10):
            write(made, *range(first, first + 10))
    assert len(Spy.runs) == CONFIG.uncommitted_max


@pytest.mark.parametrize("style", ALL)
def test_a_refusal_is_told_when_what_it_rests_on_is_final(style: str) -> None:
    """X3: "it never runs" must not be said because of a record that may be lost with its primary."""
    made = group(style)
    made.replicas["a"].on_outcome_asked("ask", A, 1, 200_000)
    write(made, 1)
    assert told(made) == []
    made.settle()
    for _, _, (outcome,) in told(made):
        assert isinstance(outcome, Refused)
        assert outcome.code == "never_runs"


@pytest.mark.covers("FTC-95")
@pytest.mark.parametrize("style", ALL)
def test_an_expiration_that_cannot_be_honoured_is_refused_as_invalid_policy(style: str) -> None:
    """Nothing of it runs, but the calls beside it do, and a group that was idle for long refuses no valid
    call."""
    made = group(style)
    made.clock.time_ns += 1000 * KEPT_S_MAX * SECOND
    good_s = made.clock.wall() // SECOND + 2 * 24 * 3600
    late = msgspec.structs.replace(call(1, "write", "late"), expiration_s=good_s + KEPT_S_MAX)
    good = msgspec.structs.replace(call(2, "write", "good"), expiration_s=good_s)
    frame = msgspec.structs.replace(sent(late, good), horizon_s=late.expiration_s)
    made.replicas["a"].on_calls("t", frame)
    made.settle()
    ((_, _, (refused, returned)),) = told(made)
    assert isinstance(refused, Refused)
    assert refused.code == INVALID_POLICY
    assert returned == Returned(1)
    assert lines(made, "a") == ["good"]


class Unbounded(BaseException):
    """Not an ``Exception``, like the cancellation of a task."""


class Zoneless(tzinfo):
    """Has no offset, which shows only when a time in this zone is encoded."""


class Unset(msgspec.Struct):
    x: int = 0


class Escaping(Spy):
    def escape(self) -> None:
        self.lines.append("half")
        raise Unbounded("out of here")

    async def escape_later(self) -> None:
        await hf.context.group("other").get("x")
        raise Unbounded("out of here, later")

    def unsendable(self, what: str) -> object:
        self.lines.append("half")
        return _unsendable(what)

    async def unsendable_later(self, what: str) -> object:
        await hf.context.group("other").get("x")
        return _unsendable(what)


def _unsendable(what: str) -> object:
    if what == "time":
        return datetime(2026, 1, 1, tzinfo=Zoneless())
    found = Unset()
    del found.x
    return found


@pytest.mark.parametrize("style", ALL)
def test_whatever_a_method_raises_is_its_reply_and_positions_stay_in_line(style: str) -> None:
    """If the exception left the record half executed, the object would count one position more than the log,
    and the next checkpoint would cover a call that is not in it."""
    made = group(style, Escaping)
    made.replicas["a"].on_calls("t", sent(call(1, "escape")))
    write(made, 2)
    made.settle()
    (_, _, [raised]), (_, _, [returned]) = told(made)
    assert isinstance(raised, Raised)
    assert raised.type_name.endswith("Unbounded")
    assert returned == Returned(2)
    execution = made.replicas["a"].execution
    assert execution is not None
    assert execution.position == made.members["a"].tail


@pytest.mark.parametrize("what", ["time", "field"])
@pytest.mark.parametrize("style", ALL)
def test_whatever_the_encoding_of_a_result_raises_is_the_reply_and_positions_stay_in_line(
    style: str, what: str
) -> None:
    """Encoding a result runs its own code, which may raise anything after the call has been executed."""
    made = group(style, Escaping)
    made.replicas["a"].on_calls("t", sent(call(1, "unsendable", what)))
    write(made, 2)
    made.settle()
    (_, _, [raised]), (_, _, [returned]) = told(made)
    assert isinstance(raised, Raised)
    assert raised.type_name == "holdfast.NotEncodable"
    assert returned == Returned(2)
    execution = made.replicas["a"].execution
    assert execution is not None
    assert execution.position == made.members["a"].tail


@pytest.mark.parametrize(
    ("escape", "error"),
    [(call(1, "escape_later"), "Unbounded"), (call(1, "unsendable_later", "time"), "holdfast.NotEncodable")],
)
@pytest.mark.parametrize("style", ALL)
def test_what_goes_wrong_after_a_method_waited_is_its_reply(style: str, escape: Call, error: str) -> None:
    made = group(style, Escaping)
    made.replicas["a"].on_calls("t", sent(escape))
    made.settle()
    ((_, outgoing),) = made.outgoing
    made.replicas["a"].on_nested_outcome(outgoing.caller, outgoing.call, encode_outcome(Returned(1)))
    made.settle()
    ((_, _, [raised]),) = told(made)
    assert isinstance(raised, Raised)
    assert raised.type_name.endswith(error)


class FailingSlot(NoSlot):
    """Fails to note the call, or the timer, with that number."""

    def __init__(self, fails_for: int) -> None:
        self._fails_for = fails_for

    def note(self, group: GroupId, client: ClientId, first: int, last: int, attempts: int) -> None:
        if first == self._fails_for:
            raise OSError("the slot cannot be written")


def restarted(made: FakeGroup, slot: Slot) -> None:
    """The primary in a new process, which notes what it executes in *slot*."""
    made.attempts["a"] = CrashSuspicions(GroupId(1), slot=slot)
    made.start("a")
    made.members["a"].committed = made.members["a"].tail
    made.members["a"].is_serving = True
    made.replicas["a"].on_serving(made.epoch)


@pytest.mark.parametrize("style", PASSIVE)
def test_an_object_is_given_up_when_executing_fails_and_nothing_was_ordered(style: str) -> None:
    """The object has used positions that are not in the log: the next call would be ordered at another
    position."""
    made = group(style)
    restarted(made, FailingSlot(2))
    write(made, 1)
    made.settle()
    with pytest.raises(OSError, match="slot"):
        write(made, 2)
    assert not made.replicas["a"].is_ready
    made.settle()
    write(made, 3)
    made.settle()
    assert [numbers for _, numbers, _ in told(made)] == [[1], [3]]
    assert lines(made, "a") == ["line 1", "line 3"]


@pytest.mark.parametrize("style", PASSIVE)
def test_an_object_is_given_up_when_a_timer_fails_and_nothing_was_ordered(style: str) -> None:
    made = group(style, Counter)
    restarted(made, FailingSlot(1))
    made.replicas["a"].on_calls("t", sent(call(7, "remind", 1, "text")))
    made.settle()
    made.clock.time_ns += 2 * SECOND
    with pytest.raises(OSError, match="slot"):
        made.replicas["a"].turn()
    assert not made.replicas["a"].is_ready


BOUNDS = {
    "a negative number": sent(call(-1, "write", "x")),
    "a number beyond 63 bits": sent(call(1 << 63, "write", "x")),
    "a floor beyond 63 bits": sent(call(1, "write", "x"), floor=(1 << 64) - 1),
    "a method's name without end": sent(call(1, "\u20ac" * 240_000)),
    "a chain without end": msgspec.structs.replace(sent(call(1, "write", "x")), chain=("h",) * 10_000),
    "a client's id without end": sent(call(1, "write", "x"), client=ClientId("x" * 70_000)),
}


@pytest.mark.parametrize("style", ALL)
@pytest.mark.parametrize("bad", BOUNDS.values(), ids=BOUNDS)
def test_a_frame_that_breaks_a_bound_is_refused_before_anything_is_executed(
    style: str, bad: Sent, tmp_path: Path
) -> None:
    """Such a number does not fit a process's slot, and such a floor no range: discovered in the middle of a
    record it would end the host, or leave its object ahead of its log."""
    made = group(style)
    made.attempts["a"] = CrashSuspicions(GroupId(1), slot=open_slot(tmp_path, Incarnation(1)))
    made.start("a")
    made.members["a"].is_serving = True
    made.replicas["a"].on_serving(made.epoch)
    with pytest.raises((msgspec.ValidationError, BadCall)):
        made.replicas["a"].on_calls("t", msgspec.msgpack.decode(msgspec.msgpack.encode(bad), type=Sent))
    write(made, 7)
    made.settle()
    assert told(made) == [("t", [7], [Returned(1)])]


@pytest.mark.parametrize("style", ALL)
def test_a_circle_is_refused_as_such_also_when_the_line_is_full(style: str) -> None:
    """E3: the queue does not advance until the cycle is refused. Found by seed 0 of the scenario groups under
    kills."""
    made = group(style, Counter, msgspec.structs.replace(CONFIG, in_line_max=1))
    name = made.definition.group
    made.replicas["a"].on_calls("t", sent(call(1, "fetch", name, "x")))
    made.settle()
    made.replicas["a"].on_calls("t", sent(call(2, "add")))
    made.settle()
    circle = msgspec.structs.replace(sent(call(1, "add")), client=ClientId("inner"), chain=(name,))
    made.replicas["a"].on_calls("circle", circle)
    [outcome] = next(outcomes for token, _, outcomes in told(made) if token == "circle")
    assert isinstance(outcome, Refused)
    assert outcome.code == "call_cycle"


@pytest.mark.parametrize("style", PASSIVE)
def test_portions_of_a_long_frame_count_all_that_a_record_has_of_a_call(style: str) -> None:
    """This includes the method's name: otherwise the record of many calls with long names and short outcomes
    would exceed the limit, and cost the group its object."""
    config = msgspec.structs.replace(CONFIG, uncommitted_max=4096, record_bytes=4096)
    made = group(style, config=config)
    made.replicas["a"].on_calls("t", sent(*(call(number, "\u20ac" * 200) for number in range(1, 101))))
    made.settle()
    assert sum(len(numbers) for _, numbers, _ in told(made)) == 100
    assert max(len(each.body) for each in made.members["a"].log) <= 4096 + 200


@pytest.mark.parametrize("style", ALL)
def test_new_keys_are_refused_while_too_much_is_kept_for_a_caller_or_for_all(style: str) -> None:
    """A repeated key is answered, another caller may go on, and so may who calls without a key (X2)."""
    limits = msgspec.structs.replace(CONFIG, keyed_caller_bytes_max=1, keyed_bytes_max=2 * ENTRY_BYTES)
    made = group(style, config=limits)
    replica = made.replicas["a"]

    def use(caller: str, key: str) -> None:
        replica.on_calls(
            "t", sent(call(1, "write", key), client=keyed_client(caller * 64, key * 32, window=1))
        )
        made.settle()

    use("1", "a")
    with pytest.raises(Overloaded, match="this caller's idempotency keys"):
        use("1", "b")
    use("1", "a")
    use("2", "c")
    with pytest.raises(Overloaded, match="all callers' idempotency keys"):
        use("3", "d")
    write(made, 1)
    made.settle()
    assert lines(made, "a") == ["a", "c", "line 1"]
