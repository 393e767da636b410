"""Bugs planted in the replicated sequence: each leaves out a rule, as the rule's *Without it* describes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from holdfast.authority import stores
from holdfast.authority.recipe import Seen
from holdfast.authority.views import IdentityChanged, View, ViewChange, ViewChanges, ViewMember, Why
from holdfast.model.ids import GroupId, HostId, Incarnation, StoreId
from holdfast.sequence import view_state
from holdfast.sequence.acceptance import Acceptance
from holdfast.sequence.claim import Claim
from holdfast.sequence.claim_batches import ClaimBatches
from holdfast.sequence.handover import Handover
from holdfast.sequence.member import Member
from holdfast.sequence.member_state import MemberState
from holdfast.sequence.messages import Submit
from holdfast.sequence.progress import ProgressOfAll
from holdfast.sequence.role import Role
from holdfast.sequence.store import GroupStore
from holdfast.sequence.submission import Submission
from holdfast.sim.runner.planted import Planted, Planting, replacing

_learn = Member._learn
_begin = Submission.begin
_on_message = Member.on_message
_ground = Claim.ground
_answered = ClaimBatches._answered


# --- views and stores


def _resume(member: Member, seen: Seen[View]) -> None:
    """Resumes as primary after a restart, because the view still says so."""
    me = member._on.me
    own = view_state.find(seen.value.members, me)
    if member.role is not Role.WAITING or seen.value.primary != me.host or own is None:
        _learn(member, seen)
        return
    member._on.standing.learn(seen)
    member._on.epoch = seen.value.epoch
    member.role = Role.PRIMARY
    member._lead.submission.begin(is_unproven=False)
    member._lead.after_progress()


def _memory_store_of_host(host: HostId, incarnation: Incarnation) -> StoreId:
    return StoreId(f"memory-{host}")


def _compare_never(claiming: Claim) -> bool:
    return False


def _compare_in_doubt_only(claiming: Claim) -> bool:
    return claiming._on.is_doubtful


@contextmanager
def _compare_nothing() -> Iterator[None]:
    with (
        replacing(Claim, "_must_compare", _compare_in_doubt_only),
        replacing(Acceptance, "_holds_more", lambda acceptance, submit: False),
    ):
        yield


def _refuse_restarted(claiming: Claim) -> Why | None:
    own = claiming._on.standing.own_entry
    if own is not None and own.incarnation != claiming._on.me.incarnation:
        return None
    return _ground(claiming)


# --- submit and commit


def _take_before_it_is_won(member: Member) -> None:
    """Follows a claimant before the authority has said that it has won."""
    found, member._early._ahead = member._early._ahead, None
    if found is not None:
        member.on_message(found[0], found[1].submit)


def _accept_any_epoch(member: Member, peer: HostId, message: Any) -> None:
    """Takes records from any sender, whatever its epoch."""
    if isinstance(message, Submit) and member.role is Role.BACKUP and message.epoch < member.epoch:
        member._on.epoch = message.epoch
        member._acceptance.primary = peer
    _on_message(member, peer, message)


def _durable_at_once(store: GroupStore, then: Callable[[], None]) -> None:
    then()


def _commit_by_majority(submission: Submission) -> None:
    on = submission._on
    if not submission.is_primary or len(on.standing.listed) < on.config.min_in_sync:
        return
    points = sorted(submission.acknowledged_by(member) for member in on.standing.required())
    point = points[(len(points) - 1) // 2]
    if not submission.is_serving and point >= submission._claimed_tail:
        submission.is_serving = True
        on.advance(point)
        submission._on_serving()
    elif submission.is_serving:
        on.advance(point)


def _commit_with_too_few(submission: Submission) -> None:
    on = submission._on
    if not submission.is_primary:
        return
    point = min(submission.acknowledged_by(member) for member in on.standing.required())
    if point >= submission._claimed_tail:
        on.advance(point)
        if not submission.is_serving:
            submission.is_serving = True
            submission._on_serving()


@contextmanager
def _who_follows_is_not_reviewed() -> Iterator[None]:
    """Lets a primary go on with the followers it had when the view was last looked at."""

    def changed(followers: ProgressOfAll) -> None:
        followers.all = tuple(followers.by_id.values())

    with replacing(ProgressOfAll, "_changed", changed):
        yield


# --- claims


def _serve_at_once(submission: Submission, *, is_unproven: bool) -> None:
    _begin(submission, is_unproven=is_unproven)
    if not submission.is_serving and len(submission._on.standing.listed) >= 2:
        submission.is_serving = True
        submission._on_serving()


def _no_grace(claiming: Claim) -> int:
    return 0


def _answered_alike(
    claims: ClaimBatches, batch: dict[GroupId, tuple[ViewChange, Any]], answer: ViewChanges | IdentityChanged
) -> None:
    """Treats all claims of a batch as won when one of them is won."""
    if isinstance(answer, ViewChanges) and answer.won and answer.lost:
        as_if = [
            Seen(batch[each.group][0].seen.key, batch[each.group][0].new, answer.won[0].modified)
            for each in answer.lost
        ]
        answer = ViewChanges((*answer.won, *as_if), (), answer.in_doubt)
    _answered(claims, batch, answer)


def _any_death(claiming: Claim) -> Why | None:
    view, me = claiming._on.standing.view, claiming._on.me
    if view is None or claiming._on.standing.own_entry is None or view.primary == me.host:
        return _ground(claiming)
    proofs = claiming._on.ports.leases.proven_dead._proofs
    return Why.DEAD if view.primary in proofs else _ground(claiming)


# --- hand-over


def _leave_for_ever(state: MemberState, member: ViewMember) -> bool:
    """Takes what a process has said for the word of every later process of its host."""
    return member.host in state.leaving


RUNS: Final = 100

_bug: Final = Planting("sequence", runs_max=RUNS)

PLANTED = (
    _bug(
        "resumes-its-role",
        "V3",
        "A restarted primary goes on in its old epoch.",
        Member,
        "_learn",
        _resume,
        "power",
    ),
    _bug(
        "memory-outlives-process",
        "V4",
        "A restarted member in memory counts as the listed one.",
        view_state,
        "memory_store",
        _memory_store_of_host,
        "kills",
    ),
    _bug(
        "strangers-welcome",
        "V5",
        "A rolled-back store is opened as the one the authority knows.",
        stores,
        "_objection",
        lambda found, expected, expected_nonce, generation: None,
        "damage",
    ),
    Planted(
        name="sequence-nobody-compares",
        rule="V5",
        scenario="sequence",
        summary="A restarted member claims without asking, and whoever holds more follows it.",
        plant=_compare_nothing,
        profile="damage",
        runs_max=RUNS,
    ),
    _bug(
        "any-epoch",
        "S2",
        "A backup accepts what an older epoch's primary sends.",
        Member,
        "on_message",
        _accept_any_epoch,
        "views",
    ),
    _bug(
        "acknowledges-early",
        "S3",
        "What is not synced yet is acknowledged.",
        GroupStore,
        "when_durable",
        _durable_at_once,
        "blackouts",
    ),
    _bug(
        "majority-commits",
        "S3",
        "A position commits when most of the required have it.",
        Submission,
        "maybe_commit",
        _commit_by_majority,
        "views",
    ),
    _bug(
        "too-few-commit",
        "S3",
        "Positions commit with fewer than min_in_sync members listed.",
        Submission,
        "maybe_commit",
        _commit_with_too_few,
    ),
    Planted(
        name="sequence-forgets-who-follows",
        rule="S3",
        scenario="sequence",
        summary="A primary counts followers that have left, or returned with less, since the view changed.",
        plant=_who_follows_is_not_reviewed,
        runs_max=RUNS,
    ),
    _bug(
        "released-for-ever",
        "K5",
        "A primary that released its epoch waits for its successor for ever.",
        Handover,
        "is_overdue",
        lambda handover: False,
        "network",
    ),
    _bug(
        "leaves-for-ever",
        "K5",
        "A host that was stopped once is never listed again by the primary that it told.",
        MemberState,
        "is_leaving",
        _leave_for_ever,
        "stops",
    ),
    _bug(
        "serves-at-once",
        "K1",
        "A new primary serves before its tail is committed.",
        Submission,
        "begin",
        _serve_at_once,
        "views",
    ),
    _bug(
        "follows-before-the-win",
        "K1",
        "What a claimant sends ahead is taken before its claim is answered.",
        Member,
        "_take_ahead",
        _take_before_it_is_won,
        "network",
    ),
    _bug(
        "claims-without-grace",
        "K1",
        "A backup claims although it has promised not to.",
        Claim,
        "due",
        _no_grace,
    ),
    _bug(
        "any-death-will-do",
        "K2",
        "The death of an earlier process is proof against the present one.",
        Claim,
        "ground",
        _any_death,
        "deaths",
    ),
    _bug(
        "claims-share-an-answer",
        "K4",
        "Of claims that travelled together all are won when one is.",
        ClaimBatches,
        "_answered",
        _answered_alike,
        "network",
    ),
    _bug(
        "restarted-never-claims",
        "K6",
        "After a total outage nobody claims.",
        Claim,
        "ground",
        _refuse_restarted,
        "blackouts",
    ),
    _bug(
        "doubtful-claims",
        "D2",
        "A member whose tail was cut claims like any other.",
        Claim,
        "_must_compare",
        _compare_never,
        "tails",
    ),
)
