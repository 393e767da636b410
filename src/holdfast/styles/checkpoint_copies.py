"""Captures a large state in a copy of the process, and reports checkpoints that fail.

:class:`CheckpointCopies` tracks a copy from its start until it is a checkpoint. The object continues while
the copy writes its state to a temporary file (E5). A written copy then waits, like any captured state, until
its position is committed and its state is known to be the group's; only then is it kept.
:mod:`.checkpointing` decides when to start a copy and what may count as a checkpoint.

:class:`CheckpointFailures` reports each reason for a failed checkpoint once, not at every attempt. A state
that cannot be read back is not a checkpoint (E9): the last good one and the log after it are kept, and the
group continues to serve. Calls are refused, with this reason, only when the log has reached its limit. Any
call may repair the object, so the capture is retried, after longer and longer pauses.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final
from weakref import ReferenceType, ref

from holdfast.execution.execution import Execution
from holdfast.model.ids import Position
from holdfast.styles.config import StyleConfig
from holdfast.styles.ports import Copied, NotCopied, Snapshot, StylePorts


@dataclass(slots=True)
class Copying:
    """A copy in progress. *is_written*: it only waits for its position to commit. *is_kept*: it is being
    moved to its final name."""

    position: Position
    of: ReferenceType[Execution]
    is_written: bool = False
    is_kept: bool = False


class CheckpointCopies:
    """The copies of one member, one at a time. *on_ended* is called with the result of each copy, unless it
    was dropped before it was written; *on_kept* is called for each that has become a checkpoint."""

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
        """Start a copy, replacing one in progress. *with_state*: the digest covers the object's state.
        Returns False if no copy can be started now, because another group has one or copies are not available
        here."""
        self.drop()  # a copy that was never found equal to the primary's state
        copying = Copying(execution.position, ref(execution))
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
        """Keep the copy in progress if it is written and committed and *may_count* as a checkpoint."""
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
        """Drop the copy in progress: it is no longer needed."""
        if self.under_way is not None and self._ports.copies is not None:
            self.under_way = None
            self._ports.copies.drop()

    def drop_unless_of(self, execution: Execution | None) -> None:
        """Drop the copy in progress, unless it is of this object, or a checkpoint already and being moved."""
        copying = self.under_way
        if (
            copying is not None
            and not copying.is_kept
            and (execution is None or copying.of() is not execution)
        ):
            self.drop()


WHY_CHARACTERS_MAX: Final = 500
REASONS_MAX: Final = 32
"""How many different reasons are reported for one group before a success. After that many, another one adds
nothing."""

_VALUE: Final = re.compile(r"(holds \w+|come back as \w+) .*?(?= and would|: annotate|, which|$)")
_VARYING: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|[0-9]+")
"""Matches keys, values and numbers, so that a state that is unreadable at another key each time has one
reason."""


def reason_of(why: str) -> str:
    """A text that is the same for all failures of one kind."""
    return _VARYING.sub("*", _VALUE.sub(r"\1", why))


class CheckpointFailures:
    """The failed checkpoints of one member."""

    def __init__(self, ports: StylePorts, config: StyleConfig) -> None:
        self._ports = ports
        self._config = config
        self.why = ""
        """Why the last attempt failed; empty if it succeeded or there was none."""
        self._in_a_row = 0
        self._is_known_well = False
        """Whether a success was reported and no attempt has failed since."""
        self._told: dict[str, int] = {}
        """The reported reasons, and when each was reported."""

    def tune(self, config: StyleConfig) -> None:
        self._config = config

    def begin_anew(self) -> None:
        """Continue from a checkpoint of another object: the next attempt need not wait, and until then the
        reason of the last failure is still reported."""
        self._in_a_row = 0

    def begin_term(self) -> None:
        """Note that this member starts to answer calls. The previous primary may have failed to make
        checkpoints and be gone, so the next success is reported: it says that the failure is over."""
        self._is_known_well = False

    @property
    def pause_ns(self) -> int:
        """The pause before the next attempt, doubled with each failure."""
        config = self._config
        return min(config.copy_retry_ns << max(self._in_a_row - 1, 0), config.copy_retry_most_ns)

    def failed(self, kind: str, why: str) -> None:
        """Record a failed attempt; *kind* is the kind of the fault."""
        self._in_a_row = min(self._in_a_row + 1, self._config.copy_retry_most_ns.bit_length())
        self.mention(kind, why)
        self._ports.wake()  # the turn says that this member wants the primary's state, if its log is long
        if self.why != why[:WHY_CHARACTERS_MAX]:
            self.why = why[:WHY_CHARACTERS_MAX]
            self._is_known_well = False
            self._ports.trace.note("checkpoint_failed", why=self.why)

    def mention(self, kind: str, why: str) -> None:
        """Report a fault if its reason is new."""
        reason = reason_of(why)
        if reason not in self._told and len(self._told) < REASONS_MAX:
            self._told[reason] = self._ports.clock.now()
            self._ports.fault(kind, f"no state could be captured: {why}")

    def succeeded(self) -> None:
        """Record that a state was captured and read back. A reason reported some time ago counts as new if it
        comes again."""
        self._in_a_row = 0
        self.why = ""
        if not self._is_known_well:
            self._is_known_well = True
            self._ports.trace.note("checkpoints_well")
        since = self._ports.clock.now() - self._config.copy_retry_most_ns
        self._told = {reason: at for reason, at in self._told.items() if at > since}
