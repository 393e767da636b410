"""Whether a member's states are its primary's: digests of both, as of the same places (E1, E8).

At a mark every member captures its state, and the primary's digest follows as a record. Either may be known
first: of a large state the digest comes when it has been written, and a passive backup reads ahead of what it
has replayed. A state that was not found equal is nobody's checkpoint; and who finds another has an object
that is not the group's.
"""

from collections.abc import Callable
from typing import Final

from holdfast.model.ids import Position
from holdfast.styles.absence import Diverged
from holdfast.styles.operation import Digested

TOLD_MAX: Final = 16
"""Of the primary's digests whose place was not reached yet; older ones are given up, and with them the
comparison there."""


class Comparing:
    """Of one member. *on_equal* is told of each state that was found equal."""

    def __init__(self, on_equal: Callable[[Position], None]) -> None:
        self._on_equal = on_equal
        self._own: tuple[Position, bytes] | None = None
        self._told: dict[Position, bytes] = {}
        self.last_equal = Position(0)
        """What this member had captured up to here was its primary's as well."""

    def forget(self) -> None:
        """The object is another, or none."""
        self._own = None

    def took_state(self, position: Position) -> None:
        """The object is the primary's own, as of there."""
        self._own, self.last_equal = None, position

    def captured(self, position: Position, digest: bytes) -> Diverged | None:
        """This member's own digest is known; how it differs from the primary's, if that is known as well."""
        self._own = (position, digest)
        return self._compared()

    def told(self, record: Digested) -> Diverged | None:
        """The primary's is known; how this member's differs, if it is."""
        self._told[record.position] = record.digest
        while len(self._told) > TOLD_MAX:
            del self._told[next(iter(self._told))]
        return self._compared()

    def _compared(self) -> Diverged | None:
        if self._own is None or self._own[0] not in self._told:
            return None
        (position, own), self._own = self._own, None
        told = self._told[position]
        self._told = {place: digest for place, digest in self._told.items() if place > position}
        if own != told:
            return Diverged(
                f"the state at position {position} has the digest {own.hex()}, the primary's {told.hex()}",
                position,
            )
        self.last_equal = position
        self._on_equal(position)
        return None
