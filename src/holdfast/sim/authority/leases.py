"""The book of leases: who was promised what, and when the authority ended which (A4)."""

from dataclasses import dataclass
from typing import Final

from holdfast.authority.server import STALL_NS, TICK_NS
from holdfast.model.ids import LeaseId
from holdfast.model.units import SECOND
from holdfast.sim.world import World

LATE_NS: Final = 3 * SECOND
"""How long a keep-alive may have been on its way."""


@dataclass(slots=True)
class _Page:
    seconds: int
    kept_at: int
    """When the last keep-alive that was confirmed was sent."""
    tried_at: int
    expired_at: int | None = None


class LeaseBook:
    """Times are the world's: no clock of any node is trusted."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pages: dict[LeaseId, _Page] = {}
        self._started_at = 0

    def authority_started(self) -> None:
        self._started_at = self._world.now

    def restored(self) -> None:
        """An old copy of the authority's file is in place: leases that ended since then stand again."""
        for page in self._pages.values():
            page.expired_at = None

    def granted(self, lease: LeaseId, seconds: int, sent_at: int) -> None:
        page = self._pages.setdefault(lease, _Page(seconds, sent_at, self._world.now))
        page.kept_at = max(page.kept_at, sent_at)
        page.tried_at = self._world.now
        self._check(lease, page)

    def tried(self, lease: LeaseId) -> None:
        if lease in self._pages:
            self._pages[lease].tried_at = self._world.now

    def expired(self, leases: list[LeaseId]) -> None:
        """The authority has ended these for silence."""
        for lease in leases:
            page = self._pages.get(lease)
            if self._world.now < self._started_at + (0 if page is None else page.seconds * SECOND):
                self._world.violation("A4", f"lease {lease} expired right after the authority's restart")
            if page is not None:
                page.expired_at = self._world.now
                self._check(lease, page)

    def check_silent(self, standing: list[LeaseId]) -> None:
        """Of the leases that still stand, none may have been silent for more than its time and the slack."""
        for lease in standing:
            page = self._pages.get(lease)
            if page is None:
                continue
            slack = page.seconds * SECOND // 50 + LATE_NS + STALL_NS + 2 * TICK_NS
            quiet_since = max(page.tried_at, self._started_at)
            if self._world.now > quiet_since + page.seconds * SECOND + slack:
                silent_s = (self._world.now - quiet_since) / SECOND
                self._world.violation("A4", f"lease {lease} stands after {silent_s:.1f} s of silence")

    def _check(self, lease: LeaseId, page: _Page) -> None:
        if page.expired_at is not None and page.expired_at < page.kept_at + page.seconds * SECOND:
            early_s = (page.kept_at + page.seconds * SECOND - page.expired_at) / SECOND
            self._world.violation("A4", f"lease {lease} expired {early_s:.3f} s before its time")
