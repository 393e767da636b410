"""Where the coordinator is: endpoints that only it can answer are answered, or sent there, or put off.

The control plane says who leads by giving a :class:`Leadership` to the door. Until it does, nobody leads.
"""

from dataclasses import dataclass
from typing import Protocol

from holdfast.web.problems import Problem, Refusal, busy


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


class Leadership(Protocol):
    def leader(self) -> Here | Elsewhere | Nobody: ...


class NoCoordinator:
    """The leadership of a domain without a control plane."""

    def leader(self) -> Nobody:
        return Nobody()


def require_leader(leadership: Leadership, target: str) -> None:
    """Raises :class:`Refusal` unless this host leads: 307 with the same *target* (path and query) at the
    coordinator's door, or 503 with Retry-After."""
    match leadership.leader():
        case Elsewhere(url=url):
            text, advice = "another host is coordinator", "Send the request there, as it is."
            raise Refusal(
                307, Problem(code="not_coordinator", text=text, advice=advice), {"location": url + target}
            )
        case Nobody():
            raise busy("no coordinator is known to this host now", "no_coordinator")
