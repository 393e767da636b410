"""Bugs planted in the styles and in the hosting of groups: each leaves out one rule of the protocol."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from holdfast.authority import groups, keys
from holdfast.authority.contract import Change, Put
from holdfast.authority.groups import GroupRecord
from holdfast.authority.placement import IsListed, MayForget, may_forget
from holdfast.authority.recipe import Recipe
from holdfast.authority.views import View, ViewMember
from holdfast.calling import requests
from holdfast.clock.offsets import SteadyClock
from holdfast.execution.capture import Capture
from holdfast.execution.crash_attempts import CrashSuspicions
from holdfast.execution.execution import Execution
from holdfast.execution.records import Call
from holdfast.execution.timers import Timer, Timers
from holdfast.groups import backend, leaving
from holdfast.groups.backend import Backend, Soon, memory_backend
from holdfast.groups.call_router import Asker, CallRouter
from holdfast.groups.disk_space import DiskSpace
from holdfast.groups.hosted_group import HostedGroup
from holdfast.model.calls import Reads, Request, Seen
from holdfast.model.ids import ClientId, GroupId, HostId, Incarnation, Position, StoreId
from holdfast.model.proven_dead import ProvenDead
from holdfast.sequence.membership import Membership
from holdfast.sequence.memory_log import MemoryLog
from holdfast.sequence.recovery import StateLoss
from holdfast.sequence.retention import ABANDONED, EXPIRED, FRESH, NEVER, Retention, Verdict
from holdfast.sequence.submission import Submission
from holdfast.sequence.view_state import is_volatile
from holdfast.sim.runner.planted import Planting
from holdfast.sim.scenarios.authority.planted import changing
from holdfast.storage.scratch import ScratchStore
from holdfast.styles import warm
from holdfast.styles.checkpointing import Checkpointing
from holdfast.styles.divergence import DigestComparison, Diverged
from holdfast.styles.passive import Passive
from holdfast.styles.ports import Token
from holdfast.styles.readiness import Readiness
from holdfast.styles.replica import Replica
from holdfast.styles.replies import Answer, WaitingReplies
from holdfast.styles.serving_state import ServingState
from holdfast.styles.warm import Step, next_step

RUNS: Final = 100
FOR_EVER_NS: Final = 1 << 62
FAR_POSITION: Final = Position(1 << 62)

_judge = Retention.judge
_fire = Timers.fire
_read = CallRouter._read
_keep_away = Membership._keep_away


# --- exactly once


def _load_nothing(saved: bytes) -> Retention:
    return Retention()


def _expired_is_fresh(table: Retention, client: ClientId, number: int, expiration_s: int) -> Verdict:
    found = _judge(table, client, number, expiration_s)
    return FRESH if found in (EXPIRED, ABANDONED) else found


# --- members that come and leave


def _is_beginning(changes: Sequence[Change]) -> bool:
    """Whether *changes* begin a group that was only placed: its record and the first view.

    A creation also puts the name.
    """
    prefixes = [each.key.partition("/")[0] + "/" for each in changes if isinstance(each, Put)]
    return prefixes == [keys.GROUPS, keys.VIEWS]


def _anew_where_listed(record: GroupRecord, view: View, member: ViewMember) -> bool:
    """Lets a host whose store is gone begin its group anew, though others may hold what was acknowledged."""
    return any(each.host == member.host and each.store != member.store for each in view.members)


def _forget_at_once(group: GroupId, host: HostId) -> Recipe[object]:
    """Lets a member that is told to leave forget its state, even while the view counts on it."""
    found = yield from may_forget(group, host)
    return MayForget() if isinstance(found, IsListed) else found


def _keep_away_for_good(membership: Membership, host: HostId) -> None:
    _keep_away(membership, host)
    membership._absent[host].until = FOR_EVER_NS


def _answer_only(table: Retention, client: ClientId, number: int, expiration_s: int) -> Verdict:
    """Answers that a request never runs, because it has not run yet."""
    found = table.judge(client, number, expiration_s)
    return NEVER if found is FRESH else found


# --- in memory


def _memory_of_host(
    disk: Backend, soon: Soon, scratch: ScratchStore, large_bytes: int
) -> tuple[Backend, MemoryLog]:
    """Lets a restarted process take itself for the member that it was before."""
    ground, log = memory_backend(disk, soon, scratch, large_bytes)
    me = msgspec.structs.replace(ground.me, store=StoreId("memory-1"))
    return replace(ground, me=me), log


def _is_lost_with_one(loss: StateLoss) -> bool:
    return any(is_volatile(each.store) and loss._is_gone(each) for each in loss._on.standing.listed)


def _any_later(proven: ProvenDead, host: HostId, incarnation: Incarnation) -> bool:
    return any(later > incarnation for later in proven._proofs.get(host, {}))


# --- execution


def _keep_the_object(passive: Passive) -> None:
    """Continues with an object that is ahead of what became final."""
    Replica.on_following(passive)


def _always_a_base(spent_ns: int, since_ns: int, **known: Any) -> Step:
    return next_step(spent_ns, since_ns, **{**known, "has_base": True})


def _rings_again(timers: Timers, number: int, due_ns: int, time_ns: int) -> Timer | None:
    """Lets a timer that has rung be set again, for a little later."""
    timer = _fire(timers, number, due_ns, time_ns)
    if timer is not None and not timer.schedule and timer.number % 7 == 0:
        timers.set(due_ns + 100_000_000, timer.method, timer.arguments)
    return timer


def _forget_timers(execution: Execution, saved: bytes) -> None:
    execution.timers = Timers()
    execution.line.scope.timers = execution.timers


# --- answers


def _take_all(waiting: WaitingReplies, committed: Position) -> list[Answer]:
    """Sends all answers as soon as anything is committed."""
    ready = list(waiting._answers)
    waiting._answers.clear()
    return ready


def _read_whatever_was_seen(serving: CallRouter, asker: Asker, asked: Reads) -> None:
    """Answers a reader who has seen more than this member has."""
    _read(serving, asker, msgspec.structs.replace(asked, seen=Seen()))


def _stale_at_once(replica: Replica, token: Token, client: ClientId, calls: list[Call]) -> None:
    """Answers a stale read with state that is not committed."""
    outcomes = [
        replica.on_stale_query(Request(client, each.number), each.method, each.arguments) for each in calls
    ]
    replica._ports.answer(token, [each.number for each in calls], outcomes)


def _only_report(readiness: Readiness, found: Diverged) -> None:
    """Only reports a replay that gave other results, and serves from it."""
    readiness._ports.fault("divergence", str(found))


def _equal_whatever(comparing: DigestComparison) -> None:
    """Takes every digest to be equal to the primary's."""
    if comparing._own is not None and comparing._own[0] in comparing._told:
        comparing._on_equal(comparing._own[0])


