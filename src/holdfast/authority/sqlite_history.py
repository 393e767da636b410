"""What each revision changed, kept for watches to start from, within bounds."""

from dataclasses import dataclass
from typing import Final

import apsw
import msgspec

from holdfast.authority.contract import Changed, Events
from holdfast.authority.sqlite_file import integers
from holdfast.model.ids import Revision

_DECODER: Final = msgspec.msgpack.Decoder(tuple[Changed, ...])
_ENCODER: Final = msgspec.msgpack.Encoder()


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """How much history is kept. More lets watchers be away longer; each revision costs disk."""

    revisions_max: int = 100_000
    bytes_max: int = 64_000_000


class History:
    """The table of events: one row for each revision from the oldest kept to the newest, none missing.

    The newest row is never removed: it is also where the revision counter lives.
    """

    def __init__(self, db: apsw.Connection, limits: HistoryLimits) -> None:
        self._db = db
        self._limits = limits
        oldest, newest, size = integers(
            db, "SELECT min(revision), max(revision), sum(length(changes)) FROM event"
        )
        self.oldest = Revision(oldest)
        self.newest = Revision(newest)
        self._bytes = size

    def append(self, changes: tuple[Changed, ...]) -> Events:
        """Make *changes* the next revision."""
        self.newest = Revision(self.newest + 1)
        encoded = _ENCODER.encode(changes)
        self._db.execute("INSERT INTO event VALUES (?, ?)", (self.newest, encoded))
        self._bytes += len(encoded)
        return Events(self.newest, changes)

    def read(self, start: Revision, limit: int) -> list[Events]:
        """At most *limit* revisions from *start* on, which must not lie before the oldest."""
        rows = self._db.execute(
            "SELECT revision, changes FROM event WHERE revision >= ? ORDER BY revision LIMIT ?",
            (start, limit),
        )
        return [Events(Revision(revision), _DECODER.decode(changes)) for revision, changes in rows]

    def compact(self) -> None:
        """Drop the oldest eighth, repeatedly, while a bound is passed (an eighth: rarely, not always)."""
        while self._is_over() and self.oldest < self.newest:
            kept_from = min(self.newest, self.oldest + 1 + (self.newest - self.oldest) // 8)
            (freed,) = integers(
                self._db, "SELECT sum(length(changes)) FROM event WHERE revision < ?", (kept_from,)
            )
            self._db.execute("DELETE FROM event WHERE revision < ?", (kept_from,))
            self._bytes -= freed
            self.oldest = Revision(kept_from)

    def _is_over(self) -> bool:
        kept = self.newest - self.oldest + 1
        return kept > self._limits.revisions_max or self._bytes > self._limits.bytes_max
