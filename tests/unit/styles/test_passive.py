"""Cold and warm passive groups: normal operation, failover, new members and returning members."""

from contextlib import suppress

import msgspec
import pytest
from group_classes import Counter, Spy, call, sent
from style_groups import ALL, CONFIG, PASSIVE, group, lines, pass_interval, told, write

import holdfast as hf
from holdfast.model.errors import InvalidRequest, Overloaded, Unavailable
from holdfast.model.ids import SECOND
from holdfast.model.outcome import Raised, Returned, encode_outcome
from holdfast.sequence.ports import Captured
from holdfast.styles import replay


@pytest.mark.covers("FTC-11", "FTC-127")
@pytest.mark.parametrize("style", PASSIVE)
def test_only_the_primary_of_a_passive_group_executes(style: str) -> None:
    made = group(style)
    write(made, 1, 2, 3)
    pass_interval(made)
    assert Spy.runs == ["line 1", "line 2", "line 3"]


@pytest.mark.covers("FTC-128")
def test_a_cold_backup_that_makes_a_checkpoint_by_itself_has_no_object_afterwards() -> None:
    """A state that is too large to be sent is made from the log by each member; the object that this takes is
    given up, and recovery makes another."""
    made = group("cold", config=msgspec.structs.replace(CONFIG, sent_state_bytes_max=1))
    write(made, 1, 2)
    pass_interval(made)
    write(made, 3)
    pass_interval(made)
    write(made, 4)
    made.settle()
    checkpoint = made.members["b"].checkpoint
    assert checkpoint is not None
    assert checkpoint.position >= 3
    assert made.replicas["b"].execution is None
    made.fail_over("b", is_crash=True)
    assert lines(made, "b") == ["line 1", "line 2", "line 3", "line 4"]


@pytest.mark.covers("FTC-128", "FTC-300", "FTC-316", "FTC-317")
def test_a_cold_backup_has_no_object_until_it_is_promoted_and_then_applies_the_whole_log() -> None:
    made = group("cold")
    write(made, 1, 2)
    pass_interval(made)
    checkpoint = made.members["b"].checkpoint
    assert checkpoint is not None
    assert checkpoint.position == 2
    write(made, 3)
    made.settle()
    assert made.replicas["b"].execution is None
    Spy.runs.clear()
    made.fail_over("b", is_crash=True)
    assert Spy.runs == ["line 3"], "what the checkpoint holds is not executed again"
    assert lines(made, "b") == ["line 1", "line 2", "line 3"]
    told(made)
    write(made, 1, token="again")  # its reply is in the checkpoint
    write(made, 3, token="again")  # and this one's in the log after it
    made.settle()
    assert [(token, numbers) for token, numbers, _ in told(made)] == [("again", [1]), ("again", [3])]
    assert Spy.runs == ["line 3"]


@pytest.mark.covers("FTC-9", "FTC-129", "FTC-301", "FTC-308")
def test_a_warm_backup_is_given_states_and_replays_only_what_follows() -> None:
    made = group("warm")
    write(made, 1, 2)
    pass_interval(made)
    assert lines(made, "b") == lines(made, "c") == ["line 1", "line 2"]
    write(made, 3)
    made.settle()
    assert lines(made, "b") == ["line 1", "line 2"]
    Spy.runs.clear()
    made.fail_over("b", is_crash=True)
    assert Spy.runs == ["line 3"]
    assert lines(made, "b") == ["line 1", "line 2", "line 3"]


@pytest.mark.parametrize("style", ["cold", "warm"])
def test_a_backup_looks_at_no_record_twice_until_a_step_is_among_them(style: str) -> None:
    """A backup scans after every few commits. Going back to the last step each time would cost more the rarer
    steps are."""
    made = group(style)
    for number in range(1, 9):
        write(made, number)
        made.settle()
    looked_at = made.members["b"].read_from
    assert len(looked_at) >= 8
    assert looked_at == sorted(set(looked_at))
    pass_interval(made)
    write(made, 9)
    made.settle()
    made.fail_over("b", is_crash=True)
    assert lines(made, "b") == [f"line {number}" for number in range(1, 10)]


