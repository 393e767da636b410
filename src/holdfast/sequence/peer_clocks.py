"""What a host learns about its peers' clocks from their heartbeats (X4).

Each heartbeat carries its sender's time. A host whose time differs from that of most of its peers by more
than the limit is *off*, and leaves claims to others. With only one peer nobody can tell which clock is wrong.
A host at first ignores a jump of its machine's clock; it follows the clock once most peers agree with the new
time, because then the clock was set right.
*Without it:* one jump of +2 h makes every request "expired" for two hours on every successor.
"""

from dataclasses import dataclass
from typing import Final

from holdfast.clock.offsets import SteadyClock
from holdfast.model.ids import SECOND, HostId

FRESH_NS: Final = 60 * SECOND
"""How long a peer's clock is remembered, so that a peer that has just died still counts."""
WITNESSES: Final = 2
"""How many peers must be known before they can prove this host's clock wrong."""


@dataclass(frozen=True, slots=True)
class _Sample:
    ahead_ns: int
    """How far the peer's clock is ahead of this host's, less the time that the message took."""
    at: int


class PeerClocks:
    """The clocks of all peers, as one host sees them."""

    def __init__(self, clock: SteadyClock) -> None:
        self.clock = clock
        self._samples: dict[HostId, _Sample] = {}

    def heard(self, host: HostId, wall_ns: int) -> None:
        """Take in the time that a heartbeat of *host* reported."""
        self._samples[host] = _Sample(wall_ns - self.clock.wall(), self.clock.now())
        jump_ns = self.clock.jump_ns
        if jump_ns and self._most_are_at(jump_ns):
            self.clock.follow()
            self._samples.clear()

    @property
    def skew_ns(self) -> int:
        """How far this host's time is ahead of the median peer if it is off; otherwise the jump of its
        machine's clock that it does not follow, or 0."""
        fresh = sorted(self._fresh())
        return -fresh[len(fresh) // 2] if self.is_off else self.clock.jump_ns

    @property
    def is_off(self) -> bool:
        """Whether this host's time differs from that of most peers."""
        fresh = self._fresh()
        far = [each for each in fresh if abs(each) > self.clock.limit_ns]
        return len(fresh) >= WITNESSES and 2 * len(far) > len(fresh)

    def _most_are_at(self, ahead_ns: int) -> bool:
        """Whether most peers are about *ahead_ns* ahead of this host."""
        fresh = self._fresh()
        near = [each for each in fresh if abs(each - ahead_ns) <= self.clock.limit_ns]
        return 2 * len(near) > len(fresh)

    def _fresh(self) -> list[int]:
        now = self.clock.now()
        return [each.ahead_ns for each in self._samples.values() if now - each.at < FRESH_NS]
