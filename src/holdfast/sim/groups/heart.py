"""The heart of a simulated host that carries the heartbeats of its leases, as in production (R4)."""

from holdfast.model.ids import HostId, Incarnation
from holdfast.sequence.beats import Beats
from holdfast.sequence.config import LeaseConfig
from holdfast.sequence.messages import Beat, BeatAnswer
from holdfast.sim.node import NodePorts


class Heart:
    """Of one process: it stops with the whole process, and not with the loop."""

    def __init__(self, ports: NodePorts, incarnation: Incarnation, config: LeaseConfig) -> None:
        self.beats = Beats(incarnation=incarnation, clock=ports.clock, network=ports.network, config=config)
        self._ports = ports
        self._beat()

    def on_message(self, peer: str, message: object) -> bool:
        """Whether it is for the heart."""
        if not isinstance(message, Beat | BeatAnswer):
            return False
        self.beats.on_message(HostId(peer), message)
        return True

    def _beat(self) -> None:
        ports = self._ports
        if ports.life.over:
            return
        if not ports.node.paused:
            self.beats.beat()
        ports.node.world.after(self.beats.config.interval_ns, self._beat)
