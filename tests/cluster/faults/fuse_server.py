"""Answers the kernel's requests from a :class:`Volume`, applying the faults that concern syncs."""

import contextlib
import errno
import os
import stat
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from . import fuse_wire as wire
from .fuse_wire import Op
from .volume import Directory, Volume


class Held(Exception):
    """Raised when a request is not to be answered now."""


class PowerGone(Exception):
    """Raised when the power fails just before a request, as it was told to."""


@dataclass
class SyncFaults:
    """What happens to syncs of files and directories."""

    fail_after: int = 0
    """The number of syncs that still succeed before failures begin."""
    fail_count: int = 0
    """The number of syncs that then fail with EIO; negative: all of them."""
    ignored: bool = False
    """Whether the disk lies: it reports "synced" and keeps nothing."""
    hanging: bool = False
    """Whether syncs hang, neither succeeding nor failing, until told to."""

    def next_fails(self) -> bool:
        if self.fail_count == 0:
            return False
        if self.fail_after > 0:
            self.fail_after -= 1
            return False
        self.fail_count -= 1
        return True


@dataclass(frozen=True, slots=True)
class Request:
    op: int
    number: int
    node: int
    uid: int
    gid: int
    body: memoryview


Handler = Callable[[Request], bytes]

CHANGES = frozenset(
    {Op.SETATTR, Op.SYMLINK, Op.MKNOD, Op.MKDIR, Op.UNLINK, Op.RMDIR, Op.RENAME, Op.RENAME2, Op.LINK}
    | {Op.CREATE, Op.WRITE, Op.FALLOCATE, Op.FSYNC, Op.FSYNCDIR}
)
"""The requests between which it matters when the power fails."""


