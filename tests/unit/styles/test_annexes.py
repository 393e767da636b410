"""Annexes in every style: their records, their part of the state, their messages, and waiting for them."""

from dataclasses import replace

import pytest
from annex_notes import NAME, Notes, NoteState
from fake_group import FakeGroup
from group_classes import Spy, TellsUpdates, call, definition, sent
from style_groups import ALL, CONFIG, PASSIVE, catch_up, lines, pass_interval, write

from holdfast.execution.definition import Definition
from holdfast.model.code import Code
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import HostId
from holdfast.model.outcome import Returned
from holdfast.sequence.role import Rank
from holdfast.styles.replica import Replica


class Updating(TellsUpdates, Spy):
    """Says what has changed."""


class AnnexedGroup(FakeGroup):
    """Each process has an annex of its own."""

    def __init__(self, style: str, made_of: Definition, *, writes: bool = False) -> None:
        self.writes = writes
        self.annexes: dict[str, Notes] = {}
        super().__init__(style, made_of, CONFIG)
        self.clock.step_ns = 1000

    def start(self, name: str) -> Replica:
        self.annexes[name] = annex = Notes(writes=self.writes)
        base: Definition = self.classes.get(name, self.definition)
        self.classes[name] = replace(base, annexes=(annex,))
        return super().start(name)

    def order(self, *texts: str) -> None:
        self.annexes[self.primary].due += texts
        self.replicas[self.primary].turn()


def group(style: str, cls: type = Spy, *, writes: bool = False) -> AnnexedGroup:
    Spy.runs.clear()
    return AnnexedGroup(style, definition(cls), writes=writes)


def notes(made: AnnexedGroup, name: str) -> list[str]:
    execution = made.replicas[name].execution
    state = execution.annexes.get(NAME) if execution is not None else None
    return [text for _, text in state.notes] if isinstance(state, NoteState) else []


@pytest.mark.parametrize("style", ALL)
def test_what_an_annex_orders_is_there_after_a_failover(style: str) -> None:
    made = group(style, writes=True)
    write(made, 1)
    made.order("one", "two three")
    write(made, 2)
    made.settle()
    assert notes(made, "a") == ["one", "two three"]
    made.fail_over("b", is_crash=True)
    catch_up(made)
    assert notes(made, "b") == ["one", "two three"]
    assert lines(made, "b") == ["line 1", "one.0", "two three.0", "two three.1", "line 2"]


@pytest.mark.parametrize("style", ALL)
def test_a_checkpoint_has_it(style: str) -> None:
    made = group(style)
    write(made, 1)
    made.order("one")
    made.settle()
    pass_interval(made)
    made.crash("b")
    write(made, 2)
    made.order("two")
    made.settle()
    made.restart("b", is_wiped=True)
    made.settle()
    made.fail_over("b", is_crash=True)
    catch_up(made)
    assert notes(made, "b") == ["one", "two"]
    assert [fault for fault in made.faults if fault[1] == "divergence"] == []


def test_a_warm_backup_that_is_told_what_changed_is_told_of_annexes_too() -> None:
    made = group("warm", Updating)
    for number in range(1, 4):
        write(made, number)
        made.order(f"note{number}")
        made.settle()
        pass_interval(made)
    execution = made.replicas["b"].execution
    assert execution is not None
    assert notes(made, "b")[:2] == ["note1", "note2"]
    made.fail_over("b", is_crash=True)
    catch_up(made)
    assert notes(made, "b") == ["note1", "note2", "note3"]
    assert lines(made, "b") == ["line 1", "line 2", "line 3"]


def test_an_active_member_waits_until_its_annex_is_ready_and_goes_on_when_told() -> None:
    """What comes after the record waits too; nothing that was read and decoded is read again."""
    made = group("active")
    write(made, 1)
    made.settle()
    made.annexes["b"].held_back.add("one")
    made.order("one")
    write(made, 2)
    made.settle()
    assert (lines(made, "a"), lines(made, "b")) == (["line 1", "line 2"], ["line 1"])
    assert (notes(made, "a"), notes(made, "b")) == (["one"], [])
    assert made.replicas["b"].fitness().rank is Rank.FAR
    read = len(made.members["b"].read_from)
    made.wake()
    made.annexes["b"].release("one")
    made.wake()
    assert (lines(made, "b"), notes(made, "b")) == (["line 1", "line 2"], ["one"])
    assert len(made.members["b"].read_from) == read
    assert made.replicas["b"].fitness().rank is Rank.NEAR


def test_a_member_that_waits_long_and_is_looked_at_often_goes_on() -> None:
    """And is asked each time, because it may have got ready without saying so."""
    made = group("active")
    made.annexes["b"].held_back.add("one")
    made.order("one")
    write(made, 1)
    made.settle()
    committed = made.members["b"].committed
    asked = made.annexes["b"].asked
    for _ in range(1000):
        made.replicas["b"].on_committed(committed)
    assert made.annexes["b"].asked == asked + 1000
    made.annexes["b"].release("one")
    made.wake()
    assert (lines(made, "b"), notes(made, "b")) == (["line 1"], ["one"])


@pytest.mark.parametrize("style", PASSIVE)
def test_a_passive_member_that_takes_over_waits_for_its_annex(style: str) -> None:
    made = group(style)
    made.order("one")
    made.settle()
    made.annexes["b"].held_back.add("one")
    made.fail_over("b", is_crash=True)
    for _ in range(5):
        made.replicas["b"].turn()
        assert not made.replicas["b"].is_ready
    made.annexes["b"].release("one")
    catch_up(made)
    assert notes(made, "b") == ["one"]


