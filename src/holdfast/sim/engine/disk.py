"""The simulated disk of one machine: it outlives processes, and it can fail in every known way."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import log
from typing import TYPE_CHECKING, NoReturn

from holdfast.model.errors import DiskFailed, EndsProcess, NoSpace
from holdfast.model.ports import Token
from holdfast.sim.engine.files import SECTOR, SimDirectory, SimFile, Turn, Turns
from holdfast.sim.engine.options import DiskOptions
from holdfast.storage.free_space import FreeSpace

if TYPE_CHECKING:
    from holdfast.sim.engine.node import Life, SimNode


Image = dict[str, SimDirectory]
"""The content of a disk: its directories by name."""


class Crash(EndsProcess):
    """Raised inside a disk operation in which the process ends; it unwinds the dead process's calls."""


class ProcessKilled(Crash):
    """Raised when the process is killed inside a disk operation."""


class PowerCut(Crash):
    """Raised when the machine loses power inside a disk operation."""


class SimDisk:
    """The disk of one machine. Faults set its public fields; processes use it through :meth:`open`."""

    def __init__(self, node: "SimNode", rng: random.Random, options: DiskOptions) -> None:
        self._node = node
        self._rng = rng
        self._options = options
        self._image: Image = {}
        self.sound: tuple[str, ...] = ()
        """Directories in which nothing rots."""
        self._crash_in: tuple[int, bool, Callable[[], None]] | None = None
        self._elapsed_ns = 0
        # Syncs in progress, in the order they were requested; a power cut forgets them.
        self._syncs: dict[int, tuple[SimFile | SimDirectory, int, DiskHandle, Token, int]] = {}
        self._last_sync = 0
        self.rot: list[tuple[str, int]] = []
        """Every silent corruption so far: the name of the damaged file, and the offset in it."""
        self.bytes_max: int | None = None
        """The capacity in bytes; None means unlimited."""
        self.slow_factor = 1
        """The factor by which syncs are slowed down."""
        self.hung_until_ns = 0
        """No sync completes before this time."""
        self.failing_syncs = 0
        """The number of coming syncs that fail."""
        self.failing_reads = 0
        self.failing_writes = 0
        self.lies = False
        """Whether syncs report success and do nothing. Holdfast cannot survive this; it serves to test the
        checkers."""

    def open(
        self, directory: str, life: "Life", on_synced: Callable[[Token, bool], None] | None
    ) -> "DiskHandle":
        """Return a process's handle on one directory, which is created when absent."""
        return DiskHandle(self, self._image.setdefault(directory, SimDirectory()), life, on_synced)

    def heal(self) -> None:
        """End every lasting fault; damage already done remains."""
        self.bytes_max = None
        self.slow_factor = 1
        self.hung_until_ns = 0
        self.failing_syncs = self.failing_reads = self.failing_writes = 0
        self.lies = False
        self._crash_in = None
        for directory in self._image.values():
            directory.synced_at = 0
            for file in directory.entries.values():
                file.synced_at = 0
        for number in self._syncs:
            self._node.world.after(self._options.sync_min_ns, self._finish, number)

    def oldest_sync_ns(self, life: "Life") -> int:
        """Return how long the oldest unfinished sync of that process has run."""
        began = (began_ns for _, _, asker, _, began_ns in self._syncs.values() if asker.is_of(life))
        return self._node.world.now - next(began, self._node.world.now)

    # --- what happens to the disk from outside

    def power_cut(self) -> None:
        """Lose some or all of what was not synced."""
        self._syncs.clear()
        self._crash_in = None
        for name in sorted(self._image):
            self._image[name].power_cut(self._rng)

    def copy(self) -> Image:
        """Return a copy of everything on the disk, to be restored later on this or another machine."""
        return {name: directory.copy() for name, directory in self._image.items()}

    def replace(self, image: Image) -> None:
        """Replace the disk's content by a copy of *image*; the process that used the disk must have ended."""
        self._syncs.clear()
        self._image = {name: directory.copy() for name, directory in image.items()}

    def wipe(self) -> None:
        self.replace({})

    def flip_bit(self, where: float, bit: int) -> bool:
        """Flip one bit at the fraction *where* (0 to 1) of all bytes in use.

        Return False when there are none.
        """
        found = self._locate(where)
        if found is None:
            return False
        name, file, offset = found
        file.corrupt(offset, bytes([file.durable[offset] ^ (1 << bit)]))
        self.rot.append((name, offset))
        return True

    def zero_sector(self, where: float) -> bool:
        """Overwrite with zeros the sector at the fraction *where* of all bytes in use."""
        found = self._locate(where)
        if found is None:
            return False
        name, file, offset = found
        start = offset - offset % SECTOR
        file.corrupt(start, bytes(min(SECTOR, len(file.durable) - start)))
        self.rot.append((name, start))
        return True

    def crash_after(self, operations: int, *, power: bool, then: Callable[[], None] = lambda: None) -> None:
        """Kill the process or cut the power in the *operations*-th write or sync from now.

        *then* is called after that.
        """
        self._crash_in = (operations, power, then)

    @contextmanager
    def untroubled(self) -> Iterator[None]:
        """Suspend failures and a scheduled crash while the simulation itself uses the disk.

        They are meant for the simulated process, not for a simulation that reads or damages the disk.
        """
        meant = self.failing_reads, self.failing_writes, self.bytes_max, self._crash_in
        self.failing_reads = self.failing_writes = 0
        self.bytes_max = self._crash_in = None
        try:
            yield
        finally:
            self.failing_reads, self.failing_writes, self.bytes_max, self._crash_in = meant

    def used(self) -> int:
        return sum(
            len(file.content) for directory in self._image.values() for file in directory.entries.values()
        )

    def space(self) -> FreeSpace | None:
        """The space on this disk; None while it has no end."""
        if self.bytes_max is None:
            return None
        return FreeSpace(free=max(0, self.bytes_max - self.used()), total=self.bytes_max)

    def durable(self, directory: str, name: str) -> bytes:
        """Return what a power cut would leave of a file for certain; nothing when there is no such file."""
        file = self._image[directory].entries.get(name)
        return bytes(file.durable) if file is not None else b""

    def take_elapsed(self) -> int:
        """Return the simulated time that synchronous syncs have taken since the last call."""
        elapsed, self._elapsed_ns = self._elapsed_ns, 0
        return elapsed

    # --- used by the handles

    def make_room(self, file: SimFile | None, end: int) -> None:
        """Raise unless *file* may be written up to *end*."""
        if self.failing_writes:
            self.failing_writes -= 1
            raise DiskFailed("write failed: input/output error")
        if self.bytes_max is not None:
            grown = end - (len(file.content) if file is not None else 0)
            if grown > 0 and self.used() + grown > self.bytes_max:
                raise NoSpace(f"no space: {self.used()} of {self.bytes_max} bytes used, {grown} more wanted")

    def count_operation(self) -> None:
        """Count a write or sync; raises when a scheduled crash is due."""
        if self._crash_in is not None:
            left, power, then = self._crash_in
            if left > 1:
                self._crash_in = (left - 1, power, then)
            else:
                self._crash(power, then)

    def _crash(self, power: bool, then: Callable[[], None]) -> NoReturn:
        self._crash_in = None
        if power:
            self._node.power_cut()
        else:
            self._node.kill()
        then()
        raise PowerCut if power else ProcessKilled

    def latency(self) -> int:
        options = self._options
        exponential = -log(1.0 - self._rng.random())
        return (options.sync_min_ns + int(exponential * options.sync_mean_ns)) * self.slow_factor

    def begin_sync(self, holder: SimFile | SimDirectory, asker: "DiskHandle", token: Token) -> None:
        """Begin to sync *holder* as it is now.

        *asker* is told when the sync ends; syncs of one holder end in order.
        """
        world = self._node.world
        holder.synced_at = max(holder.synced_at, world.now + self.latency())
        self._last_sync = number = self._last_sync + 1
        self._syncs[number] = (holder, holder.mark(), asker, token, world.now)
        world.at(holder.synced_at, self._finish, number)
        self.count_operation()

    def _finish(self, number: int) -> None:
        if number not in self._syncs:
            return
        world = self._node.world
        if self.hung_until_ns > world.now:
            world.at(self.hung_until_ns, self._finish, number)
            return
        holder, mark, asker, token, _ = self._syncs.pop(number)
        asker.answer(token, self.settle(holder, mark))

    def settle(self, holder: SimFile | SimDirectory, mark: int) -> bool:
        """End a sync of *holder* up to *mark*; return False when it failed."""
        if self.failing_syncs:
            self.failing_syncs -= 1
            holder.lose(mark, self._rng)
            return False
        if not self.lies:
            holder.cover(mark)
        return True

    def wait(self) -> None:
        """Account for the time that a synchronous sync takes."""
        hung = max(0, self.hung_until_ns - self._node.world.now)
        self._elapsed_ns += max(self.latency(), hung)

    def tell(self, life: "Life", on_synced: Callable[..., None], token: Token, ok: bool) -> None:
        self._node.run(life, on_synced, token, ok)

    def fail_read(self) -> None:
        if self.failing_reads:
            self.failing_reads -= 1
            raise DiskFailed("read failed: input/output error")

    def coin(self) -> bool:
        return self._rng.random() < 0.5

    def _locate(self, where: float) -> tuple[str, SimFile, int] | None:
        """Find the durable byte at the fraction *where*.

        Trailing zeros of files (reserved space) do not count.
        """
        spans = [
            (name, file, len(file.durable.rstrip(b"\0")))
            for kept, directory in sorted(self._image.items())
            if kept not in self.sound
            for name, file in sorted(directory.entries.items())
        ]
        offset = int(where * sum(length for _, _, length in spans))
        for name, file, length in spans:
            if offset < length:
                return name, file, offset
            offset -= length
        return None


