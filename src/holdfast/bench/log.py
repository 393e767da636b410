"""The log compared with the disk under it: records per second with group commit, and raw write-and-sync.

Both write the same number of bytes per batch to new preallocated files. Each round is cut into slices that
take turns, so that a busy machine slows both alike; the median of the rounds' ratios is the result. The log's
caller gathers one batch while the previous one syncs, as a host under load does.
"""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.bench import Progress, Result, compare
from holdfast.model.errors import DiskFailed, HoldfastError
from holdfast.model.ids import Epoch, GroupId, Opening, StoreId
from holdfast.storage.batch import padded
from holdfast.storage.disk import FileDisk
from holdfast.storage.log import Log
from holdfast.storage.record import RECORD_BYTES
from holdfast.storage.recovery import scan
from holdfast.storage.segments import LogConfig, salt_of

BATCHES: Final = (1, 8, 64, 512)
TARGETS: Final = {64: 0.7}
PROBE_BATCHES: Final = 50
"""The number of batches written before the disk's rate is known."""
SLICES: Final = 10
"""Turns that each side gets within a round."""
SLICE_BATCHES_MIN: Final = 20
"""Fewer batches would measure how the log starts and stops, which it does in every slice."""
BODY_BYTES: Final = 100
FILE_BYTES: Final = 64 << 20
FLOOR_BYTES: Final = 8 << 20
STORE: Final = StoreId("bench")


class Detail(Struct, frozen=True, kw_only=True):
    """More about one batch size: microseconds from submitting a batch until it is durable."""

    records_per_batch: int
    p50_us: float
    p99_us: float
    raw_p50_us: float
    raw_p99_us: float
    cpu_us_per_record: float


class Raw:
    """Writes and syncs, nothing else: the machine's limit."""

    def __init__(self, directory: Path, size: int) -> None:
        self._path = directory / "raw"
        self._data = os.urandom(size)
        self._begin_file()

    def _begin_file(self) -> None:
        """Begin a new file, as the log does.

        Syncs are faster in space that was written before than in reserved space.
        """
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.posix_fallocate(self._descriptor, 0, FILE_BYTES)
        os.fsync(self._descriptor)
        self._offset = 0

    def round(self, batches: int) -> list[float]:
        """Return the seconds that each of *batches* took."""
        times = []
        for _ in range(batches):
            started = time.perf_counter()
            os.pwrite(self._descriptor, self._data, self._offset)
            os.fdatasync(self._descriptor)
            times.append(time.perf_counter() - started)
            self._offset += len(self._data)
            if self._offset + len(self._data) > FILE_BYTES:
                self.close()
                self._path.unlink()
                self._begin_file()
        return times

    def close(self) -> None:
        os.close(self._descriptor)


class LogUnderLoad:
    """A real log on a real disk; the calling thread acts as the log's owner."""

    def __init__(self, directory: Path, records_per_batch: int) -> None:
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._records = records_per_batch
        self._body = os.urandom(BODY_BYTES)
        self._group = GroupId(1)
        self._disk = FileDisk(directory, self._on_synced, self._calls.put)
        self._is_open = False
        self._started: dict[int, float] = {}
        self._times: list[float] = []
        self._left = 0
        self._unfloored = 0
        found = scan(self._disk, salt=salt_of(STORE), sector=512)
        self._log = Log(
            self._disk,
            found,
            store=STORE,
            opening=Opening(1),
            config=LogConfig(file_bytes=FILE_BYTES, files_max=2),
            on_open=self._opened,
            on_durable=self._on_durable,
            on_stopped=self._stopped,
        )
        self._log.open()
        while not self._is_open:
            self._calls.get()()

    def round(self, batches: int) -> list[float]:
        """Return the seconds from submitting each of *batches* to the log until it was durable."""
        self._times, self._left = [], batches
        self._hand_over()
        self._hand_over()
        while self._started:
            self._calls.get()()
        return self._times

    def close(self) -> None:
        self._disk.close()

    def _hand_over(self) -> None:
        if self._left:
            self._left -= 1
            self._checkpoint_when_due()
            started = time.perf_counter()
            append, group, epoch, body = self._log.append, self._group, Epoch(1), self._body
            number = 0
            for _ in range(self._records):
                number = append(group, epoch, body)
            self._started[number] = started
            self._log.flush()

    def _checkpoint_when_due(self) -> None:
        """Treat older records as checkpointed, so that the log prunes them instead of filling up."""
        self._unfloored += self._records * (RECORD_BYTES + BODY_BYTES)
        tail = self._log.tail(self._group).position
        if self._unfloored > FLOOR_BYTES and tail:
            self._unfloored = 0
            self._log.set_floor(self._group, tail)

    def _on_durable(self, number: int) -> None:
        now = time.perf_counter()
        while self._started and (oldest := next(iter(self._started))) <= number:
            self._times.append(now - self._started.pop(oldest))
            self._hand_over()

    def _on_synced(self, token: object, ok: bool) -> None:
        self._log.on_synced(token, ok)

    def _opened(self) -> None:
        self._is_open = True

    def _stopped(self, error: HoldfastError) -> None:
        raise DiskFailed(f"the log stopped: {error}")


