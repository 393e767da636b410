"""Hand-over: a planned change of primary (K5).

The primary stops taking calls, lets everything it ordered commit, and ends its reads. Only then does it send
``Released``, and the chosen backup claims at once. After that the primary never works in that epoch again: if
no successor appears, it claims the next epoch itself, like any other member.
"""

import enum

from holdfast.model.ids import HostId
from holdfast.sequence.member_state import MemberState
from holdfast.sequence.messages import Released


class Phase(enum.Enum):
    NONE = "none"
    DRAINING = "draining"
    """The primary takes no new calls; what it has ordered still commits."""
    RELEASED = "released"
    """In this epoch the primary answers no more reads and commits nothing more."""


class Handover:
    """Runs the hand-overs of one primary, at most one at a time."""

    def __init__(self, state: MemberState) -> None:
        self._on = state
        self.phase = Phase.NONE
        self._to = HostId("")
        self._why = ""
        self._released_at = 0

    def begin(self, to: HostId, why: str) -> None:
        if self.phase is Phase.NONE:
            self.phase = Phase.DRAINING
            self._to, self._why = to, why

    def maybe_release(self) -> bool:
        """Send Released once everything is committed and no view change is under way; True if it was sent."""
        on = self._on
        drained = on.committed == on.store.tail.position and on.standing.pending is None
        if self.phase is not Phase.DRAINING or not drained or on.standing.joining is not None:
            return False
        self.phase = Phase.RELEASED
        self._released_at = on.now
        on.note("release", to=self._to, epoch=on.epoch)
        on.send(self._to, Released(on.group, on.epoch, self._why))
        return True

    def is_refused_by(self, host: HostId) -> bool:
        """Whether the member on *host*, which now says that it must never lead (E8), was chosen as
        successor."""
        return self.phase is not Phase.NONE and self._to == host

    def call_off(self) -> None:
        """Cancel a hand-over that has not been released yet; the primary goes on serving."""
        if self.phase is Phase.DRAINING:
            self.phase = Phase.NONE

    def end(self) -> None:
        self.phase = Phase.NONE

    def is_overdue(self) -> bool:
        """Whether the successor should have claimed by now."""
        on = self._on
        return self.phase is Phase.RELEASED and on.now - self._released_at >= on.config.silence_ns
