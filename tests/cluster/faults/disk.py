"""A disk that fails on command, for any program: it is an ordinary directory.

::

    with FaultyDisk(tmp_path / "disk", seed=7) as disk:
        start_program(disk.path)
        disk.power_cut(torn=True)          # unsynced writes are gone, some of them in part
        start_program(disk.path)
"""

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from holdfast.demo.network.control import FaultProcess


@dataclass(frozen=True, slots=True)
class CutReport:
    """What a power cut did to changes that were not synced: sectors of files, names in directories."""

    sectors_kept: int
    sectors_lost: int
    names_kept: int
    names_lost: int


class FaultyDisk:
    """A FUSE file system, empty at first; *seed* decides what tears. A command has taken effect when it
    returns."""

    def __init__(self, path: Path, *, seed: int) -> None:
        self.path = path
        self._seed = seed

    def __enter__(self) -> "FaultyDisk":
        self.path.mkdir()
        self._process = FaultProcess(
            "faults.disk_process", str(self.path), str(self._seed), bare_path=str(Path(__file__).parents[1])
        )
        try:
            self.power_on()
        except BaseException:
            self._process.close()
            raise
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.close()

    def power_cut(self, *, torn: bool = False) -> CutReport:
        """Power off and on again."""
        self.power_off()
        return self.power_on(torn=torn)

    def power_off(self) -> None:
        """Fail every call into the disk from now on (ENOTCONN), permanently for processes that have files
        open.

        Syncs that were reported done before are durable; a call in flight ends in an error.
        """
        self._process.call("power_off")

    def power_off_after(self, changes: int) -> None:
        """Let the power fail by itself after that many more changes (write, sync, create, rename, ...)."""
        self._process.call("power_off_after", changes=changes)

    def is_on(self) -> bool:
        return bool(self._process.call("is_on"))

    def power_on(self, *, torn: bool = False) -> CutReport:
        """Come back with what was synced and, if *torn*, with a random part of what was not.

        Torn, any unsynced 512-byte sector may have been written or not, and unsynced changes of a directory
        are there up to a random one.
        """
        return CutReport(**self._process.call("power_on", torn=torn))

    def fail_syncs(self, count: int = 1, *, after: int = 0) -> None:
        """Let *count* syncs fail with EIO, once *after* more have succeeded.

        As on Linux, a file's data that such a sync should have written stays readable, counts as clean, and
        is not written by any later sync.
        """
        self._process.call("set_syncs", fail_count=count, fail_after=after)

    def fail_every_sync(self) -> None:
        self._process.call("set_syncs", fail_count=-1, fail_after=0)

    def hang_syncs(self) -> None:
        """Let syncs hang until :meth:`resume_syncs`; a process inside one cannot even be killed."""
        self._process.call("set_syncs", hanging=True)

    def resume_syncs(self) -> None:
        self._process.call("set_syncs", hanging=False)

    def ignore_syncs(self, ignored: bool = True) -> None:
        """Let the disk lie: syncs succeed and make nothing durable."""
        self._process.call("set_syncs", ignored=ignored)

    def fill_up(self, *, free_bytes: int = 0) -> None:
        """Let files grow by that much in total; then writes are short or fail with ENOSPC.

        Overwriting needs no room.
        """
        self._process.call("set_capacity", free_bytes=free_bytes)

    def free_up(self) -> None:
        self._process.call("set_capacity", free_bytes=None)

    def flip_bits(self, path: str | Path, offset: int, mask: int = 1) -> None:
        """Flip the bits of *mask* in one byte of a file; *path* is relative to the disk or below it."""
        self._process.call("flip", path=self._relative(path), offset=offset, mask=mask)

    def spoil_sector(self, path: str | Path, offset: int) -> None:
        """Let reading the sector at *offset* fail with EIO until it is written again."""
        self._process.call("spoil", path=self._relative(path), offset=offset)

    def counters(self) -> dict[str, int]:
        """Return ``writes``, ``written_bytes``, ``syncs``, ``directory_syncs``, ``failed_syncs`` since the
        start."""
        return dict(self._process.call("counters"))

    def _relative(self, path: str | Path) -> str:
        return str(Path(path).relative_to(self.path) if Path(path).is_absolute() else path)
