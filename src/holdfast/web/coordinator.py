"""Where the coordinator is: endpoints that only it can answer are answered, or sent there, or put off.

The host's control plane says who leads, once the host serves. Until then nobody does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from holdfast.admin.control_plane import ControlPlane
from holdfast.groups.catalog import GroupCatalog
from holdfast.web.problems import Problem, Refusal, busy

DOOR: Final = "http"
"""Where among the details of a host's session the address of its door is."""
TERM: Final = "holdfast-term"
CAS: Final = "holdfast-cas"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another host is coordinator; *url* is its door, ``http://host:port``."""

    url: str


@dataclass(frozen=True, slots=True)
class Here:
    """This host is."""


@dataclass(frozen=True, slots=True)
class Nobody:
    """No coordinator is known to this host now."""


class CoordinatorRedirect(Protocol):
    def leader(self) -> Here | Elsewhere | Nobody: ...

    def headers(self) -> Mapping[str, str]:
        """What answers about the domain's state carry: its term and its CAS."""
        ...


class NoCoordinator:
    """The leadership of a host that is still starting."""

    def leader(self) -> Nobody:
        return Nobody()

    def headers(self) -> Mapping[str, str]:
        return {}


class Coordinated:
    """As the control plane of this host knows it; *directory*: where the doors of others are."""

    def __init__(self, control: ControlPlane, directory: GroupCatalog) -> None:
        self._control = control
        self._directory = directory

    def leader(self) -> Here | Elsewhere | Nobody:
        if self._control.is_coordinator:
            return Here()
        coordinator = self._control.coordinator
        session = self._directory.sessions.get(coordinator) if coordinator is not None else None
        url = session.details.get(DOOR) if session is not None else None
        return Nobody() if url is None else Elsewhere(url)

    def headers(self) -> Mapping[str, str]:
        return {TERM: str(self._control.term), CAS: str(self._control.cas)}


def require_leader(leadership: CoordinatorRedirect, target: str) -> None:
    """Raises :class:`Refusal` unless this host leads: 307 with the same *target* (path and query) at the
    coordinator's door, or 503 with Retry-After."""
    match leadership.leader():
        case Elsewhere(url=url):
            text, advice = "another host is coordinator", "Send the request there, as it is."
            headers = {"location": url + target, **leadership.headers()}
            raise Refusal(307, Problem(code="not_coordinator", text=text, advice=advice), headers)
        case Nobody():
            raise busy("no coordinator is known to this host now", "no_coordinator")
