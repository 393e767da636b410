"""The states of every style: when they are captured and kept, and objects that cannot give theirs."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from fake_group import FakeGroup
from group_classes import B, Counter, Spy, call, definition, sent
from style_groups import ALL, CONFIG, INTERVAL_NS, PASSIVE, catch_up, group, lines, pass_interval, told, write

import holdfast as hf
from holdfast.execution.capture import InvalidState, NoStateAvailable
from holdfast.execution.records import encode_arguments
from holdfast.model.calls import Request
from holdfast.model.errors import Corruption, Overloaded, Unavailable
from holdfast.model.ids import SECOND, HostId, Position
from holdfast.model.outcome import Returned, decode_outcome, encode_outcome
from holdfast.sequence.ports import Captured
from holdfast.sequence.role import Rank
from holdfast.styles.config import StyleConfig
from holdfast.styles.serving_state import TRIAL_NS


class Fickle:
    """A Checkpointable whose state is sometimes not available or not accepted."""

    unavailable = 0
    taken: int | None = None
    """How many more states any object accepts; None: all."""

    def __init__(self) -> None:
        self.value = 0

    def add(self) -> int:
        self.value += 1
        return self.value

    def get_state(self) -> bytes:
        if Fickle.unavailable:
            Fickle.unavailable -= 1
            raise NoStateAvailable
        return b"%d" % self.value

    def set_state(self, state: bytes) -> None:
        if Fickle.taken is not None:
            Fickle.taken -= 1
            if Fickle.taken < 0:
                raise InvalidState("no")
        self.value = int(state)


@pytest.fixture
def _fickle() -> Any:
    Fickle.unavailable, Fickle.taken = 0, None
    yield
    Fickle.unavailable, Fickle.taken = 0, None


@pytest.mark.covers("FTC-293", "FTC-296", "FTC-306", "FTC-311")
@pytest.mark.usefixtures("_fickle")
def test_a_state_that_is_not_available_is_asked_for_again_and_nothing_is_pruned_meanwhile() -> None:
    made = group("cold", Fickle)
    made.replicas["a"].on_calls("t", sent(call(1, "add")))
    made.settle()
    Fickle.unavailable = 1
    pass_interval(made)
    assert made.members["a"].checkpoint is None
    assert [record.first for record in made.members["a"].log] == [1]
    pass_interval(made)
    checkpoint = made.members["a"].checkpoint
    assert checkpoint is not None
    assert checkpoint.position == 1
    assert 1 not in [record.first for record in made.members["a"].log], "it was pruned"


@pytest.mark.covers("FTC-309")
@pytest.mark.usefixtures("_fickle")
@pytest.mark.parametrize("style", ALL)
def test_an_object_is_asked_for_its_state_once_per_checkpoint(
    style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(Fickle, "get_state", lambda self: asked.append(self.value) or b"%d" % self.value)
    made = FakeGroup(style, definition(Fickle), CONFIG, names="a")
    made.clock.step_ns = 1000
    made.replicas["a"].on_calls("t", sent(call(1, "add")))
    made.settle()
    asked.clear()
    made.clock.time_ns += INTERVAL_NS
    made.settle()
    assert asked == [1]


@pytest.mark.covers("FTC-310")
@pytest.mark.usefixtures("_fickle")
def test_an_object_that_refuses_its_state_counts_as_failed() -> None:
    made = group("warm", Fickle)
    made.replicas["a"].on_calls("t", sent(call(1, "add")))
    Fickle.taken = 1  # where the primary tries it
    pass_interval(made)
    assert {(name, kind) for name, kind, _ in made.faults} == {("b", "object_failed"), ("c", "object_failed")}
    assert made.replicas["b"].execution is None


@pytest.mark.covers("FTC-295", "FTC-299")
@pytest.mark.parametrize("style", ALL)
def test_replies_survive_the_pruning_of_their_records(style: str) -> None:
    """X1: a retry after a checkpoint and a failover still gets the first reply."""
    made = group(style)
    write(made, 1)
    pass_interval(made)
    assert made.members["b"].floor >= 1
    told(made)
    made.fail_over("b", is_crash=True)
    write(made, 1, token="again")
    made.settle()
    assert told(made) == [("again", [1], [Returned(1)])]


@pytest.mark.covers("FTC-165", "FTC-306")
@pytest.mark.parametrize("style", ALL)
def test_a_checkpoint_interval_that_is_set_while_a_group_runs_holds_from_then_on(style: str) -> None:
    made = group(style)
    write(made, 1)
    made.settle()
    made.clock.time_ns += INTERVAL_NS // 10
    made.settle()
    assert made.members["a"].checkpoint is None
    for replica in made.replicas.values():
        replica.tune(msgspec.structs.replace(CONFIG, checkpoint_interval_ns=INTERVAL_NS // 20))
    made.settle()
    checkpoint = made.members["a"].checkpoint
    assert checkpoint is not None
    assert checkpoint.position >= 1


@pytest.mark.parametrize("style", PASSIVE)
def test_a_state_that_never_became_final_is_no_checkpoint(style: str) -> None:
    """E1: other records may replace those it was made from."""
    made = group(style)
    write(made, 1)
    made.clock.time_ns += INTERVAL_NS
    made.members["a"].refuses = Overloaded("full")
    with pytest.raises(Overloaded):
        write(made, 2)
    made.members["a"].refuses = None
    made.settle()
    write(made, 3, 4)
    pass_interval(made)
    for name in "abc":
        checkpoint = made.members[name].checkpoint
        assert checkpoint is not None
        assert b"line 2" not in checkpoint.state


@pytest.mark.parametrize("style", PASSIVE)
def test_a_captured_state_is_dropped_with_the_object_it_was_taken_of(style: str) -> None:
    made = group(style)
    made.clock.time_ns += INTERVAL_NS
    write(made, 1)
    made.replicas["a"].turn()
    made.members["a"].refuses = Overloaded("full")
    with pytest.raises(Overloaded):
        write(made, 2)
    made.members["a"].refuses = None
    made.members["a"].log.clear()
    made.settle()
    write(made, 3, 4, 5)
    made.settle()
    assert made.members["a"].checkpoint is None


@pytest.mark.parametrize("style", PASSIVE)
def test_a_group_that_always_waits_still_gets_checkpoints(style: str) -> None:
    """It is captured between two operations, although others are queued."""
    made = group(style, Counter)
    for number in range(1, 4):
        made.replicas["a"].on_calls("t", sent(call(number, "fetch", "h", "x")))
    pass_interval(made)
    _, waits = made.outgoing.pop()
    made.replicas["a"].on_nested_outcome(waits.caller, waits.call, encode_outcome(Returned("x")))
    made.settle()
    checkpoint = made.members["a"].checkpoint
    assert checkpoint is not None
    made.crash("b")
    made.restart("b", is_wiped=True)
    made.fail_over("b", is_crash=True)
    for _ in range(2):
        made.settle()
        _, waits = made.outgoing.pop()
        made.replicas["b"].on_nested_outcome(waits.caller, waits.call, encode_outcome(Returned("x")))
    made.settle()
    execution = made.replicas["b"].execution
    assert execution is not None
    assert execution.is_idle
    assert execution.position == made.members["b"].committed
    outcome = decode_outcome(execution.query("get", encode_arguments((), {}), Request(B, 1)))
    assert outcome == Returned(6)
    assert not made.faults


def ask_on(made: FakeGroup, rounds: int) -> None:
    """Two callers of a method that waits for another group: when one ends, the next already waits. An
    interval passes now and then."""
    number = made.members[made.primary].tail + 1
    made.replicas[made.primary].on_calls(
        "t", sent(call(number, "ask", "first"), call(number + 1, "ask", "x"))
    )
    made.settle()
    for index in range(rounds):
        _, waits = made.outgoing[-1]
        made.outgoing.clear()
        primary = made.replicas[made.primary]
        primary.on_nested_outcome(waits.caller, waits.call, encode_outcome(Returned(5)))
        primary.on_calls("t", sent(call(number + 2 + index, "ask", f"line {index}")))
        if index % 5 == 0:
            made.clock.time_ns += INTERVAL_NS
        made.settle()
        execution = primary.execution
        assert execution is not None
        assert not execution.is_at_rest, "at the end of a turn it never is"


@pytest.mark.parametrize("style", ALL)
def test_members_of_a_group_in_which_a_method_always_waits_all_get_checkpoints(style: str) -> None:
    """Every step is ordered in the middle of a call. Without checkpoints, logs grow until they are full, and
    then a successor's is full, too."""
    made = group(style)
    ask_on(made, rounds=60)
    for member in made.members.values():
        assert member.floor > member.committed - 60
    assert not made.faults


