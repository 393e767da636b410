"""Durable writes in turn, as a process's disk thread makes them: each begins when the one before has ended.

What waits is in the memory of the process: it dies with it, and stands still while the process is paused.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.model.errors import DiskFailed, NoSpace
from holdfast.model.ports import Token

if TYPE_CHECKING:
    from holdfast.sim.disk import DiskHandle


@dataclass(slots=True, eq=False)
class Turn:
    """One durable write; also the token of its sync."""

    name: str
    offset: int
    data: bytes
    token: Token


class Turns:
    """The durable writes of one process that have not ended; the first is under way."""

    __slots__ = ("_disk", "_on_synced", "_turns")

    def __init__(self, disk: "DiskHandle", on_synced: Callable[[Token, bool], None]) -> None:
        self._disk = disk
        self._on_synced = on_synced
        self._turns: deque[Turn] = deque()

    def add(self, turn: Turn) -> None:
        if not self._turns:
            self._begin(turn)  # may raise: then it never was a turn
        self._turns.append(turn)

    def on_synced(self, turn: Turn, ok: bool) -> None:
        """The sync of the turn under way has ended."""
        self._turns.popleft()
        if ok and self._turns:
            try:
                self._begin(self._turns[0])
            except (NoSpace, DiskFailed):
                self._on_synced(turn.token, True)
                self._fail()
                return
        self._on_synced(turn.token, ok)
        if not ok:
            self._fail()

    def overlaid(self, name: str, offset: int, found: bytes) -> bytes:
        """*found*, read at *offset*, with what still waits laid over it: its owner must see it."""
        result = bytearray(found)
        for turn in self._turns:
            start, end = max(turn.offset, offset), min(turn.offset + len(turn.data), offset + len(found))
            if turn.name == name and start < end:
                result[start - offset : end - offset] = turn.data[start - turn.offset : end - turn.offset]
        return bytes(result)

    def _begin(self, turn: Turn) -> None:
        self._disk.write_at(turn.name, turn.offset, turn.data)
        self._disk.sync(turn.name, turn)

    def _fail(self) -> None:
        """None that waits reaches the disk."""
        while self._turns:
            self._on_synced(self._turns.popleft().token, False)
