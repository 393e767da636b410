r"""The longest lease that a host's processes may have granted and that may still be in force, kept (R5).

A process that was started again does not know what its predecessor promised, so it waits before it claims
because of silence (V3). How long, its settings cannot say: they may have been changed while it was down.
So before a host grants a longer lease than ever, the length is written down where the next process finds it.
It is lowered only when every lease of the greater length must have ended.

*Without it:* B grants A\* a lease of 2 s and is killed. Its file now says 200 ms. Started again, B hears
nothing from A\*, which is cut off, waits for 252 ms, claims, and commits op1 with C; A\* answers a query
without op1, by B's lease.
"""

from collections.abc import Callable

from holdfast.sequence.config import LEASE_NS_MAX, LeaseConfig


class LeaseNote:
    """The note of one host, as one of its processes keeps it."""

    def __init__(self, noted_ns: int, keep: Callable[[int], None]) -> None:
        """*noted_ns*: what the note said at the start; 0 if the host never granted a lease.
        *keep*: writes a length down; it is durable when this returns."""
        self._noted_ns = min(noted_ns, LEASE_NS_MAX)
        self._keep = keep
        self._lower_at: int | None = None
        self.bound_until = 0
        """Until when, by this process's clock, leases of earlier processes may be in force."""

    def on_start(self, now: int, config: LeaseConfig) -> None:
        self.bound_until = now + config.grace_of(self._noted_ns) if self._noted_ns else 0
        self.on_granting(now, config)

    def on_granting(self, now: int, config: LeaseConfig) -> None:
        """Called before leases of this length are granted."""
        if config.lease_ns > self._noted_ns:
            self._keep(config.lease_ns)
            self._noted_ns, self._lower_at = config.lease_ns, None
        elif config.lease_ns < self._noted_ns:
            self._lower_at = now + config.grace_of(self._noted_ns)
        # Otherwise what is noted is granted again: it cannot be lowered.
        else:
            self._lower_at = None

    def look(self, now: int, config: LeaseConfig) -> None:
        """Lower the note when no longer lease can be in force any more; called again and again."""
        if self._lower_at is not None and now >= self._lower_at:
            self._lower_at = None
            self._noted_ns = config.lease_ns
            self._keep(config.lease_ns)
