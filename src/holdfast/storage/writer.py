"""The writing side of the log: files, batches and syncs; what the records mean is the log's own business.

An opening begins by writing again what no mark covers: after a failed sync the system may show bytes that
never reached the disk. Then it writes a batch of its own, which dates everything before it as synced, and
only after that batch blanks the remains of torn writes: a tail once in doubt stays in doubt over crashes.
From then on, whatever has gathered goes down as one write and one sync, and the next gathers meanwhile (S5).
"""

import enum
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from holdfast.model.errors import DiskFailed, HoldfastError, NoSpace, Unavailable, invariant
from holdfast.model.ids import Opening, StoreId
from holdfast.model.ports import Disk, Token, Trace
from holdfast.storage import batch as batches
from holdfast.storage.batch import Batch, Flag, Place
from holdfast.storage.files import FileHeader, LogConfig, encode_file_header, file_name, salt_of
from holdfast.storage.gathering import Gathering, Sealed
from holdfast.storage.recovery import Recovered
from holdfast.storage.syncing import Syncs

REWRITE_BYTES: Final = 1 << 20


class Phase(enum.Enum):
    NEW = "new"
    OPENING = "opening"
    OPEN = "open"
    STOPPED = "stopped"


class Writer:
    """Writes what *gathering* holds. *on_durable(n)*: the first *n* records taken survive a power cut."""

    def __init__(
        self,
        disk: Disk,
        recovered: Recovered,
        *,
        store: StoreId,
        opening: Opening,
        config: LogConfig,
        on_open: Callable[[], None],
        on_durable: Callable[[int], None],
        on_stopped: Callable[[HoldfastError], None],
        trace: Trace,
    ) -> None:
        self.phase = Phase.NEW
        self.failure: HoldfastError | None = None
        self.is_doubtful = recovered.is_doubtful
        self.durable = 0
        self.mark = recovered.end
        """Up to here the log is synced."""
        self.files = [file for file in recovered.files if _is_in_use(file, recovered)]
        """Numbers of the files, oldest first; the last may still be in the making."""
        self._disk = disk
        self._recovered = recovered
        self._opening = opening
        self._config = msgspec.structs.replace(config, sector_bytes=recovered.sector)
        self._salt = salt_of(store)
        self._on_open = on_open
        self._on_durable = on_durable
        self._on_stopped = on_stopped
        self._trace = trace
        self._syncs = Syncs(disk, "log", self._stop)
        self._ready = dict.fromkeys(self.files)
        self._number = recovered.last.number if recovered.last is not None else 0
        self._checksum = recovered.last.checksum if recovered.last is not None else 0
        self._written = (0, recovered.end)  # records and place up to which the disk was told
        self._unsynced: list[int] = []
        self._is_syncing = False
        start = recovered.end if self.files else Place(recovered.end.file or 1, self._config.sector_bytes)
        self._sizes = {file: disk.size(file_name(file)) for file in self.files}
        self.gathering = Gathering(start, self._config, self._size_of_file)

    # --- what the log asks

    def open(self) -> None:
        """Begin; *on_open* follows. Raises ``Corruption`` for a damaged log: that may only be read."""
        invariant(self.phase is Phase.NEW, "a log is opened once")
        if self._recovered.is_damaged:
            raise self._recovered.damage[0].error()
        self.phase = Phase.OPENING
        self.guarded(self._rewrite_unproven)

    def check_open(self) -> None:
        """Raises what the log stopped for, or ``Unavailable`` before it is open."""
        if self.phase is not Phase.OPEN:
            raise self.failure or Unavailable("the log is not open yet")

    def flush(self) -> None:
        """Write and sync what has gathered; while a sync runs it goes on gathering."""
        if self._is_syncing or self.phase is not Phase.OPEN:
            return
        if self._unsynced or self.gathering.has_records:
            self.guarded(self._flush)

    def write_all(self) -> bool:
        """Write what has gathered without waiting for the sync under way; False when it could not all go."""
        self.gathering.seal()
        self.guarded(self._write_sealed)
        return self.phase is Phase.OPEN and not self.gathering.has_records

    def remove_oldest(self, then: Callable[[], None]) -> None:
        """Remove the oldest file; *then* it is gone for good."""
        file = self.files.pop(0)
        del self._ready[file]
        self._disk.remove(file_name(file))
        self._trace.note("log_removed", file=file)
        self._syncs.after((), partial(self.guarded, then), directory=True)

    def on_synced(self, token: Token, ok: bool) -> bool:
        return self._syncs.on_synced(token, ok)

    def guarded(self, work: Callable[[], None]) -> None:
        """Do *work*; a disk that refuses it stops the log (D1)."""
        try:
            work()
        except (NoSpace, DiskFailed) as error:
            self._stop(error)

    # --- opening

    def _rewrite_unproven(self) -> None:
        found = self._recovered
        # Made ahead and never used: the last life may have failed to sync their names, and syncing them
        # again would not help. They are made again.
        wrong = [file_name(file) for file in found.files if file not in self.files]
        for name in (*found.unusable, *wrong):
            self._disk.remove(name)
        touched = [file for file in self.files if found.mark.file <= file <= found.end.file]
        for file in touched:
            start = max(found.mark, Place(file, 0)).offset
            end = found.end.offset if file == found.end.file else self._size_of_file(file)
            self._rewrite(file, start, end)
        names = map(file_name, touched)
        self._syncs.after(names, partial(self.guarded, self._make_place_for_opening), directory=True)

    def _rewrite(self, file: int, start: int, end: int) -> None:
        for offset in range(start, end, REWRITE_BYTES):
            data = self._disk.read(file_name(file), offset, min(REWRITE_BYTES, end - offset))
            self._disk.write_at(file_name(file), offset, data)

    def _make_place_for_opening(self) -> None:
        if self.gathering.file in self._ready:
            self._write_opening()
        else:
            self._make_file(self.gathering.file, partial(self.guarded, self._write_opening))

    def _write_opening(self) -> None:
        self.gathering.put_mark()
        self.gathering.seal()
        self._write_sealed()
        blank = self._recovered.blank
        for file, (start, end) in blank.items():
            self._blank(file, max(self._written[1], Place(file, start)), end)
        names = map(file_name, dict.fromkeys((*self._take_unsynced(), *blank)))
        self._syncs.after(names, partial(self._opened, *self._written), directory=True)

    def _blank(self, file: int, start: Place, end: int) -> None:
        if start.file == file:
            for offset in range(start.offset, end, REWRITE_BYTES):
                self._disk.write_at(file_name(file), offset, bytes(min(REWRITE_BYTES, end - offset)))

    def _opened(self, appended: int, end: Place) -> None:
        self.phase = Phase.OPEN
        self.gathering.admit()
        self.durable, self.mark = appended, end
        self._trace.note("log_open", opening=self._opening, at=tuple(end), doubtful=self.is_doubtful)
        self._on_open()
        self.guarded(self._make_next_file)
        self.flush()

    # --- batches

    def _flush(self) -> None:
        self.gathering.seal()
        self._write_sealed()
        if self._unsynced:
            self._is_syncing = True
            names = [file_name(file) for file in self._take_unsynced()]
            self._syncs.after(names, partial(self._on_batches, *self._written))

    def _on_batches(self, appended: int, end: Place) -> None:
        self._is_syncing = False
        self.durable, self.mark = appended, end
        # The next batch first: the disk works while those who waited are told.
        self.flush()
        self._on_durable(appended)

    def _write_sealed(self) -> None:
        while (sealed := self.gathering.take_sealed(self._ready.__contains__)) is not None:
            self._write(sealed)

    def _write(self, sealed: Sealed) -> None:
        file, offset = sealed.place
        self._number += 1
        batch = Batch(
            salt=self._salt,
            file=file,
            records=sealed.records,
            number=self._number,
            opening=self._opening,
            mark=self.mark,
            previous=self._checksum,
            flags=Flag.DOUBTFUL if self.is_doubtful else Flag.NONE,
            oldest=self.files[0],
        )
        self._checksum, data = batches.encode(batch, b"".join(sealed.pieces), self._config.sector_bytes)
        self._disk.write_at(file_name(file), offset, data)
        if file not in self._unsynced:
            self._unsynced.append(file)
        self._written = (sealed.appended, sealed.end)
        if self.phase is Phase.OPEN:
            self._make_next_file()

    def _take_unsynced(self) -> list[int]:
        taken, self._unsynced = self._unsynced, []
        return taken

    # --- files

    def _size_of_file(self, file: int) -> int:
        return self._sizes.get(file, self._config.file_bytes)

    def _make_next_file(self) -> None:
        """Have the next file ready before it is needed."""
        if self.files[-1] <= self._written[1].file:
            self._make_file(self.files[-1] + 1, self.flush)

    def _make_file(self, number: int, then: Callable[[], None]) -> None:
        name = file_name(number)
        self.files.append(number)
        self._disk.allocate(name, self._config.file_bytes)
        header = FileHeader(self._config.sector_bytes, self._config.file_bytes, number, self._salt)
        self._disk.write_at(name, 0, encode_file_header(header))
        self._syncs.after([name], partial(self._file_made, number, then), directory=True)

    def _file_made(self, number: int, then: Callable[[], None]) -> None:
        self._ready[number] = None
        then()

    # --- stopping

    def _stop(self, error: HoldfastError) -> None:
        """For good (D1): nothing is retried, nothing more is taken, those who wait are told."""
        if self.phase is not Phase.STOPPED:
            self.phase = Phase.STOPPED
            self.failure = error
            self.gathering.shut()
            self._trace.note("log_stopped", reason=str(error))
            self._on_stopped(error)


def _is_in_use(file: int, recovered: Recovered) -> bool:
    """Whether any batch was ever written to the file."""
    return file in recovered.blank or (recovered.last is not None and file <= recovered.end.file)
