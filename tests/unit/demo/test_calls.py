"""The demo's arithmetic: every call is identified by the balances alone, and a silence is measured
correctly."""

from array import array
from pathlib import Path
from typing import Any

import pytest

from holdfast.demo.calls import CALLS_PER_ACCOUNT, Caller, Remains, count, executions, place_of, read_member
from holdfast.demo.faults import LAST_WORDS_S, silence_after
from holdfast.demo.running import run_demo
from holdfast.execution.definition import Definition
from holdfast.execution.execution import Execution
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import Epoch, GroupId, HostId, Position
from holdfast.storage.checkpoint import COPIED, Framing, checkpoint_name
from holdfast.storage.record import Point

CALLS = 3 * CALLS_PER_ACCOUNT - 5


def member(name: str, *executed: tuple[int, int], log: dict[int, int] | None = None) -> Remains:
    """Return a member that executed these calls, by caller and number."""
    balances: dict[str, int] = {}
    for caller, number in executed:
        account, amount = place_of(caller, number)
        balances[account] = balances.get(account, 0) + amount
    records = {Position(at): checksum for at, checksum in (log or {}).items()}
    return Remains(HostId(name), balances, Position(0), records)


def all_calls(*callers: Caller) -> list[tuple[int, int]]:
    return [(each.id, number) for each in callers for number in range(each.sent)]


def test_each_call_has_a_digit_of_its_own() -> None:
    """Up to seven executions of one call do not affect its neighbours; the sum fits every wire format's
    integers."""
    _, amount = place_of(3, CALLS_PER_ACCOUNT + 2)
    assert executions(7 * amount) == [7 if digit == 2 else 0 for digit in range(CALLS_PER_ACCOUNT)]
    whole = sum(place_of(3, number)[1] for number in range(CALLS_PER_ACCOUNT))
    assert executions(whole) == [1] * CALLS_PER_ACCOUNT
    assert 7 * whole < 1 << 63
    accounts = {place_of(caller, number) for caller in range(12) for number in range(200)}
    assert len(accounts) == 12 * 200


def test_a_whole_run_is_counted_as_one() -> None:
    callers = Caller(0, sent=CALLS), Caller(1, sent=7)
    calls = all_calls(*callers)
    found = count(callers, [member("a", *calls), member("b", *calls)])
    assert (found.acknowledged, found.lost, found.duplicated) == (CALLS + 7, 0, 0)
    assert found.members == ("a", "b")


def test_a_call_that_one_member_lacks_is_lost() -> None:
    caller = Caller(0, sent=CALLS)
    calls = all_calls(caller)
    found = count([caller], [member("a", *calls), member("b", *calls[:10], *calls[11:-1])])
    assert (found.lost, found.duplicated) == (2, 0)


def test_a_call_executed_twice_and_one_that_nobody_made_are_duplicates() -> None:
    """This holds next to a loss too: the two do not cancel out."""
    caller = Caller(0, sent=CALLS)
    calls = all_calls(caller)
    twice = member("a", *calls[1:], calls[5], calls[5])
    assert (count([caller], [twice]).lost, count([caller], [twice]).duplicated) == (1, 2)
    too_many = member("a", *calls, (0, CALLS))
    assert count([caller], [too_many]).duplicated == 1
    stranger = member("a", *calls, (9, 0))
    assert count([caller], [stranger]).duplicated == 1


def test_a_call_without_an_outcome_may_be_there_or_not_but_once() -> None:
    caller = Caller(0, sent=4, unknown=[1, 3])
    found = count([caller], [member("a", (0, 0), (0, 1), (0, 2))])
    assert (found.acknowledged, found.unknown, found.unknown_executed) == (2, 2, 1)
    assert (found.lost, found.duplicated) == (0, 0)
    assert count([caller], [member("a", (0, 0), (0, 1), (0, 1), (0, 2))]).duplicated == 1


def test_logs_are_compared_where_both_still_have_records() -> None:
    one, other = member("a", log={1: 11, 2: 22, 3: 33}), member("b", log={2: 22, 3: 99, 4: 44})
    found = count([Caller(0)], [one, other])
    assert (found.records_compared, found.records_differing) == (2, 1)


def test_a_silence_counts_from_the_fault_to_the_first_answer_after_it() -> None:
    """Answers that were in transit when the process died do not end it, and later silences do not belong to
    it."""
    last_words = 10.0 + LAST_WORDS_S / 2
    answered = array("d", [9.0, 9.9, last_words, 10.4, 10.5, 19.0])
    assert silence_after(10.0, answered) == pytest.approx(400.0)
    assert silence_after(9.95, array("d", [9.0, 10.05])) == pytest.approx(100.0)
    assert silence_after(20.0, answered) is None


async def _run(app: Path) -> None:
    never_used: Any = None
    await run_demo(app, seconds=1, callers=1, every_s=1, watcher=never_used, ending=never_used)


def test_without_a_ledger_nothing_is_started(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"has no ledger\.py"):
        _run(tmp_path).send(None)


def test_a_state_that_never_became_final_is_not_counted(tmp_path: Path) -> None:
    """A copy of the process has written it, and the host was killed before its position was committed."""
    definition = Definition("ledger", Spent, Spent)
    execution = Execution(definition, Spent({"nobody": 5}))
    execution.position = Position(7)
    point = Point(Position(7), Epoch(1), 1)
    framing = Framing(GroupId(1), point, salt=1, chunk_bytes=1 << 16)
    state = b"".join(framing.framed(execution.save()))
    copied = checkpoint_name(GroupId(1), Position(7)) + COPIED
    (tmp_path / copied).write_bytes(framing.header + state + framing.end())
    assert read_member(HostId("a"), tmp_path, GroupId(1), definition).balances == {}


class Spent:
    def __init__(self, balances: dict[str, int] | None = None) -> None:
        self.balances: dict[str, int] = balances or {}
