"""SQLite on a simulated disk: the real library, with every file operation under the simulator's control.

A process opens its database through a :class:`SimVfs` on its own disk handle. A power cut or kill raised
inside a file operation comes out of the SQLite call that made it. Once the process has ended, the handle is
stale, so nothing that SQLite still does while a dead connection is unwound or collected reaches a disk.
Shared memory is not offered: WAL works in exclusive locking mode only.
"""

import itertools
import random
import weakref
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

import apsw

from holdfast.model.errors import DiskFailed, NoSpace
from holdfast.sim.engine.disk import DiskHandle

SECTOR_BYTES: Final = 4096
UNIX_EPOCH_JULIAN_MS: Final = 210_866_760_000_000
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
_NOT_OURS: Final = frozenset(
    {
        "xDlOpen",
        "xDlSym",
        "xDlClose",
        "xDlError",
        "xGetLastError",
        "xSetSystemCall",
        "xGetSystemCall",
        "xNextSystemCall",
    }
)

_names = itertools.count(1)


class _Nowhere:
    """Stands in for a disk whose world was garbage collected while SQLite still closes a file."""

    is_stale = True

    def exists(self, name: str) -> bool:
        return False

    def size(self, name: str) -> int:
        return 0

    def read(self, name: str, offset: int, length: int) -> bytes:
        return b""

    def write_at(self, name: str, offset: int, data: bytes) -> None:
        return None

    def truncate(self, name: str, size: int) -> None:
        return None

    def remove(self, name: str) -> None:
        return None

    def sync_now(self, name: str) -> bool:
        return True

    def sync_dir_now(self) -> None:
        return None


_NOWHERE: Final = _Nowhere()


class SimVfs(apsw.VFS):
    """The file system of one process, kept as long as the process lives.

    Pass :attr:`name` to ``apsw.Connection``.
    """

    _disk: DiskHandle | _Nowhere = _NOWHERE

    def __init__(self, disk: DiskHandle, *, rng: random.Random, wall: Callable[[], int]) -> None:
        self.name = f"holdfast-sim-{next(_names)}"
        self._disk = disk
        self._rng = rng
        self._wall = wall
        super().__init__(self.name, base=None, exclude=set(_NOT_OURS))
        self._seed_sqlite()

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "SimVfsFile":  # type: ignore[override]  # any object with a file's methods will do
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None:
            raise apsw.CantOpenError("temporary files belong in memory")
        may_create = bool(flags[0] & apsw.SQLITE_OPEN_CREATE)
        if not self._disk.exists(path):
            if not may_create:
                raise apsw.CantOpenError(f"{path}: no such file")
            _translated(self._disk.write_at, path, 0, b"")
        flags[1] = flags[0]
        is_journal = bool(flags[0] & (apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL))
        return SimVfsFile(self._disk, path, syncs_directory=may_create and is_journal)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        if not self._disk.exists(filename):
            if self._disk.is_stale:
                return
            raise apsw.exception_for(apsw.SQLITE_IOERR_DELETE_NOENT)
        _translated(self._disk.remove, filename)
        if syncdir:
            _translated(self._disk.sync_dir_now)

    def xAccess(self, pathname: str, flags: int) -> bool:
        return self._disk.exists(pathname)

    def xFullPathname(self, name: str) -> str:
        return name

    def xRandomness(self, numbytes: int) -> bytes:
        return self._rng.randbytes(numbytes)

    def xSleep(self, microseconds: int) -> int:
        return microseconds

    def xCurrentTime(self) -> float:
        return self.xCurrentTimeInt64() / 86_400_000

    def xCurrentTimeInt64(self) -> int:
        return UNIX_EPOCH_JULIAN_MS + self._wall() // 1_000_000

    def _seed_sqlite(self) -> None:
        """Seed SQLite's own generator (salts of the WAL) from this world's seed, whatever ran before."""
        default = apsw.vfs_names()[0]
        apsw.set_default_vfs(self.name)
        apsw.randomness(0)
        apsw.randomness(1)
        apsw.set_default_vfs(default)


class SimVfsFile:
    """One open file. Locks are always granted, because only one process at a time uses a simulated file.

    The garbage collector cannot see SQLite's reference to this object, so this object must not refer to the
    disk and thereby to the world. Otherwise every world with an unclosed connection would stay in memory, and
    a dead process closes none.
    """

    def __init__(self, disk: DiskHandle | _Nowhere, path: str, *, syncs_directory: bool) -> None:
        self._reach: Callable[[], DiskHandle | _Nowhere | None] = weakref.ref(disk)
        self._path = path
        # SQLite's own file system does the same: the first sync of a journal that this process may have
        # created makes the journal's name durable too.
        self._syncs_directory = syncs_directory

    @property
    def _disk(self) -> DiskHandle | _Nowhere:
        return self._reach() or _NOWHERE

    def xRead(self, amount: int, offset: int) -> bytes:
        return _translated(self._disk.read, self._path, offset, amount)

    def xWrite(self, data: bytes, offset: int) -> None:
        _translated(self._disk.write_at, self._path, offset, data)

    def xTruncate(self, newsize: int) -> None:
        _translated(self._disk.truncate, self._path, newsize)

    def xSync(self, flags: int) -> None:
        if not self._disk.sync_now(self._path) and not self._disk.is_stale:
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)
        if self._syncs_directory:
            self._disk.sync_dir_now()
            self._syncs_directory = False

    def xFileSize(self) -> int:
        return self._disk.size(self._path)

    def xClose(self) -> None:
        return None

    def xLock(self, level: int) -> None:
        return None

    def xUnlock(self, level: int) -> None:
        return None

    def xCheckReservedLock(self) -> bool:
        return False

    def xSectorSize(self) -> int:
        return SECTOR_BYTES

    def xDeviceCharacteristics(self) -> int:
        # A write changes no bytes but its own; SQLite assumes this on Linux, and the simulated disk
        # guarantees it.
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE

    def xFileControl(self, op: int, ptr: int) -> bool:
        return False


def _translated(
    operation: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    """Call *operation*, and turn its failures into SQLite's exceptions."""
    try:
        return operation(*args, **kwargs)
    except NoSpace as error:
        raise apsw.FullError(str(error)) from error
    except DiskFailed as error:
        raise apsw.IOError(str(error)) from error
