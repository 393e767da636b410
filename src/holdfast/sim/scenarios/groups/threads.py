"""Threads of a simulated process, for slow methods: what they compute is done some time later (E15).

A thread changes the object at any moment between its begin and its end. Here that is one moment, at the begin
or at the end; whoever looks at the object in between sees one or the other.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND

TAKES_NS: Final = (1 * MILLISECOND, 300 * MILLISECOND)
LONG_NS: Final = 2_000 * MILLISECOND
LONG: Final = 0.1
"""The probability that a method takes up to LONG_NS: longer than leases, and than most calls wait."""
EARLY: Final = 0.5
"""The probability that the object changes as the thread begins."""


class SimulatedThreads:
    """The slow methods of one simulated process."""

    def __init__(self, ports: NodePorts) -> None:
        self._ports = ports
        self._random = ports.random.stream("slow methods")

    def of(self, group: str) -> "SimulatedThread":
        return SimulatedThread(self, group)

    def run(self, work: Callable[[], bytes], then: Callable[[bytes], None]) -> None:
        node, life = self._ports.node, self._ports.life
        takes_ns = self._random.randint(*TAKES_NS)
        if self._random.random() < LONG:
            takes_ns = self._random.randint(TAKES_NS[1], LONG_NS)
        early = work() if self._random.random() < EARLY else None
        node.world.sometimes("a slow method ran")

        def end() -> None:
            then(early if early is not None else work())

        node.world.after(takes_ns, node.run, life, end)


@dataclass(slots=True)
class SimulatedThread:
    """The thread of one group: its methods run one after the other, also those whose object is gone."""

    threads: SimulatedThreads
    group: str
    _waiting: list[tuple[Callable[[], bytes], Callable[[bytes], None]]] = field(default_factory=list)
    _is_busy: bool = False

    def run(self, work: Callable[[], bytes], then: Callable[[bytes], None]) -> None:
        self._waiting.append((work, then))
        self._begin_next()

    def _begin_next(self) -> None:
        if self._is_busy or not self._waiting:
            return
        self._is_busy = True
        work, then = self._waiting.pop(0)

        def ended(outcome: bytes) -> None:
            self._is_busy = False
            self._begin_next()
            then(outcome)

        self.threads.run(work, ended)
