"""The heart of a simulated host, and the agents that report the deaths of hosts.

The heart is the production watch over the host's loop and disk, on its own thread (K3). Whether hosts hear
each other is the business of the leases; only what makes a host end itself is simulated here.

Agents report some deaths of their hosts to the other hosts (K2). A report is always true: it names the
incarnation of a process that has ended. Half of the deaths go unreported, as when the machine lost power and
the agent ended with it.
"""

from collections.abc import Hashable
from typing import Final

from holdfast.model.ids import HostId, Incarnation
from holdfast.model.ports import TimerId
from holdfast.node.heartbeats import HeartbeatConfig, Heartbeats, Vitals
from holdfast.sequence.messages import Died
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND, SECOND
from holdfast.sim.engine.world import World

LIMITS: Final = HeartbeatConfig(
    interval_ns=100 * MILLISECOND,
    silence_ns=300 * MILLISECOND,
    hang_limit_ns=1 * SECOND,
    sync_limit_ns=1 * SECOND,
)


class Heart:
    """The heart of one process: it beats while the loop hangs, and stops only with the whole process (R4)."""

    def __init__(self, ports: NodePorts) -> None:
        self._ports = ports
        self._timers = 0
        self._pending: dict[TimerId, Hashable] = {}
        self._beats = Heartbeats(
            host=HostId(ports.name),
            incarnation=Incarnation(ports.incarnation),
            clock=ports.clock,
            timers=lambda on_timer: self,
            network=ports.network,
            trace=ports.trace,
            vitals=self._vitals,
            on_unfit=lambda why, hung_ns: ports.stop(why),
            config=LIMITS,
        )
        self._beats.start()

    def _vitals(self) -> Vitals:
        node = self._ports.node
        return Vitals(node.hung_ns(), node.disk.oldest_sync_ns(self._ports.life))

    # --- its timers, which a hanging loop does not delay

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        self._timers += 1
        timer = TimerId(self._timers)
        self._pending[timer] = tag
        self._ports.node.world.after(delay_ns, self._fire, timer)
        return timer

    def cancel(self, timer: TimerId) -> None:
        self._pending.pop(timer, None)

    def _fire(self, timer: TimerId) -> None:
        if self._ports.life.over or timer not in self._pending:
            return
        tag = self._pending.pop(timer)
        if self._ports.node.paused:
            self.set(LIMITS.interval_ns, tag)
        else:
            self._beats.on_timer(tag)


LOOK_NS: Final = 20 * MILLISECOND
REPORTED: Final = 0.5
LATE_MAX_NS: Final = 1500 * MILLISECOND
"""The longest delay of a report: it may arrive when the host has restarted long ago, and serves."""


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
