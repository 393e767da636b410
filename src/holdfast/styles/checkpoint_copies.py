"""The copy of the process in which a large state is captured, from its beginning until it is a checkpoint.

The object goes on while its copy is written aside (E5). A copy that is written waits, like any state that was
captured, until its position is committed and its state is known to be the group's; then it is kept. When to
begin a copy, and what may count as a checkpoint, is for :mod:`.checkpointing` to say.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from holdfast.model.ids import Position
from holdfast.styles.execution import Execution
from holdfast.styles.ports import Copied, NotCopied, Snapshot, StylePorts


@dataclass(slots=True)
class Copying:
    """A copy under way; *is_written* when it only waits for its position to commit, *is_kept* when it is on
    its way to its final name."""

    position: Position
    is_written: bool = False
    is_kept: bool = False


class CheckpointCopies:
    """One member's copies, of which there is one at a time. *on_ended* is told what became of each that was
    not dropped before it was written, *on_kept* of each that has become a checkpoint."""

    def __init__(
        self,
        ports: StylePorts,
        on_ended: Callable[[Position, Copied | NotCopied], None],
        on_kept: Callable[[Position], None],
    ) -> None:
        self._ports = ports
        self._on_ended = on_ended
        self._on_kept = on_kept
        self.under_way: Copying | None = None

    def begin(self, execution: Execution, *, with_state: bool) -> bool:
        """Begin a copy in the place of the one under way. *with_state*: its digest covers the object's state.
        False: no copy can be begun now, as another group has one, or as there are none here."""
        self.drop()  # one that nobody ever found equal
        copying = Copying(execution.position)
        snapshot = Snapshot(
            execution.position, execution.pieces, partial(execution.digest, with_state=with_state)
        )
        copies = self._ports.copies
        if copies is None or not copies.begin(snapshot, lambda result: self._ended(copying, result)):
            return False
        self.under_way = copying
        return True

    def _ended(self, copying: Copying, result: Copied | NotCopied) -> None:
        if copying is not self.under_way:
            return
        if isinstance(result, NotCopied):
            self.under_way = None
        else:
            copying.is_written = True
        self._on_ended(copying.position, result)

    def maybe_keep(self, committed: Position, may_count: Callable[[Position], bool]) -> None:
        """Keep the copy under way, if it is written and final and *may_count* as a checkpoint."""
        copying, copies = self.under_way, self._ports.copies
        if copying is None or copies is None or not copying.is_written or copying.is_kept:
            return
        if copying.position <= committed and may_count(copying.position):
            copying.is_kept = True
            copies.keep(lambda is_kept: self._kept(copying, is_kept))

    def _kept(self, copying: Copying, is_kept: bool) -> None:
        if copying is self.under_way:
            self.under_way = None
            if is_kept:
                self._on_kept(copying.position)

    def drop(self) -> None:
        """The copy under way is not wanted any more."""
        if self.under_way is not None and self._ports.copies is not None:
            self.under_way = None
            self._ports.copies.drop()
