"""The right to answer a linearizable query (R1, R2).

From its own state the primary answers only while every required member's host has given it a lease that is
in force, and that member's answer of this epoch came since the lease began. Otherwise the authority is asked,
after the query ran, whether our view still stands: no clock is involved in that.
"""

from collections.abc import Callable
from functools import partial

from holdfast.authority.outcome import NoAnswer, Seen
from holdfast.authority.views import NoGroup, View, ViewMember, read_view
from holdfast.model.ids import Epoch
from holdfast.sequence.footing import Footing
from holdfast.sequence.handover import Handover, Phase
from holdfast.sequence.ports import same
from holdfast.sequence.submission import Submission


class Reads:
    """Of one member."""

    def __init__(
        self,
        footing: Footing,
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