def test_a_commit_calls_for_a_turn_of_who_waits_for_it() -> None:
    """Most commits do not need a turn: a primary had its turn when it executed the call, and a backup has
    nothing to do in one. A query on uncommitted state waits, and so does a primary whose object is not
    ready."""
    made = group("warm")
    primary, backup = made.replicas["a"], made.replicas["b"]
    write(made, 1)
    assert not primary.awaits_turn
    primary.on_calls("q", sent(call(2, "read")))
    assert primary.awaits_turn
    made.settle()
    assert not primary.awaits_turn
    assert not backup.awaits_turn


@pytest.mark.covers("FTC-302")
def test_a_new_warm_backup_takes_states_only() -> None:
    made = group("warm")
    write(made, 1)
    pass_interval(made)
    made.crash("c")
    Spy.runs.clear()
    made.restart("c", is_wiped=True)
    write(made, 2)
    pass_interval(made)
    assert lines(made, "c") == ["line 1", "line 2"]
    assert Spy.runs == ["line 2"], "once, by the primary"


@pytest.mark.parametrize("style", PASSIVE)
def test_a_primary_that_loses_its_epoch_discards_what_is_not_committed(style: str) -> None:
    """E1: no other member had it; the client asks again, and then the call is executed for good."""
    made = group(style)
    write(made, 1)
    made.settle()
    write(made, 2)
    made.fail_over("b", is_crash=False)
    assert lines(made, "b") == ["line 1"]
    write(made, 3)
    made.settle()
    made.fail_over("a", is_crash=False)
    assert lines(made, "a") == ["line 1", "line 3"]
    write(made, 2)
    made.settle()
    assert lines(made, "a") == ["line 1", "line 3", "line 2"]


@pytest.mark.parametrize("style", PASSIVE)
def test_what_was_executed_and_cannot_be_ordered_is_given_up_and_the_group_serves_on(style: str) -> None:
    made = group(style)
    write(made, 1)
    made.settle()
    made.members["a"].refuses = Overloaded("full")
    with pytest.raises(Overloaded):
        write(made, 2)
    made.members["a"].refuses = None
    made.settle()
    assert lines(made, "a") == ["line 1"]
    write(made, 2)
    made.settle()
    assert lines(made, "a") == ["line 1", "line 2"]


def test_a_warm_backup_that_is_read_from_keeps_up_and_the_next_state_does_not_confuse_it() -> None:
    """S7: the backup replays what it has not been sent yet; a state sent later covers that as well."""
    made = group("warm")
    write(made, 1)
    made.settle()
    backup = made.replicas["b"]
    assert backup.reached < made.members["b"].committed
    backup.keep_up()
    assert backup.reached == made.members["b"].committed
    assert lines(made, "b") == ["line 1"]
    write(made, 2)
    pass_interval(made)
    backup.keep_up()
    assert lines(made, "b") == ["line 1", "line 2"]
    made.fail_over("b", is_crash=True)
    write(made, 3)
    made.settle()
    assert lines(made, "b") == ["line 1", "line 2", "line 3"]
    assert made.faults == []


def test_a_warm_backup_that_claims_replays_what_is_committed_before_it_has_won() -> None:
    """E5: the authority takes its time to answer, and the object is ready when it has. A claim that is lost
    does no harm: the next state covers what was replayed."""
    made = group("warm")
    write(made, 1)
    made.settle()
    backup = made.replicas["b"]
    assert backup.reached < made.members["b"].committed
    backup.on_claiming()
    assert backup.reached < made.members["b"].committed, "the claim leaves first"
    backup.turn()
    assert backup.reached == made.members["b"].committed
    write(made, 2)
    pass_interval(made)
    made.fail_over("b", is_crash=True)
    write(made, 3)
    made.settle()
    assert lines(made, "b") == ["line 1", "line 2", "line 3"]
    assert made.faults == []


def test_a_member_without_its_object_makes_none_to_be_read_from() -> None:
    """O3: it takes the primary's state. *Without it:* it makes an object of what it has, keeps a checkpoint
    of that, and the state that comes is older than what the next object is made from."""
    made = group("warm")
    write(made, 1)
    pass_interval(made)
    backup = made.replicas["b"]
    backup.readiness.renew("it lacks a message", made.members["b"].committed)
    write(made, 2)
    made.settle()
    backup.keep_up()
    made.settle()
    assert backup.execution is None
    made.members["b"].keep(kept := made.replicas["a"].capture())  # type: ignore[arg-type]  # a small state
    assert kept is not None
    backup.install(kept)
    backup.keep_up()
    assert lines(made, "b") == ["line 1", "line 2"]