_bug: Final = Planting("groups", runs_max=RUNS)


PLANTED = (
    _bug(
        "table-not-in-checkpoint",
        "X1",
        "a loaded state has no table of requests and replies",
        Retention,
        "load",
        staticmethod(_load_nothing),
    ),
    _bug(
        "outcome-not-recorded",
        "X3",
        "who asks for an outcome is told that it never ran, and it may still",
        Retention,
        "settle",
        _answer_only,
        profile="network",
    ),
    _bug(
        "reads-behind-the-client",
        "S7",
        "a member answers who has seen more than it holds",
        CallRouter,
        "_read",
        _read_whatever_was_seen,
        profile="pairs",
    ),
    _bug(
        "expired-runs",
        "X2",
        "what has expired or was abandoned is taken for new",
        Retention,
        "judge",
        _expired_is_fresh,
    ),
    _bug(
        "object-kept",
        "E1",
        "a primary that lost its epoch keeps its object",
        Passive,
        "on_following",
        _keep_the_object,
        profile="changes",
    ),
    _bug(
        "update-without-base",
        "E5",
        "an update is sent that does not begin where backups are",
        warm,
        "next_step",
        _always_a_base,
    ),
    _bug(
        "memory-resumes",
        "V4",
        "a member in memory that was started again is still listed",
        backend,
        "memory_backend",
        _memory_of_host,
        profile="memory",
    ),
    _bug(
        "forgets-while-listed",
        "M6",
        "a host that is told to leave forgets what the view counts on",
        leaving,
        "may_forget",
        _forget_at_once,
        profile="moves",
    ),
    _bug(
        "begun-twice",
        "V1",
        "a group that was made without members is begun by every host that is placed",
        groups,
        "change",
        changing(lambda compare: False, only=_is_beginning),
        profile="calm",
    ),
    _bug(
        "begun-anew",
        "V8",
        "a listed host whose store is gone begins its group anew, also where operations were acknowledged",
        GroupRecord,
        "may_begin_anew",
        _anew_where_listed,
        profile="memory",
    ),
    _bug(
        "kept-away-for-good",
        "M4",
        "a backup that was dropped because calls waited for it is not listed again",
        Membership,
        "_keep_away",
        _keep_away_for_good,
        profile="pauses",
    ),
    _bug(
        "restarts-too-early",
        "V4",
        "a group in memory restarts when one of those who hold its state is gone",
        StateLoss,
        "is_total",
        property(_is_lost_with_one),
        profile="memory",
    ),
    _bug(
        "number-never-issued",
        "K7",
        "the death of a process that never was proves that all before it are gone",
        ProvenDead,
        "_is_followed",
        _any_later,
        profile="false-deaths",
    ),
    _bug(
        "follows-every-jump",
        "X4",
        "a host's time jumps with the machine's clock",
        SteadyClock,
        "wall",
        lambda steady: steady._clock.wall(),
        profile="clocks",
    ),
    _bug(
        "guess-of-a-host-counts",
        "X4",
        "what expired by the guess of a host ends so, though the group has told its time",
        requests,
        "is_reckoned_wrong",
        lambda request, outcome, time_s: False,
        profile="clock-kills",
    ),
    _bug(
        "differing-object-leads",
        "E8",
        "a member whose replay came out otherwise keeps its object and serves",
        Readiness,
        "differs",
        _only_report,
        profile="swayed",
    ),
    _bug(
        "digests-not-compared",
        "E8",
        "a state that differs from the primary's is taken for equal",
        DigestComparison,
        "_compared",
        _equal_whatever,
        profile="swayed",
    ),
    _bug(
        "uncompared-checkpoint",
        "E8",
        "a backup's state becomes a checkpoint before it was found equal to the primary's",
        Checkpointing,
        "_may_count",
        lambda checkpointing, position: True,
        profile="swayed",
        runs_max=400,
    ),
    _bug(
        "checkpoint-not-read-back",
        "E9",
        "a state becomes a checkpoint, and what is older is let go, though it was never read back",
        Capture,
        "_read_back",
        lambda capture, name, value, encoded, first, met: None,
    ),
    _bug(
        "full-log-not-passed-on",
        "E9",
        "a primary that can make no checkpoints keeps the group, though its log is full and others are short",
        ServingState,
        "maybe_make_room",
        lambda serving, sequence, config, why: None,
        profile="classes",
        runs_max=200,
    ),
    _bug(
        "full-member-counted",
        "D4",
        "calls are refused for the sake of a backup that makes no checkpoints, though others have room",
        Submission,
        "_is_stuck",
        lambda submission, follower: False,
        profile="classes",
    ),
    _bug(
        "no-reserve",
        "D5",
        "a host orders operations and makes checkpoints until its disk is full",
        DiskSpace,
        "_judge",
        lambda space: None,
        profile="filling",
    ),
    _bug("timer-rings-again", "E6", "a timer that has rung stays set", Timers, "fire", _rings_again),
    _bug(
        "timers-not-kept",
        "E6",
        "a loaded state has no timers",
        Execution,
        "replace_timers",
        _forget_timers,
    ),
    _bug(
        "stays-without-object",
        "K3",
        "a primary that can make no object keeps its epoch",
        HostedGroup,
        "pass_on",
        lambda hosted, why, **limits: None,
        profile="classes",
    ),
    _bug(
        "poison-is-taken",
        "E4",
        "a call runs however many processes it has ended",
        CrashSuspicions,
        "given_up",
        lambda attempts, request: 0,
        profile="calm",
    ),
    _bug("told-before-commit", "S4", "replies leave before commit", WaitingReplies, "take", _take_all),
    _bug(
        "read-before-commit",
        "S4",
        "stale reads that saw what is not committed are answered",
        Replica,
        "on_stale_queries",
        _stale_at_once,
        profile="pairs",
    ),
)
