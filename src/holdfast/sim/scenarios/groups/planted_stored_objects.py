"""Bugs planted in objects with files of their own (W7, W8)."""

from collections.abc import Callable, Iterable
from typing import Final

from holdfast.execution.database import ObjectDatabase
from holdfast.execution.definition import Definition
from holdfast.execution.object_state import ObjectState
from holdfast.execution.saved_state import Saved
from holdfast.execution.wal import WalPages
from holdfast.groups.object_file import OfferedFile
from holdfast.groups.stored_objects import FilesReceiver
from holdfast.model.ids import Position
from holdfast.sequence.ports import Kept
from holdfast.sim.runner.planted import Planting

_of = vars(ObjectState)["_of"].__func__


def _of_checkpoint(
    cls: type[ObjectState], definition: Definition, found: Saved, instance: object
) -> ObjectState:
    """Goes on from the checkpoint's position, whatever the database holds."""
    loaded: ObjectState = _of(cls, definition, found, instance)
    loaded.behind = None
    return loaded


def _flush_position_later(database: ObjectDatabase, position: Position, head: bytes) -> None:
    """Writes the position of a flush in the transaction of the next one."""
    with database._guarded():
        if not database._opened().in_transaction:
            database._run("BEGIN IMMEDIATE")
        database._write_head(database.position, database.head)
        database._run("COMMIT")
    database.position, database.head = position, head


def _believe_at_once(
    receiver: FilesReceiver, then: Callable[[Kept], None], failed: Callable[[], None]
) -> None:
    """Lets a manifest count, and fetches its files afterwards."""
    receiver._received.finish(then, failed)
    if receiver._state is not None:
        receiver._fetch(bytes(receiver._state), lambda _: None)


def _all_but_one(pages: WalPages, chunk_bytes: int) -> set[int]:
    """Takes the last chunk that was written for what it was."""
    found = _chunks(pages, chunk_bytes)
    return found - {max(found, default=0)}


_chunks = WalPages.chunks


def _keep_nothing(offered: OfferedFile, chunks: Iterable[int]) -> None:
    """Overwrites what others are still fetching."""


_bug: Final = Planting("groups", runs_max=150)

PLANTED = (
    _bug(
        "executes-what-files-hold",
        "W7",
        "records below the position of an object's own database are executed again",
        ObjectState,
        "_of",
        classmethod(_of_checkpoint),
    ),
    _bug(
        "position-of-files-later",
        "W7",
        "the position that a database holds is written in another transaction than what it holds",
        ObjectDatabase,
        "flush",
        _flush_position_later,
    ),
    _bug(
        "manifest-before-its-files",
        "W8",
        "a manifest is believed before its files are here and hashed",
        FilesReceiver,
        "finish",
        _believe_at_once,
    ),
    _bug(
        "keeps-the-hash-of-what-was",
        "W8",
        "a chunk that was written since the last manifest keeps its hash",
        WalPages,
        "chunks",
        _all_but_one,
    ),
    _bug(
        "overwrites-what-is-fetched",
        "W8",
        "what others are still fetching is overwritten, and not put aside before",
        OfferedFile,
        "keep",
        _keep_nothing,
    ),
)