def test_a_backup_whose_copy_outran_its_object_goes_on_from_the_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Replaying takes long, and is done in slices. A copy of an earlier object that was written meanwhile
    counts now, and the log begins behind it. *Without it:* the next record that it needs is gone."""
    monkeypatch.setattr(replay, "PAGE_POSITIONS", 2)
    made = group("warm", config=msgspec.structs.replace(CONFIG, slice_ns=1))
    write(made, 1, 2)
    write(made, 3, 4)
    write(made, 5, 6)
    made.settle()
    made.wake()
    backup, member = made.replicas["b"], made.members["b"]
    backup.keep_up()
    for _ in range(50):
        if not backup.reached:
            backup.turn()
    assert 0 < backup.reached < member.committed
    captured = made.replicas["a"].capture()
    assert isinstance(captured, Captured)
    member.keep(captured)
    backup.keeps(captured)
    made.wake()
    backup.keep_up()
    made.wake()
    assert lines(made, "b") == [f"line {number}" for number in range(1, 7)]
    assert made.faults == []


def test_a_checkpoint_that_is_still_written_outruns_nothing() -> None:
    """It cannot be loaded yet, and the log reaches back to the one before. *Without it:* the object is made
    again and again from the older one, and the process does nothing else."""
    made = group("warm")
    write(made, 1, 2)
    made.settle()
    made.wake()
    backup = made.replicas["b"]
    captured = made.replicas["a"].capture()
    assert captured is not None
    backup.keeps(captured)  # known, but not yet in the member's checkpoints
    made.clock.step_ns = 0  # so that a slice never ends by itself
    write(made, 3)
    made.settle()
    backup.keep_up()
    assert lines(made, "b") == ["line 1", "line 2", "line 3"]


def test_a_cold_backup_cannot_be_read_from() -> None:
    made = group("cold")
    write(made, 1)
    made.settle()
    with pytest.raises(Unavailable):
        made.replicas["b"].keep_up()
    made.replicas["a"].keep_up()  # the primary has its object


class Giver:
    """Returns long answers."""

    def __init__(self) -> None:
        self.given = 0

    def give(self, size: int, taken: bytes = b"") -> bytes:
        self.given += 1
        return bytes(size)

    async def ask(self, size: int) -> bytes:
        await hf.context.group("other").get()
        return self.give(size)

    @hf.query
    def read(self) -> int:
        return self.given


@pytest.mark.parametrize("style", PASSIVE)
@pytest.mark.parametrize("method", ["give", "ask"])
def test_answers_too_long_for_one_record_go_as_several(style: str, method: str) -> None:
    """This includes calls that were queued. A record has a limit; calls of one frame that each fit are not
    refused because of what the others return."""
    made = group(style, Giver, msgspec.structs.replace(CONFIG, record_bytes=1000))
    calls = [call(1, method, 300), *(call(number, "give", 300) for number in range(2, 11))]
    made.replicas["a"].on_calls("t", sent(*calls))
    made.settle()
    for outgoing in [each for _, each in made.outgoing]:
        made.replicas["a"].on_nested_outcome(outgoing.caller, outgoing.call, encode_outcome(Returned(1)))
    made.settle()
    assert max(len(record.body) for record in made.members["a"].log) < 1500
    assert sorted(number for _, numbers, _ in made.answers for number in numbers) == list(range(1, 11))
    made.fail_over("b", is_crash=True)
    assert lines(made, "b") == 10
    made.answers.clear()
    made.replicas["b"].on_calls("again", sent(*calls))
    made.settle()
    assert lines(made, "b") == 10, "every call is known to have run"
    assert [len(outcome) for _, _, outcomes in made.answers for outcome in outcomes] == [305] * 10


@pytest.mark.parametrize(("size", "is_too_long"), [(999_000, False), (1_000_001, True)])
def test_an_answer_that_no_record_takes_is_told_as_such_and_what_was_changed_stays(
    size: int, is_too_long: bool
) -> None:
    made = group("warm", Giver)
    made.replicas["a"].on_calls("t", sent(call(1, "give", size)))
    made.settle()
    ((_, _, [outcome]),) = told(made)
    assert isinstance(outcome, Raised if is_too_long else Returned)
    assert lines(made, "a") == 1


@pytest.mark.parametrize("style", PASSIVE)
def test_an_answer_that_no_record_takes_beside_its_call_is_told_as_such(style: str) -> None:
    """Every member repeats that refusal; the call before it in the frame is answered normally."""
    made = group(style, Giver)
    frame = sent(call(1, "give", 10), call(2, "give", 990_000, bytes(100_000)))
    for token, primary in ("first", "a"), ("again", "b"):
        if primary != made.primary:
            made.fail_over(primary, is_crash=True)
        made.replicas[primary].on_calls(token, frame)
        made.settle()
        outcomes = {n: o for t, ns, os in told(made) if t == token for n, o in zip(ns, os, strict=True)}
        assert isinstance(outcomes[1], Returned)
        assert isinstance(outcomes[2], Raised)
        assert lines(made, primary) == 2
    assert made.faults == []


@pytest.mark.parametrize("style", ALL)
def test_operations_that_no_record_takes_are_refused_before_they_run(style: str) -> None:
    """*Without it:* a passive member runs the call, cannot order it, and gives up its object each time."""
    made = group(style, Giver)
    with pytest.raises(InvalidRequest, match="at most 1000000"):
        made.replicas["a"].on_calls("t", sent(call(1, "give", 1, bytes(1_000_000))))
    made.settle()
    assert lines(made, "a") == 0
    assert (made.replicas["a"].is_ready, made.forsaken) == (True, [])


@pytest.mark.parametrize("style", PASSIVE)
def test_a_frame_that_could_not_be_ordered_whole_is_ordered_bit_by_bit(style: str) -> None:
    """*Without it:* the frame is ordered from its start each time it arrives, and never gets further."""
    made = group(style, Giver, msgspec.structs.replace(CONFIG, record_bytes=700))
    frame = sent(*(call(number, "give", 300) for number in range(1, 9)))
    member = made.members["a"]
    for coming in range(4):
        member.log_bytes_max = member.log_bytes + 1000  # one record of two calls
        with suppress(Overloaded):
            made.replicas["a"].on_calls(coming, frame)
        made.settle()
    assert sum(record.count for record in member.log) == 8
    assert lines(made, "a") == 8


def test_a_nested_answer_that_no_record_takes_is_raised_in_the_method() -> None:
    """Queries of other groups may return more than an operation may."""
    made = group("warm", Giver)
    made.replicas["a"].on_calls("t", sent(call(1, "ask", 5)))
    made.settle()
    (outgoing,) = [each for _, each in made.outgoing]
    long = encode_outcome(Returned(bytes(2_000_000)))
    made.replicas["a"].on_nested_outcome(outgoing.caller, outgoing.call, long)
    made.settle()
    ((_, _, [outcome]),) = told(made)
    assert isinstance(outcome, Raised)
    assert "NotEncodable" in outcome.text


@pytest.mark.parametrize("style", PASSIVE)
def test_a_primary_that_gave_its_object_up_over_a_timer_is_woken_without_any_call(style: str) -> None:
    """A group that has only timers is never called: its timers would never fire again."""
    made = group(style, Counter)
    made.replicas["a"].on_calls("t", sent(call(1, "repeat", "* * * * *", "tick")))
    made.settle()
    made.clock.time_ns += 60 * SECOND
    made.members["a"].refuses = Overloaded("the log is full")
    made.settle()
    assert not made.replicas["a"].is_ready
    made.members["a"].refuses = None
    for _ in range(3):  # the object is made again, and the primary looks at its timers
        due_ns = made.replicas["a"].next_wake_ns()
        assert due_ns is not None
        made.clock.time_ns = max(made.clock.time_ns, due_ns)
        made.replicas["a"].turn()
        made.settle()
    execution = made.replicas["a"].execution
    assert execution is not None
    assert isinstance(execution.line.instance, Counter)
    assert execution.line.instance.seen[:1] == ["tick"]
