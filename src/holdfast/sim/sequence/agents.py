"""The hosts' agents: now and then one sees its host die, and says so to the others (K2).

What it says is true by construction: it names the incarnation of a process that has ended. Half of the deaths
go unreported, as when the machine lost its power and the agent with it.
"""

from typing import Final

from holdfast.model.ids import Incarnation
from holdfast.sequence.messages import Died
from holdfast.sim.options import MILLISECOND
from holdfast.sim.world import World

LOOK_NS: Final = 20 * MILLISECOND
REPORTED: Final = 0.5
LATE_MAX_NS: Final = 1500 * MILLISECOND
"""A report may arrive when the host has long been started again, and serves."""


class Agents:
    """All agents of a run."""

    def __init__(self, world: World, hosts: tuple[str, ...]) -> None:
        self._world = world
        self._hosts = hosts
        self._rng = world.rng("agents")
        self._seen: dict[str, tuple[int, Incarnation]] = {}

    def start(self) -> None:
        self._world.after(LOOK_NS, self._look)

    def _look(self) -> None:
        for name in self._hosts:
            node = self._world.nodes[name]
            known = self._seen.get(name)
            if known is not None and (not node.alive or node.incarnation != known[0]):
                del self._seen[name]
                if self._rng.random() < REPORTED:
                    late_ns = self._rng.choice((0, self._rng.randrange(LATE_MAX_NS)))
                    self._world.after(late_ns, self._report, name, known[1])
            if node.alive and node.core is not None and node.core.incarnation is not None:
                self._seen[name] = (node.incarnation, node.core.incarnation)
        self._world.after(LOOK_NS, self._look)

    def _report(self, name: str, incarnation: Incarnation) -> None:
        self._world.sometimes("a death was proved")
        for other in self._hosts:
            if other != name:
                self._world.network.send(name, other, Died(name, incarnation))