def test_a_cold_backup_holds_its_object_until_it_is_captured_and_replays_nothing_twice() -> None:
    made = group("cold")
    ask_on(made, rounds=60)
    assert max(map(Spy.runs.count, Spy.runs)) == 3, "once per member"
    made.clock.time_ns += INTERVAL_NS
    made.settle()
    backup = made.replicas["b"]
    assert backup.execution is not None, "it waits for its moment of rest"
    assert not backup.execution.is_at_rest
    _, waits = made.outgoing.pop()
    made.outgoing.clear()
    made.replicas["a"].on_nested_outcome(waits.caller, waits.call, encode_outcome(Returned(5)))
    made.settle()
    assert backup.execution is None
    assert made.members["b"].floor == made.members["a"].floor


@pytest.mark.parametrize("is_crash", [True, False])
def test_a_cold_backup_that_takes_over_goes_on_with_the_object_it_holds(is_crash: bool) -> None:
    made = group("cold")
    ask_on(made, rounds=11)
    made.clock.time_ns += INTERVAL_NS
    made.settle()
    held = made.replicas["b"].execution
    assert held is not None
    made.fail_over("b", is_crash=is_crash)
    assert made.replicas["b"].execution is held
    before = made.members["b"].floor
    for _ in range(2):
        made.settle()
        _, waits = made.outgoing.pop()
        made.outgoing.clear()
        made.replicas["b"].on_nested_outcome(waits.caller, waits.call, encode_outcome(Returned(5)))
    made.settle()
    assert lines(made, "b") == ["first", "x", *(f"line {index}" for index in range(11))]
    assert made.members["b"].floor > before, "it was captured as a primary's"
    assert not made.faults


