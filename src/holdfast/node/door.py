"""Doors: other ways into a host than its own protocol, opened and closed with it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.authority.recipe import Authority
from holdfast.authority.sessions import Session
from holdfast.faults.reporting import Backlog
from holdfast.housing.groups import Groups
from holdfast.machine.counting import Listener
from holdfast.net import Endpoint
from holdfast.node.administering import Administering
from holdfast.node.control import Control
from holdfast.node.messages import HostReport


@dataclass(frozen=True, slots=True)
class Interior:
    """What a host that serves shows to its doors."""

    domain: str
    session: Session
    endpoint: Endpoint
    """As which this host speaks to others, and to itself."""
    groups: Groups
    authority: Authority
    administering: Administering
    control: Control
    """The domain's wishes, and who coordinates."""
    report: Callable[[], HostReport]
    notes: Mapping[str, int]
    """How often its groups have noted what, by kind, since the process began."""
    reports: Backlog
    """What this host has to report to the fault notifier."""
    listeners: list[Listener] = field(default_factory=list)
    """Told of every note of its groups from when they are added."""


class Door(Protocol):
    """A way in. No failure of its own may end the host, but for a disk that fails it."""

    async def open(self) -> Mapping[str, str]:
        """Listen; answers what the session's details shall say of it. The host is still starting, and nobody
        watches over its disk yet: nothing is written."""

    async def settle(self) -> None:
        """Write down what the host's next process shall know of it. Raises ``NoSpace`` or ``DiskFailed``, and
        these alone end the host (D1)."""

    def on_turn(self, late_ns: int) -> None:
        """The host's loop has turned, so much later than it meant to."""

    def on_serving(self, interior: Interior) -> None:
        """The host serves from now on."""

    async def close(self) -> None: ...
