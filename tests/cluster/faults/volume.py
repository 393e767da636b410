"""A complete file system in memory that knows which part of it is durable. It uses neither FUSE nor sockets.

It follows the strictest rules that POSIX allows, since Holdfast must work under any of them:

* a file's bytes and size are durable after a sync of that file, and only then;
* a name created, renamed or removed is durable after a sync of its *directory*, and only then (D3);
* at a power cut unsynced bytes are lost whole or torn by sector; unsynced changes of a directory are lost
  from some point on, as in a journal.
"""

import errno
import os
import random
import stat
import time
from dataclasses import dataclass, field

from .content import Content, Survival

ROOT = 1
"""The number of the root directory, as FUSE requires it."""

Names = dict[bytes, int]


@dataclass(slots=True)
class Inode:
    """What every kind of file has. Sockets, pipes and symbolic links (*target*) have nothing more."""

    number: int
    mode: int
    uid: int = 0
    gid: int = 0
    rdev: int = 0
    links: int = 0
    opened: int = 0
    target: bytes = b""
    accessed_ns: int = field(default_factory=time.time_ns)
    modified_ns: int = field(default_factory=time.time_ns)
    changed_ns: int = field(default_factory=time.time_ns)


@dataclass(slots=True)
class File(Inode):
    content: Content = field(default_factory=Content)

    def touch(self) -> None:
        self.modified_ns = self.changed_ns = time.time_ns()


@dataclass(slots=True)
class Directory(Inode):
    """``durable`` plus all of ``pending``, in order, is ``names``."""

    names: Names = field(default_factory=dict)
    durable: Names = field(default_factory=dict)
    pending: list[dict[bytes, int | None]] = field(default_factory=list)

    def change(self, change: dict[bytes, int | None]) -> None:
        """Bind names to numbers, or (None) unbind them; a power cut keeps or loses all names of one
        change."""
        self.pending.append(change)
        _apply(self.names, change)

    def sync(self) -> None:
        self.durable = dict(self.names)
        self.pending.clear()

    def cut(self, torn: random.Random | None) -> Survival:
        kept = torn.randint(0, len(self.pending)) if torn else 0
        for change in self.pending[:kept]:
            _apply(self.durable, change)
        survival = Survival(kept, len(self.pending) - kept)
        self.names = dict(self.durable)
        self.pending.clear()
        return survival


def _apply(names: Names, change: dict[bytes, int | None]) -> None:
    for name, number in change.items():
        if number is None:
            names.pop(name, None)
        else:
            names[name] = number


