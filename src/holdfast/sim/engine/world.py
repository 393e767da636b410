"""One simulated domain under one seed: the event heap, the nodes, and the counts kept during the run."""

import random
import traceback
from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Final

from msgspec import Struct

from holdfast.sim.engine.clocks import ClockOptions, SimClock
from holdfast.sim.engine.network import SimNetwork
from holdfast.sim.engine.node import NodePorts, SimNode
from holdfast.sim.engine.options import MILLISECOND, SECOND, Options
from holdfast.sim.engine.trace import Trace

EVENTS_MAX: Final = 3_000_000
"""The most events a run may take. A run that needs more is in an endless loop, which counts as a violation.
"""
POINT_FIRES: Final = 0.25
"""The probability that an active fault point of a core fires each time it is passed."""


class Violation(Struct, frozen=True, kw_only=True):
    """One broken rule and when it was broken."""

    rule: str
    message: str
    at_ns: int


class World:
    """The world of one run. All its randomness comes from the seed, in named streams."""

    def __init__(self, options: Options, *, keep_trace: bool = False) -> None:
        self.options = options
        self.now = 0
        """Simulated nanoseconds since the run began; no node sees this clock."""
        self.events = 0
        self.operations = 0
        self.faults: Counter[str] = Counter()
        """Faults that had an effect, by kind."""
        self.reached: Counter[str] = Counter()
        """Rare code paths that the run has reached, by name."""
        self.violations: list[Violation] = []
        self.unavailabilities: list[str] = []
        self.is_healed = False
        self.nodes: dict[str, SimNode] = {}
        self.each_step: Callable[[], None] | None = None
        """Called after every event, to check cheap invariants."""
        self.expects: Callable[[SimNode, BaseException], bool] = lambda node, error: False
        """Decides whether a node may end with this exception without that counting as a violation."""
        self.trace = Trace(self.time, keep=keep_trace)
        self.fault = FaultPoints(self)
        self._rngs: dict[str, random.Random] = {}
        self._heap: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._scheduled = 0
        self._ended = False
        self.network = SimNetwork(self, self.rng("network"), options.network)

    def time(self) -> int:
        return self.now

    def rng(self, name: str) -> random.Random:
        """Return the random stream of that name.

        It is the same for the same seed, whatever other streams are used.
        """
        found = self._rngs.get(name)
        if found is None:
            # A string seed is hashed with SHA-512, so it does not depend on PYTHONHASHSEED.
            found = self._rngs[name] = random.Random(f"{self.options.seed}/{name}")
        return found

    # --- events

    def after(self, delay_ns: int, function: Callable[..., object], *args: Any) -> None:
        """Call *function* after that much simulated time.

        Events due at the same time run in the order scheduled.
        """
        self._scheduled = number = self._scheduled + 1
        heappush(self._heap, (self.now + delay_ns, number, function, args))

    def at(self, at_ns: int, function: Callable[..., object], *args: Any) -> None:
        self._scheduled = number = self._scheduled + 1
        heappush(self._heap, (max(at_ns, self.now), number, function, args))

    def run_until(self, end_ns: int) -> None:
        """Run all events up to *end_ns*, or until the run ends."""
        heap, each_step = self._heap, self.each_step
        while heap and heap[0][0] <= end_ns and not self._ended:
            self.now, _, function, args = heappop(heap)
            self.events += 1
            function(*args)
            if each_step is not None:
                each_step()
            if self.events >= EVENTS_MAX:
                self.violation("engine", f"no end after {EVENTS_MAX} events")
        if not self._ended:
            self.now = max(self.now, end_ns)

    def end(self) -> None:
        """End the run: process no more events."""
        self._ended = True

    # --- nodes

    def add_node(
        self,
        name: str,
        build: Callable[[NodePorts], Any],
        *,
        clock: ClockOptions | None = None,
        supervised: bool = True,
    ) -> SimNode:
        """Add a node and start it. A node without *clock* gets a slightly inaccurate clock."""
        if name in self.nodes:
            raise ValueError(f"two nodes named {name}")
        options = clock or self._ordinary_clock(name)
        node = SimNode(self, name, build, SimClock(self.time, options), supervised=supervised)
        self.nodes[name] = node
        node.start()
        return node

    def heal(self) -> None:
        """End all faults: mend every link, repair disks and clocks, and let every node run."""
        self.is_healed = True
        self.trace.add(f"{self.now} heal")
        self.network.heal()
        for node in self.nodes.values():
            node.heal()

    def _ordinary_clock(self, name: str) -> ClockOptions:
        rng = self.rng(f"clock/{name}")
        return ClockOptions(
            wall_offset_ns=rng.randint(-50 * MILLISECOND, 50 * MILLISECOND),
            rate_ppm=rng.randint(-100, 100),
            booted_ns=rng.randrange(1000 * SECOND),
        )

    # --- findings and counts

    def violation(self, rule: str, message: str, error: BaseException | None = None) -> None:
        """Record a broken rule and end the run."""
        if error is not None:
            frame, line = list(traceback.walk_tb(error.__traceback__))[-1]
            message += f" (in {frame.f_code.co_name}, line {line} of {frame.f_globals.get('__name__')})"
        self.trace.add(f"{self.now} violation {rule}: {message}")
        self.violations.append(Violation(rule=rule, message=message, at_ns=self.now))
        self.end()

    def unavailable(self, reason: str) -> None:
        """Record that the run is safe but makes no progress, for a *reason* that permits it."""
        self.trace.add(f"{self.now} unavailable: {reason}")
        self.unavailabilities.append(reason)

    def operation(self, count: int = 1) -> None:
        """Count operations of clients that were answered."""
        self.operations += count

    def sometimes(self, point: str) -> None:
        """Count a rare path that was reached. The report shows these counts, and none should stay at zero."""
        self.reached[point] += 1


class FaultPoints:
    """The Fault port: each run activates some fault points, which fire at random until the healing."""

    __slots__ = ("_active", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._active: dict[str, random.Random | None] = {}

    def maybe(self, point: str) -> bool:
        world = self._world
        if not world.options.points or world.is_healed:
            return False
        if point not in self._active:
            rng = world.rng(f"point/{point}")
            self._active[point] = rng if rng.random() < world.options.points else None
        active = self._active[point]
        if active is None or active.random() >= POINT_FIRES:
            return False
        world.sometimes(f"fault point {point}")
        return True
