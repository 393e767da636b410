"""The embedded authority's leases: durable as such, their deadlines only in memory (A4).

Keeping a lease alive therefore costs no sync, and after a restart every lease has its full time again:
its holder may have been sending all the while to an authority that was not there to hear it.
"""

from dataclasses import dataclass
from typing import Final

import apsw

from holdfast.authority.sqlite_file import integers
from holdfast.model.ids import LeaseId
from holdfast.model.units import SECOND

# A lease must not end here before its holder's clock says so, however their rates differ: one part in
# this many is added (10,000 ppm; quartz stays below 200).
RATE_MARGIN_DIVISOR: Final = 100


@dataclass(slots=True)
class _Held:
    seconds: int
    deadline_ns: int


class Leases:
    """All leases, by id. Ids are never given twice, not even after their lease has ended."""

    def __init__(self, db: apsw.Connection, now_ns: int) -> None:
        self._db = db
        self._held: dict[LeaseId, _Held] = {
            LeaseId(lease): _Held(seconds, _deadline(seconds, now_ns))
            for lease, seconds in db.execute("SELECT id, seconds FROM lease ORDER BY id")
        }

    def __contains__(self, lease: LeaseId) -> bool:
        return lease in self._held

    def grant(self, seconds: int, now_ns: int) -> LeaseId:
        (number,) = integers(self._db, "INSERT INTO lease (seconds) VALUES (?) RETURNING id", (seconds,))
        lease = LeaseId(number)
        self._held[lease] = _Held(seconds, _deadline(seconds, now_ns))
        return lease

    def keep(self, lease: LeaseId, now_ns: int) -> int | None:
        """Start the lease's time anew; its seconds, or None when it has ended."""
        held = self._held.get(lease)
        if held is None:
            return None
        held.deadline_ns = _deadline(held.seconds, now_ns)
        return held.seconds

    def keep_all(self, now_ns: int) -> None:
        for lease in self._held:
            self.keep(lease, now_ns)

    def end(self, lease: LeaseId) -> None:
        del self._held[lease]
        self._db.execute("DELETE FROM lease WHERE id = ?", (lease,))

    def due(self, now_ns: int) -> list[LeaseId]:
        return [lease for lease, held in self._held.items() if held.deadline_ns <= now_ns]

    def remaining(self, now_ns: int) -> list[tuple[LeaseId, int, int]]:
        """Each lease with its seconds and the nanoseconds it has left."""
        return [(lease, held.seconds, held.deadline_ns - now_ns) for lease, held in self._held.items()]


def _deadline(seconds: int, now_ns: int) -> int:
    full_ns = seconds * SECOND
    return now_ns + full_ns + full_ns // RATE_MARGIN_DIVISOR