@pytest.mark.parametrize("style", ALL)
def test_a_primary_orders_nothing_for_which_its_own_annex_is_not_ready(style: str) -> None:
    made = group(style)
    annex = made.annexes["a"]
    annex.held_back.add("one")
    made.order("one")
    assert (annex.due, made.members["a"].tail, made.replicas["a"].is_ready) == (["one"], 0, True)
    annex.release("one")
    made.settle()
    assert notes(made, "a") == ["one"]


@pytest.mark.parametrize("style", ALL)
def test_only_a_primary_orders(style: str) -> None:
    made = group(style)
    with pytest.raises(Unavailable):
        made.annexes["b"].bound.order(b"one")


@pytest.mark.parametrize("text", ["", "word " * 5000, "x" * (1 << 20)])
def test_a_record_that_is_too_long_or_takes_no_position_is_refused_and_nothing_changes(text: str) -> None:
    made = group("warm")
    write(made, 1)
    made.settle()
    tail = made.members["a"].tail
    with pytest.raises(InvalidRequest, match="a record of notes has at most"):
        made.annexes["a"].bound.order(text.encode())
    assert made.members["a"].tail == tail
    assert made.replicas["a"].is_ready


def test_annexes_tell_each_other_things_by_their_name() -> None:
    made = group("active")
    ports = made.annexes["a"].bound
    assert [peer.host for peer in ports.peers()] == ["b", "c"]
    assert ports.tell(HostId("b"), b"word")
    made.members["a"].peer_messages.tell(HostId("b"), "others", b"for an annex that is not there")
    made.deliver()
    assert made.annexes["b"].heard == [("a", b"word")]
    assert made.annexes["c"].heard == []


def test_an_annex_can_ask_the_object_and_see_its_own_part() -> None:
    made = group("active")
    write(made, 1)
    made.order("one")
    made.settle()
    ports = made.annexes["b"].bound
    assert ports.query("read", ()) == Returned(["line 1"])
    state = ports.state()
    assert isinstance(state, NoteState)
    assert [text for _, text in state.notes] == ["one"]
    assert (ports.leads(), made.annexes["a"].bound.leads()) == (False, True)
    assert (ports.epoch(), ports.me().host) == (1, "b")


def test_an_annex_asks_for_nothing_while_an_operation_is_half_done() -> None:
    made = group("active", Updating)
    made.replicas["a"].on_calls("t", sent(call(1, "ask", "x")))
    made.settle()
    assert made.annexes["a"].bound.query("read", ()) is None


@pytest.mark.parametrize("style", ALL)
def test_a_backup_that_cannot_go_on_takes_the_primarys_state(style: str) -> None:
    """It stays a member all the while, comes last if somebody must lead, and is as good as before then."""
    made = group(style)
    write(made, 1)
    made.order("one")
    made.settle()
    backup = made.replicas["b"]
    made.annexes["b"].bound.renew("the message is nowhere to be had")
    made.wake()
    fitness = backup.fitness()
    assert (fitness.rank, fitness.wants_state, fitness.why) == (
        Rank.UNABLE,
        True,
        "the message is nowhere to be had",
    )
    write(made, 2)
    made.settle()
    state = made.replicas["a"].capture(fitness.found_at)
    assert state is not None
    made.members["b"].checkpoint = state
    backup.install(state)
    made.settle()
    assert backup.fitness().rank <= Rank.FAR
    made.fail_over("b", is_crash=True)
    catch_up(made)
    assert (notes(made, "b"), lines(made, "b")) == (["one"], ["line 1", "line 2"])


@pytest.mark.parametrize("style", ALL)
def test_a_member_without_its_object_leads_if_nobody_else_is_left(style: str) -> None:
    """With the object that its own log gives."""
    made = group(style)
    write(made, 1)
    made.order("one")
    made.settle()
    made.annexes["b"].bound.renew("the message is nowhere to be had")
    made.wake()
    made.fail_over("b", is_crash=True)
    catch_up(made)
    assert (notes(made, "b"), lines(made, "b")) == (["one"], ["line 1"])


def test_a_primary_does_not_renew_its_object_but_hands_over() -> None:
    made = group("active")
    write(made, 1)
    made.settle()
    ports = made.annexes["a"].bound
    ports.renew("the message is nowhere to be had")
    made.wake()
    assert made.replicas["a"].is_ready
    ports.hand_over(HostId("c"), "it has the message")
    assert made.handed_over == [("a", "c", "it has the message")]


OLD, NEW = Code("1", "1" * 8), Code("2", "2" * 8)


@pytest.mark.parametrize("style", ALL)
def test_a_change_of_the_class_keeps_the_annexes(style: str) -> None:
    """What was ordered before is replayed by the old class, and its annex, in another process (E7)."""
    old, new = replace(definition(Spy), code=OLD), replace(definition(Spy), code=NEW)
    made = AnnexedGroup(style, old, writes=True)
    made.settle()
    write(made, 1)
    made.order("one")
    made.settle()
    for name in "bc":
        made.kept_classes[name].append(replace(old, annexes=(Notes(writes=True),)))
        made.crash(name)
    for name in "bc":
        made.classes[name] = new
        made.restart(name)
    made.settle()
    made.fail_over("b", is_crash=True)
    for _ in range(50):
        made.wake()
        made.old_code["b"].end()
        made.replicas["b"].turn()
        made.settle()
        if made.replicas["b"].is_ready:
            break
    assert made.replicas["b"].is_ready
    made.order("two")
    made.settle()
    assert notes(made, "b") == ["one", "two"]
    assert lines(made, "b") == ["line 1", "one.0", "two.0"]
