"""A copy of the object from before the waiting operation started, for queries to read meanwhile (S4, R1).

A method that waits for another group has made only some of its changes, and no query may see those. The state
before it contains every finished operation, and the waiting operation has been acknowledged to nobody. So a
query that reads this state takes its place before that operation in the group's order.

Only a small state is copied, and it is copied before every operation that may wait: once the operation waits,
the old state is gone. An object is made from the copy when the first query arrives.
"""

from dataclasses import dataclass
from typing import Final

from holdfast.execution.definition import Definition
from holdfast.execution.state_pieces import weighs_over
from holdfast.execution.timers import Timers
from holdfast.model.ids import Position

STATE_BYTES_MAX: Final = 64 * 1024
"""A larger state is not copied: its queries wait. A higher limit delays the start of every operation that may
wait."""
PASSED_OVER: Final = 64
"""How many operations start without a copy after a state was too large or not available."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a query sees: an object and the position it reflects, or None for everything applied."""

    instance: object
    position: Position | None = None


class ReadCopy:
    """The read copy of one member's object."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition.apart()
        interface = definition.interface
        # An updateable class reports what changed since it was last asked for its state, so asking here would
        # lose changes.
        # While a slow operation runs, no query may see the object, not even one that may at any time.
        may_be_read = (interface.has_strict_queries and interface.may_wait) or (
            interface.has_slow and bool(interface.queries)
        )
        # The state before an operation of a stored object is nowhere: its queries wait.
        is_copied = not definition.capture.is_updateable and not definition.is_stored
        self._is_wanted = may_be_read and is_copied
        self._state: bytes | None = None
        self._made: object | None = None
        self._left_out = 0
        self.position = Position(0)
        """The position up to which the copied state is current."""

    def take(self, instance: object, position: Position) -> None:
        """Copy the state, because an operation that may wait is about to start."""
        self.drop()
        if not self._is_wanted:
            return
        if self._left_out:
            self._left_out -= 1
            return
        self._state = self._copied(instance)
        self.position = position

    def drop(self) -> None:
        """Drop the copy: the operation has ended, or no operation waits."""
        self._state = self._made = None

    def made(self) -> object | None:
        """Return an object with the copied state; None if there is no copy."""
        if self._made is None and self._state is not None:
            state, self._state = self._state, None
            try:
                self._made = self._definition.capture.restored(state, lambda: self._definition.make(Timers()))
            except Exception:
                # The class's own code cannot load its state. Loading a checkpoint will report that; here,
                # queries wait.
                self._left_out = PASSED_OVER
        return self._made

    def _copied(self, instance: object) -> bytes | None:
        if not weighs_over(instance, STATE_BYTES_MAX):
            try:
                state = self._definition.capture.state_of(instance)
            except Exception:
                state = None  # the class's own code failed, as in `made`
            if state is not None and len(state) <= STATE_BYTES_MAX:
                return state
        self._left_out = PASSED_OVER
        return None
