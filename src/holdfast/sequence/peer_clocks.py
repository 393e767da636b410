"""What hosts know of each other's clocks, from their heartbeats (X4).

Each heartbeat carries its sender's time. A host whose time differs from that of most of its peers by more
than the limit is *off*: it leaves claims to others. With one peer nobody can say who is wrong. A machine's
clock that jumped is followed as soon as peers agree with what it shows now: then it was set right.
*Without it:* one jump of +2 h makes every request "expired" for two hours on every successor.
"""

from dataclasses import dataclass
from typing import Final

from holdfast.clock.offsets import SteadyClock
from holdfast.model.ids import SECOND, HostId

FRESH_NS: Final = 60 * SECOND
"""So long a peer's clock is remembered: one that has just died still bears witness."""
WITNESSES: Final = 2
"""So many peers must be known before any of them is believed against this host."""


@dataclass(frozen=True, slots=True)
class _Sample:
    ahead_ns: int
    """Of this host's time then, plus what the message took."""
    at: int


class PeerClocks:
    """As one host sees them."""

    def __init__(self, clock: SteadyClock) -> None:
        self.clock = clock
        self._samples: dict[HostId, _Sample] = {}

    def heard(self, host: HostId, wall_ns: int) -> None:
        """A heartbeat of *host* says what time it is there."""
        self._samples[host] = _Sample(wall_ns - self.clock.wall(), self.clock.now())
        jump_ns = self.clock.jump_ns
        if jump_ns and self._most_are_at(jump_ns):
            self.clock.follow()
            self._samples.clear()

    @property
    def skew_ns(self) -> int:
        """How far this host's time is ahead of that of most peers, when it is off; else how far its machine's
        clock jumped, and is not followed; else 0."""
        fresh = sorted(self._fresh())
        return -fresh[len(fresh) // 2] if self.is_off else self.clock.jump_ns

    @property
    def is_off(self) -> bool:
        """Whether most peers have another time than this host."""
        fresh = self._fresh()
        far = [each for each in fresh if abs(each) > self.clock.limit_ns]
        return len(fresh) >= WITNESSES and 2 * len(far) > len(fresh)

    def _most_are_at(self, ahead_ns: int) -> bool:
        """Whether most peers are that much ahead."""
        fresh = self._fresh()
        near = [each for each in fresh if abs(each - ahead_ns) <= self.clock.limit_ns]
        return 2 * len(near) > len(fresh)

    def _fresh(self) -> list[int]:
        now = self.clock.now()
        return [each.ahead_ns for each in self._samples.values() if now - each.at < FRESH_NS]
