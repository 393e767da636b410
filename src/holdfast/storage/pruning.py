"""Which files of the log may go, and which groups stand in the way (D4)."""

from collections import Counter
from collections.abc import Iterable

from holdfast.model.ids import GroupId
from holdfast.storage.index import GroupIndex


class Holds:
    """The oldest file that each group needs. Asked after every sync, so it counts instead of searching."""

    def __init__(self, groups: Iterable[tuple[GroupId, GroupIndex]]) -> None:
        self._file_of: dict[GroupId, int] = {}
        self._groups_in: Counter[int] = Counter()
        for group, index in groups:
            self.update(group, index)

    def update(self, group: GroupId, index: GroupIndex) -> None:
        """The group's floor, tail or anchor has moved."""
        self.release(group)
        file = self._file_of[group] = index.oldest_place().file
        self._groups_in[file] += 1

    def release(self, group: GroupId) -> None:
        file = self._file_of.pop(group, None)
        if file is not None:
            self._groups_in[file] -= 1

    def is_free(self, file: int) -> bool:
        """Whether no group needs *file*, given that no older file exists."""
        return not self._groups_in[file]

    def hindering(self, file: int) -> list[GroupId]:
        """The groups that need *file*."""
        return [group for group, needed in self._file_of.items() if needed == file]
