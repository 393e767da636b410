"""What every handler stands on: the host behind the door, once it serves."""

from dataclasses import dataclass

from holdfast.client.domain import Domain
from holdfast.client.faults import Faults
from holdfast.node.door import Interior
from holdfast.web.calls import Calls
from holdfast.web.leading import Coordinated, Leadership, NoCoordinator
from holdfast.web.metrics import Metrics
from holdfast.web.ordering import Orders
from holdfast.web.policy import Policy
from holdfast.web.problems import busy


@dataclass(frozen=True, slots=True)
class Inside:
    """A host that serves, as the handlers of requests reach it."""

    interior: Interior
    calls: Calls
    orders: Orders
    faults: Faults


class Site:
    """One door."""

    def __init__(self, policy: Policy, metrics: Metrics, leadership: Leadership | None = None) -> None:
        self.policy = policy
        self.metrics = metrics
        self.leadership: Leadership = leadership or NoCoordinator()
        """Who is coordinator; the host's own control plane says it once the host serves."""
        self.requests = 0
        """Being answered now."""
        self.streams = 0
        self._inside: Inside | None = None

    @property
    def is_serving(self) -> bool:
        return self._inside is not None

    @property
    def inside(self) -> Inside:
        """Raises :class:`.problems.Refusal` while the host is still starting."""
        if self._inside is None:
            raise busy("this host is still starting", "starting")
        return self._inside

    def let_in(self, interior: Interior, domain: Domain) -> None:
        self._inside = Inside(
            interior, Calls(domain, interior), Orders(interior.administering), domain.faults
        )
        self.leadership = Coordinated(interior.control, interior.groups.directory)
        self.metrics.watch(interior)

    async def close(self) -> None:
        inside, self._inside = self._inside, None
        if inside is not None:
            await inside.orders.close()
