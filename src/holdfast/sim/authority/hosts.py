"""Who takes part: hosts that do everything, and clients that only read, write and watch."""

from collections.abc import Hashable

from holdfast.authority.contract import WatchEvent
from holdfast.authority.sessions import Session
from holdfast.model.units import MILLISECOND
from holdfast.sim.authority.claims import Claims
from holdfast.sim.authority.governing import Governing
from holdfast.sim.authority.host_node import Actor, HostProcess
from holdfast.sim.authority.leasing import Leasing
from holdfast.sim.authority.mirrors import Mirror
from holdfast.sim.authority.naming import Naming
from holdfast.sim.authority.registers import Registers
from holdfast.sim.authority.stage import Stage
from holdfast.sim.node import NodePorts


class Host(HostProcess):
    """A host with every activity."""

    def __init__(self, ports: NodePorts, stage: Stage, former: list[Session]) -> None:
        self._former = former
        self.mirror: Mirror | None = None
        super().__init__(ports, stage)

    def begin(self) -> None:
        self.mirror = Mirror(self, "names/")
        self.take_up(
            Registers(self),
            Claims(self),
            Naming(self, self._former),
            Governing(self),
            Leasing(self),
            self.mirror,
        )

    def on_watch(self, token: Hashable, event: WatchEvent) -> None:
        if self.mirror is not None:
            self.mirror.on_watch(token, event)


class Client(Actor):
    """A client without a session: registers and a mirror of them."""

    def __init__(self, ports: NodePorts, stage: Stage) -> None:
        super().__init__(ports, stage)
        self.mirror = Mirror(self, "registers/")
        self.take_up(Registers(self, think_ns=30 * MILLISECOND), self.mirror)

    def on_watch(self, token: Hashable, event: WatchEvent) -> None:
        self.mirror.on_watch(token, event)