class Volume:
    """The file system. Its methods raise ``OSError`` with the number that a real file system would give."""

    def __init__(self) -> None:
        self._inodes: dict[int, Inode] = {ROOT: Directory(ROOT, stat.S_IFDIR | 0o755, links=2)}
        self._next_number = ROOT + 1
        self.capacity: int | None = None
        """The capacity in bytes; None means unlimited. A file counts by its size, including holes."""

    # -- finding ---------------------------------------------------------------------------------

    def inode(self, number: int) -> Inode:
        try:
            return self._inodes[number]
        except KeyError:
            raise _error(errno.ESTALE) from None

    def file(self, number: int) -> File:
        inode = self.inode(number)
        if isinstance(inode, File):
            return inode
        raise _error(errno.EISDIR if isinstance(inode, Directory) else errno.EINVAL)

    def directory(self, number: int) -> Directory:
        inode = self.inode(number)
        if isinstance(inode, Directory):
            return inode
        raise _error(errno.ENOTDIR)

    def lookup(self, parent: int, name: bytes) -> Inode:
        number = self.directory(parent).names.get(name)
        if number is None:
            raise _error(errno.ENOENT)
        return self.inode(number)

    def find(self, path: str) -> File:
        """Return the file at *path*, which is relative to the root."""
        inode = self.inode(ROOT)
        for name in path.split("/"):
            inode = self.lookup(inode.number, os.fsencode(name))
        return self.file(inode.number)

    # -- names -----------------------------------------------------------------------------------

    def make(
        self, parent: int, name: bytes, mode: int, *, uid: int, gid: int, rdev: int = 0, target: bytes = b""
    ) -> Inode:
        """Make a file, directory, symbolic link or other object, by the type in *mode*."""
        directory = self.directory(parent)
        if name in directory.names:
            raise _error(errno.EEXIST)
        kind: type[Inode] = {stat.S_IFDIR: Directory, stat.S_IFREG: File}.get(stat.S_IFMT(mode), Inode)
        inode = kind(
            self._next_number, mode, uid, gid, rdev, links=2 if kind is Directory else 1, target=target
        )
        self._next_number += 1
        self._inodes[inode.number] = inode
        directory.change({name: inode.number})
        return inode

    def link(self, number: int, parent: int, name: bytes) -> Inode:
        directory = self.directory(parent)
        if name in directory.names:
            raise _error(errno.EEXIST)
        inode = self.inode(number)
        inode.links += 1
        directory.change({name: number})
        return inode

    def unlink(self, parent: int, name: bytes) -> None:
        inode = self.lookup(parent, name)
        if isinstance(inode, Directory):
            raise _error(errno.EISDIR)
        inode.links -= 1
        self.directory(parent).change({name: None})

    def rmdir(self, parent: int, name: bytes) -> None:
        child = self.directory(self.lookup(parent, name).number)
        if child.names:
            raise _error(errno.ENOTEMPTY)
        child.links = 0
        self.directory(parent).change({name: None})

    def rename(
        self, parent: int, name: bytes, new_parent: int, new_name: bytes, *, replace: bool = True
    ) -> None:
        moved = self.lookup(parent, name)
        source, goal = self.directory(parent), self.directory(new_parent)
        replaced = goal.names.get(new_name)
        if replaced is not None and not replace:
            raise _error(errno.EEXIST)
        if replaced == moved.number:
            return
        if replaced is not None:
            self._check_replaceable(self.inode(replaced), moved)
            self.inode(replaced).links -= 1
        if source is goal:
            goal.change({name: None, new_name: moved.number})
        else:
            goal.change({new_name: moved.number})
            source.change({name: None})

    @staticmethod
    def _check_replaceable(old: Inode, new: Inode) -> None:
        if isinstance(old, Directory) and old.names:
            raise _error(errno.ENOTEMPTY)
        if isinstance(old, Directory) != isinstance(new, Directory):
            raise _error(errno.EISDIR if isinstance(old, Directory) else errno.ENOTDIR)

    # -- bytes -----------------------------------------------------------------------------------

    def write(self, number: int, offset: int, payload: memoryview) -> int:
        """Write, and return how much was written: on a nearly full disk possibly only a part, as with any
        write."""
        file = self.file(number)
        room = self._room_for(file, offset, len(payload))
        if payload and not room:
            raise _error(errno.ENOSPC)
        file.content.write(offset, payload[:room])
        file.touch()
        return room

    def resize(self, number: int, size: int) -> None:
        file = self.file(number)
        file.content.resize(size)
        file.touch()

    def allocate(self, number: int, offset: int, length: int) -> None:
        """Reserve room by growing the file with zeros: all of it, or ENOSPC."""
        file = self.file(number)
        if self._room_for(file, offset, length) < length:
            raise _error(errno.ENOSPC)
        if offset + length > len(file.content.data):
            self.resize(number, offset + length)

    def _room_for(self, file: File, offset: int, length: int) -> int:
        growth = offset + length - len(file.content.data)
        if self.capacity is None or growth <= 0:
            return length
        return max(0, length - max(0, growth - self.free_bytes()))

    def used_bytes(self) -> int:
        return sum(len(i.content.data) for i in self._inodes.values() if isinstance(i, File) and i.links > 0)

    def free_bytes(self) -> int:
        """Return the room left, at least zero. Meaningless without a capacity."""
        return max(0, (self.capacity or 0) - self.used_bytes())

    # -- durability ------------------------------------------------------------------------------

    def power_cut(self, torn: random.Random | None) -> tuple[Survival, Survival]:
        """Drop what was not synced; with *torn* only a random part of it. Returns (sectors, names)."""
        sectors = names = Survival()
        for inode in self._inodes.values():
            if isinstance(inode, File):
                sectors += inode.content.cut(torn)
            elif isinstance(inode, Directory):
                names += inode.cut(torn)
        self._keep_only_reachable()
        return sectors, names

    def discard_removed(self) -> None:
        """Free what is neither open nor named, now or after any cut: a long test removes gigabytes of log."""
        may_return: set[int | None] = set()
        for inode in self._inodes.values():
            if isinstance(inode, Directory):
                may_return.update(inode.durable.values(), *(change.values() for change in inode.pending))
        for number, inode in list(self._inodes.items()):
            if inode.links <= 0 and not inode.opened and number not in may_return:
                del self._inodes[number]

    def _keep_only_reachable(self) -> None:
        reached: dict[int, Inode] = {}
        waiting = [ROOT]
        while waiting:
            inode = self.inode(waiting.pop())
            if inode.number not in reached:
                reached[inode.number] = inode
                inode.links, inode.opened = 2 if isinstance(inode, Directory) else 0, 0
            if isinstance(inode, Directory):
                waiting.extend(inode.names.values())
            else:
                inode.links += 1
        self._inodes = reached


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
