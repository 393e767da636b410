"""The heart of a simulated host: the production watch over its loop and its disk, on its own thread (K3).

Whether hosts hear each other is the leases' business; here only what makes a host end itself is simulated.
"""

from collections.abc import Hashable
from typing import Final

from holdfast.model.ids import HostId, Incarnation
from holdfast.model.ports import TimerId
from holdfast.node.heartbeats import HeartbeatConfig, Heartbeats, Vitals
from holdfast.sim.node import NodePorts
from holdfast.sim.options import MILLISECOND, SECOND

LIMITS: Final = HeartbeatConfig(
    interval_ns=100 * MILLISECOND,
    silence_ns=300 * MILLISECOND,
    hang_limit_ns=1 * SECOND,
    sync_limit_ns=1 * SECOND,
)


class Heart:
    """Of one process: it beats while the loop stands still, and stops only with the whole process (R4)."""

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
            on_unfit=lambda why, stood_ns: ports.stop(why),
            config=LIMITS,
        )
        self._beats.start()

    def _vitals(self) -> Vitals:
        node = self._ports.node
        return Vitals(node.stood_ns(), node.disk.oldest_sync_ns(self._ports.life))

    # --- its timers, which no loop holds up

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
