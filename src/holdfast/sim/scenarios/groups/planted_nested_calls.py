"""Bugs planted in calls between groups.

They concern nested calls, interleaved operations, sends, and groups that wait for each other.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec

from holdfast.calling.request import PendingRequest
from holdfast.execution.effects import Effects, Job, Outgoing
from holdfast.execution.execution import Execution
from holdfast.execution.nested_call import sent_by
from holdfast.execution.queue import OperationQueue
from holdfast.execution.records import Marked, NestedReply, Sent, Unmarked
from holdfast.execution.sends import Send, Sends
from holdfast.groups.deadlock_probes import DeadlockProbes
from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.outbound import groups as outbound_groups
from holdfast.groups.outbound.groups import OutboundCalls
from holdfast.model.calls import Request
from holdfast.model.deadlock import GiveWay, Waits
from holdfast.model.ids import ClientId, GroupId, Position
from holdfast.model.reference import Reference
from holdfast.sim.runner.planted import Planting, replacing
from holdfast.styles.admission import in_circle
from holdfast.styles.outgoing import Outbox, OutgoingCalls
from holdfast.styles.replica import Replica
from holdfast.styles.replica_base import InterleavingGate

FAR_POSITION: Final = Position(1 << 62)

_to_send = OutgoingCalls.to_send
_take_up_sending = Outbox.take_up
_resume = Execution._resume
_gate_due = InterleavingGate.due
_send = OutboundCalls._send


def _ask_nobody(
    circling: DeadlockProbes, hosted: HostedGroup, outgoing: Outgoing, path: tuple[Waits, ...]
) -> None:
    return None


def _leave_in_line(line: OperationQueue, request: Request, outcome: bytes) -> Iterator[tuple[Job, bytes]]:
    """Says that the call never runs, and lets it run."""
    for job in line.queue:
        if job.request == request:
            yield job, outcome
            return


def _refuse_here(circling: DeadlockProbes, hosted: HostedGroup, message: GiveWay) -> None:
    """Removes the call from this member's line without a record of that."""
    execution = hosted.replica.execution
    assert execution is not None
    for job, _ in execution.line.withdraw(message.request, b""):
        outcome = in_circle(message.circle[0], message.circle)
        execution.retention.finish(job.client, job.number, outcome)
        for token in hosted.replica._waiting._by_request.pop(job.request, ()):
            hosted.replica._ports.answer(token, [job.number], [outcome])


def _is_lost(pending: PendingRequest) -> bool:
    """Counts a call in transit as refused."""
    return pending.is_maybe and not pending.is_query


def _first_copies(
    calling_out: OutgoingCalls, line: OperationQueue, committed: Position
) -> Iterator[Outgoing]:
    """Assumes that the previous primary has sent no calls."""
    for each in _to_send(calling_out, line, committed):
        yield replace(each, may_have_left=False)


def _call_out_at_once(replica: Replica) -> None:
    """Calls out without waiting until the calling request is final."""
    execution = replica.execution
    if execution is not None:
        for outgoing in replica._calling_out.to_send(execution.line, FAR_POSITION):
            replica._ports.call_out(outgoing)


def _close_unseen(gate: InterleavingGate, line: OperationQueue) -> Marked | Unmarked | None:
    """Lets nothing begin until the object has been at rest, without an ordered record of that."""
    found = _gate_due(gate, line)
    if isinstance(found, Marked):
        line.close_gate()
        return None
    return found


def _resume_the_oldest(execution: Execution, record: NestedReply, effects: Effects) -> None:
    """Resumes the operation that has waited longest, whether or not its call was the one answered."""
    waits = execution.outgoing()
    if waits is not None and execution.line.is_waiting_for(record.request, record.call):
        client, number = waits.caller
        other = msgspec.structs.replace(record, client=client, number=number, call=waits.call)
        _resume(execution, other, effects)


def _final_at_once(sending: Outbox, sends: Sends, reached: Position, committed: Position) -> None:
    """Sends everything in the outbox, whether the operation that put it there is committed or not."""
    sending._final = sends.issued


def _send_the_newest(sends: Sends) -> Iterator[Send]:
    """Sends the newest call to each receiver first."""
    for numbers in sends._to.values():
        yield sends._sends[max(numbers)]


def _take_up_nothing(sending: Outbox, sends: Sends) -> None:
    """Lets a new primary send only what is sent during its own term."""
    _take_up_sending(sending, sends)
    for each in sends:
        sending._in_flight[each.number] = (each.group, each.caller)


def _by_process(outbound_calls: OutboundCalls, awaited: Any, reference: Reference) -> None:
    """Names a nested call after its process, so that another primary makes it again as a new call."""

    def named(group: GroupId, outgoing: Outgoing) -> Sent:
        sent = sent_by(group, outgoing)
        return msgspec.structs.replace(sent, client=ClientId(f"{sent.client}@{outbound_calls._called.me}"))

    with replacing(outbound_groups, "sent_by", named):
        _send(outbound_calls, awaited, reference)


_bug: Final = Planting("groups", runs_max=100)

PLANTED = (
    _bug(
        "nobody-looks-for-circles",
        "E10",
        "groups that wait for each other wait until their calls expire",
        DeadlockProbes,
        "_follow",
        _ask_nobody,
    ),
    _bug(
        "refused-and-run",
        "E10",
        "a call that was refused in line stays there, and runs when its turn comes",
        OperationQueue,
        "withdraw",
        _leave_in_line,
    ),
    _bug(
        "refused-without-a-record",
        "E10",
        "a primary takes a call out of its own line, and nobody else does",
        DeadlockProbes,
        "_refuse",
        _refuse_here,
    ),
    _bug(
        "on-its-way-is-turned-away",
        "X3",
        "a call whose time is up while it is on its way counts as not executed",
        PendingRequest,
        "may_have_run",
        property(_is_lost),
    ),
    _bug(
        "only-this-copy-counts",
        "X3",
        "a call that another primary may have sent before counts as not executed if this copy was not",
        OutgoingCalls,
        "to_send",
        _first_copies,
    ),
    _bug(
        "nested-before-commit",
        "E3",
        "a nested call leaves before the calling request is committed",
        Replica,
        "_call_out",
        _call_out_at_once,
        profile="views",
    ),
    _bug(
        "gate-not-recorded",
        "E12",
        "a primary lets no operation begin until its object was at rest, and orders no record of it",
        InterleavingGate,
        "due",
        _close_unseen,
    ),
    _bug(
        "answer-to-the-oldest",
        "E11",
        "the answer to one interleaved operation is given to the one that has waited longest",
        Execution,
        "_resume",
        _resume_the_oldest,
    ),
    _bug(
        "send-before-commit",
        "E13",
        "a call is sent before the operation that sends it is committed",
        Outbox,
        "_take_final",
        _final_at_once,
        profile="views",
    ),
    _bug(
        "send-forgotten",
        "E13",
        "what a primary has not sent when it ends is sent by no other",
        Outbox,
        "take_up",
        _take_up_nothing,
    ),
    _bug(
        "newest-sent-first",
        "E14",
        "of several calls to one receiver the newest is sent first",
        Sends,
        "first_to_each",
        _send_the_newest,
    ),
    _bug(
        "nested-id-of-process",
        "E3",
        "a nested call is named by the process that makes it",
        OutboundCalls,
        "_send",
        _by_process,
    ),
)
