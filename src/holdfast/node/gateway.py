"""Doors: ways into a host besides its native protocol. They open and close with the host."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.admin.client_rights import NO_RULES, ClientRules
from holdfast.admin.control_plane import ControlPlane
from holdfast.admin.dispatch import AdminDispatch
from holdfast.authority.recipe import Authority
from holdfast.authority.sessions import Session
from holdfast.faults.backlog import Backlog
from holdfast.groups.host_groups import HostGroups
from holdfast.machine.trace import Listener
from holdfast.net import ConnectionSettings
from holdfast.node.host_config import HostConfig
from holdfast.node.messages import HostReport
from holdfast.node.services.running import HostServices


@dataclass(frozen=True, slots=True)
class HostContext:
    """What a serving host shows to its doors."""

    domain: str
    session: Session
    endpoint: ConnectionSettings
    """The identity and settings with which this host connects to others, and to itself."""
    groups: HostGroups
    authority: Authority
    admin_dispatch: AdminDispatch
    control: ControlPlane
    """The domain's desired state, and who coordinates."""
    report: Callable[[], HostReport]
    notes: Mapping[str, int]
    """How often the host's groups have noted each kind of event since the process began."""
    services: HostServices
    reports: Backlog
    """The fault reports that this host has yet to deliver to the notifier."""
    config: HostConfig = field(default_factory=HostConfig)
    """The settings that the host began to serve with."""
    clients: ClientRules = NO_RULES
    """What named clients may do."""
    listeners: list[Listener] = field(default_factory=list)
    """Called with every event that the host's groups note, from the moment a listener is added."""


class Gateway(Protocol):
    """A door: another way into the host. None of its failures may end the host, except a failing disk."""

    async def open(self) -> Mapping[str, str]:
        """Start to listen; returns what the session's details should say about this door.

        The host is still starting and nothing watches its disk yet, so this writes nothing.
        """

    async def settle(self) -> None:
        """Write down what the host's next process needs to know about this door.

        Raises ``NoSpace`` or ``DiskFailed``. Only these end the host (D1).
        """

    def on_turn(self, late_ns: int) -> None:
        """Called on each turn of the host's loop, with how late the turn was."""

    def on_serving(self, host_context: HostContext) -> None:
        """Called when the host starts to serve."""

    async def close(self) -> None: ...
