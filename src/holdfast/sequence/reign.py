"""What a member does while it is primary: order and commit, feed who follows, change the members, hand over.

The member decides whether it reigns (V3); here is what that means, from the epoch it has won to its end.
"""

from collections.abc import Callable

from holdfast.authority.views import ViewMember
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import HostId
from holdfast.sequence import messages
from holdfast.sequence.alarms import Alarms
from holdfast.sequence.catchup import Offering
from holdfast.sequence.departure import Departure
from holdfast.sequence.fitness import Rank
from holdfast.sequence.footing import Footing
from holdfast.sequence.handover import Handover, Phase
from holdfast.sequence.holdings import compared
from holdfast.sequence.inquiry import Inquiry
from holdfast.sequence.membership import Membership
from holdfast.sequence.messages import GroupMessage
from holdfast.sequence.ports import same
from holdfast.sequence.standing import find
from holdfast.sequence.submission import Submission
from holdfast.sequence.sweeping import Sweeping


class Reign:
    """Of one member, from time to time. *on_overdue*: nobody took the group that was released (K5)."""

    def __init__(
        self, on: Footing, alarms: Alarms, inquiry: Inquiry, *, on_overdue: Callable[[], None]
    ) -> None:
        self._on = on
        self._on_overdue = on_overdue
        self.submission = Submission(on, self._served, self.after_progress)
        self.handover = Handover(on)
        self._offering = Offering(on)
        self._membership = Membership(on, self.submission, inquiry.change)
        self._departure = Departure(on, self.submission)
        self._sweeping = Sweeping(on, alarms, self.submission, self.handover)

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
