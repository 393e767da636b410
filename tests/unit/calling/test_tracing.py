"""Tests that one call is one trace, whichever hosts its copies reach and whichever log line mentions it."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from call_server import Cluster, calls_to
from ledger_domain import Ledger, tell, until
from patient_client import PATIENT
from structlog.testing import LogCapture

from holdfast.calling.config import CallPolicy
from holdfast.execution.records import encode_arguments
from holdfast.model.calls import CallOutcomeUnknown, RefusalCode
from holdfast.model.traceparent import Traceparent

CARRIED = Traceparent(bytes(range(16)), bytes(range(1, 9)), 1)


@pytest.fixture
def log() -> Iterator[LogCapture]:
    """The structured log of a program that has one."""
    capture = LogCapture()
    structlog.configure(processors=[capture])
    yield capture
    structlog.reset_defaults()


def lines(log: LogCapture, trace_id: str) -> list[tuple[Any, ...]]:
    """The log lines of one trace, without what depends on the machine's speed."""
    names = ("event", "host", "why", "tries")
    return [
        tuple(each[name] for name in names if name in each)
        for each in log.entries
        if each.get("trace_id") == trace_id
    ]


@pytest.mark.parametrize("carried", [CARRIED.encoded(), b""])
def test_a_call_over_a_failover_is_one_trace_in_every_copy_and_line(log: LogCapture, carried: bytes) -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        caller, a, b = await domain.caller("ledger"), cluster.hosts["a"], cluster.hosts["b"]
        a.holds_replies = True
        arguments = bytes(encode_arguments(("alice", 5), {}))
        answer = caller.call_traced("deposit", arguments, CallPolicy(), traceparent=carried)
        await until(lambda: len(ledger.calls) == 1)
        cluster.move_to("b")
        await a.stop()
        assert await answer == 5
        copies = [*calls_to(a), *calls_to(b)]
        assert {call.traceparent for _, call in copies} == {carried}
        (trace,) = {
            Traceparent.of(carried, "ledger", sent.client, call.number).trace_id for sent, call in copies
        }
        assert lines(log, trace) == [
            ("a call was lost", "a", "comm_failure"),
            ("a call was turned away", "b", "not_primary"),  # it knows a newer view, and says so
            ("a call was answered", "b", 3),
        ]

    tell(story, duration_s=60, config=PATIENT)


def test_a_call_that_is_turned_away_leaves_a_line_for_each_time(log: LogCapture) -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, a = await domain.group("ledger"), cluster.hosts["a"]
        a.turns_away = RefusalCode.OVERLOADED
        answer = group.deposit("alice", 5)
        await until(lambda: len(calls_to(a)) >= 2)
        a.turns_away = None
        assert await answer == 5
        ((sent, call), *_) = calls_to(a)
        trace = Traceparent.derived("ledger", sent.client, call.number)
        *before, last = lines(log, trace.trace_id)
        assert set(before) == {("a call was turned away", "a", "overloaded")}
        assert last == ("a call was answered", "a", len(before) + 1)

    tell(story, duration_s=60, config=PATIENT)


def test_a_call_that_nobody_answers_says_so(log: LogCapture) -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, a = await domain.group("ledger"), cluster.hosts["a"]
        a.drops_frames = True
        with pytest.raises(CallOutcomeUnknown):
            await group.options(duration_s=0.2).deposit("alice", 5)
        ((sent, call), *_) = calls_to(a)
        trace = Traceparent.derived("ledger", sent.client, call.number)
        assert lines(log, trace.trace_id)[-1][0] == "a call has no answer"
        assert log.entries[-1]["why"] == "outcome_unknown"

    tell(story, duration_s=60, config=PATIENT)


def test_calls_that_are_simply_answered_leave_no_line(log: LogCapture) -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group = await domain.group("ledger")
        await asyncio.gather(*(group.deposit("alice", 1) for _ in range(300)))
        assert [each for each in log.entries if "trace_id" in each] == []

    tell(story, duration_s=60, config=PATIENT)


def test_a_program_without_a_structured_log_gets_no_lines(capsys: pytest.CaptureFixture[str]) -> None:
    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, a = await domain.group("ledger"), cluster.hosts["a"]
        a.holds_replies = True
        answer = group.deposit("alice", 5)
        await until(lambda: len(ledger.calls) == 1)
        cluster.move_to("b")
        await a.stop()
        assert await answer == 5

    structlog.reset_defaults()
    tell(story, duration_s=60, config=PATIENT)
    assert capsys.readouterr().out == ""


def test_a_call_that_is_made_anew_stays_in_its_trace() -> None:
    """The group's time has leapt, so the call gets another id, but it keeps its trace."""

    async def story(cluster: Cluster, domain: Any, ledger: Ledger) -> None:
        group, a = await domain.group("ledger"), cluster.hosts["a"]
        await group.deposit("alice", 5)
        cluster.state.time_ns += 3600 * 10**9 * 100
        assert await group.deposit("alice", 1) == 6
        (_, first), *_, (_, last) = calls_to(a)[1:]
        assert last.number != first.number
        sent = calls_to(a)[1][0]
        assert last.traceparent == Traceparent.derived("ledger", sent.client, first.number).encoded()

    tell(story, duration_s=60, config=PATIENT)
