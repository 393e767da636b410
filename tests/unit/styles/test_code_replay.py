"""Which code made which part of what a host keeps (E7)."""

from group_classes import call, sent, stamp

from holdfast.execution.definition import Definition
from holdfast.execution.execution import Execution
from holdfast.execution.records import Calls, Forward, Marked, Record, State, Upgraded, encode_record
from holdfast.model.code import UNKNOWN, Code
from holdfast.model.ids import Epoch, GroupId, Position
from holdfast.sequence.ports import Captured
from holdfast.storage.record import Record as Stored
from holdfast.styles.code_replay import Tail

X, Y, Z = (Code(name, name * 8) for name in "123")


class Plain:
    def __init__(self) -> None:
        self.value = 0

    def add(self) -> None:
        self.value += 1


def stored(first: int, *records: Record) -> list[Stored]:
    return [
        Stored(GroupId(1), Epoch(1), Position(first + index), 1, 0, 0, encode_record(each))
        for index, each in enumerate(records)
    ]


def calls() -> Calls:
    return Calls(stamp(), sent(call(1, "add")))


def kept_by(code: Code) -> Captured:
    """A checkpoint at position 1."""
    execution = Execution(Definition("g", Plain, Plain, code=code))
    execution.apply(Position(1), Upgraded(UNKNOWN, code))
    return Captured(Position(1), execution.save())


def test_the_beginning_of_a_group_is_nobodys() -> None:
    tail = Tail(None)
    assert (tail.code, tail.read_to, tail.foreign(X)) == (UNKNOWN, 0, None)


def test_each_stretch_is_made_by_the_last_upgrade_before_it() -> None:
    tail = Tail(None)
    tail.take(stored(1, Upgraded(UNKNOWN, X), calls(), calls(), Upgraded(X, Y), calls()))
    assert [(each.code, each.first, each.last, each.operations) for each in tail.stretches] == [
        (UNKNOWN, 0, 0, 0),
        (X, 1, 3, 2),
        (Y, 4, 5, 1),
    ]
    assert tail.leads_to(Y)
    assert not tail.leads_to(Z)


def test_records_are_taken_once() -> None:
    tail = Tail(None)
    records = stored(1, Upgraded(UNKNOWN, X), calls())
    tail.take(records)
    tail.take(records)
    assert [each.operations for each in tail.stretches] == [0, 1]


def test_what_the_class_of_here_made_is_not_foreign() -> None:
    tail = Tail(kept_by(X))
    tail.take(stored(2, calls(), Forward()))
    assert tail.foreign(X) is None
    foreign = tail.foreign(Y)
    assert foreign is not None
    assert (foreign.code, foreign.last, foreign.operations) == (X, 3, 1)


def test_a_state_after_which_nothing_was_executed_is_loaded_by_whoever_goes_on() -> None:
    tail = Tail(kept_by(X))
    tail.take(stored(2, Marked(), Forward(), State(b"")))
    assert tail.foreign(Y) is None
    assert tail.state == (3, b"")


def test_who_goes_on_at_an_upgrade_is_said_there() -> None:
    """This holds even if the code executed nothing since: its method upgraded() ran."""
    tail = Tail(kept_by(X))
    tail.take(stored(2, Upgraded(X, Y)))
    foreign = tail.foreign(X)
    assert foreign is not None
    assert foreign.code == Y


def test_old_code_begins_with_the_first_stretch_whosever_it_is() -> None:
    """Own code, other code, own code again: the other code starts where the first stretch ended."""
    tail = Tail(None)
    tail.take(stored(1, Upgraded(UNKNOWN, X), calls(), Upgraded(X, Y), calls(), Upgraded(Y, X)))
    foreign = tail.foreign(X)
    assert foreign is not None
    assert (foreign.code, tail.first().code, tail.first().last) == (Y, X, 2)
