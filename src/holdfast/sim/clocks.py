"""Simulated clocks: each node's own, with an offset, a rate error and jumps."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

MILLION: Final = 1_000_000
WALL_START: Final = 1_704_067_200 * 1_000_000_000
"""What an exact wall clock shows when a simulation begins (2024-01-01)."""


class ClockOptions(Struct, frozen=True, kw_only=True):
    """How a node's clock starts out."""

    wall_offset_ns: int = 0
    rate_ppm: int = 0
    booted_ns: int = 0
    """What ``now()`` shows at the beginning."""


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
        """How much simulated time passes while this clock advances by *local_ns*.

        A frozen clock would never get there; its timers count real time instead.
        """
        if not self._ppm or self._ppm <= -MILLION:
            return local_ns
        return -(-local_ns * MILLION // (MILLION + self._ppm))

    def jump_wall(self, by_ns: int) -> None:
        """Step ``wall()``, either way; ``now()`` does not notice."""
        self._wall_offset += by_ns

    def set_rate(self, ppm: int) -> None:
        """Run fast or slow from here on; -1,000,000 stands still."""
        self._local = self.now()
        self._real = self._world_now()
        self._ppm = max(ppm, -MILLION)

    def reboot(self) -> None:
        """The machine starts anew: ``now()`` counts from zero again, ``wall()`` goes on."""
        wall = self.wall()
        self._local = 0
        self._real = self._world_now()
        self._wall_offset = wall
