"""The kernel's FUSE protocol: the numbers and layouts of ``linux/fuse.h`` that a small file system needs.

We read requests from ``/dev/fuse``: an :data:`IN_HEADER`, a fixed part by opcode, then names or data. Each is
answered by an :data:`OUT_HEADER` with the request's number and a negative errno or the answer's own part.
Integers are in the machine's byte order; a file is known by its node id, which we take from the volume.
"""

import stat
from enum import IntEnum
from struct import Struct

from .volume import File, Inode

MAJOR, MINOR = 7, 31
"""The dialect we speak; newer kernels step down to it."""

MAX_WRITE_BYTES = 1 << 20
REQUEST_BYTES_MAX = MAX_WRITE_BYTES + 4096
"""The kernel demands a buffer for the largest write and its headers."""


class Op(IntEnum):
    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    READLINK = 5
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    FSYNCDIR = 30
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42
    FALLOCATE = 43
    RENAME2 = 45


NEVER_ANSWERED = frozenset({Op.FORGET, Op.BATCH_FORGET, Op.INTERRUPT})

IN_HEADER = Struct("=IIQQIIII")
"""length, opcode, request number, node id, uid, gid, pid, extensions"""

OUT_HEADER = Struct("=IiQ")
"""length, negative errno or 0, request number"""

INIT_IN = Struct("=IIII")
"""major, minor, read-ahead, flags"""

INIT_OUT = Struct("=IIIIHHIIHHI28x")
"""major, minor, read-ahead, flags, background, congestion, max write, time grain, max pages, -, flags2"""

INIT_BIG_WRITES = 1 << 5
INIT_MAX_PAGES = 1 << 22
INIT_EXT = 1 << 30
INIT2_DIRECT_IO_ALLOW_MMAP = 1 << (36 - 32)
"""Shared mappings of files that bypass the page cache: SQLite's WAL index is one. Older kernels ignore it."""

ATTR = Struct("=6Q10I")
"""number, size, blocks, three times; their nanoseconds, mode, links, uid, gid, rdev, block size, flags"""

ENTRY_OUT = Struct("=QQQQII")
"""node id, generation, seconds for which name and attributes are valid, and their nanoseconds; then ATTR"""

ATTR_OUT = Struct("=QII")
"""seconds for which the attributes are valid, nanoseconds, padding; then ATTR"""

SETATTR_IN = Struct("=IIQQQQQQIIIIIIII")
"""which fields, -, handle, size, lock owner, three times, their nanoseconds, mode, -, uid, gid, -"""

SET_MODE, SET_UID, SET_GID, SET_SIZE = 1 << 0, 1 << 1, 1 << 2, 1 << 3
SET_ATIME, SET_MTIME, SET_ATIME_NOW, SET_MTIME_NOW = 1 << 4, 1 << 5, 1 << 7, 1 << 8

MKNOD_IN = Struct("=IIII")
"""mode, rdev, umask, -; then the name"""

MKDIR_IN = Struct("=II")
"""mode, umask; then the name"""

CREATE_IN = Struct("=IIII")
"""open flags, mode, umask, -; then the name"""

RENAME_IN = Struct("=Q")
"""the new directory; then both names"""

RENAME2_IN = Struct("=QII")
"""the new directory, flags, -; then both names"""

RENAME_NOREPLACE = 1

LINK_IN = Struct("=Q")
"""the node to link; then the name"""

OPEN_OUT = Struct("=QIi")
"""handle, FOPEN flags, -"""

FOPEN_DIRECT_IO = 1
"""Every read and write comes to us: no page of the kernel outlives a power cut or hides a flipped bit."""

READ_IN = Struct("=QQIIQII")
WRITE_IN = Struct("=QQIIQII")
"""handle, offset, size, flags, lock owner, flags of the open file, -; then the data"""

WRITE_OUT = Struct("=II")
"""bytes written, -"""

FALLOCATE_IN = Struct("=QQQII")
"""handle, offset, length, mode, -"""

STATFS_OUT = Struct("=5Q4I24x")
"""blocks, free, available, files, free files, block size, longest name, fragment size, -"""

DIRENT = Struct("=QQII")
"""number, where to go on, length of the name, type; then the name, padded to 8 bytes"""

BLOCK_BYTES = 512
VALID_S = 3600
"""Only the kernel changes the volume, and a power cut ends in a new mount: caching names is safe."""

_SECOND_NS = 1_000_000_000


def attributes(inode: Inode) -> bytes:
    if isinstance(inode, File):
        size = len(inode.content.data)
    else:
        size = len(inode.target)
    times = [divmod(ns, _SECOND_NS) for ns in (inode.accessed_ns, inode.modified_ns, inode.changed_ns)]
    return ATTR.pack(
        inode.number,
        size,
        -(-size // BLOCK_BYTES),
        *(seconds for seconds, _ in times),
        *(nanoseconds for _, nanoseconds in times),
        inode.mode,
        max(0, inode.links),
        inode.uid,
        inode.gid,
        inode.rdev,
        BLOCK_BYTES,
        0,
    )


def entry(inode: Inode) -> bytes:
    return ENTRY_OUT.pack(inode.number, 0, VALID_S, VALID_S, 0, 0) + attributes(inode)


def attribute_answer(inode: Inode) -> bytes:
    return ATTR_OUT.pack(VALID_S, 0, 0) + attributes(inode)


def directory_entry(name: bytes, inode: Inode, next_offset: int) -> bytes:
    length = DIRENT.size + len(name)
    packed = DIRENT.pack(inode.number, next_offset, len(name), stat.S_IFMT(inode.mode) >> 12) + name
    return packed.ljust(-(-length // 8) * 8, b"\0")


def names(body: memoryview) -> list[bytes]:
    """The NUL-terminated names at the end of a request."""
    return bytes(body).split(b"\0")[:-1]
