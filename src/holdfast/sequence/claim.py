"""Becoming primary: when a backup claims, which one claims first, what it compares (K1, K4, K6, V5, D2, W3).

**When.** A backup may claim once its promises have run out: the promise to the process that the view names as
primary, counted from when the backup learned of that epoch at the earliest, and the promise to the primary
whose epoch this process last confirmed. It may claim at once if there is proof that exactly the listed
process is dead (K2), if the primary has released the epoch (K5), or if the listed primary was an earlier
process of this member (V3).

**Compare first.** A member that was restarted since it was listed, and that no primary has seen since, may
have a disk that reverted to an older state (V5). It first asks the other members what they hold, waits for
those that answer in time, and leaves the claim to any that holds more. A member that did not answer in time
objects when it is told to follow (:mod:`.acceptance`). A member whose tail is in doubt needs the answer of a
listed member whose tail is not, or of all members (D2).

**Order.** Several backups usually have the same reason to claim. One claim is enough, and two cost more than
twice as much, because the loser follows nobody until it knows that it has lost. So each backup waits for a
while for those that come before it and that it hears. While they take one group of the dead host after
another, it goes on waiting: a fixed time would be over in the middle of a thousand claims. Each group starts
with a different member, so that the groups of a dead host are shared among all others. A member that has much
to load, whose clock is off, or that has no object (O3) comes last and tells the others not to wait for it.
The order affects only timing, not safety: a member that waited in vain claims. The one exception is a member
whose object was found to differ: it never claims (E8), and it also tells the others. If nobody else is left,
the group waits for a person. The same holds for a member that never leads by the group's record (W3), except
where the view names it as primary (a person forced that, or it was primary when the record was changed), or
where those that may lead came back with less than it has. It claims then, and hands over.
"""

from collections.abc import Callable
from typing import Final

from holdfast.authority.views import ViewChange, ViewMember, Why
from holdfast.model.ids import Epoch, GroupId, HostId
from holdfast.sequence.member_state import MemberState
from holdfast.sequence.messages import Compare, Compared, Waived
from holdfast.sequence.ports import peers, same
from holdfast.sequence.role import Rank
from holdfast.sequence.store import order_of
from holdfast.sequence.view_state import members_after_claim

TURNS_MAX: Final = 16
"""How many turns at most a member leaves a claim to those before it, however busy they are with claims of
other groups: as long as thousands of claims take at a slow authority."""
HOLDS_MORE: Final = "it never leads, and those that do hold less"


def in_order(candidates: tuple[ViewMember, ...], group: GroupId) -> tuple[ViewMember, ...]:
    """*candidates* in the order in which they claim this group. Group ids start at 1."""
    first = (group - 1) % len(candidates) if candidates else 0
    return candidates[first:] + candidates[:first]


