"""What a careful operator does about a replica that its peers cannot bring up to date.

He looks at all masters, as `holdfast directory status` shows them, and has one filled at a time: first those
that lack what was trimmed, and of two sides that refuse each other the smaller, one after the other.
"""

from typing import Final

from holdfast.directory.replication.link import Link, Phase
from holdfast.directory.replication.messages import Reason
from holdfast.directory.replication.replicator import Replicator
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND, SECOND
from holdfast.sim.scenarios.directory.site import Site

PATIENCE_NS: Final = 600 * MILLISECOND
"""For how long an operator looks at a replica that cannot be brought up to date before he initialises it."""
LOSS_PATIENCE_NS: Final = 2 * SECOND
"""For how long he waits until others have what it alone has, and until two that refuse each other may have
learned better from others."""
FILLED_NS: Final = 3 * SECOND
"""For how long he waits for a replica to be filled before he turns to another."""


class Operator:
    """Looks at one replica from time to time."""

    def __init__(self, ports: NodePorts, site: Site) -> None:
        self._name = ports.name
        self._ports = ports
        self._site = site
        self._trouble_ns: int | None = None

    def wants_initialisation(self, replicator: Replicator) -> bool:
        """Whether it is time to fill the store anew, and from whom (``site.sources``)."""
        for peer, problem in replicator.problems.items():
            if problem.reason is Reason.INVALID:
                self._site.world.violation("protocol", f"{self._name} and {peer}: {problem.why}")
        now_ns = self._ports.clock.now()
        short = [link.peer for link in _open(replicator) if link.shortage is not None]
        refusals = [
            peer for peer, each in replicator.problems.items() if each.reason is Reason.NEEDS_INITIALISATION
        ]
        if not short and not refusals:
            self._trouble_ns = None
            return False
        if self._trouble_ns is None:
            self._trouble_ns = now_ns
        waited_ns = now_ns - self._trouble_ns
        larger = self._larger_side()
        sources = [peer for peer in (*short, *refusals) if peer in larger]
        is_time = waited_ns > LOSS_PATIENCE_NS or (
            waited_ns > PATIENCE_NS and _is_known_elsewhere(replicator)
        )
        if not is_time or not sources or not self._site.others_are_whole(self._name):
            return False
        if self._is_at_another(now_ns):
            return False
        self._site.world.sometimes("a replica was initialised")
        self._site.initialising = self._name, now_ns
        self._site.sources[self._name] = sources[0]
        return True

    def _larger_side(self) -> set[str]:
        """The most hosts that can bring each other up to date, if this one is not among them."""
        links = {
            name: {link.peer for link in _open(replicator) if link.shortage is None}
            for name in self._site.names
            if self._site.is_whole(name) and (replicator := self._site.replicator(name)) is not None
        }
        sides: list[set[str]] = []
        for name in links:
            side, ahead = {name}, [name]
            while ahead:
                each = ahead.pop()
                found = {peer for peer in links[each] if peer in links and each in links[peer]} - side
                side |= found
                ahead += sorted(found)
            sides.append(side)
        largest = max(sides, key=len, default=set())
        return set() if self._name in largest else largest

    def _is_at_another(self, now_ns: int) -> bool:
        """Whether he waits for another to be filled: one at a time, or two that refuse each other would take
        each other's place."""
        if self._site.initialising is None:
            return False
        name, since_ns = self._site.initialising
        return not self._site.is_whole(name) and now_ns - since_ns < FILLED_NS


def _open(replicator: Replicator) -> list[Link]:
    return [link for link in replicator.links.values() if link.phase is Phase.OPEN]


def _is_known_elsewhere(replicator: Replicator) -> bool:
    """Whether a peer has all that this replica has."""
    vector = replicator.vector
    return any(
        link.supplier is not None and link.supplier.committed.covers_all(vector)
        for link in replicator.links.values()
    )
