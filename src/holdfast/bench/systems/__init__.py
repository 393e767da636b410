"""The systems that are compared: Holdfast, and peers with three members each on this machine.

Each is started anew for every round, with an empty directory, and ended after it, so that none idles while
another is measured. Every member has its own session, as Holdfast's hosts do: a busy machine may divide its
time by sessions (autogroup), and members in their client's session would get a different share. A peer is
driven as its own documentation advises, and its configuration is part of the result, so that anyone who
doubts a figure can see what was measured.
"""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal, Protocol

from holdfast.bench.measuring.callers import Load

Durability = Literal["disk", "memory"]
START_S = 120.0
"""The longest time until a system answers after its start."""
FAIL_OVER_S = 60.0
"""The longest time until a system answers again after a failure."""
CALLERS_AT_FAIL_OVER = 64


class Absent(Exception):
    """Raised when a system cannot be measured on this machine; says why."""


class Running(Protocol):
    """A system that is running and answers."""

    async def load(self, *, in_flight: int, seconds: float) -> Load:
        """Measure the system under this load."""
        ...

    async def fail_over(self) -> float | None:
        """Kill -9 the member that orders, under load.

        Return the seconds until a call begun after that is acknowledged, or None where the system as
        configured has no failover. The system is not used afterwards.
        """
        ...


class System(Protocol):
    """One system in one configuration."""

    @property
    def name(self) -> str: ...

    @property
    def durability(self) -> Durability:
        """Whether an acknowledged call is synced to the disks of the members."""
        ...

    @property
    def configuration(self) -> str:
        """Version, options, and how the system is called, for people."""
        ...

    def running(self, directory: Path) -> AbstractAsyncContextManager[Running]:
        """Start the system in an empty directory; it ends with the context. Raises :class:`Absent`."""
        ...
