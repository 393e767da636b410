"""The process behind :class:`faults.disk.FaultyDisk`: it mounts the volume, serves the kernel, and obeys the
test.

Usage: ``python -m faults.disk_process CONTROL_FD MOUNT_POINT SEED``
"""

import ctypes
import os
import random
import select
import stat
import sys
from collections import Counter

from control import Commands  # of holdfast.demo.network, on the bare path

from .fuse_server import FuseServer, PowerGone, SyncFaults
from .volume import Volume

_MS_NOSUID, _MS_NODEV, _MS_NOATIME = 1 << 1, 1 << 2, 1 << 10
_MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


class DiskProcess:
    def __init__(self, control_fd: int, mount_point: str, seed: int) -> None:
        self._mount_point = os.fsencode(mount_point)
        self._random = random.Random(seed)
        self._volume = Volume()
        self._faults = SyncFaults()
        self._counters: Counter[str] = Counter()
        self._device: int | None = None  # None while the power is off
        self._server: FuseServer | None = None
        self._commands = Commands(
            control_fd,
            {
                "power_on": self._power_on,
                "power_off": self._power_off,
                "power_off_after": self._power_off_after,
                "is_on": lambda: self._device is not None,
                "set_syncs": self._set_syncs,
                "set_capacity": self._set_capacity,
                "flip": self._flip,
                "spoil": self._spoil,
                "counters": lambda: dict(self._counters),
            },
        )

    def run(self) -> None:
        """Serve until the test closes the socket."""
        try:
            while self._serve():
                pass
        finally:
            self._power_off()

    def _serve(self) -> bool:
        sources: list[Commands | int] = [self._commands]
        if self._device is not None:
            sources.append(self._device)
        ready, _, _ = select.select(sources, [], [])
        if self._commands in ready:
            return self._commands.handle_one()
        assert self._server is not None
        try:
            self._server.serve_one()
        except PowerGone:
            self._power_off()
        return True

    def _power_on(self, *, torn: bool) -> dict[str, int]:
        """Drop what was not synced (*torn*: a random part of it), and mount what is left."""
        if self._device is not None:
            raise RuntimeError("the power is on")
        sectors, names = self._volume.power_cut(self._random if torn else None)
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        _mount(self._mount_point, self._device)
        self._server = FuseServer(self._device, self._volume, self._faults, self._counters)
        return {
            "sectors_kept": sectors.kept,
            "sectors_lost": sectors.lost,
            "names_kept": names.kept,
            "names_lost": names.lost,
        }

    def _power_off(self) -> None:
        """From here on fail every call into the old mount, also for processes that still have its files
        open."""
        if self._device is None:
            return
        # Closing the device aborts the connection, so that unmounting cannot wait for an answer of this
        # process.
        os.close(self._device)
        self._device = self._server = None
        _unmount(self._mount_point)

    def _power_off_after(self, *, changes: int) -> None:
        if self._server is None:
            raise RuntimeError("the power is off")
        self._server.changes_left = changes

    def _set_syncs(self, **faults: int) -> None:
        for name, value in faults.items():
            setattr(self._faults, name, value)
        if self._server is not None and not self._faults.hanging:
            self._server.release_held_syncs()

    def _set_capacity(self, *, free_bytes: int | None) -> None:
        self._volume.capacity = None if free_bytes is None else self._volume.used_bytes() + free_bytes

    def _flip(self, *, path: str, offset: int, mask: int) -> None:
        self._volume.find(path).content.damage(offset, mask)

    def _spoil(self, *, path: str, offset: int) -> None:
        self._volume.find(path).content.spoil(offset)


def _mount(where: bytes, device: int) -> None:
    options = (
        f"fd={device},rootmode={stat.S_IFDIR:o},user_id={os.getuid()},group_id={os.getgid()},allow_other"
    )
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOATIME
    if _libc.mount(b"faulty-disk", where, b"fuse", flags, options.encode()) != 0:
        raise _last_error("mount")


def _unmount(where: bytes) -> None:
    if _libc.umount2(where, _MNT_DETACH) != 0:
        raise _last_error("unmount")


def _last_error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"cannot {what}: {os.strerror(number)}")


if __name__ == "__main__":
    DiskProcess(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])).run()
