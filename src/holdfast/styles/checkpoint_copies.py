"""The copy of the process in which a large state is captured, from its beginning until it is a checkpoint.

The object goes on while its copy is written aside (E5). A copy that is written waits, like any state that was
captured, until its position is committed and its state is known to be the group's; then it is kept. When to
begin a copy, and what may count as a checkpoint, is for :mod:`.checkpointing` to say.

Checkpoints that cannot be made, for whoever must know: told once per reason, not once per attempt.

A state that cannot be read back is no checkpoint (E9): the last good one and the log after it stay, the group
serves on, and only when the log has reached its limit are calls refused, with this reason. The object may be
well again after any call, so it is tried again, after longer and longer pauses.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from holdfast.execution.execution import Execution
from holdfast.model.ids import Position
from holdfast.styles.config import StyleConfig
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


WHY_CHARACTERS_MAX: Final = 500
REASONS_MAX: Final = 32
"""Told of one group in a row. With so many, the next one says nothing new."""

_VALUE: Final = re.compile(r"(holds \w+|come back as \w+) .*?(?= and would|: annotate|, which|$)")
_VARYING: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|[0-9]+")
"""Keys, values and numbers: a state that is unreadable at another key each time has one reason."""


def reason_of(why: str) -> str:
    """The same for failures of one kind."""
    return _VARYING.sub("*", _VALUE.sub(r"\1", why))


class CheckpointFailures:
    """Of one member's checkpoints."""

    def __init__(self, ports: StylePorts, config: StyleConfig) -> None:
        self._ports = ports
        self._config = config
        self.why = ""
        """Why the last attempt failed; empty when it did not, or there was none."""
        self._in_a_row = 0
        self._is_known_well = False
        """It was noted that an attempt succeeded, and none has failed since."""
        self._told: dict[str, int] = {}
        """Reasons, and when each was told."""

    def tune(self, config: StyleConfig) -> None:
        self._config = config

    def begin_anew(self) -> None:
        """The object goes on from a checkpoint that was not made of it: the next attempt need not wait, and
        until it is made the last one says all that is known."""
        self._in_a_row = 0

    def begin_reign(self) -> None:
        """This member answers now. Whoever did so before may have failed and be gone: the next success is
        worth noting, as it says that this is over."""
        self._is_known_well = False

    @property
    def pause_ns(self) -> int:
        """Before the next attempt; doubled with each that fails."""
        config = self._config
        return min(config.copy_retry_ns << max(self._in_a_row - 1, 0), config.copy_retry_most_ns)

    def failed(self, kind: str, why: str) -> None:
        """An attempt failed; *kind* is that of the fault."""
        self._in_a_row = min(self._in_a_row + 1, self._config.copy_retry_most_ns.bit_length())
        self.mention(kind, why)
        if self.why != why[:WHY_CHARACTERS_MAX]:
            self.why = why[:WHY_CHARACTERS_MAX]
            self._is_known_well = False
            self._ports.trace.note("checkpoint_failed", why=self.why)

    def mention(self, kind: str, why: str) -> None:
        """Report a fault, if it is news."""
        reason = reason_of(why)
        if reason not in self._told and len(self._told) < REASONS_MAX:
            self._told[reason] = self._ports.clock.now()
            self._ports.fault(kind, f"no state could be captured: {why}")

    def succeeded(self) -> None:
        """A state was captured and read back. A reason told a while ago is news when it comes again."""
        self._in_a_row = 0
        self.why = ""
        if not self._is_known_well:
            self._is_known_well = True
            self._ports.trace.note("checkpoints_well")
        since = self._ports.clock.now() - self._config.copy_retry_most_ns
        self._told = {reason: at for reason, at in self._told.items() if at > since}