class ClaimOrder:
    """Decides how long this member leaves a claim to the other members."""

    def __init__(self, state: MemberState) -> None:
        self._on = state
        self._reason_since: int | None = None
        self._waited_for: HostId | None = None
        """The dead or silent primary whose group this member leaves to others."""
        self._waived: dict[HostId, None] = {}
        """Hosts whose members have said in this view that they come last."""
        self._is_needed = False
        """A member that may lead has said in this view that it holds less than this one, which never leads:
        nobody else can claim."""

    def on_new_view(self) -> None:
        on, view = self._on, self._on.standing.view
        if self._waited_for is not None and view is not None and view.primary != self._waited_for:
            # Somebody ahead has done what this member waited for: it is at work on that host's groups.
            on.ports.claims.note_claimed(view.primary, self._waited_for, on.now)
        self._reason_since = self._waited_for = None
        self._waived.clear()
        self._is_needed = False

    def on_no_ground(self) -> None:
        self._reason_since = self._waited_for = None

    def on_claiming(self) -> None:
        self._waited_for = None

    def on_waived(self, host: HostId, *, is_behind: bool = False) -> None:
        self._waived[host] = None
        self._is_needed = self._is_needed or is_behind

    @property
    def why_though_barred(self) -> str:
        """Why this member claims although it never leads, for people; empty if it may lead."""
        return HOLDS_MORE if self._on.standing.is_barred and self._is_needed else ""

    def must_not_lead(self) -> bool:
        """Whether this member must never claim, whatever the reason to (E8, W3). If so, tell the others not
        to wait."""
        on, view = self._on, self._on.standing.view
        is_barred = on.standing.is_barred and not self._is_needed
        if not is_barred and on.application.fitness().rank is not Rank.UNFIT:
            return False
        if view is not None and view.primary == on.me.host:
            # This member has handed over and nobody took the group. Nobody else may claim, and somebody must
            # hold the sequence. So it claims, serves nobody, and hands over to the first member that is fit.
            return False
        if self._reason_since is None:
            self._reason_since = on.now
            self._waive()
        return True

    def wait_ns(self, ground: Why) -> int:
        """How much longer this member leaves the claim to those that come first. It waits only for a dead or
        silent primary; but while this host's clock is off it waits for all others (X4). A released group is
        its own to claim: the others have not heard of it."""
        if ground is Why.RELEASED:
            return 0
        on = self._on
        is_off, is_near = on.ports.leases.is_clock_off, on.application.fitness().rank is Rank.NEAR
        if self._reason_since is None:
            self._reason_since = on.now
            if is_off or not is_near:
                self._waive()
        if is_off:
            return self._reason_since + on.config.clock_wait_ns - on.now
        if ground not in (Why.DEAD, Why.SILENT):
            return 0
        assert on.standing.view is not None
        self._waited_for = on.standing.view.primary
        return self._left_until(self._reason_since, self._ahead(is_near)) - on.now

    def _left_until(self, since: int, ahead: list[HostId]) -> int:
        """Until when this member, which has had its reason *since*, leaves the claim to the hosts *ahead*:
        a turn for each, and as long as they are at work on the dead host's other groups. That has a bound,
        since the group may have a reason of its own why nobody ahead claims it."""
        on, gone, turn_ns = self._on, self._waited_for, self._on.config.turn_ns
        until = since + len(ahead) * turn_ns
        if gone is None or not ahead:
            return until
        at_work = max(on.ports.claims.claimed_at(host, gone) for host in ahead) + turn_ns
        return max(until, min(at_work, since + TURNS_MAX * turn_ns))

    def _ahead(self, is_near: bool) -> list[HostId]:
        """The hosts that are heard and whose members come before this one."""
        on = self._on
        order = in_order(self._candidates(), on.group)
        mine = next(place for place, each in enumerate(order) if same(each, on.me))
        ahead = []
        for place, each in enumerate(order):
            if place != mine and on.ports.leases.hears(each.host):
                is_before, has_waived = place < mine, each.host in self._waived
                if (is_before and not has_waived) if is_near else (is_before or not has_waived):
                    ahead.append(each.host)
        return ahead

    def _candidates(self) -> tuple[ViewMember, ...]:
        """The members that may claim, as far as this member knows; it is one of them itself."""
        on = self._on
        view = on.standing.view
        assert view is not None
        return tuple(
            each
            for each in view.members
            if each.host != view.primary
            and not on.is_dead(each)
            and (same(each, on.me) or on.standing.may_lead(each.host))
        )

    def _waive(self) -> None:
        on = self._on
        for each in self._candidates():
            if not same(each, on.me):
                on.send(each.host, Waived(on.group, on.epoch))


