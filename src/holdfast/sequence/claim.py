"""Becoming primary: when a backup may claim, what it must compare first, and the asking (K1, K6, V5, D2).

A backup may claim when what it promised has run out: to the process that the view names as primary, counted
from when it knew of that epoch at the earliest, and to whomever this process last confirmed an epoch. At
once it may claim on proof that exactly the listed process is dead (K2), when the primary has released the
epoch (K5), or when the listed primary was its own earlier process (V3).

A member that was restarted since it was listed, and that no primary has seen since, asks the others first
what they hold, as many as answer in time, and leaves the claim to one that holds more: its disk may have gone
back (V5). Who did not answer in time says so when it is told to follow (:mod:`.acceptance`). A member whose
tail is in doubt needs the answer of a listed member whose tail is not, or of all (D2).

All backups may have the same ground: this module says who goes first. Whose object differs from the
one that answered never claims (E8): if nobody else is left, the group waits for a person.

Which of several members with the same ground to claim does so first (K1, K4).

One claim is enough, and two cost more than twice as much: who loses follows nobody until it knows that it has
lost. So each leaves the claim for a while to those who come before it and are heard. Each group begins with
another member, so that a host that dies leaves its groups to all. Who has much to load before it could serve,
or the wrong time, or no object at all (O3), comes last, and tells the others not to wait for it. All this is
a matter of time: who has waited in vain claims, and no claim is less safe than another. But for one: whose
object was found to differ never claims (E8), and says so as well.
"""

from collections.abc import Callable

from holdfast.authority.views import ViewChange, ViewMember, Why
from holdfast.model.ids import Epoch, GroupId, HostId
from holdfast.sequence.member_state import MemberState
from holdfast.sequence.messages import Compare, Compared, Waived
from holdfast.sequence.ports import peers, same
from holdfast.sequence.role import Rank
from holdfast.sequence.store import order_of
from holdfast.sequence.view_state import members_after_claim


def in_order(candidates: tuple[ViewMember, ...], group: GroupId) -> tuple[ViewMember, ...]:
    """*candidates* as they come in this group. Groups count from 1."""
    first = (group - 1) % len(candidates) if candidates else 0
    return candidates[first:] + candidates[:first]


class ClaimOrder:
    """One member's place among those who may claim."""

    def __init__(self, footing: MemberState) -> None:
        self._on = footing
        self._ground_since: int | None = None
        self._waived: dict[HostId, None] = {}
        """Who has said in this view that it comes last."""

    def on_new_view(self) -> None:
        self._ground_since = None
        self._waived.clear()

    def on_no_ground(self) -> None:
        self._ground_since = None

    def on_waived(self, host: HostId) -> None:
        self._waived[host] = None

    def must_not_lead(self) -> bool:
        """Whether this member never claims, whatever the ground (E8); the others are told not to wait."""
        on, view = self._on, self._on.standing.view
        if on.application.fitness().rank is not Rank.UNFIT:
            return False
        if view is not None and view.primary == on.me.host:
            # It has handed over, and nobody took the group: nobody else may, and somebody must hold the
            # sequence. It serves nobody, and hands over to the first that is fit.
            return False
        if self._ground_since is None:
            self._ground_since = on.now
            self._waive()
        return True

    def wait_ns(self, ground: Why) -> int:
        """How much longer to leave the claim to those who come first, of a dead or a silent primary only; and
        to all others while this host's clock is off, whatever the ground (X4)."""
        on = self._on
        is_off, is_near = on.ports.leases.is_clock_off, on.application.fitness().rank is Rank.NEAR
        if self._ground_since is None:
            self._ground_since = on.now
            if is_off or not is_near:
                self._waive()
        if is_off:
            return self._ground_since + on.config.clock_wait_ns - on.now
        if ground not in (Why.DEAD, Why.SILENT):
            return 0
        return self._ground_since + self._ahead(is_near) * on.config.turn_ns - on.now

    def _ahead(self, is_near: bool) -> int:
        """How many come before this member, of those that are heard."""
        on = self._on
        order = in_order(self._candidates(), on.group)
        mine = next(place for place, each in enumerate(order) if same(each, on.me))
        ahead = 0
        for place, each in enumerate(order):
            if place != mine and on.ports.leases.hears(each.host):
                is_before, has_waived = place < mine, each.host in self._waived
                ahead += (is_before and not has_waived) if is_near else (is_before or not has_waived)
        return ahead

    def _candidates(self) -> tuple[ViewMember, ...]:
        """Who may claim, as far as is known here; this member is one of them."""
        on = self._on
        view = on.standing.view
        assert view is not None
        return tuple(each for each in view.members if each.host != view.primary and not on.is_dead(each))

    def _waive(self) -> None:
        on = self._on
        for each in self._candidates():
            if not same(each, on.me):
                on.send(each.host, Waived(on.group, on.epoch))