def test_a_cold_backup_gives_up_the_object_it_holds_when_it_follows_another() -> None:
    made = group("cold")
    ask_on(made, rounds=11)
    made.clock.time_ns += INTERVAL_NS
    made.settle()
    before = made.members["b"].checkpoint
    backup = made.replicas["b"]
    assert backup.execution is not None
    backup.on_following()
    assert backup.execution is None
    assert made.members["b"].checkpoint is before


@pytest.mark.parametrize("style", ALL)
def test_a_primary_whose_log_cannot_be_read_for_a_moment_serves_a_moment_later(style: str) -> None:
    made = group(style)
    write(made, 1)
    made.replicas["a"].turn()
    for name in "bc":
        made.replicate(name)
    made.members["b"].unreadable = 2
    made.fail_over("b", is_crash=True)
    assert "b" in made.woken
    with pytest.raises(Unavailable):
        write(made, 2)
    for _ in range(2):
        made.replicas["b"].turn()
    write(made, 2)
    made.settle()
    assert lines(made, "b") == ["line 1", "line 2"]


@pytest.mark.parametrize("style", ALL)
def test_a_log_that_grows_fast_is_cut_before_the_interval_is_over(style: str) -> None:
    """D4: on every member."""
    made = group(style, config=msgspec.structs.replace(CONFIG, checkpoint_bytes=300, replay_budget_ns=1))
    for number in range(1, 40):
        write(made, number)
        made.settle()
    for member in made.members.values():
        assert member.floor > 20
    assert lines(made, "a")[-1] == "line 39"


