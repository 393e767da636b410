"""The generator's state as text, and the file that stores the future timestamp (CSN-22..25).

``csnstate`` (version 1), for administrators, is one line of ASCII, the same on every machine::

    system=1700000000.123456789 local=0.000000000 network=0.250000000 sequence=17

Times are UTC seconds with nine decimals; *sequence* is the S that the next CSN gets. Every CSN assigned
before is smaller than (whole seconds of the sum, sequence).

The clock file contains one line: the position to resume at, the state at that moment, and a checksum over
everything before it. While the generator runs, the position lies in the future (CSN-24)::

    holdfast-clock-1 resume=1700000005.0 system=... local=... network=... sequence=17 crc=0d4b8ad1

:class:`FutureStore` writes ``clock.new``, syncs it, renames it to ``clock`` and syncs the directory; only
then does the stored timestamp count. A crash in between leaves the old file whole, or the new one, never half
of either. A failed write or sync is final (D1): nothing more is stored, and the owner must stop.
"""

import re
import zlib
from dataclasses import dataclass
from enum import Enum
from typing import Final

from holdfast.clock.errors import ClockFileMissing
from holdfast.clock.offsets import LogicalTime
from holdfast.model.csn import SEQUENCE_MAX
from holdfast.model.errors import Corruption, DiskFailed, InvalidRequest, NoSpace
from holdfast.model.ids import SECOND
from holdfast.model.ports import Disk, Token

CLOCK_LINE_BYTES_MAX: Final = 512
"""The longest clock line; longer than any state needs (offsets are bounded by the timestamp's 32 bits)."""

_SECONDS: Final = r"(\d{1,11})\.(\d{9})"
_STATE: Final = re.compile(
    f"system={_SECONDS} local={_SECONDS} network={_SECONDS} sequence=(\\d{{1,5}})", re.ASCII
)
_LINE: Final = re.compile(
    r"(holdfast-clock-1 resume=(\d{1,10})\.(\d{1,5}) (system=.*)) crc=([0-9a-f]{8})\n", re.ASCII
)


@dataclass(frozen=True, slots=True)
class ClockState:
    """The three terms of the logical time, and the next S."""

    system_ns: int
    local_ns: int
    network_ns: int
    sequence: int

    @classmethod
    def of(cls, time: LogicalTime) -> "ClockState":
        return cls(time.system_ns, time.local_ns, time.network_ns, time.sequence)

    @property
    def position(self) -> tuple[int, int]:
        """The (T, S) that the next CSN may have."""
        return (self.system_ns + self.local_ns + self.network_ns) // SECOND, self.sequence

    def text(self) -> str:
        """The value of ``csnstate``."""
        return (
            f"system={_seconds(self.system_ns)} local={_seconds(self.local_ns)} "
            f"network={_seconds(self.network_ns)} sequence={self.sequence}"
        )

    @classmethod
    def parse(cls, text: str) -> "ClockState":
        """Parse a ``csnstate``. Raises :class:`InvalidRequest`."""
        found = _STATE.fullmatch(text)
        if found is None:
            raise InvalidRequest(f"not a csnstate: {text[:CLOCK_LINE_BYTES_MAX]!r}")
        numbers = [int(group) for group in found.groups()]
        state = cls(
            system_ns=numbers[0] * SECOND + numbers[1],
            local_ns=numbers[2] * SECOND + numbers[3],
            network_ns=numbers[4] * SECOND + numbers[5],
            sequence=numbers[6],
        )
        if state.sequence > SEQUENCE_MAX:
            raise InvalidRequest(f"csnstate: sequence {state.sequence} is not within 0..{SEQUENCE_MAX}")
        return state


@dataclass(frozen=True, slots=True)
class Reservation:
    """The promise in the clock file: every CSN assigned so far is smaller than (*timestamp*, *sequence*)."""

    timestamp: int
    sequence: int
    state: ClockState

    @property
    def position(self) -> tuple[int, int]:
        return self.timestamp, self.sequence

    def encode(self) -> bytes:
        body = f"holdfast-clock-1 resume={self.timestamp}.{self.sequence} {self.state.text()}"
        return f"{body} crc={zlib.crc32(body.encode()):08x}\n".encode()

    @classmethod
    def decode(cls, data: bytes, *, file: str) -> "Reservation":
        """Decode a whole clock file. Raises :class:`Corruption` for anything but what was written."""
        line = data.decode("ascii", errors="replace")
        found = _LINE.fullmatch(line)
        if found is None:
            raise Corruption(
                "damaged", file=file, offset=0, expected="one clock line", found=ascii(line[:80])
            )
        body, timestamp, sequence, state, checksum = found.groups()
        computed = f"{zlib.crc32(body.encode()):08x}"
        if computed != checksum:
            raise Corruption(
                "damaged", file=file, offset=0, expected=f"crc {checksum}", found=f"crc {computed}"
            )
        return cls(int(timestamp), int(sequence), ClockState.parse(state))


def resumed(system_ns: int, *, file: Reservation | None, csnstate: ClockState | None) -> LogicalTime:
    """The logical time with which a generator starts: past both records, with the later one's offsets
    (CSN-45)."""
    records = [record for record in (file, csnstate) if record is not None]
    if not records:
        return LogicalTime(system_ns)
    latest = max(records, key=lambda record: record.position)
    state = latest.state if isinstance(latest, Reservation) else latest
    time = LogicalTime(system_ns, local_ns=state.local_ns, network_ns=state.network_ns)
    time.resume(*latest.position)
    return time


def _seconds(ns: int) -> str:
    return f"{ns // SECOND}.{ns % SECOND:09d}"


CLOCK_FILE: Final = "clock"
NEW_FILE: Final = "clock.new"


class _Step(Enum):
    FILE = "file"
    DIRECTORY = "directory"


class FutureStore:
    """Keeps one :class:`Reservation` on a disk and replaces it atomically; one store at a time."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._number = 0
        self._storing: Reservation | None = None
        self.stored: Reservation | None = None
        """The reservation that is known to survive a power cut."""
        self.failure: str | None = None
        """Why nothing is stored any more; None while storing works."""

    @property
    def is_storing(self) -> bool:
        return self._storing is not None

    def load(self, *, is_new: bool) -> Reservation | None:
        """Read what an earlier run stored; None only for a store that *is_new*.

        Raises :class:`Corruption` for a missing, torn or damaged file: read as zero, it would let the clock
        start behind CSNs already assigned.
        """
        names = self._disk.list()
        if NEW_FILE in names:
            self._disk.remove(NEW_FILE)  # left by a crash in the middle of a store; it never counted
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
        """Continue the store; True if this completed it. Ignores the tokens of others."""
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