class Claim:
    """One member's claims. *ask* asks the authority for the change."""

    def __init__(
        self, footing: MemberState, ask: Callable[[ViewChange], None], set_timer: Callable[[int], None]
    ) -> None:
        self._on = footing
        self._ask = ask
        self._set_timer = set_timer
        self._released = Epoch(0)
        self._released_why = ""
        self.is_unproven = False
        """The last claim was made without anybody having seen what this process holds (V5)."""
        self._compared: dict[HostId, Compared] | None = None
        self.precedence = ClaimOrder(footing)

    # --- grounds

    def release(self, epoch: Epoch, why: str = "") -> None:
        """The primary of that epoch has ended its reads and commits (K5), and perhaps says why."""
        if epoch >= self._released:
            self._released, self._released_why = epoch, why

    def on_new_view(self) -> None:
        self._compared = None
        self.precedence.on_new_view()

    def ground(self) -> Why | None:
        """Why this member may claim now; None when it may not."""
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
                None  # deaf, or alone: it could commit nothing, and would take the group from those who can
            )
        return Why.OWN if view.primary == on.me.host else Why.SILENT

    def due(self) -> int:
        """From when on silence alone is enough."""
        on = self._on
        leases, primary = on.ports.leases, on.standing.primary
        due = leases.promised_until(*on.confirmed_to) if on.confirmed_to is not None else 0
        if primary is not None and on.confirmed_to is not None:
            host, incarnation = on.confirmed_to
            if host == primary.host and incarnation > primary.incarnation:
                # Only the process that won an epoch reads in it, and that one is gone: what was meant for it
                # was answered when its successor was heard already. To wait for that one is to wait for ever.
                due = 0
        if on.standing.view is not None and on.standing.view.primary == on.me.host:
            return due
        if primary is not None:
            due = max(due, leases.promised_until(primary.host, primary.incarnation))
        return max(due, on.epoch_since + leases.config.grace_ns)

    # --- claiming

    def maybe_claim(self) -> None:
        """Claim if there is ground to, from the latest view; asked again whenever a promise has run out."""
        on = self._on
        if on.standing.view is None or on.standing.own_entry is None or on.standing.pending is not None:
            return
        ground = self.ground()
        if ground is None:
            self.precedence.on_no_ground()
            self._look_again_later()
        elif self.precedence.must_not_lead():
            return  # until it has taken its primary's state, or a person decides (E8)
        elif (wait_ns := self.precedence.wait_ns(ground)) > 0:
            self._set_timer(wait_ns)
        elif not self._must_compare():
            self._claim(ground)
        elif self._compared is None:
            self._compare()

    def _look_again_later(self) -> None:
        on = self._on
        config = on.ports.leases.config
        first = on.epoch_since + config.grace_ns
        if first > on.now:
            self._set_timer(first - on.now)
        elif self.due() <= on.now:
            self._set_timer(config.lease_ns)  # only because nobody is heard: that may change
        elif self._waits_for_another():
            # Whom this member confirmed an earlier epoch is heard, so the promise to it does not run out. If
            # it has not heard of the present epoch yet, it shall; its answer says that it has.
            assert on.confirmed_to is not None
            on.send(on.confirmed_to[0], Compare(on.group, on.epoch))
            self._set_timer(config.lease_ns)
        # Else a promise is in force, and its end is told to all members of the host at once.

    def _waits_for_another(self) -> bool:
        """Whether what is in the way is a promise to another than the present primary."""
        on, primary = self._on, self._on.standing.primary
        if on.confirmed_to is None or on.confirmed_in >= on.standing.epoch:
            return False
        is_in_force = on.ports.leases.promised_until(*on.confirmed_to) > on.now
        return is_in_force and (primary is None or on.confirmed_to != (primary.host, primary.incarnation))

    def _is_bound_elsewhere(self, primary: ViewMember) -> bool:
        """Whether a host other than the primary's may read by what this member told it of an earlier epoch.
        The claim of a process that has died meanwhile can be applied late, and its death says nothing of the
        one that was primary before."""
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
        said = self._released_why if ground is Why.RELEASED else ""
        wanted = on.wish(members, ground, seen.value.primary, said)
        hosts = [member.host for member in members]
        on.note("claim", epoch=wanted.new.epoch, ground=ground.value, members=hosts)
        self._ask(wanted)

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
        """The time to answer is over, or all have. Claim, if there still is ground to and nobody who answered
        holds more; else compare again later."""
        on = self._on
        answers, self._compared = self._compared or {}, None
        ground = self.ground()
        may_claim = ground is not None and not self.precedence.must_not_lead()
        if ground is not None and may_claim and on.standing.epoch == on.epoch and self._is_best(answers):
            self._claim(ground)
        else:
            self._set_timer(on.config.compare_ns * 4)

    def _may_decide(self, answers: dict[HostId, Compared]) -> bool:
        """Whether these answers are enough (D2); without a doubt those who answered are (V5)."""
        on = self._on
        return (
            not on.is_doubtful
            or any(not answer.is_doubtful for answer in answers.values())
            or len(answers) == len(peers(on.standing.listed, on.me))
        )

    def _is_best(self, answers: dict[HostId, Compared]) -> bool:
        """Whether nobody who answered holds more. Of members in doubt, a clean one's word is enough."""
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
            return False
        return True
