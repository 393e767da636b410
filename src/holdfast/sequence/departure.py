"""A primary whose host shall not have the group any more: when it hands over, to whom (M6, K5).

Whoever is chosen may answer and yet not claim: its clock may be off (X4). So they are chosen in turn.
*Without that:* A* {A,B,C} shall leave; C, which comes first, has the wrong time; A hands over to C, takes the
group back, and hands over to C again, for ever.
"""

from typing import Final

from holdfast.authority.views import ViewMember
from holdfast.model.ids import HostId, Position
from holdfast.model.units import SECOND
from holdfast.sequence.fitness import Rank
from holdfast.sequence.footing import Footing
from holdfast.sequence.submission import Submission

WAIT_NS: Final = 2 * SECOND
"""After an attempt, doubled each time: while one lasts the group takes no calls."""
DOUBLINGS_MAX: Final = 5


class Departure:
    """Decides; the hand-over itself is :mod:`.handover`'s."""

    def __init__(self, footing: Footing, submission: Submission) -> None:
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