def run_log_bench(
    *,
    rounds: int = 9,
    seconds: float = 0.5,
    progress: Progress = lambda _: None,
    directory: Path | None = None,
    batches: tuple[int, ...] = BATCHES,
) -> dict[str, Any]:
    """Measure below *directory*, by default the system's temporary one, on files that are removed.

    *seconds* is the time of each side in each round.
    """
    results, details = [], []
    for records in batches:
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=directory) as made:
            result, detail = _measure(Path(made), records, rounds, seconds, progress)
        results.append(msgspec.to_builtins(result))
        details.append(msgspec.to_builtins(detail))
    return {"results": results, "details": details, "body_bytes": BODY_BYTES}


def _measure(
    directory: Path, records: int, rounds: int, seconds: float, progress: Progress
) -> tuple[Result, Detail]:
    raw = Raw(directory, padded(records * (RECORD_BYTES + BODY_BYTES), 512))
    log = LogUnderLoad(directory / "store", records)
    name = f"log: batches of {records}"
    ours, other = Side(log.round), Side(raw.round)
    for number in range(rounds):
        _round(ours, other, seconds)
        progress(f"{name}: round {number + 1} of {rounds}: {ours.rates[-1] / other.rates[-1]:.2f}")
    log.close()
    raw.close()
    result = compare(
        name,
        [rate * records for rate in ours.rates],
        [rate * records for rate in other.rates],
        unit="records/s",
        other_name="raw syncs x batch",
        target=TARGETS.get(records),
    )
    detail = Detail(
        records_per_batch=records,
        p50_us=ours.percentile(50),
        p99_us=ours.percentile(99),
        raw_p50_us=other.percentile(50),
        raw_p99_us=other.percentile(99),
        cpu_us_per_record=ours.cpu_s * 1e6 / (len(ours.times) * records),
    )
    return result, detail


def _round(ours: "Side", other: "Side", seconds: float) -> None:
    for number in range(2 * SLICES):
        # Who goes first alternates, 0 1, 1 0, ...: what one sync leaves for the disk to do delays the next.
        side = (number ^ (number >> 1)) & 1
        (ours, other)[side].run(seconds / SLICES)
    ours.end_round()
    other.end_round()


class Side:
    """One of the two sides that are compared, and its measurements."""

    def __init__(self, work: Callable[[int], list[float]]) -> None:
        self._work = work
        self._rate = PROBE_BATCHES / _seconds_of(work, PROBE_BATCHES)
        self._batches = 0
        self._busy_s = 0.0
        self.rates: list[float] = []
        """Batches per second, by round."""
        self.times: list[float] = []
        self.cpu_s = 0.0

    def run(self, seconds: float) -> None:
        """Run one slice of about that many seconds."""
        batches = max(SLICE_BATCHES_MIN, int(seconds * self._rate))
        cpu, started = time.process_time(), time.perf_counter()
        self.times += self._work(batches)
        self._busy_s += time.perf_counter() - started
        self.cpu_s += time.process_time() - cpu
        self._batches += batches

    def end_round(self) -> None:
        self._rate = self._batches / self._busy_s
        self.rates.append(self._rate)
        self._batches, self._busy_s = 0, 0.0

    def percentile(self, percent: int) -> float:
        ordered = sorted(self.times)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] * 1e6


def _seconds_of(work: Callable[[int], object], batches: int) -> float:
    started = time.perf_counter()
    work(batches)
    return time.perf_counter() - started
