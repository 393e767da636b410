"""What a member does while it is primary: order and commit, feed who follows, change the members, hand over.

The member decides whether it reigns (V3); here is what that means, from the epoch it has won to its end.

When a primary must look again at who owes it what; an idle group has no timer at all.

A primary whose host shall not have the group any more: when it hands over, to whom (M6, K5).

Whoever is chosen may answer and yet not claim: its clock may be off (X4). So they are chosen in turn.
*Without that:* A* {A,B,C} shall leave; C, which comes first, has the wrong time; A hands over to C, takes the
group back, and hands over to C again, for ever.

The right to answer a linearizable query (R1, R2).

From its own state the primary answers only while every required member's host has given it a lease that is
in force, and that member's answer of this epoch came since the lease began. Otherwise the authority is asked,
after the query ran, whether our view still stands: no clock is involved in that.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from holdfast.authority.recipe import NoAnswer, Seen
from holdfast.authority.views import NoGroup, View, ViewMember, read_view
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import SECOND, Epoch, HostId, Position
from holdfast.sequence import messages
from holdfast.sequence.catchup import Offering
from holdfast.sequence.handover import Handover, Phase
from holdfast.sequence.member_state import MemberState, MemberTimer, MemberTimers
from holdfast.sequence.membership import Membership
from holdfast.sequence.messages import GroupMessage
from holdfast.sequence.ports import Me, same
from holdfast.sequence.recovery import compared
from holdfast.sequence.role import Rank
from holdfast.sequence.submission import Submission
from holdfast.sequence.view_requests import ViewRequests
from holdfast.sequence.view_state import find

WAIT_NS: Final = 2 * SECOND
"""After an attempt, doubled each time: while one lasts the group takes no calls."""
DOUBLINGS_MAX: Final = 5


class PrimaryDeparture:
    """Decides; the hand-over itself is :mod:`.handover`'s."""

    def __init__(self, footing: MemberState, submission: Submission) -> None:
        self._on = footing
        self._submission = submission
        self._attempts = 0
        self._not_before = 0
        self._tried: dict[HostId, int] = {}
        """In which attempt each was chosen last."""

    @property
    def is_due(self) -> bool:
        """Whether this primary shall be one no longer."""
        return not self._on.standing.is_wanted(self._on.me)

    def take_successor(self) -> HostId | None:
        """The backup to hand over to now, if this primary shall go and one can take over."""
        on = self._on
        if not self.is_due:
            self._attempts = 0
            self._tried.clear()
            return None
        is_free = on.standing.pending is None and on.standing.joining is None
        # Whoever is chosen and does not claim costs the group a pause.
        fit = [
            each
            for each in on.standing.listed
            if on.standing.is_wanted(each)
            and self._submission.is_answering(each)
            and self._submission.rank_of(each) is not Rank.UNFIT
        ]
        if not is_free or not fit or on.now < self._not_before:
            return None
        self._not_before = on.now + (WAIT_NS << min(self._attempts, DOUBLINGS_MAX))
        self._attempts += 1
        chosen = max(fit, key=self._rank).host
        self._tried[chosen] = self._attempts
        return chosen

    def _rank(self, each: ViewMember) -> tuple[bool, int, Position, HostId]:
        """Who could make its object, as far as is known (O3); who was not chosen for the longest time; then
        who holds most."""
        is_able = self._submission.rank_of(each) < Rank.UNABLE
        tried = -self._tried.get(each.host, 0)
        return is_able, tried, self._submission.acknowledged_by(each), each.host


class ResendTimer:
    """Sets the alarms of a primary."""

    def __init__(
        self, on: MemberState, alarms: MemberTimers, submission: Submission, handover: Handover
    ) -> None:
        self._on = on
        self._alarms = alarms
        self._submission = submission
        self._handover = handover

    @property
    def has_learner(self) -> bool:
        """Whether somebody follows who is not listed."""
        return len(self._submission.followers.all()) > len(self._others_listed())

    def arm(self) -> None:
        submission, config, standing = self._submission, self._on.config, self._on.standing
        if not submission.is_reigning:
            return
        if not self._alarms.is_set(MemberTimer.NOTIFY) and submission.has_news():
            self._alarms.set(MemberTimer.NOTIFY, config.notify_ns)
        if not self._alarms.is_set(MemberTimer.SWEEP) and (self._is_urgent() or not standing.is_as_wanted):
            # Who has owed for long will not answer soon: a thousand such groups must not keep a host busy.
            is_hopeless = submission.is_owed(since_ns=2 * config.silence_ns)
            is_urgent = self._is_urgent() and not is_hopeless
            self._alarms.set(MemberTimer.SWEEP, config.resend_ns if is_urgent else config.silence_ns)

    def _is_urgent(self) -> bool:
        submission = self._submission
        return (
            submission.is_owed()
            or not submission.is_serving
            or self._on.standing.joining is not None
            or self._handover.phase is not Phase.NONE
            or any(submission.followers.get(each) is None for each in self._others_listed())
            or self.has_learner
        )

    def _others_listed(self) -> list[Me]:
        return [member for member in self._on.standing.listed if not same(member, self._on.me)]


