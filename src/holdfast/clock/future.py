"""The future timestamp in stable storage (CSN-22..25).

A store writes ``clock.new``, syncs it, renames it over ``clock`` and syncs the directory; only then does the
promise in it count. A crash in between leaves the old file whole, or the new one, never half of either.
A failed write or sync is final (D1): nothing more is stored, and the owner must stop.
"""

from enum import Enum
from typing import Final

from holdfast.clock.errors import ClockFileMissing
from holdfast.clock.state import CLOCK_LINE_BYTES_MAX, Reservation
from holdfast.model.errors import DiskFailed, NoSpace
from holdfast.model.ports import Disk, Token

CLOCK_FILE: Final = "clock"
NEW_FILE: Final = "clock.new"


class _Step(Enum):
    FILE = "file"
    DIRECTORY = "directory"


class FutureStore:
    """Keeps one :class:`Reservation` on a disk, replacing it atomically; one store at a time."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._number = 0
        self._storing: Reservation | None = None
        self.stored: Reservation | None = None
        """What is known to survive a power cut."""
        self.failure: str | None = None
        """Why nothing is stored any more."""

    @property
    def is_storing(self) -> bool:
        return self._storing is not None

    def load(self, *, is_new: bool) -> Reservation | None:
        """Read what an earlier run stored; None only for a store that *is_new*.

        Raises :class:`Corruption` for a missing, torn or damaged file: read as zero, it would let the clock
        start behind CSNs already handed out.
        """
        names = self._disk.list()
        if NEW_FILE in names:
            self._disk.remove(NEW_FILE)  # a store that a crash cut short: it never counted
        if CLOCK_FILE in names:
            data = self._disk.read(CLOCK_FILE, 0, CLOCK_LINE_BYTES_MAX)
            self.stored = Reservation.decode(data, file=CLOCK_FILE)
        elif not is_new:
            raise ClockFileMissing(CLOCK_FILE)
        return self.stored

    def store(self, reservation: Reservation) -> None:
        """Begin to replace what is stored; a later :meth:`on_synced` says when it is done."""
        self._storing = reservation
        self._number += 1
        try:
            self._disk.append(NEW_FILE, reservation.encode())
            self._disk.sync(NEW_FILE, self._token(_Step.FILE))
        except (NoSpace, DiskFailed) as error:
            self._fail(str(error))

    def on_synced(self, token: Token, ok: bool) -> bool:
        """Go on with the store; True when this completed it. Tokens of others are not its business."""
        if self._storing is None:
            return False
        if token == self._token(_Step.FILE):
            self._replace(ok)
        elif token == self._token(_Step.DIRECTORY):
            return self._complete(ok)
        return False

    def _replace(self, ok: bool) -> None:
        if not ok:
            self._fail(f"the sync of {NEW_FILE} failed")
            return
        try:
            self._disk.rename(NEW_FILE, CLOCK_FILE)
            self._disk.sync_dir(self._token(_Step.DIRECTORY))
        except (NoSpace, DiskFailed) as error:
            self._fail(str(error))

    def _complete(self, ok: bool) -> bool:
        if not ok:
            self._fail("the sync of the directory failed")
            return False
        self.stored, self._storing = self._storing, None
        return True

    def _fail(self, why: str) -> None:
        self.failure = why
        self._storing = None

    def _token(self, step: _Step) -> tuple[str, str, int]:
        return "clock", step.value, self._number
