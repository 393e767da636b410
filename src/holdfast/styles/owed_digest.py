"""The digest that a passive primary owes its backups (E8).

At a mark they have captured their states as the primary has, and wait for its digest, which follows as a
record of its own. Either may come first: the mark is ordered, or the digest is known. Of a large state it is
known only when that has been written.
"""

from collections.abc import Callable

from holdfast.model.ids import Position
from holdfast.styles.operation import Digested


class OwedDigest:
    """What one primary has to tell. *wake* is called when there is something, so that a turn tells it."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._captured: tuple[Position, bytes] | None = None
        """The digest of what this primary captured last."""
        self._is_owed = False
        """Backups captured their states as well, and wait for that digest."""

    def owe(self) -> None:
        """A mark is ordered."""
        self._is_owed = True

    def begin_capture(self) -> None:
        """Another state is captured now: the digest of an older one is not what backups wait for."""
        self._captured = None

    def captured(self, position: Position, digest: bytes) -> None:
        """What the state captured last comes to."""
        self._captured = (position, digest)
        self.remind()

    def remind(self) -> None:
        """Have a turn, if there is something to tell."""
        if self._is_owed and self._captured is not None:
            self._wake()

    def take(self) -> Digested | None:
        """What is to be told now, once."""
        if not self._is_owed or self._captured is None:
            return None
        (position, digest), self._captured = self._captured, None
        self._is_owed = False
        return Digested(position, digest)

    def forget(self) -> None:
        """This member is no primary any more: nothing is owed, and what it captured is nobody's."""
        self._captured, self._is_owed = None, False