class Primary:
    """Of one member, from time to time. *on_overdue*: nobody took the group that was released (K5)."""

    def __init__(
        self, on: MemberState, alarms: MemberTimers, inquiry: ViewRequests, *, on_overdue: Callable[[], None]
    ) -> None:
        self._on = on
        self._on_overdue = on_overdue
        self.submission = Submission(on, self._served, self.after_progress)
        self.handover = Handover(on)
        self._offering = Offering(on)
        self._membership = Membership(on, self.submission, inquiry.change)
        self._departure = PrimaryDeparture(on, self.submission)
        self._sweeping = ResendTimer(on, alarms, self.submission, self.handover)

    @property
    def is_serving(self) -> bool:
        """Whether calls are taken."""
        return self.submission.is_serving and self.handover.phase is Phase.NONE

    def end(self) -> None:
        """Another primary, or none: what was asked stays asked, and whoever is primary now decides."""
        self.submission.end()
        self._membership.end()
        self._offering.withdraw()
        self.handover.end()
        self._on.application.on_following()

    def flush(self) -> None:
        """Send and sync what was submitted in this turn (S5)."""
        if self.submission.is_reigning and self.submission.flush():
            self._sweeping.arm()

    def hand_over(self, to: HostId, why: str) -> None:
        """Let the in-sync backup on *to* become primary (K5). Raises ``Unavailable``, ``InvalidRequest``."""
        if not self.is_serving:
            raise Unavailable(f"group {self._on.group} is not served here")
        if not self._may_hand_over(to):
            why = self.submission.why_without(to)
            told = f"has no object: {why}" if why else "is no in-sync backup"
            raise InvalidRequest(f"{to} {told}; group {self._on.group} is not handed to it")
        self.handover.begin(to, why)
        self.handover.maybe_release()
        self._sweeping.arm()

    def successors(self) -> list[HostId]:
        """Who could be handed the group, the fittest first; nobody whose object differs (E8)."""
        on = self._on
        others = [each for each in on.standing.listed if not same(each, on.me) and not on.is_dead(each)]
        ranked = [(self.submission.rank_of(each), each.host) for each in others]
        return [host for rank, host in sorted(ranked, key=lambda each: each[0]) if rank is not Rank.UNFIT]

    # --- events

    def on_message(self, peer: HostId, message: GroupMessage) -> None:
        on = self._on
        match message:
            case messages.Accepted():
                self.submission.on_accepted(peer, message)
                self.after_progress()
            case messages.Hello(epoch=epoch) if epoch <= on.epoch and self._may_follow(peer, message):
                if self.submission.on_hello(peer, message) is None:
                    self._offering.offer(peer)
                self._sweeping.arm()
            case messages.Lacking():
                self._on_lacking(peer, message)
            case messages.Fetch():
                self._offering.on_fetch(peer, message)
            case messages.Knows(epoch=epoch) if epoch == on.epoch:
                self._withdraw(peer)
            case messages.Compare():
                on.send(peer, compared(on))
            case messages.Yield(epoch=epoch, to=to) if epoch == on.epoch and self._may_hand_over(to):
                self.hand_over(to, "")

    def on_record(self) -> None:
        """Where the group shall have members has changed (M5, M6)."""
        if self.submission.is_reigning:
            self._membership.forget_useless_learners()
            self.change_what_must()

    def on_unmet(self) -> None:
        """A change was not made, since the record has changed; by the next sweep it is known how."""
        self.submission.maybe_commit()
        self._sweeping.arm()

    def after_progress(self) -> None:
        """An acknowledgement came, or our own sync. Who is silent or lags shows in the sweep, soon enough."""
        if self.handover.phase is Phase.NONE and self.submission.is_steady():
            self._sweeping.arm()
        else:
            self.change_what_must()

    def change_what_must(self) -> None:
        """The members, if somebody should go or may come; the primary, if it is to be another."""
        if self.handover.phase is not Phase.RELEASED:
            self._membership.sweep()
        if self.is_serving:
            successor = self._departure.take_successor()
            if successor is not None:
                self.handover.begin(successor, "it leaves this host")
        self.handover.maybe_release()
        self._sweeping.arm()

    def sweep(self) -> None:
        """Look at who owes what."""
        if self.handover.is_overdue():
            self._on_overdue()
            return
        self.submission.sweep()
        self._membership.forget_useless_learners()
        if not self._sweeping.has_learner and not self.submission.is_asked_for_state:
            self._offering.withdraw()
        self.change_what_must()

    # --- within

    def _served(self) -> None:
        on = self._on
        on.note("serving", epoch=on.epoch, committed=on.committed)
        on.settle()
        on.application.on_serving(on.epoch)

    def _may_hand_over(self, to: HostId) -> bool:
        is_listed = any(member.host == to for member in self._on.standing.listed)
        is_fit = not self.submission.why_without(to)
        return self.is_serving and is_listed and is_fit and to != self._on.me.host

    def _on_lacking(self, peer: HostId, lacking: messages.Lacking) -> None:
        """A follower has no object: it is not handed the group, and offered a state (E8)."""
        if not self.submission.on_lacking(peer, lacking):
            return
        if lacking.rank == Rank.UNFIT and self.handover.is_refused_by(peer):
            self.handover.call_off()
            if self.handover.phase is Phase.RELEASED:
                self._on_overdue()
                return
        if lacking.wants_state:
            self._offering.offer(peer, lacking.found_at)
            self._sweeping.arm()

    def _may_follow(self, host: HostId, hello: messages.Hello) -> bool:
        """Whoever shall be a member, and whoever is listed while it leaves (M6)."""
        standing = self._on.standing
        member = ViewMember(
            host=host, store=hello.store, incarnation=hello.incarnation, opening=hello.opening
        )
        return standing.is_wanted(member) or find(standing.listed, member) is not None

    def _withdraw(self, better: HostId) -> None:
        """That one knows of more than this member held when it claimed: let it have the group (V5)."""
        if self._on.standing.pending is None:
            self._on.note("withdraw", to=better)
            self._on.send(better, messages.Released(self._on.group, self._on.epoch))


