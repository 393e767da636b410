"""Finds the calls that must not run because they crashed too many processes (E4)."""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from holdfast.execution.annex import requests_of
from holdfast.execution.crash_attempts import CrashSuspicions
from holdfast.execution.effects import Job
from holdfast.execution.execution import Execution
from holdfast.execution.interface import POSITIONAL
from holdfast.execution.queue import OperationQueue
from holdfast.execution.records import (
    Annexed,
    Call,
    Calls,
    NestedReply,
    Poison,
    Ran,
    Record,
    TimerFired,
    Unmarked,
    decode_calls,
)
from holdfast.execution.timers import Timer
from holdfast.model.calls import Request
from holdfast.model.ids import ClientId, Position
from holdfast.net.frame import UNDECODABLE

WORDS_MAX: Final = 300
"""The most characters of a call's description, which is in the log and in every checkpoint."""


@dataclass(frozen=True, slots=True)
class Poisonous:
    """A call that must not run."""

    request: Request
    expiration_s: int
    attempts: int
    """How many processes it has crashed."""
    call: str
    traceparent: bytes = b""
    """As the call carried it."""

    @property
    def fault(self) -> str:
        """The text of the fault report."""
        return f"{self.call} of request {self.request} ended {self.attempts} processes and is not tried again"


def among_calls(attempts: CrashSuspicions, client: ClientId, calls: Iterable[Call]) -> Iterator[Poisonous]:
    for each in calls:
        request = Request(client, each.number)
        ended = attempts.given_up(request)
        if ended:
            words = in_words(each.method, each.arguments)
            yield Poisonous(request, each.expiration_s, ended, words, each.traceparent)


def among_jobs(attempts: CrashSuspicions, jobs: Iterable[Job]) -> Iterator[Poisonous]:
    for each in jobs:
        ended = attempts.given_up(each.request)
        if ended:
            words = in_words(each.method, each.arguments)
            yield Poisonous(each.request, each.expiration_s, ended, words, each.traceparent)


def in_line(attempts: CrashSuspicions, execution: Execution) -> list[Poisonous]:
    """Those among the operations in progress, the running one last: its end lets the queue advance."""
    found = among_jobs(attempts, execution.line.in_progress()) if attempts.has_suspects else ()
    return list(found)[::-1]


def among_timers(attempts: CrashSuspicions, timers: Iterable[Timer]) -> Iterator[Poisonous]:
    for each in timers:
        ended = attempts.given_up(each.request)
        if ended:
            yield Poisonous(each.request, 0, ended, in_words(each.method, each.arguments))


def among_requests(attempts: CrashSuspicions, requests: Iterable[Request]) -> Iterator[Poisonous]:
    """Those among the requests of an annex, whose calls are known only once its record is applied."""
    for each in requests:
        ended = attempts.given_up(each)
        if ended:
            yield Poisonous(each, 0, ended, f"a record of {each.client}")


def set_going(
    execution: Execution, attempts: CrashSuspicions, first: Position, record: Record
) -> tuple[list[Request], list[Poisonous]]:
    """The requests that may run when *record* is executed at *first*, and those of them that crashed too many
    processes."""
    if execution.behind is not None:
        return [], []  # it has run, and is passed over (W7)
    match record:
        case Calls(sent=sent):
            calls = [
                each
                for each in decode_calls(sent.calls)
                if execution.is_new(Request(sent.client, each.number), each.expiration_s)
            ]
            requests = [Request(sent.client, each.number) for each in calls]
            return requests, list(among_calls(attempts, sent.client, calls))
        case NestedReply() | Poison() | Unmarked() | Ran():
            # Each of these lets the queue advance, so any queued operation may run. A slow operation that has
            # run elsewhere can no longer be given up.
            ran = record.request if isinstance(record, Ran) else None
            jobs = [each for each in execution.line.in_progress() if each.request != ran]
            return [job.request for job in jobs], list(among_jobs(attempts, jobs))
        case Annexed():
            requests = requests_of(first, record)
            return requests, list(among_requests(attempts, requests))
        case TimerFired(timer=number, due_ns=due_ns):
            timer = execution.timers.fired_by(number, due_ns)
            if timer is not None and timer.request not in execution.line.poisoned:
                return [timer.request], list(among_timers(attempts, [timer]))
    return [], []


@dataclass(frozen=True, slots=True)
class End:
    """How a call is given up by later records."""

    outcome: bytes
    last_answer: int
    """The index of its last nested call that was answered before that; 0 if none was."""


def ends_among(records: Iterable[Record]) -> dict[Request, End]:
    """The calls that *records* give up. The first end of each call counts, because its client may have it."""
    ends: dict[Request, End] = {}
    answered: dict[Request, int] = {}
    for each in records:
        if isinstance(each, NestedReply):
            answered[each.request] = max(each.call, answered.get(each.request, 0))
        elif isinstance(each, Poison) and each.request not in ends:
            ends[each.request] = End(each.outcome, answered.get(each.request, 0))
    return ends


def is_end(line: OperationQueue, record: Record, request: Request, end: End) -> bool:
    """Whether *record* is where a call is given up: before it starts, or, if other groups answered some of
    its nested calls, before the last of these answers. This follows from the sequence alone, so it is the
    same on every member. *Without it:* a member that had executed the first half has another state than a
    member that replays."""
    if isinstance(record, NestedReply) and line.is_waiting_for(request, record.call):
        return record.request == request and record.call == end.last_answer
    return not end.last_answer and not line.is_running(request)


def let_line_run(
    execution: Execution, attempts: CrashSuspicions, ends: dict[Request, End], coming: Container[Request]
) -> list[Poisonous]:
    """Let the calls run that stood in line when a database was flushed, unless one of them crashed too many
    processes, or its end is *coming*; returns those that did. *Without it:* a flush outlives the process that
    the next call ends; each process reaches the flush, runs that call, and ends (E4, W7)."""
    jobs = execution.line.in_progress()
    found = [each for each in among_jobs(attempts, jobs) if each.request not in ends]
    execution.is_line_held = bool(found) or any(job.request in coming for job in jobs)
    for job in jobs:
        end = ends.get(job.request)
        if end is not None and not end.last_answer:
            execution.line.poisoned[job.request] = end.outcome
    return found


def in_words(method: str, arguments: msgspec.Raw) -> str:
    """A call as people write it."""
    try:
        found: Any = msgspec.msgpack.decode(arguments)
    except UNDECODABLE:
        found = ["?"]
    positional = found.pop(POSITIONAL, []) if isinstance(found, dict) else found
    named = [f"{name}={value!r}" for name, value in found.items()] if isinstance(found, dict) else []
    return f"{method}({', '.join([*map(repr, positional), *named])})"[:WORDS_MAX]
