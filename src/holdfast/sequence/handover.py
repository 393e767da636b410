"""Hand-over: a planned change of primary (K5).

The primary takes no more calls, lets its tail commit, ends its reads, and only then says ``Released``; the
chosen backup claims at once. Having said it, the primary never works in that epoch again: when no successor
shows, it claims the next one itself, like anybody else.
"""

import enum

from holdfast.model.ids import HostId
from holdfast.sequence.member_state import MemberState
from holdfast.sequence.messages import Released


class Phase(enum.Enum):
    NONE = "none"
    DRAINING = "draining"
    """Nothing is taken; what was ordered commits."""
    RELEASED = "released"
    """No read is answered and nothing commits in this epoch any more."""


class Handover:
    """At most one at a time."""

    def __init__(self, footing: MemberState) -> None:
        self._on = footing
        self.phase = Phase.NONE
        self._to = HostId("")
        self._why = ""
        self._released_at = 0

    def begin(self, to: HostId, why: str) -> None:
        if self.phase is Phase.NONE:
            self.phase = Phase.DRAINING
            self._to, self._why = to, why

    def maybe_release(self) -> bool:
        """Say it once everything is committed and no view change is under way; True when it was said."""
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
        """Whether that one was to take over, and says that it never leads (E8)."""
        return self.phase is not Phase.NONE and self._to == host

    def call_off(self) -> None:
        """Nothing was said yet: the group is served here as before."""
        if self.phase is Phase.DRAINING:
            self.phase = Phase.NONE

    def end(self) -> None:
        self.phase = Phase.NONE

    def is_overdue(self) -> bool:
        """Whether the successor should have claimed by now."""
        on = self._on
        return self.phase is Phase.RELEASED and on.now - self._released_at >= on.config.silence_ns
