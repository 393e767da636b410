"""What a careful operator does about a replica that its peers cannot bring up to date."""

from typing import Final

from holdfast.directory.replication.link import Phase
from holdfast.directory.replication.messages import Reason
from holdfast.directory.replication.replicator import Replicator
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND, SECOND
from holdfast.sim.scenarios.directory.site import Site

PATIENCE_NS: Final = 600 * MILLISECOND
"""For how long an operator looks at a replica that cannot be brought up to date before he initialises it."""
LOSS_PATIENCE_NS: Final = 2 * SECOND
"""For how long he waits until others have what it alone has."""


class Operator:
    """Looks at one replica from time to time."""

    def __init__(self, ports: NodePorts, site: Site) -> None:
        self._ports = ports
        self._site = site
        self._trouble_ns: int | None = None

    def wants_initialisation(self, replicator: Replicator) -> bool:
        """Whether it is time to fill the store anew, and from whom (``site.sources``)."""
        for peer, problem in replicator.problems.items():
            if problem.reason is Reason.INVALID:
                self._site.world.violation("protocol", f"{self._ports.name} and {peer}: {problem.why}")
        now_ns = self._ports.clock.now()
        if not _is_stuck(replicator):
            self._trouble_ns = None
            return False
        if self._trouble_ns is None:
            self._trouble_ns = now_ns
        waited_ns = now_ns - self._trouble_ns
        is_time = waited_ns > LOSS_PATIENCE_NS or (
            waited_ns > PATIENCE_NS and _is_known_elsewhere(replicator)
        )
        if not is_time or not self._site.others_are_whole(self._ports.name):
            return False
        self._site.world.sometimes("a replica was initialised")
        for link in replicator.links.values():
            if link.shortage is not None:
                self._site.sources[self._ports.name] = link.peer
        return True


def _is_stuck(replicator: Replicator) -> bool:
    """Whether a peer says that this replica lacks what it cannot send, and nobody else has brought it."""
    links = [link for link in replicator.links.values() if link.phase is Phase.OPEN]
    refusals = [each.reason is Reason.NEEDS_INITIALISATION for each in replicator.problems.values()]
    is_refused = bool(refusals) and all(refusals)
    return is_refused or any(link.shortage is not None for link in links)


def _is_known_elsewhere(replicator: Replicator) -> bool:
    """Whether a peer has all that this replica has."""
    vector = replicator.vector
    return any(
        link.supplier is not None and link.supplier.committed.covers_all(vector)
        for link in replicator.links.values()
    )
