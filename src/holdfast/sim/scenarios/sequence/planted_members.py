"""Bugs planted in changes of a group's members: who is dropped, who is let in, what a learner keeps (M), and
who never leads (W3); and in what members tell each other (W1)."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from holdfast.authority.recipe import InDoubt
from holdfast.authority.views import View, ViewChange, ViewMember, Why
from holdfast.model.ids import Position
from holdfast.sequence import claim
from holdfast.sequence.acceptance import Acceptance
from holdfast.sequence.catchup_limiter import CatchupLimiter
from holdfast.sequence.early_messages import EarlyMessages
from holdfast.sequence.log_hold import LogHold
from holdfast.sequence.membership import Membership
from holdfast.sequence.messages import Submit
from holdfast.sequence.peer_messages import PeerMessages
from holdfast.sequence.role import Rank
from holdfast.sequence.submission import Submission
from holdfast.sequence.view_requests import ViewRequests
from holdfast.sequence.view_state import ViewState, with_me, without
from holdfast.sim.runner.planted import Planted, Planting, replacing
from holdfast.sim.scenarios.sequence.planted import RUNS
from holdfast.storage.record import HEADER

_changed = ViewRequests._changed
_go_on_joining = Membership._go_on_joining
_on_limiter_timer = CatchupLimiter._on_timer


def _undercut(view: View, me: ViewMember, *, min_in_sync: int, is_released: bool) -> tuple[ViewMember, ...]:
    members = with_me(view.members, me)
    return members if is_released or view.primary == me.host else without(members, view.primary)


def _give_up_in_doubt(inquiry: ViewRequests, wanted: ViewChange, answer: Any) -> None:
    """Treats a change of the members that got no answer as one that has not happened."""
    is_own = wanted.seen.value.primary == wanted.new.primary
    if isinstance(answer, InDoubt) and is_own:
        inquiry._on.standing.pending = None
        return
    _changed(inquiry, wanted, answer)


def _add_who_is_close(membership: Membership, member: ViewMember) -> None:
    follower = membership._submission.followers.get(member)
    if follower is not None and follower.member == member and membership._may_join(follower):
        on = membership._on
        membership._change((*without(on.standing.listed, member.host), member), Why.ADDED, member)
    else:
        _go_on_joining(membership, member)


def _known_committed(submission: Submission) -> Position:
    return submission._on.committed


def _send_nothing_ahead(early: EarlyMessages, wanted: ViewChange, *, is_unproven: bool) -> None:
    """Leaves a primary waiting for its tail for as long as if its first messages had been lost."""


@contextmanager
def _add_before_serving() -> Iterator[None]:
    with (
        replacing(Submission, "perhaps_committed", property(_known_committed)),
        replacing(EarlyMessages, "on_claim", _send_nothing_ahead),
    ):
        yield


def _take_by_number(acceptance: Acceptance, submit: Submit) -> Position:
    """Keeps any record whose position the member already has, without comparing contents."""
    store = acceptance._on.store
    verified = submit.previous.position
    for encoded in submit.records:
        _, _, _, _, first, count, _, _ = HEADER.unpack_from(encoded)
        verified = Position(first + count - 1)
        if verified > store.tail.position:
            if first != store.tail.position + 1 or store.tail.checksum != HEADER.unpack_from(encoded)[1]:
                return store.tail.position
            store.append_received(encoded)
    return Position(max(verified, store.tail.position))


def _look_when_due_only(catchup_limiter: CatchupLimiter, tag: Hashable) -> None:
    """Ignores a timer that fires slightly early and finds nothing due, and does not set it again."""
    if catchup_limiter._look is not None and catchup_limiter._clock.now() >= catchup_limiter._look[0]:
        _on_limiter_timer(catchup_limiter, tag)


def _is_unfit(order: claim.ClaimOrder) -> bool:
    """Keeps only a member whose object differs from claiming."""
    return order._on.application.fitness().rank is Rank.UNFIT


@contextmanager
def _keep_the_tail() -> Iterator[None]:
    """Drops nothing at a new epoch, and nothing that differs."""

    def follow_only(acceptance: Acceptance, tail: Position) -> None:
        acceptance._drop(acceptance._on.store.tail.position)

    with (
        replacing(Acceptance, "_accept_epoch", follow_only),
        replacing(Acceptance, "_take", _take_by_number),
    ):
        yield


_bug: Final = Planting("sequence", runs_max=RUNS)

PLANTED = (
    _bug(
        "heeds-an-older-epoch",
        "W1",
        "A member heeds what another told it in an epoch that is over.",
        PeerMessages,
        "_is_of_now",
        lambda messages, message: message.epoch <= messages._on.epoch,
        "views",
    ),
    _bug(
        "claims-what-it-never-leads",
        "W3",
        "A member that never leads claims like any other.",
        claim.ClaimOrder,
        "must_not_lead",
        _is_unfit,
    ),
    _bug(
        "hands-over-to-anybody",
        "W3",
        "A primary hands over to a member that never leads.",
        ViewState,
        "may_lead",
        lambda standing, host: True,
    ),
    _bug(
        "drops-the-last",
        "M1",
        "The silent are dropped until the primary is alone.",
        Membership,
        "_may_spare_one",
        lambda membership: len(membership._on.standing.listed) > 1,
    ),
    _bug(
        "claimant-undercuts",
        "M1",
        "A claimant drops the old primary whatever is left.",
        claim,
        "members_after_claim",
        _undercut,
    ),
    _bug(
        "gives-up-in-doubt",
        "M2",
        "An unanswered change is taken for a refused one.",
        ViewRequests,
        "_changed",
        _give_up_in_doubt,
        "pauses",
    ),
    _bug(
        "adds-who-is-close",
        "M2",
        "A learner is listed while it lacks what is committed.",
        Membership,
        "_go_on_joining",
        _add_who_is_close,
        "changes",
    ),
    Planted(
        name="sequence-adds-before-serving",
        rule="M2",
        scenario="sequence",
        summary="A primary that does not serve yet lists who holds what it knows to be committed.",
        plant=_add_before_serving,
        profile="moves",
        runs_max=RUNS,
    ),
    _bug(
        "waits-unasked",
        "M3",
        "A member that must wait before it asks its primary is not called when there is room.",
        CatchupLimiter,
        "_on_timer",
        lambda catchup_limiter, tag: None,
        "network",
    ),
    _bug(
        "waits-for-a-timer-that-was",
        "M3",
        "The timer of those who wait before they ask came a moment early, and is not set again.",
        CatchupLimiter,
        "_on_timer",
        _look_when_due_only,
        "changes",
    ),
    _bug(
        "waits-for-the-slow",
        "M4",
        "A backup that lags is waited for as long as it answers at all.",
        Membership,
        "_lags",
        lambda membership, follower: False,
        "lags",
    ),
    _bug(
        "lets-go-what-it-offers",
        "M4",
        "The log behind a state is let go while a learner fetches that state.",
        LogHold,
        "_renew",
        lambda hold: None,
        "lags",
    ),
    _bug(
        "compares-numbers",
        "M3",
        "Records are taken for held by their positions.",
        Acceptance,
        "_take",
        _take_by_number,
        "views",
    ),
    Planted(
        name="sequence-keeps-its-tail",
        rule="M3",
        scenario="sequence",
        summary="A follower keeps what lies beyond the claimed tail.",
        plant=_keep_the_tail,
        profile="views",
        runs_max=RUNS,
    ),
)