class FuseServer:
    """One mount of a volume: call :meth:`serve_one` for each readable request on the device."""

    def __init__(self, device: int, volume: Volume, faults: SyncFaults, counters: Counter[str]) -> None:
        self._device = device
        self._volume = volume
        self._faults = faults
        self._counters = counters
        self._buffer = memoryview(bytearray(wire.REQUEST_BYTES_MAX))
        self._held: list[tuple[int, int, int, bytes]] = []
        self.changes_left: int | None = None
        """The power fails after this many more changes; None means never."""
        self._handlers: dict[int, Handler] = {
            Op.INIT: self._init,
            Op.LOOKUP: self._lookup,
            Op.GETATTR: self._getattr,
            Op.SETATTR: self._setattr,
            Op.READLINK: self._readlink,
            Op.SYMLINK: self._symlink,
            Op.MKNOD: self._mknod,
            Op.MKDIR: self._mkdir,
            Op.UNLINK: self._unlink,
            Op.RMDIR: self._rmdir,
            Op.RENAME: self._rename,
            Op.RENAME2: self._rename2,
            Op.LINK: self._link,
            Op.OPEN: self._open,
            Op.CREATE: self._create,
            Op.READ: self._read,
            Op.WRITE: self._write,
            Op.FALLOCATE: self._fallocate,
            Op.RELEASE: self._release,
            Op.FSYNC: self._fsync,
            Op.FSYNCDIR: self._fsyncdir,
            Op.OPENDIR: self._opendir,
            Op.READDIR: self._readdir,
            Op.RELEASEDIR: self._nothing,
            Op.DESTROY: self._nothing,
            Op.STATFS: self._statfs,
        }

    def serve_one(self) -> None:
        """Read one request and answer it. Raises ``PowerGone`` instead when the power is to fail at this
        request."""
        request = self._next_request()
        if request is None or request.op in wire.NEVER_ANSWERED:
            return
        if request.op in CHANGES:
            self._count_down()
        handler = self._handlers.get(request.op)
        if (
            handler is None
        ):  # the kernel then does without (xattr, flush, access, lseek, ...) or locally (locks)
            self._answer(request.number, error=errno.ENOSYS)
            return
        try:
            self._answer(request.number, handler(request))
        except OSError as error:
            self._answer(request.number, error=error.errno or errno.EIO)
        except Held:
            pass

    def release_held_syncs(self) -> None:
        """Do the hanging syncs, and answer them."""
        held, self._held = self._held, []
        for op, number, node, payload in held:
            try:
                self._sync(node, of_directory=op == Op.FSYNCDIR)
                self._answer(number, payload)
            except OSError as error:
                self._answer(number, error=error.errno or errno.EIO)

    def _next_request(self) -> Request | None:
        try:
            length = os.readv(self._device, [self._buffer])
        except (BlockingIOError, FileNotFoundError):  # ENOENT: the caller was interrupted before we read it
            return None
        _, op, number, node, uid, gid, _, _ = wire.IN_HEADER.unpack_from(self._buffer)
        return Request(op, number, node, uid, gid, self._buffer[wire.IN_HEADER.size : length])

    def _answer(self, number: int, payload: bytes = b"", *, error: int = 0) -> None:
        header = wire.OUT_HEADER.pack(wire.OUT_HEADER.size + len(payload), -error, number)
        with contextlib.suppress(FileNotFoundError):  # the caller is gone and no longer waits
            os.writev(self._device, [header, payload])

    def _count_down(self) -> None:
        if self.changes_left is None:
            return
        if self.changes_left == 0:
            raise PowerGone
        self.changes_left -= 1

    # -- the mount -------------------------------------------------------------------------------

    def _init(self, request: Request) -> bytes:
        _, _, read_ahead, offered = wire.INIT_IN.unpack_from(request.body)
        wanted = wire.INIT_BIG_WRITES | wire.INIT_MAX_PAGES | wire.INIT_EXT
        return wire.INIT_OUT.pack(
            wire.MAJOR,
            wire.MINOR,
            read_ahead,
            offered & wanted,
            0,
            0,
            wire.MAX_WRITE_BYTES,
            1,
            wire.MAX_WRITE_BYTES // os.sysconf("SC_PAGE_SIZE"),
            0,
            wire.INIT2_DIRECT_IO_ALLOW_MMAP if offered & wire.INIT_EXT else 0,
        )

    def _statfs(self, request: Request) -> bytes:
        total = self._volume.capacity or 1 << 40
        blocks, used = total // wire.BLOCK_BYTES, -(-self._volume.used_bytes() // wire.BLOCK_BYTES)
        free = max(0, blocks - used)
        return wire.STATFS_OUT.pack(
            blocks, free, free, 1 << 20, 1 << 20, wire.BLOCK_BYTES, 255, wire.BLOCK_BYTES, 0
        )

    def _nothing(self, request: Request) -> bytes:
        return b""

    # -- names -----------------------------------------------------------------------------------

    def _lookup(self, request: Request) -> bytes:
        (name,) = wire.names(request.body)
        return wire.entry(self._volume.lookup(request.node, name))

    def _mknod(self, request: Request) -> bytes:
        mode, rdev, _, _ = wire.MKNOD_IN.unpack_from(request.body)
        (name,) = wire.names(request.body[wire.MKNOD_IN.size :])
        return wire.entry(
            self._volume.make(request.node, name, mode, uid=request.uid, gid=request.gid, rdev=rdev)
        )

    def _mkdir(self, request: Request) -> bytes:
        mode, _ = wire.MKDIR_IN.unpack_from(request.body)
        (name,) = wire.names(request.body[wire.MKDIR_IN.size :])
        mode = stat.S_IFDIR | stat.S_IMODE(mode)
        return wire.entry(self._volume.make(request.node, name, mode, uid=request.uid, gid=request.gid))

    def _symlink(self, request: Request) -> bytes:
        name, target = wire.names(request.body)
        mode = stat.S_IFLNK | 0o777
        made = self._volume.make(request.node, name, mode, uid=request.uid, gid=request.gid, target=target)
        return wire.entry(made)

    def _readlink(self, request: Request) -> bytes:
        return self._volume.inode(request.node).target

    def _link(self, request: Request) -> bytes:
        (node,) = wire.LINK_IN.unpack_from(request.body)
        (name,) = wire.names(request.body[wire.LINK_IN.size :])
        return wire.entry(self._volume.link(node, request.node, name))

    def _unlink(self, request: Request) -> bytes:
        (name,) = wire.names(request.body)
        self._volume.unlink(request.node, name)
        return b""

    def _rmdir(self, request: Request) -> bytes:
        (name,) = wire.names(request.body)
        self._volume.rmdir(request.node, name)
        return b""

    def _rename(self, request: Request) -> bytes:
        (new_parent,) = wire.RENAME_IN.unpack_from(request.body)
        old, new = wire.names(request.body[wire.RENAME_IN.size :])
        self._volume.rename(request.node, old, new_parent, new)
        return b""

    def _rename2(self, request: Request) -> bytes:
        new_parent, flags, _ = wire.RENAME2_IN.unpack_from(request.body)
        if flags & ~wire.RENAME_NOREPLACE:
            raise OSError(errno.EINVAL, "neither exchange nor whiteout")
        old, new = wire.names(request.body[wire.RENAME2_IN.size :])
        self._volume.rename(request.node, old, new_parent, new, replace=not flags & wire.RENAME_NOREPLACE)
        return b""

    def _opendir(self, request: Request) -> bytes:
        self._volume.directory(request.node)
        return wire.OPEN_OUT.pack(0, 0, 0)

    def _readdir(self, request: Request) -> bytes:
        _, offset, size, *_ = wire.READ_IN.unpack_from(request.body)
        directory = self._volume.directory(request.node)
        listing = b""
        for position, name in enumerate(sorted(directory.names)[offset:], start=offset + 1):
            packed = wire.directory_entry(name, self._volume.inode(directory.names[name]), position)
            if len(listing) + len(packed) > size:
                break
            listing += packed
        return listing

    # -- attributes ------------------------------------------------------------------------------

    def _getattr(self, request: Request) -> bytes:
        return wire.attribute_answer(self._volume.inode(request.node))

    def _setattr(self, request: Request) -> bytes:
        fields, _, _, size, _, atime, mtime, _, atime_ns, mtime_ns, _, mode, _, uid, gid, _ = (
            wire.SETATTR_IN.unpack_from(request.body)
        )
        if fields & wire.SET_SIZE:
            self._volume.resize(request.node, size)
        inode = self._volume.inode(request.node)
        inode.changed_ns = time.time_ns()
        if fields & wire.SET_MODE:
            inode.mode = mode
        if fields & wire.SET_UID:
            inode.uid = uid
        if fields & wire.SET_GID:
            inode.gid = gid
        if fields & wire.SET_ATIME:
            inode.accessed_ns = atime * 1_000_000_000 + atime_ns
        if fields & wire.SET_MTIME:
            inode.modified_ns = mtime * 1_000_000_000 + mtime_ns
        if fields & wire.SET_ATIME_NOW:
            inode.accessed_ns = time.time_ns()
        if fields & wire.SET_MTIME_NOW:
            inode.modified_ns = time.time_ns()
        return wire.attribute_answer(inode)

    # -- bytes -----------------------------------------------------------------------------------

    def _open(self, request: Request) -> bytes:
        self._volume.file(request.node).opened += 1
        return wire.OPEN_OUT.pack(0, wire.FOPEN_DIRECT_IO, 0)

    def _create(self, request: Request) -> bytes:
        _, mode, _, _ = wire.CREATE_IN.unpack_from(request.body)
        (name,) = wire.names(request.body[wire.CREATE_IN.size :])
        made = self._volume.make(request.node, name, mode, uid=request.uid, gid=request.gid)
        made.opened += 1
        return wire.entry(made) + wire.OPEN_OUT.pack(0, wire.FOPEN_DIRECT_IO, 0)

    def _release(self, request: Request) -> bytes:
        inode = self._volume.inode(request.node)
        inode.opened -= 1
        if inode.links <= 0:
            self._volume.discard_removed()
        return b""

    def _read(self, request: Request) -> bytes:
        _, offset, size, *_ = wire.READ_IN.unpack_from(request.body)
        return self._volume.file(request.node).content.read(offset, size)

    def _write(self, request: Request) -> bytes:
        _, offset, size, _, _, open_flags, _ = wire.WRITE_IN.unpack_from(request.body)
        payload = request.body[wire.WRITE_IN.size : wire.WRITE_IN.size + size]
        written = self._volume.write(request.node, offset, payload)
        self._counters["writes"] += 1
        self._counters["written_bytes"] += written
        answer = wire.WRITE_OUT.pack(written, 0)
        if open_flags & os.O_DSYNC:
            # Sync the file, or this write alone (RWF_DSYNC). The power may fail between the two steps.
            self._count_down()
            self._sync_or_hold(request, answer)
        return answer

    def _fallocate(self, request: Request) -> bytes:
        _, offset, length, mode, _ = wire.FALLOCATE_IN.unpack_from(request.body)
        if mode:  # keeping the size or punching holes: not needed here, and pretending would be wrong
            raise OSError(errno.EOPNOTSUPP, "only plain allocation")
        self._volume.allocate(request.node, offset, length)
        return b""

    # -- durability ------------------------------------------------------------------------------

    def _fsync(self, request: Request) -> bytes:
        self._sync_or_hold(request)
        return b""

    def _fsyncdir(self, request: Request) -> bytes:
        self._sync_or_hold(request)
        return b""

    def _sync_or_hold(self, request: Request, answer: bytes = b"") -> None:
        """Sync what the request is about, or keep its *answer* until syncs no longer hang."""
        if self._faults.hanging:
            self._held.append((request.op, request.number, request.node, answer))
            raise Held
        self._sync(request.node, of_directory=request.op == Op.FSYNCDIR)

    def _sync(self, node: int, *, of_directory: bool) -> None:
        self._counters["directory_syncs" if of_directory else "syncs"] += 1
        fails = self._faults.next_fails()
        if fails:
            self._counters["failed_syncs"] += 1
        if of_directory:
            self._sync_directory(self._volume.directory(node), fails=fails)
        else:
            self._sync_file(node, fails=fails)
        if fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _sync_file(self, node: int, *, fails: bool) -> None:
        content = self._volume.file(node).content
        if fails:
            content.lose_sync()
        elif not self._faults.ignored:
            content.sync()

    def _sync_directory(self, directory: Directory, *, fails: bool) -> None:
        if not fails and not self._faults.ignored:
            directory.sync()
            self._volume.discard_removed()
