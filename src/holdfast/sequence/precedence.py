"""Which of several members with the same ground to claim does so first (K1, K4).

One claim is enough, and two cost more than twice as much: who loses follows nobody until it knows that it has
lost. So each leaves the claim for a while to those who come before it and are heard. Each group begins with
another member, so that a host that dies leaves its groups to all. Who has much to load before it could serve,
or the wrong time, or no object at all (O3), comes last, and tells the others not to wait for it. All this is
a matter of time: who has waited in vain claims, and no claim is less safe than another. But for one: whose
object was found to differ never claims (E8), and says so as well.
"""

from holdfast.authority.views import ViewMember, Why
from holdfast.model.ids import GroupId, HostId
from holdfast.sequence.fitness import Rank
from holdfast.sequence.footing import Footing
from holdfast.sequence.messages import Waived
from holdfast.sequence.ports import same


def in_order(candidates: tuple[ViewMember, ...], group: GroupId) -> tuple[ViewMember, ...]:
    """*candidates* as they come in this group. Groups count from 1."""
    first = (group - 1) % len(candidates) if candidates else 0
    return candidates[first:] + candidates[:first]


class Precedence:
    """One member's place among those who may claim."""

    def __init__(self, footing: Footing) -> None:
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
