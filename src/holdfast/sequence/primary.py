"""What a member does while it is primary: order, commit, feed followers, change the members, hand over.

:class:`.member.Member` decides whether it is primary (V3). :class:`Primary` runs from the epoch that the
member has won until another member is primary, and combines the parts below.

:class:`ResendTimer` decides when the primary must check again who owes it an acknowledgement; an idle group
has no timer at all.

:class:`PrimaryDeparture` decides when a primary whose host should no longer have the group, or that should
not lead it (W3), hands over, and to whom (M6, K5). The chosen backup may answer and yet not claim, because
its clock is off (X4). So the backups are chosen in turn.
*Without it:* A* {A,B,C} should leave; C, which comes first, has the wrong time; A hands over to C, takes the
group back, and hands over to C again, for ever.

:class:`ReadRights` decides whether the primary may answer a linearizable query (R1, R2). The primary answers
from its own state only while it holds a lease in force from the host of every required member, and has had an
answer from that member, in this epoch, since the lease began. Otherwise it asks the authority, after the
query ran, whether its view still stands; that check involves no clock.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from holdfast.authority.recipe import NoAnswer, Seen
from holdfast.authority.views import NoGroup, View, ViewMember, read_view
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import SECOND, Epoch, HostId, Incarnation, Position
from holdfast.sequence import messages
from holdfast.sequence.catchup import Offering
from holdfast.sequence.handover import Handover, Phase
from holdfast.sequence.log_hold import LogHold
from holdfast.sequence.member_state import MemberState, MemberTimer, MemberTimers
from holdfast.sequence.membership import Membership
from holdfast.sequence.messages import GroupMessage
from holdfast.sequence.ports import Me, same
from holdfast.sequence.progress import Progress
from holdfast.sequence.recovery import compared
from holdfast.sequence.role import Rank
from holdfast.sequence.submission import Submission
from holdfast.sequence.view_requests import ViewRequests
from holdfast.sequence.view_state import find

WAIT_NS: Final = 2 * SECOND
"""How long to wait between two attempts to hand over, doubled each time, because the group takes no calls
during an attempt.
"""
DOUBLINGS_MAX: Final = 5


class PrimaryDeparture:
    """Decides when a primary that should leave hands over, and to whom; :mod:`.handover` does the
    hand-over."""

    def __init__(self, state: MemberState, submission: Submission) -> None:
        self._on = state
        self._submission = submission
        self._attempts = 0
        self._not_before = 0
        self._tried: dict[HostId, int] = {}
        """For each host, the number of the attempt in which it was last chosen."""

    @property
    def is_due(self) -> bool:
        """Whether this host should no longer have a member of the group, or its member never lead (W3)."""
        return self._on.standing.is_barred or not self._on.standing.is_wanted(self._on.me)

    @property
    def why(self) -> str:
        return "it never leads" if self._on.standing.is_barred else "it leaves this host"

    def take_successor(self) -> HostId | None:
        """The backup to hand over to now; None unless this primary should leave and a backup can take
        over."""
        on = self._on
        if not self.is_due:
            self._attempts = 0
            self._tried.clear()
            return None
        is_free = on.standing.pending is None and on.standing.joining is None
        # A backup that is chosen and does not claim costs the group a pause, so only likely ones qualify.
        fit = [
            each
            for each in on.standing.listed
            if on.standing.is_wanted(each)
            and on.standing.may_lead(each.host)
            and self._submission.is_answering(each)
            and self._submission.rank_of(each) is not Rank.UNFIT
            and not self._submission.is_stopping(each)
        ]
        if not is_free or not fit or on.now < self._not_before:
            return None
        self._not_before = on.now + (WAIT_NS << min(self._attempts, DOUBLINGS_MAX))
        self._attempts += 1
        chosen = max(fit, key=self._rank).host
        self._tried[chosen] = self._attempts
        return chosen

    def _rank(self, each: ViewMember) -> tuple[bool, int, Position, HostId]:
        """The sort key of a candidate: whether it could build its object, as far as is known (O3); how long
        ago it was last chosen; how much it holds."""
        is_able = self._submission.rank_of(each) < Rank.UNABLE
        tried = -self._tried.get(each.host, 0)
        return is_able, tried, self._submission.acknowledged_by(each), each.host


class ResendTimer:
    """Sets the timers of a primary."""

    def __init__(
        self,
        on: MemberState,
        alarms: MemberTimers,
        submission: Submission,
        handover: Handover,
        hold: LogHold,
    ) -> None:
        self._on = on
        self._alarms = alarms
        self._submission = submission
        self._handover = handover
        self._hold = hold

    @property
    def has_learner(self) -> bool:
        """Whether somebody follows who is not listed."""
        return len(self._submission.followers.all) > len(self._others_listed())

    def arm(self) -> None:
        submission, config, standing = self._submission, self._on.config, self._on.standing
        if not submission.is_primary:
            return
        are_set = self._alarms.are_set
        if MemberTimer.NOTIFY not in are_set and submission.has_news():
            self._alarms.set(MemberTimer.NOTIFY, config.notify_ns)
        if MemberTimer.SWEEP not in are_set and (self._is_urgent() or not standing.is_as_wanted):
            # A follower that has owed for long will not answer soon; a thousand such groups must not keep a
            # host busy.
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
            or self._hold.is_feeding
            or any(follower.lacks_space for follower in submission.followers.all)
        )

    def _others_listed(self) -> list[Me]:
        return [member for member in self._on.standing.listed if not same(member, self._on.me)]


class Primary:
    """Runs one member's work as primary, each time it is one. *on_overdue* is called when nobody took the
    group after it was released (K5)."""

    def __init__(
        self,
        on: MemberState,
        alarms: MemberTimers,
        view_requests: ViewRequests,
        *,
        on_overdue: Callable[[], None],
    ) -> None:
        self._on = on
        self._alarms_set = alarms.are_set
        self._on_overdue = on_overdue
        self.submission = Submission(on, self._served, self.after_progress)
        self.handover = Handover(on)
        self._proven_dead = on.ports.leases.proven_dead
        self._offering = Offering(on)
        self._membership = Membership(on, self.submission, view_requests.change)
        self._departure = PrimaryDeparture(on, self.submission)
        self._hold = self._offering.hold
        self._resend_timer = ResendTimer(on, alarms, self.submission, self.handover, self._hold)

    @property
    def is_serving(self) -> bool:
        """Whether this primary takes calls."""
        return self.submission.is_serving and self.handover.phase is Phase.NONE

    def end(self) -> None:
        """Stop being primary. A view change that was requested stays requested; the next primary decides
        about it."""
        self.submission.end()
        self._membership.end()
        self._offering.withdraw()
        self.handover.end()
        self._on.application.on_following()

    def flush(self) -> None:
        """Send and sync what was submitted in this turn (S5)."""
        if self.submission.has_ordered and self.submission.is_primary:
            self.submission.flush()
            if MemberTimer.NOTIFY not in self._alarms_set or MemberTimer.SWEEP not in self._alarms_set:
                self._resend_timer.arm()

    def hand_over(self, to: HostId, why: str) -> None:
        """Hand the group over to the in-sync backup on *to* (K5). Raises ``Unavailable`` or
        ``InvalidRequest``."""
        if not self.is_serving:
            raise Unavailable(f"group {self._on.group} is not served here")
        if not self._may_hand_over(to):
            why = self.submission.why_without(to)
            told = f"has no object: {why}" if why else "is no in-sync backup"
            told = told if self._on.standing.may_lead(to) else "never leads"
            raise InvalidRequest(f"{to} {told}; group {self._on.group} is not handed to it")
        self.handover.begin(to, why)
        self.handover.maybe_release()
        self._resend_timer.arm()

    def successors(self, log_below: int | None = None, *, has_space: bool = False) -> list[HostId]:
        """The hosts to which the group could be handed over, the fittest first; none that never leads (W3) or
        whose object differs (E8), and none that is about to end (K5). *log_below*: only those whose log was
        shorter than this when they last said (D4). *has_space*: only those that are not short of disk space
        (D5)."""
        on = self._on
        others = [each for each in on.standing.listed if not same(each, on.me) and not on.is_dead(each)]
        others = [
            each
            for each in others
            if on.standing.may_lead(each.host) and not self.submission.is_stopping(each)
        ]
        if log_below is not None:
            others = [each for each in others if self.submission.log_bytes_of(each) < log_below]
        if has_space:
            others = [each for each in others if self.submission.has_space(each)]
        ranked = [(self.submission.rank_of(each), each.host) for each in others]
        return [host for rank, host in sorted(ranked, key=lambda each: each[0]) if rank is not Rank.UNFIT]

    # --- events

    def on_message(self, peer: HostId, message: GroupMessage) -> None:
        on = self._on
        match message:
            case messages.Accepted():
                self.submission.on_accepted(peer, message)
                if self._hold.is_feeding:
                    self._hold.acknowledged(peer, message.up_to)
                self.after_progress()
            case messages.Hello(epoch=epoch) if epoch <= on.epoch and self._may_follow(peer, message):
                follower = self.submission.on_hello(peer, message)
                if follower is None:
                    self._offering.offer(peer)
                elif find(on.standing.listed, follower.member) is None:
                    self._hold.agreed(peer, follower.agreed)
                self._resend_timer.arm()
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
        """Handle that the record of where the group should have members has changed (M5, M6)."""
        if self.submission.is_primary:
            self._membership.forget_useless_learners()
            self.make_due_changes()

    def on_stopping(self, host: HostId, incarnation: Incarnation, *, is_leaving: bool) -> None:
        """Handle that a process, possibly this one, is about to end in an orderly way (K5)."""
        self._on.note_stopping(host, incarnation, is_leaving=is_leaving)
        if is_leaving and self.submission.is_primary:
            self.make_due_changes()

    def on_unmet(self) -> None:
        """Handle that a view change was not made because the record has changed; the next sweep knows how."""
        self.submission.maybe_commit()
        self._resend_timer.arm()

    def after_progress(self) -> None:
        """Handle an acknowledgement or our own sync. The regular sweep finds silent or lagging members soon
        enough."""
        if self._hold.is_feeding:
            self._look_at_hold()
        submission = self.submission
        is_calm = submission.is_calm and not self._proven_dead.is_any  # as nearly always
        if self.handover.phase is Phase.NONE and (is_calm or submission.is_steady()):
            if MemberTimer.NOTIFY not in self._alarms_set or MemberTimer.SWEEP not in self._alarms_set:
                self._resend_timer.arm()  # else both are set, and there is nothing to arm
        else:
            self.make_due_changes()

    def make_due_changes(self) -> None:
        """Change the members if one should leave or may join, and the primary if another should be."""
        if self.handover.phase is not Phase.RELEASED:
            self._membership.sweep()
        if self.is_serving:
            successor = self._departure.take_successor()
            if successor is not None:
                self.handover.begin(successor, self._departure.why)
        self.handover.maybe_release()
        self._resend_timer.arm()

    def sweep(self) -> None:
        """Check who owes an acknowledgement, resend, and make the changes that are due."""
        if self.handover.is_overdue():
            self._on_overdue()
            return
        self.submission.sweep()
        self._membership.forget_useless_learners()
        if not self._resend_timer.has_learner and not self.submission.is_asked_for_state:
            self._offering.withdraw()
        self._look_at_hold()
        self.make_due_changes()

    # --- internal

    def _look_at_hold(self) -> None:
        """Keep the log for those that still catch up, and for nobody else (M4)."""
        if self._hold.is_feeding:
            self._hold.keep_only(
                each.member.host for each in self.submission.followers.all if self._is_fed(each)
            )

    def _is_fed(self, follower: Progress) -> bool:
        """Whether the follower is a learner, or a member without its object (E8)."""
        on = self._on
        return find(on.standing.listed, follower.member) is None or follower.rank_at(on.now) >= Rank.UNABLE

    def _served(self) -> None:
        on = self._on
        on.note("serving", epoch=on.epoch, committed=on.committed)
        on.settle()
        on.application.on_serving(on.epoch)

    def _may_hand_over(self, to: HostId) -> bool:
        standing = self._on.standing
        is_listed = any(member.host == to for member in standing.listed)
        is_fit = standing.may_lead(to) and not self.submission.why_without(to)
        return self.is_serving and is_listed and is_fit and to != self._on.me.host

    def _on_lacking(self, peer: HostId, lacking: messages.Lacking) -> None:
        """Note that a follower has no object: do not hand it the group, and offer it a state (E8)."""
        if not self.submission.on_lacking(peer, lacking):
            return
        if lacking.rank == Rank.UNFIT and self.handover.is_refused_by(peer):
            self.handover.call_off()
            if self.handover.phase is Phase.RELEASED:
                self._on_overdue()
                return
        if lacking.wants_state:
            self._offering.offer(peer, lacking.found_at, needs_log=False)
            self._resend_timer.arm()

    def _may_follow(self, host: HostId, hello: messages.Hello) -> bool:
        """Whether that member may follow: it should be a member, or it is listed while it leaves (M6)."""
        standing = self._on.standing
        member = ViewMember(
            host=host, store=hello.store, incarnation=hello.incarnation, opening=hello.opening
        )
        return standing.is_wanted(member) or find(standing.listed, member) is not None

    def _withdraw(self, better: HostId) -> None:
        """Release the group to *better*, which knows of more than this member held at its claim (V5)."""
        if self._on.standing.pending is None:
            self._on.note("withdraw", to=better)
            self._on.send(better, messages.Released(self._on.group, self._on.epoch))


class ReadRights:
    """Decides whether one member may answer linearizable queries."""

    def __init__(
        self,
        state: MemberState,
        submission: Submission,
        handover: Handover,
        on_view: Callable[[Seen[View]], None],
    ) -> None:
        self._on = state
        self._submission = submission
        self._handover = handover
        self._on_view = on_view

    def may_read(self) -> bool:
        """Whether a query may be answered now. Also requests the confirmations that are missing, for later
        queries."""
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
        # A primary that has released the group, or was overtaken, could miss what its successor commits (K5).
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