class ReadRights:
    """Of one member."""

    def __init__(
        self,
        footing: MemberState,
        submission: Submission,
        handover: Handover,
        on_view: Callable[[Seen[View]], None],
    ) -> None:
        self._on = footing
        self._submission = submission
        self._handover = handover
        self._on_view = on_view

    def may_read(self) -> bool:
        """Whether a query may be answered now; what is missing for the next one is asked for."""
        if not self._may_serve():
            return False
        missing = [
            member
            for member in self._on.standing.required()
            if not same(member, self._on.me) and not self._is_confirmed(member)
        ]
        for member in missing:
            self._on.ports.leases.confirm(member.host, self._on.group, self._on.epoch)
        return not missing

    def confirm(self, then: Callable[[bool], None]) -> None:
        if not self._may_serve():
            then(False)
            return
        on = self._on
        on.ports.recipes.start(read_view(on.group), partial(self._confirmed, on.epoch, then))

    def _may_serve(self) -> bool:
        # Once released, a read could miss what the successor commits (K5); and once overtaken.
        on = self._on
        is_released = self._handover.phase is Phase.RELEASED
        return self._submission.is_serving and not is_released and on.overtaken_in <= on.epoch

    def _is_confirmed(self, member: ViewMember) -> bool:
        follower = self._submission.followers.get(member)
        lease = self._on.ports.leases.lease(member.host)
        if follower is None or lease is None:
            return False
        incarnation, first = lease
        return (
            follower.answered_in == self._on.epoch
            and follower.answered_as == incarnation
            and follower.answered_beat >= first
        )

    def _confirmed(
        self, epoch: Epoch, then: Callable[[bool], None], answer: Seen[View] | NoGroup | NoAnswer
    ) -> None:
        on = self._on
        if not isinstance(answer, Seen):
            then(False)
            return
        ours = [on.standing.view, on.standing.pending.new if on.standing.pending is not None else None]
        stands = any(view is not None and view.nonce == answer.value.nonce for view in ours)
        then(stands and self._may_serve() and on.epoch >= epoch)
        if not stands:
            self._on_view(answer)
