"""The systems that are measured side by side: Holdfast, and peers with three members each on this machine.

Each is started anew for every round, with an empty directory, and ended after it, so that none idles while
another is measured. Every member is a session of its own, as our hosts are: a busy machine may share its time
out by sessions (autogroup), and members in their client's session would have another share of it. A peer is
driven as its own documents advise, and its configuration is part of the result: who doubts a figure can see
what was asked of whom.
"""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal, Protocol

from holdfast.bench.callers import Load

Durability = Literal["disk", "memory"]
START_S = 120.0
"""How long a system may take until it answers."""
FAIL_OVER_S = 60.0
"""How long a system may take until it answers again."""
CALLERS_AT_FAIL_OVER = 64


class Absent(Exception):
    """Raised when a system cannot be measured on this machine; says why."""


class Running(Protocol):
    """A system that answers."""

    async def load(self, *, in_flight: int, seconds: float) -> Load:
        """Measure it under this load."""
        ...

    async def fail_over(self) -> float | None:
        """Kill -9 the member that orders, under load; seconds until a call begun after that is acknowledged.
        None where the system as it is set up has no failover. Nothing else is asked of it afterwards."""
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
        """Version, options, and how it is called: for people."""
        ...

    def running(self, directory: Path) -> AbstractAsyncContextManager[Running]:
        """Start it in an empty directory; it is gone afterwards. Raises :class:`Absent`."""
        ...