class Claim:
    """Makes one member's claims. *ask* sends the change to the authority."""

    def __init__(
        self, state: MemberState, ask: Callable[[ViewChange], None], set_timer: Callable[[int], None]
    ) -> None:
        self._on = state
        self._ask = ask
        self._set_timer = set_timer
        self._released = Epoch(0)
        self._released_why = ""
        self.is_unproven = False
        """The last claim was made before any primary had seen what this process holds (V5)."""
        self._compared: dict[HostId, Compared] | None = None
        self.claim_order = ClaimOrder(state)

    # --- reasons to claim

    def release(self, epoch: Epoch, why: str = "") -> None:
        """Note that the primary of *epoch* has ended its reads and commits (K5), and its reason if it gave
        one."""
        if epoch >= self._released:
            self._released, self._released_why = epoch, why

    def on_new_view(self) -> None:
        self._compared = None
        self.claim_order.on_new_view()

    def ground(self) -> Why | None:
        """The reason for which this member may claim now; None when it may not."""
        on = self._on
        view, primary, own = on.standing.view, on.standing.primary, on.standing.own_entry
        if view is None or own is None:
            return None
        if self._released == view.epoch:
            return Why.RELEASED
        if primary is not None and on.is_dead(primary) and not self._is_bound_elsewhere(primary):
            return Why.DEAD
        if on.now < self.due():
            return None
        if on.ports.leases.heard() < on.config.min_in_sync - 1:
            return (
                # This member hears too few others: it could commit nothing, and would take the group from
                # those who can.
                None
            )
        return Why.OWN if view.primary == on.me.host else Why.SILENT

    def due(self) -> int:
        """The time from which silence alone is a sufficient reason to claim."""
        on = self._on
        leases, primary = on.ports.leases, on.standing.primary
        due = leases.promised_until(*on.confirmed_to) if on.confirmed_to is not None else 0
        if primary is not None and on.confirmed_to is not None:
            host, incarnation = on.confirmed_to
            if host == primary.host and incarnation > primary.incarnation:
                # Only the process that won an epoch reads in it, and that process is gone: this member
                # already heard its successor when it answered. Waiting for the successor's promise would
                # never end.
                due = 0
        if on.standing.view is not None and on.standing.view.primary == on.me.host:
            return due
        if primary is not None:
            due = max(due, leases.promised_until(primary.host, primary.incarnation))
        return max(due, self._first_claim())

    # --- claiming

    def maybe_claim(self) -> None:
        """Claim from the latest view if there is a reason to. Called again whenever a promise has run out."""
        on = self._on
        if on.standing.view is None or on.standing.own_entry is None or on.standing.pending is not None:
            return
        ground = self.ground()
        if ground is None:
            self.claim_order.on_no_ground()
            self._look_again_later()
        elif self.claim_order.must_not_lead():
            return  # until it has taken its primary's state, or a person decides (E8)
        elif (wait_ns := self.claim_order.wait_ns(ground)) > 0:
            self._set_timer(wait_ns)
        elif not self._must_compare():
            self._claim(ground)
        elif self._compared is None:
            self._compare()

    def _look_again_later(self) -> None:
        on = self._on
        config = on.ports.leases.config
        first = self._first_claim()
        if first > on.now:
            self._set_timer(first - on.now)
        elif self.due() <= on.now:
            self._set_timer(config.lease_ns)  # it hears too few others, which may change
        elif self._waits_for_another():
            # The host to which this member confirmed an earlier epoch is heard, so the promise to it does not
            # run out. If that host does not know of the present epoch yet, this message tells it; its answer
            # confirms that it knows.
            assert on.confirmed_to is not None
            on.send(on.confirmed_to[0], Compare(on.group, on.epoch))
            self._set_timer(config.lease_ns)
        # Otherwise a promise is in force. The host tells all its members when it runs out.

    def _first_claim(self) -> int:
        """The time before which silence says nothing: the primary of a new view may still become heard, and
        an earlier process of this host may have promised it something (V3, R5)."""
        on = self._on
        leases = on.ports.leases
        return max(on.epoch_since + leases.config.grace_ns, leases.bound_until)

    def _waits_for_another(self) -> bool:
        """Whether this member is held back by a promise to a process other than the present primary."""
        on, primary = self._on, self._on.standing.primary
        if on.confirmed_to is None or on.confirmed_in >= on.standing.epoch:
            return False
        is_in_force = on.ports.leases.promised_until(*on.confirmed_to) > on.now
        return is_in_force and (primary is None or on.confirmed_to != (primary.host, primary.incarnation))

    def _is_bound_elsewhere(self, primary: ViewMember) -> bool:
        """Whether a host other than the primary's may still read because this member confirmed an earlier
        epoch to it. The claim of a process that has died can be applied late, and that death says nothing
        about the process that was primary before."""
        bound_to = self._on.confirmed_to
        return bound_to is not None and bound_to[0] != primary.host and self._waits_for_another()

    def _must_compare(self) -> bool:
        own = self._on.standing.own_entry
        assert own is not None
        on = self._on
        return on.is_doubtful or (own.incarnation != on.me.incarnation and not on.is_settled)

    def _claim(self, ground: Why) -> None:
        on = self._on
        seen = on.standing.seen
        assert seen is not None
        members = members_after_claim(
            seen.value, on.me, min_in_sync=on.config.min_in_sync, is_released=ground is Why.RELEASED
        )
        self.is_unproven = self._must_compare()
        said = self._released_why if ground is Why.RELEASED else self.claim_order.why_though_barred
        wanted = on.propose(members, ground, seen.value.primary, said)
        hosts = [member.host for member in members]
        self.claim_order.on_claiming()
        on.note("claim", epoch=wanted.new.epoch, ground=ground.value, members=hosts)
        self._ask(wanted)
        on.application.on_claiming()

    # --- comparing

    def _compare(self) -> None:
        on = self._on
        self._compared = {}
        for host in peers(on.standing.listed, on.me):
            on.send(host, Compare(on.group, on.epoch))
        self._set_timer(on.config.compare_ns)
        self._decide_if_all()

    def on_compared(self, host: HostId, compared: Compared) -> None:
        on = self._on
        listed = any(m.host == host and m.store == compared.store for m in on.standing.listed)
        if self._compared is not None and listed:
            self._compared[host] = compared
            self._decide_if_all()

    @property
    def is_comparing(self) -> bool:
        return self._compared is not None

    def _decide_if_all(self) -> None:
        on = self._on
        if self._compared is not None and len(self._compared) == len(peers(on.standing.listed, on.me)):
            self.decide()

    def decide(self) -> None:
        """Decide once all have answered or the time is over. Claim if there is still a reason to and nobody
        who answered holds more; otherwise compare again later."""
        on = self._on
        answers, self._compared = self._compared or {}, None
        ground = self.ground()
        may_claim = ground is not None and not self.claim_order.must_not_lead()
        if ground is not None and may_claim and on.standing.epoch == on.epoch and self._is_best(answers):
            self._claim(ground)
        else:
            self._set_timer(on.config.compare_ns * 4)

    def _may_decide(self, answers: dict[HostId, Compared]) -> bool:
        """Whether these answers are enough. If our tail is in doubt, one answer from a member whose tail is
        not is enough, or the answers of all (D2); otherwise any answers are (V5)."""
        on = self._on
        return (
            not on.is_doubtful
            or any(not answer.is_doubtful for answer in answers.values())
            or len(answers) == len(peers(on.standing.listed, on.me))
        )

    def _is_best(self, answers: dict[HostId, Compared]) -> bool:
        """Whether nobody who answered holds more than this member."""
        on = self._on
        if not self._may_decide(answers):
            return False
        mine = on.store.tail
        ahead = [
            host
            for host, answer in answers.items()
            if answer.committed > mine.position or order_of(answer.tail) > order_of(mine)
        ]
        if ahead:
            on.note("others_hold_more", hosts=ahead)
            for host in ahead:
                if not on.standing.may_lead(host):
                    on.send(host, Waived(on.group, on.epoch, is_behind=True))
            return False
        return True