class DiskHandle:
    """The Disk port of one process on one directory, plus synchronous operations for a database on it.

    Once the process has ended, the handle does nothing: writes vanish and reads find nothing.
    """

    __slots__ = ("__weakref__", "_directory", "_disk", "_life", "_on_synced", "_turns")

    def __init__(
        self,
        disk: SimDisk,
        directory: SimDirectory,
        life: "Life",
        on_synced: Callable[[Token, bool], None] | None,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._life = life
        self._on_synced = on_synced
        self._turns = Turns(self)

    @property
    def is_stale(self) -> bool:
        return self._life.over

    def is_of(self, life: "Life") -> bool:
        return self._life is life

    def list(self) -> list[str]:
        return [] if self._life.over else sorted(self._directory.entries)

    def exists(self, name: str) -> bool:
        return not self._life.over and name in self._directory.entries

    def size(self, name: str) -> int:
        return 0 if self._life.over else len(self._file(name).content)

    def read(self, name: str, offset: int, length: int) -> bytes:
        if self._life.over:
            return b""
        self._disk.fail_read()
        found = bytes(self._file(name).content[offset : offset + length])
        return self._turns.overlaid(name, offset, found)

    def allocate(self, name: str, size: int) -> None:
        if self._life.over:
            return
        self._disk.make_room(None, size)
        self._directory.create(name).resize(size)
        self._disk.count_operation()

    def append(self, name: str, data: bytes) -> None:
        if self._life.over:
            return
        file = self._directory.entries.get(name)
        end = len(file.content) if file is not None else 0
        self._disk.make_room(file, end + len(data))
        if file is None:
            file = self._directory.create(name)
        file.write(end, bytes(data))
        self._disk.count_operation()

    def write_at(self, name: str, offset: int, data: bytes) -> None:
        """Write at *offset*, creating the file when absent."""
        if self._life.over:
            return
        file = self._directory.entries.get(name)
        self._disk.make_room(file, offset + len(data))
        if file is None:
            file = self._directory.create(name)
        file.write(offset, bytes(data))
        self._disk.count_operation()

    def write_durably(self, name: str, offset: int, data: bytes, then: Callable[[bool], None]) -> None:
        if not self._life.over:
            self._turns.add(Turn(name, offset, bytes(data), then))

    def truncate(self, name: str, size: int) -> None:
        if self._life.over:
            return
        file = self._file(name)
        self._disk.make_room(file, size)
        file.resize(size)
        self._disk.count_operation()

    def rename(self, old: str, new: str) -> None:
        if self._life.over:
            return
        self._file(old)
        self._directory.rename(old, new)
        self._disk.count_operation()

    def remove(self, name: str) -> None:
        if self._life.over:
            return
        self._file(name)
        self._directory.remove(name)
        self._disk.count_operation()

    def sync(self, name: str, token: Token) -> None:
        if not self._life.over:
            self._disk.begin_sync(self._file(name), self, token)

    def sync_dir(self, token: Token) -> None:
        if not self._life.over:
            self._disk.begin_sync(self._directory, self, token)

    def sync_now(self, name: str) -> bool:
        """Sync a file and return at once; False means it failed.

        The time taken goes to ``SimDisk.take_elapsed``.

        A crash during this call may come before or after the data has reached the disk.
        """
        if self._life.over:
            return False
        file = self._file(name)
        early = self._disk.coin()
        if early:
            self._disk.count_operation()
        self._disk.wait()
        ok = self._disk.settle(file, file.mark())
        if not early:
            self._disk.count_operation()
        return ok

    def sync_dir_now(self) -> None:
        """Make every create, rename and remove so far durable. This never fails."""
        if self._life.over:
            return
        self._disk.count_operation()
        self._disk.wait()
        if not self._disk.lies:
            self._directory.cover(self._directory.mark())

    def answer(self, token: Token, ok: bool) -> None:
        """Report the end of a sync that this handle requested."""
        if isinstance(token, Turn):
            self._disk.tell(self._life, self._turns.on_synced, token, ok)
        elif self._on_synced is not None:
            self._disk.tell(self._life, self._on_synced, token, ok)

    def _file(self, name: str) -> SimFile:
        file = self._directory.entries.get(name)
        if file is None:
            raise DiskFailed(f"{name}: no such file")
        return file
