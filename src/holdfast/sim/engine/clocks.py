"""Simulated clocks and timers: every node has its own clock, with an offset, a rate error and jumps.

Timers count by their machine's clock, and do not count while the machine sleeps. When the options of the run
ask for it, timers fire slightly early, as those of a real event loop do: uvloop counts whole milliseconds and
rounds the requested delay. A core whose timer finds nothing due must therefore set it again.
"""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.model.ports import TimerId

if TYPE_CHECKING:
    from holdfast.sim.engine.node import Life, SimNode


MILLION: Final = 1_000_000
WALL_START: Final = 1_704_067_200 * 1_000_000_000
"""The time that an exact wall clock shows when a simulation begins (2024-01-01)."""


class ClockOptions(Struct, frozen=True, kw_only=True):
    """The initial settings of a node's clock."""

    wall_offset_ns: int = 0
    rate_ppm: int = 0
    booted_ns: int = 0
    """The value of ``now()`` when the run begins."""


class SimClock:
    """The Clock port of one machine; it survives the node's incarnations."""

    __slots__ = ("_local", "_ppm", "_real", "_wall_offset", "_world_now")

    def __init__(self, world_now: Callable[[], int], options: ClockOptions) -> None:
        self._world_now = world_now
        self._local = options.booted_ns
        self._real = world_now()
        self._ppm = options.rate_ppm
        self._wall_offset = WALL_START + self._real + options.wall_offset_ns - self._local

    def now(self) -> int:
        return self._local + (self._world_now() - self._real) * (MILLION + self._ppm) // MILLION

    def wall(self) -> int:
        return self._wall_offset + self.now()

    @property
    def rate_ppm(self) -> int:
        return self._ppm

    def real_delay(self, local_ns: int) -> int:
        """Return how much simulated time passes while this clock advances by *local_ns*.

        A stopped clock would never advance that far, so its timers count simulated time instead.
        """
        if not self._ppm or self._ppm <= -MILLION:
            return local_ns
        return -(-local_ns * MILLION // (MILLION + self._ppm))

    def jump_wall(self, by_ns: int) -> None:
        """Set ``wall()`` forward or back by *by_ns*; ``now()`` is not affected."""
        self._wall_offset += by_ns

    def set_rate(self, ppm: int) -> None:
        """Run fast or slow from now on; -1,000,000 stops the clock."""
        self._local = self.now()
        self._real = self._world_now()
        self._ppm = max(ppm, -MILLION)

    def reboot(self) -> None:
        """Restart the machine's clock: ``now()`` counts from zero again, ``wall()`` goes on."""
        wall = self.wall()
        self._local = 0
        self._real = self._world_now()
        self._wall_offset = wall


LEAST_NS: Final = 100_000
"""The shortest real delay of a timer set for longer than this, however early it fires: about one turn of an
event loop. *Without it:* a core that sets its timer again for the remaining time does so forever at one
moment, because handlers take no simulated time."""


class SimTimers:
    """The Timers port of one process."""

    __slots__ = ("_armed", "_early_ns", "_early_rng", "_is_closed", "_last", "_life", "_node", "_on_timer")

    def __init__(self, node: "SimNode", life: "Life", on_timer: Callable[[Any], None]) -> None:
        self._node = node
        self._life = life
        self._on_timer = on_timer
        self._early_ns = node.world.options.timers_early_ns
        self._early_rng = node.world.rng("timers")
        self._armed: dict[int, None] = {}
        self._last = 0
        self._is_closed = False

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        self._last = number = self._last + 1
        if not self._life.over and not self._is_closed:
            node = self._node
            delay_ns = self._drawn(node.clock.real_delay(delay_ns)) if delay_ns > 0 else 0
            # The event carries all that firing needs; _armed only says whether the timer is still set.
            self._armed[number] = None
            due_ns = node.awake_ns() + delay_ns
            node.world.after(delay_ns, node.run, self._life, self._fire, number, tag, due_ns)
        return TimerId(number)

    def cancel(self, timer: TimerId) -> None:
        self._armed.pop(timer, None)

    def close(self) -> None:
        """Cancel all timers; none can be set any more."""
        self._armed.clear()
        self._is_closed = True

    def _drawn(self, delay_ns: int) -> int:
        """Draw the delay after which a timer set for *delay_ns* fires, unless the machine sleeps first."""
        if not self._early_ns:
            return delay_ns
        early_ns = int(self._early_rng.random() * self._early_ns)
        return max(delay_ns - early_ns, min(delay_ns, LEAST_NS))

    def _fire(self, number: int, tag: Hashable, due_ns: int) -> None:
        if number not in self._armed:
            return
        node = self._node
        owed_ns = due_ns - node.awake_ns()
        if owed_ns > 0:  # the machine slept meanwhile
            node.world.after(owed_ns, node.run, self._life, self._fire, number, tag, due_ns)
            return
        del self._armed[number]
        node.world.trace.add(f"{node.world.now} {node.name} timer {tag}")
        self._on_timer(tag)