@pytest.mark.parametrize("style", PASSIVE)
def test_a_new_primary_is_ready_once_its_object_has_what_it_lacked(style: str) -> None:
    """Clients are told only then: told earlier, they would be refused and look elsewhere."""
    made = group(style, config=msgspec.structs.replace(CONFIG, slice_ns=1))
    for number in range(1, 10):
        write(made, number)
        made.settle()
    assert [made.replicas[name].is_ready for name in "abc"] == [True, False, False]
    made.fail_over("b", is_crash=True)
    assert catch_up(made) > 0
    write(made, 10)
    made.settle()
    assert lines(made, "b")[-1] == "line 10"


@pytest.mark.parametrize("style", ALL)
def test_a_small_state_is_captured_long_before_a_large_one_would_be(style: str) -> None:
    """Otherwise a restarted member replays a long log before it can take over."""
    config = msgspec.structs.replace(CONFIG, checkpoint_bytes_least=2000, replay_budget_ns=1)
    made = group(style, Counter, config)
    for number in range(1, 201):
        made.replicas["a"].on_calls("token", sent(call(number, "add", 1), floor=number))
        made.settle()
    for member in made.members.values():
        assert member.floor > 100


@pytest.mark.parametrize("style", ALL)
def test_few_calls_with_long_arguments_cut_the_log_of_every_member_too(style: str) -> None:
    """D4: these calls execute quickly and take few positions, so nothing else advances the backups."""
    config = StyleConfig(
        checkpoint_bytes=3000,
        long_log_bytes=12_000,
        log_bytes_max=15_000,
        scan_bytes=1000,
        sent_state_bytes_max=500,
    )
    made = group(style, config=config)
    for number in range(1, 41):
        made.replicas["a"].on_calls("token", sent(call(number, "write", "x" * 1000)))
        made.settle()
    for member in made.members.values():
        assert member.log_bytes < config.long_log_bytes


@pytest.mark.parametrize("style", ALL)
def test_a_long_log_makes_a_checkpoint_due_and_a_longer_one_refuses_calls(style: str) -> None:
    """D4: the records that lead to checkpoints still find room; once there are checkpoints, calls are taken
    again."""
    made = group(style, config=StyleConfig(long_log_bytes=500, log_bytes_max=600))
    with pytest.raises(Overloaded, match="waits for checkpoints"):
        for number in range(1, 100):
            write(made, number)
    made.settle()
    write(made, 100)
    made.settle()
    assert lines(made, made.primary)[-1] == "line 100"


@pytest.mark.parametrize("style", ALL)
def test_a_checkpoint_that_is_put_off_comes_though_no_call_does(style: str) -> None:
    """The process copies itself for another group while this one's log grows too long for calls. Nothing is
    executed from then on, and the checkpoint that lets calls in again is still due."""
    made = group(style, config=StyleConfig(long_log_bytes=500, log_bytes_max=600, inline_state_bytes_max=1))
    made.copies["a"].is_busy = True
    for number in range(1, 100):
        with suppress(Overloaded):
            write(made, number)
        made.settle()
    made.clock.time_ns += 1 * SECOND
    made.settle()
    assert made.members["a"].checkpoint is None, "it was put off once more"
    made.copies["a"].is_busy = False
    made.clock.time_ns += 1 * SECOND
    made.settle()
    made.copies["a"].end()
    made.settle()
    write(made, 100)
    made.settle()
    assert lines(made, made.primary)[-1] == "line 100"


