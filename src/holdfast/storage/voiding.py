"""Marks that what is kept of a group is not its object: whoever starts next must not load it (E8).

A file beside the checkpoints, without content that matters: its name says up to where they are void. The
files themselves stay: the log begins where they stand, and a person may want to go on from them (V4).
"""

from collections.abc import Callable
from typing import Final

from holdfast.model.ids import GroupId, Position
from holdfast.model.ports import Disk
from holdfast.storage.syncing import Syncs

_PREFIX: Final = "void-"
_CONTENT: Final = b"void\n"


def _name(group: GroupId, up_to: Position) -> str:
    return f"{_PREFIX}{group:020d}-{up_to:020d}"


def _read(name: str) -> tuple[GroupId, Position] | None:
    parts = name.removeprefix(_PREFIX).split("-")
    is_mark = name.startswith(_PREFIX) and len(parts) == 2
    if not is_mark or not all(len(part) == 20 and part.isascii() and part.isdigit() for part in parts):
        return None
    return GroupId(int(parts[0])), Position(int(parts[1]))


class Voiding:
    """The marks on one disk."""

    def __init__(self, disk: Disk, syncs: Syncs) -> None:
        self._disk = disk
        self._syncs = syncs
        self._marks: dict[GroupId, Position] = {}
        for group, up_to in filter(None, map(_read, disk.list())):
            self._marks[group] = max(up_to, self._marks.get(group, up_to))

    def up_to(self, group: GroupId) -> Position | None:
        """Checkpoints of *group* up to here are void; None when none is."""
        return self._marks.get(group)

    def mark(self, group: GroupId, up_to: Position) -> None:
        """They are; durable in a moment."""
        if self._marks.get(group, Position(-1)) >= up_to:
            return
        self._remove(group)
        name = _name(group, up_to)
        self._disk.append(name, _CONTENT)
        self._marks[group] = up_to
        self._syncs.after([name], lambda: None, directory=True)

    def lift(self, group: GroupId, position: Position, then: Callable[[], None]) -> None:
        """There is a checkpoint of another member's state there, in their place; *then* that is durable."""
        if group in self._marks and position >= self._marks[group]:
            self._remove(group)
            self._syncs.after((), then, directory=True)
        else:
            then()

    def forget(self, group: GroupId) -> None:
        """Nothing of it is kept any more; durable with that."""
        self._remove(group)

    def _remove(self, group: GroupId) -> None:
        self._marks.pop(group, None)
        for name in self._disk.list():
            found = _read(name)
            if found is not None and found[0] == group:
                self._disk.remove(name)
