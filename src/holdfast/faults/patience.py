"""Waiting that counts: how long something was waited for, by one who may be held up itself.

Whoever waits by the clock alone takes its own pause (a stopped process, a sleeping machine, a processor that
others have) for the other's silence. So a waiter looks again and again, and of the time between two looks no
more counts than it meant to let pass: a pause of an hour is worth one look.
"""


class Patience:
    """One waiting. *look_ns*: how long it means to let pass between two looks."""

    __slots__ = ("_looked_at", "look_ns", "waited_ns")

    def __init__(self, now: int, look_ns: int) -> None:
        self.look_ns = look_ns
        self.waited_ns = 0
        """So far, as of the last look."""
        self._looked_at = now

    def look(self, now: int) -> int:
        """It is *now*, and what is waited for has not come; how long that has been so."""
        # Twice: a look that comes a little late is no pause, and must not make every waiting longer.
        self.waited_ns += min(now - self._looked_at, 2 * self.look_ns)
        self._looked_at = now
        return self.waited_ns
