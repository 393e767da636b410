"""Bugs planted where groups wait for each other, and where calls between them end without an answer."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from holdfast.calling.pending import Pending
from holdfast.housing.circling import Circling
from holdfast.housing.housed import Housed
from holdfast.model.calls import Request
from holdfast.model.circles import GiveWay, Waits
from holdfast.model.ids import Position
from holdfast.sim.planted import Planting
from holdfast.styles.admission import in_circle
from holdfast.styles.calling_out import CallingOut
from holdfast.styles.effects import Job, Outgoing
from holdfast.styles.line import Line

_to_send = CallingOut.to_send


def _ask_nobody(circling: Circling, housed: Housed, outgoing: Outgoing, path: tuple[Waits, ...]) -> None:
    return None


def _leave_in_line(line: Line, request: Request, outcome: bytes) -> Iterator[tuple[Job, bytes]]:
    """Say that it never runs, and let it run."""
    for job in line.queue:
        if job.request == request:
            yield job, outcome
            return


def _refuse_here(circling: Circling, housed: Housed, message: GiveWay) -> None:
    """Take it out of this member's line, and have no record of that."""
    execution = housed.replica.execution
    assert execution is not None
    for job, _ in execution.line.withdraw(message.request, b""):
        outcome = in_circle(message.circle[0], message.circle)
        execution.retention.finish(job.client, job.number, outcome)
        for token in housed.replica._waiting._by_request.pop(job.request, ()):
            housed.replica._ports.answer(token, [job.number], [outcome])


def _is_lost(pending: Pending) -> bool:
    """What is on its way counts as turned away."""
    return pending.is_maybe and not pending.is_query


def _first_copies(calling_out: CallingOut, line: Line, committed: Position) -> Iterator[Outgoing]:
    """Whoever was primary before has sent none."""
    for each in _to_send(calling_out, line, committed):
        yield replace(each, may_have_left=False)


_bug: Final = Planting("groups", runs_max=100)

PLANTED = (
    _bug(
        "nobody-looks-for-circles",
        "E10",
        "groups that wait for each other wait until their calls expire",
        Circling,
        "_follow",
        _ask_nobody,
    ),
    _bug(
        "refused-and-run",
        "E10",
        "a call that was refused in line stays there, and runs when its turn comes",
        Line,
        "withdraw",
        _leave_in_line,
    ),
    _bug(
        "refused-without-a-record",
        "E10",
        "a primary takes a call out of its own line, and nobody else does",
        Circling,
        "_refuse",
        _refuse_here,
    ),
    _bug(
        "on-its-way-is-turned-away",
        "X3",
        "a call whose time is up while it is on its way counts as not executed",
        Pending,
        "may_have_run",
        property(_is_lost),
    ),
    _bug(
        "only-this-copy-counts",
        "X3",
        "a call that another primary may have sent before counts as not executed if this copy was not",
        CallingOut,
        "to_send",
        _first_copies,
    ),
)
