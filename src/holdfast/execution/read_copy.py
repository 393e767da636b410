"""An object as it was before the operation that waits in it began: what queries see meanwhile (S4, R1).

A method that waits for another group has changed half of what it changes, which is nobody's to see. Whatever
has ended is in the state before it, and it has been answered to nobody itself: so a query that reads this
state comes before it in the order of the group. Only a small state is copied, and of every operation that may
wait: when it waits there is no old state any more. An object is made of the copy when the first query comes.
"""

from typing import Final

from holdfast.execution.definition import Definition
from holdfast.execution.state_pieces import weighs_over
from holdfast.execution.timers import Timers
from holdfast.model.ids import Position

STATE_BYTES_MAX: Final = 64 * 1024
"""A state of more is not copied: its queries wait. Larger: every operation that may wait begins later."""
PASSED_OVER: Final = 64
"""So many operations begin without a copy after a state turned out too large, or was not to be had."""


class ReadCopy:
    """Of the objects of one group, at one member."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition.apart()
        interface = definition.interface
        # An updateable class says what changed since it was last asked for its state: so it is not asked.
        self._is_wanted = (
            interface.has_strict_queries and interface.may_wait and not definition.capture.is_updateable
        )
        self._state: bytes | None = None
        self._made: object | None = None
        self._left_out = 0
        self.position = Position(0)
        """Everything that the state rests on."""

    def take(self, instance: object, position: Position) -> None:
        """An operation that may wait is about to begin."""
        self.drop()
        if not self._is_wanted:
            return
        if self._left_out:
            self._left_out -= 1
            return
        self._state = self._copied(instance)
        self.position = position

    def drop(self) -> None:
        """The operation has ended, or waits for nothing."""
        self._state = self._made = None

    def made(self) -> object | None:
        """An object in that state; None when there is no copy of it."""
        if self._made is None and self._state is not None:
            state, self._state = self._state, None
            try:
                self._made = self._definition.capture.restored(state, lambda: self._definition.make(Timers()))
            except Exception:
                # The class's own code cannot make it. Who loads a checkpoint will say so; queries wait.
                self._left_out = PASSED_OVER
        return self._made

    def _copied(self, instance: object) -> bytes | None:
        if not weighs_over(instance, STATE_BYTES_MAX):
            try:
                state = self._definition.capture.state_of(instance)
            except Exception:
                state = None  # as above
            if state is not None and len(state) <= STATE_BYTES_MAX:
                return state
        self._left_out = PASSED_OVER
        return None