@pytest.mark.parametrize("style", ALL)
def test_a_log_too_long_for_calls_gets_the_second_checkpoint_that_lets_it_go(style: str) -> None:
    """Calls already under way fill the log beyond what one checkpoint frees: the log reaches back to the
    older of two checkpoints, and no call is executed any more that would make the second one due."""
    config = StyleConfig(long_log_bytes=500, log_bytes_max=600, sent_state_bytes_max=1)
    made = group(style, config=config)
    for member in made.members.values():
        member.keeps_two = True
    for first in range(1, 100, 20):
        with suppress(Overloaded):
            write(made, *range(first, first + 20))
    made.settle()
    for _ in range(4):
        made.clock.time_ns += 1 * SECOND
        made.settle()
    write(made, 100)
    made.settle()
    assert lines(made, made.primary)[-1] == "line 100"


class Teller:
    """Tells another group each of its lines, and waits for no answer."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: str) -> None:
        self.lines.append(line)
        hf.context.send("other").hear(line)


@pytest.mark.parametrize("style", ALL)
def test_what_is_to_be_sent_leaves_though_the_log_is_too_long_and_nobody_calls(style: str) -> None:
    """E14: sends wait until the log has room for their ends. Only turns begin the checkpoints that make room,
    and nothing but the group itself causes one when nobody calls."""
    config = StyleConfig(long_log_bytes=500, log_bytes_max=600, sent_state_bytes_max=1)
    made = group(style, Teller, config)
    for member in made.members.values():
        member.keeps_two = True
    write(made, *range(1, 41))
    made.settle()
    assert not made.outgoing, "there is no room"
    for _ in range(10):
        due_ns = made.replicas["a"].next_wake_ns()
        if made.outgoing or due_ns is None:
            break
        made.clock.time_ns += max(due_ns - made.clock.wall(), 0)
        made.settle()
    assert [outgoing.send for _, outgoing in made.outgoing] == [1]


class Broken:
    """Its state cannot be returned nor, if it *refuses*, loaded."""

    refuses = False

    def __init__(self) -> None:
        self.value = 0

    def add(self) -> int:
        self.value += 1
        return self.value

    def get_state(self) -> bytes:
        if self.value:
            raise KeyError("get")
        return b"0"

    def set_state(self, state: bytes) -> None:
        if self.refuses:
            raise KeyError("set")


@pytest.mark.parametrize("style", ALL)
def test_an_object_that_cannot_give_its_state_is_reported_and_serves_on(style: str) -> None:
    made = group(style, Broken)
    made.replicas["a"].on_calls("t", sent(call(1, "add")))
    pass_interval(made)
    assert {kind for _, kind, _ in made.faults} == {"object_failed"}
    made.replicas["a"].on_calls("t", sent(call(2, "add")))
    made.settle()
    assert told(made)[-1] == ("t", [2], [Returned(2)])


@pytest.mark.parametrize("style", ALL)
def test_an_object_that_cannot_give_its_state_is_asked_now_and_then_however_long_its_log_is(
    style: str,
) -> None:
    """The record that requests a capture is in the log as well: one must not cause the next."""
    made = group(style, Broken, StyleConfig(long_log_bytes=100, log_bytes_max=10_000))
    for number in range(1, 21):
        made.replicas["a"].on_calls("t", sent(call(number, "add")))
        made.settle()
    made.settle()
    asked = [name for name, kind, _ in made.faults if kind == "object_failed"].count("a")
    assert 1 <= asked <= 2
    assert made.members["a"].tail < 20 + 10


@pytest.mark.parametrize("style", ALL)
def test_a_primary_whose_checkpoints_fail_hands_over_once_its_log_is_full(style: str) -> None:
    """E9: only to a member that could make checkpoints, and so has a short log; and not again and again."""
    made = group(style, Broken, StyleConfig(long_log_bytes=600, log_bytes_max=1000))
    made.members["a"].short_logs = [HostId("b")]
    for number in range(1, 4):
        made.replicas["a"].on_calls("t", sent(call(number, "add")))
        made.settle()
    assert not made.passed_on, "there is still room"
    with pytest.raises(Overloaded, match="the last one failed"):
        for number in range(4, 100):
            made.replicas["a"].on_calls("t", sent(call(number, "add")))
            made.settle()
    for _ in range(10):
        made.settle()
    assert made.passed_below == [800]
    name, why = made.passed_on[0]
    assert name == "a"
    assert "log here is full" in why


@pytest.mark.parametrize("style", ALL)
def test_a_primary_whose_checkpoints_fail_lets_another_try_if_all_logs_are_full(style: str) -> None:
    """E9: perhaps the class cannot be made on this host alone. If nobody fares better, the group does not go
    round and round."""
    made = group(style, Broken, StyleConfig(long_log_bytes=600, log_bytes_max=1000))
    with pytest.raises(Overloaded, match="the last one failed"):
        for number in range(1, 100):
            made.replicas["a"].on_calls("t", sent(call(number, "add")))
            made.settle()
    for _ in range(10):
        made.settle()
    assert made.passed_below == [None]
    # Nobody has taken it, for whatever reason: it tries again, and more and more seldom.
    pauses_s = []
    for _ in range(3 * TRIAL_NS // SECOND):
        tried, waited = len(made.passed_below), pauses_s.pop() if pauses_s else 0
        made.clock.time_ns += SECOND
        made.settle()
        pauses_s += [waited + 1, 0] if len(made.passed_below) > tried else [waited + 1]
    assert pauses_s == [1, 2, 4, 8, 16, 32, 60, 57]


@pytest.mark.parametrize("style", ALL)
def test_a_full_log_keeps_no_answer_back_that_is_known(style: str) -> None:
    """E10, X1: a repetition needs no room, nor does a query while no operation waits."""
    made, again = group(style), call(1, "write", "line 1")
    write(made, 1)
    made.settle()
    made.replicas["a"].tune(StyleConfig(log_bytes_max=0))
    made.answers.clear()
    made.replicas["a"].on_calls("again", sent(again))
    made.replicas["a"].on_calls("query", sent(call(2, "read")))
    made.settle()
    assert [token for token, _, _ in made.answers] == ["again", "query"]
    with pytest.raises(Overloaded):
        made.replicas["a"].on_calls("both", sent(again, call(3, "write", "line 3")))
    with pytest.raises(Overloaded):
        write(made, 3)


@pytest.mark.parametrize("style", ["active", "warm"])
def test_a_backup_that_alone_can_make_no_checkpoints_asks_for_the_primarys_state(style: str) -> None:
    """E9, O3: its log would fill, and then the group could take no calls."""
    is_broken = False

    def fresh() -> Fickle:
        if is_broken:
            raise OSError("a file of the class is gone")
        return Fickle()

    config = msgspec.structs.replace(CONFIG, long_log_bytes=900, log_bytes_max=40_000, sent_state_bytes_max=1)
    made = group(style, Fickle, config)
    made.classes["b"] = replace(made.definition, fresh=fresh)
    made.restart("b")
    for number in range(1, 60):
        made.replicas["a"].on_calls("t", sent(call(number, "add")))
        pass_interval(made)
        is_broken = True
    assert made.members["a"].log_bytes < config.long_log_bytes < made.members["b"].log_bytes
    replica = made.replicas["b"]
    fitness = replica.fitness()
    assert fitness.rank is Rank.NEAR, "should the others die, it has its object"
    assert fitness.wants_state
    state = made.replicas["a"].capture(fitness.found_at)
    assert state is not None
    made.members["b"].keep(state)
    replica.install(state)
    assert not replica.fitness().wants_state


@pytest.mark.parametrize("style", PASSIVE)
def test_a_member_that_can_make_no_object_does_not_serve_and_says_so(
    style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = group(style, Broken)
    made.members["b"].checkpoint = made.replicas["a"].capture()
    monkeypatch.setattr(Broken, "refuses", True)
    made.replicas["b"].install(Captured(Position(0), b""))
    made.fail_over("b", is_crash=True)
    assert [(name, kind) for name, kind, _ in made.faults][-1] == ("b", "object_failed")
    with pytest.raises(Unavailable):
        made.replicas["b"].on_calls("t", sent(call(1, "add")))


@pytest.mark.parametrize("style", ALL)
def test_a_damaged_record_ends_the_host_and_is_no_fault_of_the_object(style: str) -> None:
    """D2: a host that finds damage below the mark stops loudly; the damage is not hidden behind another
    attempt."""
    made = group(style, config=msgspec.structs.replace(CONFIG, scan_positions=1))
    made.members["b"].damage = Corruption("rotten", file="log", offset=0, expected=1, found=2)
    write(made, 1, 2)
    with pytest.raises(Corruption):
        made.settle()
    assert made.faults == []


@pytest.mark.parametrize("style", ALL)
def test_a_long_log_makes_one_checkpoint_due_while_a_method_waits(style: str) -> None:
    """The record that requests a checkpoint is in the log itself: it must not make the next one due until the
    log is full."""
    made = group(style, config=StyleConfig(long_log_bytes=1))
    made.replicas["a"].on_calls("t", sent(call(1, "ask", "asked")))
    made.settle()
    pass_interval(made)
    tail = made.replicas["a"].sequence.tail
    for _ in range(20):
        made.settle()
    assert made.replicas["a"].sequence.tail <= tail + 1


@pytest.mark.parametrize("style", ALL)
def test_a_wanted_checkpoint_is_due_once_while_a_method_waits(style: str) -> None:
    """A learner needs a checkpoint while a method waits for another group, which may take minutes. *Without
    it:* every mark makes the next one due, and the log fills up to its very end, so that not even the record
    that breaks a circle of calls has room (E10)."""
    made = group(style, config=StyleConfig(checkpoint_interval_ns=10**6 * SECOND))
    replica = made.replicas["a"]
    replica.on_calls("t", sent(call(1, "ask", "asked")))
    made.settle()
    tail = replica.sequence.tail
    replica._checkpointing.make_due()
    for _ in range(20):
        made.settle()
    assert replica.sequence.tail <= tail + 1


@pytest.mark.parametrize("style", PASSIVE)
def test_while_the_disk_lacks_space_no_mark_is_ordered_for_a_checkpoint_that_is_not_begun(style: str) -> None:
    """D5: a method waits for another group, a checkpoint is due, and this host begins none. *With a mark in
    every turn:* they take what is left of the disk, and the host ends."""
    made = group(style)
    replica, made.members["a"].is_short = made.replicas["a"], True
    replica.on_calls("t", sent(call(1, "ask", "asked")))
    pass_interval(made)  # a warm primary advances its backups by what it has executed so far
    tail = replica.sequence.tail
    for _ in range(20):
        pass_interval(made)
    assert replica.sequence.tail == tail
    made.members["a"].is_short = False
    for _ in range(20):
        made.settle()
    assert replica.sequence.tail == tail + 1


def test_a_copy_that_waits_for_its_digest_is_not_dropped_for_the_next() -> None:
    """E8: marks may follow each other faster than a primary writes. *Without it:* a backup that lags drops
    each copy before it was compared, and its log is never pruned. Once the primary has told a later digest,
    this one's will not come, and the next state replaces it."""
    made = group(
        "active", config=StyleConfig(inline_state_bytes_max=0, checkpoint_interval_ns=10**6 * SECOND)
    )
    backup, copies = made.replicas["b"], made.copies["b"]
    begun: list[int] = []
    for number in (1, 2, 3):
        write(made, number)
        made.settle()
        execution = backup.execution
        assert execution is not None
        if number == 3:
            backup._checkpointing.told(execution.position)
        backup._checkpointing.capture(execution)
        copies.end()
        begun.append(copies.begun)
    assert begun == [1, 1, 2]
