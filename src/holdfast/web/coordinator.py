"""Finds the coordinator: endpoints that only it can answer are answered, redirected there, or put off.

The host's control plane says who coordinates, once the host serves. Until then nobody does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from holdfast.admin.control_plane import ControlPlane
from holdfast.groups.catalog import GroupCatalog
from holdfast.web.problems import Problem, Refusal, busy

DOOR: Final = "http"
"""The key of a door's address in the details of a host's session."""
TERM: Final = "holdfast-term"
CAS: Final = "holdfast-cas"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another host is coordinator; *url* is its door, ``http://host:port``."""

    url: str


@dataclass(frozen=True, slots=True)
class Here:
    """This host is coordinator."""


@dataclass(frozen=True, slots=True)
class Nobody:
    """This host knows no coordinator now."""


class CoordinatorRedirect(Protocol):
    def leader(self) -> Here | Elsewhere | Nobody: ...

    def headers(self) -> Mapping[str, str]:
        """The headers of answers about the domain's state: its term and its CAS."""
        ...


class NoCoordinator:
    """The answer of a host that is still starting: no coordinator."""

    def leader(self) -> Nobody:
        return Nobody()

    def headers(self) -> Mapping[str, str]:
        return {}


class Coordinated:
    """The coordinator as this host's control plane knows it; *catalog* has the addresses of other doors."""

    def __init__(self, control: ControlPlane, catalog: GroupCatalog) -> None:
        self._control = control
        self._catalog = catalog

    def leader(self) -> Here | Elsewhere | Nobody:
        if self._control.is_coordinator:
            return Here()
        coordinator = self._control.coordinator
        session = self._catalog.sessions.get(coordinator) if coordinator is not None else None
        url = session.details.get(DOOR) if session is not None else None
        return Nobody() if url is None else Elsewhere(url)

    def headers(self) -> Mapping[str, str]:
        return {TERM: str(self._control.term), CAS: str(self._control.cas)}


def require_leader(leadership: CoordinatorRedirect, target: str) -> None:
    """Raise :class:`Refusal` unless this host coordinates.

    The answer is 307 with the same *target* (path and query) at the coordinator's door, or 503 with
    Retry-After.
    """
    match leadership.leader():
        case Elsewhere(url=url):
            text, advice = "another host is coordinator", "Send the request there, as it is."
            headers = {"location": url + target, **leadership.headers()}
            raise Refusal(307, Problem(code="not_coordinator", text=text, advice=advice), headers)
        case Nobody():
            raise busy("no coordinator is known to this host now", "no_coordinator")
