"""How one direction between two machines treats packets. It is pure computation; a seed decides."""

import random
from dataclasses import dataclass, field

MS = 1_000_000
"""Nanoseconds."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions on a link."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    """The most additional delay; packets still arrive in order."""
    loss: float = 0.0
    """The probability that a packet is lost."""
    duplicate: float = 0.0
    """The probability that it arrives twice."""
    reorder: float = 0.0
    """The probability that it is delayed by up to ``reorder_ms`` while later ones pass."""
    reorder_ms: float = 10.0


@dataclass(slots=True)
class Link:
    """One direction. ``arrivals`` says when copies of a packet sent now arrive: never, once or twice."""

    random: random.Random
    conditions: Conditions = field(default_factory=Conditions)
    is_cut: bool = False
    up_ns: int = 0
    down_ns: int = 0
    """A flapping link passes packets for ``up_ns``, then none for ``down_ns``, from ``flaps_since`` on."""
    flaps_since: int = 0
    _last_arrival: int = 0

    def arrivals(self, now: int) -> list[int]:
        if not self.is_passing(now) or self.random.random() < self.conditions.loss:
            return []
        copies = 2 if self.random.random() < self.conditions.duplicate else 1
        return [self._arrival(now) for _ in range(copies)]

    def is_passing(self, now: int) -> bool:
        if self.is_cut:
            return False
        period = self.up_ns + self.down_ns
        return period == 0 or (now - self.flaps_since) % period < self.up_ns

    def _arrival(self, now: int) -> int:
        weather = self.conditions
        arrival = now + round(MS * (weather.delay_ms + weather.jitter_ms * self.random.random()))
        if self.random.random() < weather.reorder:
            return arrival + round(MS * weather.reorder_ms * self.random.random())
        self._last_arrival = max(arrival, self._last_arrival)
        return self._last_arrival
