"""Doors: other ways into a host than its own protocol, opened and closed with it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.admin.control_plane import ControlPlane
from holdfast.admin.dispatch import AdminDispatch
from holdfast.authority.recipe import Authority
from holdfast.authority.sessions import Session
from holdfast.faults.backlog import Backlog
from holdfast.groups.host_groups import HostGroups
from holdfast.machine.trace import Listener
from holdfast.net import ConnectionSettings
from holdfast.node.messages import HostReport


@dataclass(frozen=True, slots=True)
class HostContext:
    """What a host that serves shows to its doors."""

    domain: str
    session: Session
    endpoint: ConnectionSettings
    """As which this host speaks to others, and to itself."""
    groups: HostGroups
    authority: Authority
    administering: AdminDispatch
    control: ControlPlane
    """The domain's wishes, and who coordinates."""
    report: Callable[[], HostReport]
    notes: Mapping[str, int]
    """How often its groups have noted what, by kind, since the process began."""
    reports: Backlog
    """What this host has to report to the fault notifier."""
    listeners: list[Listener] = field(default_factory=list)
    """Told of every note of its groups from when they are added."""


class Gateway(Protocol):
    """A way in. No failure of its own may end the host, but for a disk that fails it."""

    async def open(self) -> Mapping[str, str]:
        """Listen; answers what the session's details shall say of it. The host is still starting, and nobody
        watches over its disk yet: nothing is written."""

    async def settle(self) -> None:
        """Write down what the host's next process shall know of it. Raises ``NoSpace`` or ``DiskFailed``, and
        these alone end the host (D1)."""

    def on_turn(self, late_ns: int) -> None:
        """The host's loop has turned, so much later than it meant to."""

    def on_serving(self, interior: HostContext) -> None:
        """The host serves from now on."""

    async def close(self) -> None: ...
