"""Reads a member's stored object independently: from a copy of the files that its next process would find."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from holdfast.authority.groups import GroupRecord
from holdfast.execution.database import ObjectDatabase, Place
from holdfast.execution.definition import Definition
from holdfast.execution.saved_state import OF_FILES, head_of
from holdfast.execution.stored import Stored, stored_state
from holdfast.groups.host_groups import HostGroups
from holdfast.groups.stored_object import SUFFIX
from holdfast.model.ids import GroupId, Position
from holdfast.sequence.ports import Kept, chunks_of
from holdfast.shipping.manifest import decode_manifest, digest_of
from holdfast.sim.engine.node import SimNode
from holdfast.sim.engine.vfs import SimVfs
from holdfast.sim.engine.world import World
from holdfast.sim.scenarios.groups.observer import Replay
from holdfast.sim.scenarios.groups.stored_files import FILES
from holdfast.storage.checkpoint import CheckpointWriter

NEW: Final = "replayed" + SUFFIX


class ScratchDisk:
    """Files in memory, as :class:`SimVfs` uses a disk. Nothing fails on it."""

    is_stale = False

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = {name: bytearray(data) for name, data in files.items()}

    def exists(self, name: str) -> bool:
        return name in self.files

    def size(self, name: str) -> int:
        return len(self.files[name])

    def read(self, name: str, offset: int, length: int) -> bytes:
        return bytes(self.files[name][offset : offset + length])

    def write_at(self, name: str, offset: int, data: bytes) -> None:
        content = self.files.setdefault(name, bytearray())
        content.extend(bytes(max(0, offset + len(data) - len(content))))
        content[offset : offset + len(data)] = data

    def truncate(self, name: str, size: int) -> None:
        content = self.files[name]
        del content[size:]
        content.extend(bytes(size - len(content)))

    def remove(self, name: str) -> None:
        del self.files[name]

    def sync_now(self, name: str) -> bool:
        return True

    def sync_dir_now(self) -> None:
        return None


class CopiedFiles:
    """A copy of one host's databases (:class:`holdfast.execution.stored.ObjectFiles`)."""

    def __init__(self, node: SimNode, record: GroupRecord, schema: str) -> None:
        self._prefix = f"{record.group:020d}-"
        self._schema = schema
        content = node.disk.copy().get(FILES)
        entries = content.entries.items() if content is not None else ()
        self._disk = ScratchDisk({name: bytes(file.content) for name, file in entries})
        self._vfs = SimVfs(self._disk, rng=random.Random(0), wall=lambda: 0)  # type: ignore[arg-type]  # it has what is used

    def fresh(self) -> ObjectDatabase:
        return ObjectDatabase(self._place(NEW), self._schema, is_new=True)

    def opened(self, state: bytes, position: Position) -> ObjectDatabase:
        found = stored_state(state)
        if not found.manifest:
            return self.fresh()
        tags = (decode_manifest(found.manifest).id.hex()[:32], found.home)
        names = [f"{self._prefix}{tag}{SUFFIX}" for tag in tags]
        here = [name for name in names if self._disk.exists(name)]
        database = ObjectDatabase(self._place(here[0]), self._schema, is_new=False)
        database.open()
        return database

    def _place(self, name: str) -> Place:
        return Place(name, self._vfs.name, is_exclusive=True)


def with_files(definition: Definition, node: SimNode, record: GroupRecord) -> Definition:
    """The same definition with a copy of what that host has."""
    if not issubclass(definition.cls, Stored):
        return definition
    return replace(definition, files=CopiedFiles(node, record, definition.cls.schema))


class StoredReplay(Replay):
    """A replay that reaches what the object's own files hold, at least."""

    def run_to(self, up_to: Position) -> None:
        behind = self.execution.behind
        super().run_to(max(up_to, behind.position) if behind is not None else up_to)


def watch_received(groups: HostGroups, world: World, node: SimNode) -> None:
    """Require that no checkpoint counts that was received, before the files it stands on are whole (W8)."""
    keeper = groups.checkpoints
    finished = keeper._finish_received

    def watched(group: GroupId, writer: CheckpointWriter, then: Callable[[Kept], None]) -> None:
        def counts(kept: Kept) -> None:
            why = _why_not_whole(node, group, kept)
            if why:
                world.violation("W8", f"{node.name}: group {group} at {kept.position} counts, but {why}")
            then(kept)

        finished(group, writer, counts)

    keeper._finish_received = watched  # type: ignore[method-assign]  # observes only


def _why_not_whole(node: SimNode, group: GroupId, kept: Kept) -> str:
    found = head_of(chunks_of(kept))
    if found.version != OF_FILES or not stored_state(found.state).manifest:
        return ""
    contents = decode_manifest(stored_state(found.state).manifest)
    name = f"{group:020d}-{contents.id.hex()[:32]}{SUFFIX}"
    entries = node.disk.copy()[FILES].entries
    if name not in entries:
        return f"{name} is not there"
    (file,) = contents.manifest.files
    data = bytes(entries[name].content)
    is_whole = all(
        digest_of(data[each.offset : each.offset + each.length]) == each.digest
        for each in contents.chunks(file)
    )
    return "" if is_whole and len(data) == file.size else f"{name} is not what its manifest says"
