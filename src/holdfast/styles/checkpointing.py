"""When a member captures its object's state, and when that becomes a checkpoint (FTC-291 to 296, 306, 311).

A small state is captured between two calls. A large one would stop calls for seconds, so it is captured in a
copy of the process (E5, :mod:`.checkpoint_copies`) while the object continues to change; the end of the copy
is an event like any other. Either way a captured state waits until its position is committed, because what is
not committed is not a checkpoint (E1). Every captured state is also read back (E9), which takes longer than
writing it; a state that takes too long between two calls is captured in a copy, too.

A captured state also waits until it is known to be the group's. The state of the object with which a primary
takes calls counts, because it has answered; any other counts once its digest was found equal (E8,
:mod:`.divergence`). The log is pruned only up to such a checkpoint. A state that is never compared, because
the primary died meanwhile or could not make a copy there, is replaced by the next one. Only if the log has
grown long does a state count without comparison, because a backup with a full log acknowledges nothing. If it
is found to differ later, it is void like any other.
"""

from collections.abc import Callable
from typing import Final
from weakref import ReferenceType, ref

from holdfast.execution.capture import NoStateAvailable, NotCapturable
from holdfast.execution.execution import Execution
from holdfast.model.ids import MILLISECOND, Position
from holdfast.model.outcome import error_in_words
from holdfast.sequence.ports import Captured, Kept
from holdfast.styles.checkpoint_copies import CheckpointCopies, CheckpointFailures
from holdfast.styles.config import StyleConfig
from holdfast.styles.ports import Copied, NotCopied, StylePorts

BUSY_NS: Final = 100 * MILLISECOND
"""The pause before another attempt if no copy can be started now, because another group has one."""

AGAIN_NS: Final = 200 * MILLISECOND
"""While a log is too long, a state is captured again after this time even if nothing was executed meanwhile;
and a passive backup looks for it this often."""

STATES_IN_LOG: Final = 4
"""Replaying a log this many times as long as the state takes far longer than writing the state."""

COPIES_WHEN_SLOW: Final = 16
"""After a state took too long between two calls, this many are captured in copies; then it is tried again
between calls, because the machine may have been slow."""

OnDigest = Callable[[Position, bytes], None]


class Checkpointing:
    """The states that one member captures, every ``checkpoint_interval_ns``. *on_digest* is called with the
    digest of each."""

    def __init__(
        self,
        ports: StylePorts,
        config: StyleConfig,
        log_bytes: Callable[[], int],
        on_digest: OnDigest,
        *,
        digests_state: Callable[[Execution], bool] = lambda _: True,
    ) -> None:
        """*log_bytes*: the size of the records that no checkpoint covers. *digests_state*: whether the digest
        covers the object's state, or only replies and timers."""
        self._ports = ports
        self._config = config
        self._log_bytes = log_bytes
        self._on_digest = on_digest
        self._digests_state = digests_state
        self._is_trusted = False
        """Whether this member takes calls as primary: it has answered, so its state counts."""
        self._told = Position(0)
        """The position of the newest digest the primary has told."""
        self._equal: Position | None = None
        """The position of the state that was found equal to the primary's."""
        self._is_wanted = False
        """Whether a checkpoint is due regardless of the interval."""
        self._taken_at = ports.clock.now()
        self._bytes = 0
        self._quiet_since = Position(0)
        """Nothing was executed beyond this position since the last capture: an idle group captures
        nothing."""
        self.kept = Position(0)
        """The position of this host's newest checkpoint; the log reaches back to it, and no further."""
        self._captured: Captured | None = None
        self._captured_of: ReferenceType[Execution] | None = None
        """The object whose state that is."""
        self._copies = CheckpointCopies(ports, self._copied, self._kept_copy)
        self._awaited: Execution | None = None
        """The object that is captured at its next moment at rest."""
        self._committed = Position(0)
        self._state_bytes = 0
        """The size of the last state captured or installed."""
        self._not_before = 0
        self._copies_left = 0
        """How many more captures use a copy although the state is small."""
        self.failures = CheckpointFailures(ports, config)
        self._unreadable = Position(0)
        """The state at this position could not be read back; capturing it again would give the same state."""

    def tune(self, config: StyleConfig) -> None:
        """Capture states as *config* says from now on."""
        self._config = config
        self.failures.tune(config)

    @property
    def why_none(self) -> str:
        """Why the last state was not captured or could not be read back; empty if it was."""
        return self.failures.why

    def is_unreadable(self, position: Position) -> bool:
        """Whether the state at *position* or a later one is known not to be readable."""
        return bool(self.failures.why) and self._unreadable >= position

    @property
    def is_copying(self) -> bool:
        """Whether a state is being captured in a copy of the process."""
        return self._copies.under_way is not None

    def is_copying_at(self, position: Position) -> bool:
        copying = self._copies.under_way
        return copying is not None and copying.position == position

    def is_due(self, execution: Execution) -> bool:
        """Whether a checkpoint is due: the interval is over and something happened in it, somebody needs one,
        or the log has grown long. While a capture already waits for the object to be at rest, a long log
        makes one due only from time to time, and nothing else does. *Without it:* a log is long, or a learner
        needs a checkpoint, and a method waits for another group; each record that says a checkpoint is due
        makes the next one due, until the log is full."""
        now = self._ports.clock.now()
        if now < self._not_before or (self._copies.under_way is not None and self._is_busy):
            return False
        if self._is_wanted and execution.position > self.kept and not self.awaits(execution):
            return True
        if self._bytes >= self._checkpoint_bytes(execution):
            return True
        elapsed_ns = now - self._taken_at
        is_quiet = execution.position <= self._quiet_since
        if self._log_bytes() >= self._config.long_log_bytes:
            # The log reaches back to the older of two checkpoints, and may be too long for the call that
            # would make the second one due.
            is_again = elapsed_ns >= AGAIN_NS and execution.position > self.kept
            return is_again or (not is_quiet and not self.awaits(execution))
        is_interval_over = elapsed_ns >= self._config.checkpoint_interval_ns
        return is_interval_over and not is_quiet and not self.awaits(execution)

    @property
    def _is_busy(self) -> bool:
        """Whether a copy is in progress. A copy whose digest the primary has skipped does not count: it would
        wait forever. *Without it:* marks follow each other faster than a primary writes its copies; a backup
        drops each of its own copies for the next one before it was compared, and its log is never pruned."""
        copying = self._copies.under_way
        if copying is None:
            return False
        is_word_due = copying.position > self._told
        return not copying.is_written or is_word_due or self._may_count(copying.position)

    def make_due(self) -> None:
        """Make a checkpoint due, because someone needs a newer one than there is."""
        self._is_wanted = True

    def trust(self, execution: Execution) -> None:
        """Count the states of *execution* without comparison: with it this member takes calls as primary.
        *Without dropping what it captured of an earlier object:* a backup differs for a while, and its state
        is never compared; it makes its object anew, serves, and keeps that state as its checkpoint."""
        if not self._is_trusted:
            if self._captured_of is None or self._captured_of() is not execution:
                self._captured = None
            self._copies.drop_unless_of(execution)
        self._is_trusted = True
        self.failures.begin_term()
        self._keep_what_counts()

    def distrust(self) -> None:
        """Stop counting this member's states without comparison: another member answers."""
        self._is_trusted = False

    def told(self, position: Position) -> None:
        """Record that the primary has told its digest of the state at *position*."""
        self._told = max(self._told, position)

    def equal(self, position: Position) -> None:
        """Record that the state captured at *position* was found equal to the primary's."""
        self._equal = position
        self._keep_what_counts()

    def void(self) -> None:
        """Drop what was captured: the object was not the group's (E8)."""
        self._is_trusted = False
        self._awaited = self._equal = None
        self._captured = None
        self._copies.drop_unless_of(None)

    def _may_count(self, position: Position) -> bool:
        return self._is_trusted or position == self._equal or self._is_log_long

    @property
    def _is_log_long(self) -> bool:
        return self._log_bytes() >= self._config.long_log_bytes

    def _checkpoint_bytes(self, execution: Execution) -> int:
        """How much log is allowed since the last checkpoint. A restarted member replays it, so a small state,
        which costs little to write, is captured much more often than a large one. The files of a stored
        object are hashed for each, however small its checkpoint is."""
        config = self._config
        if execution.database is not None:
            return config.checkpoint_bytes
        small = max(config.checkpoint_bytes_least, STATES_IN_LOG * self._state_bytes)
        return min(small, config.checkpoint_bytes)

    def is_large(self, execution: Execution) -> bool:
        """Whether the object's state is too large to be captured between two calls."""
        limit = self._config.inline_state_bytes_max
        return self._ports.copies is not None and (
            execution.database is not None
            or self._copies_left > 0
            or self._state_bytes > limit
            or execution.weighs_over(limit)
        )

    @property
    def is_kept_large(self) -> bool:
        """Whether loading the kept state takes long; irrelevant for a member that already has the object."""
        return self._state_bytes > self._config.inline_state_bytes_max

    def grew(self, record_bytes: int) -> None:
        """Record that the log has records of this length more."""
        self._bytes += record_bytes

    def must_wait(self, execution: Execution) -> bool:
        """Whether a checkpoint that is due is not begun: the object is not idle, and the disk lacks space."""
        return not execution.is_idle and self._ports.lacks_space()

    def capture_at_rest(self, execution: Execution) -> None:
        """Capture once. The state's position is the current one or, if a method waits, the next between two
        operations (FTC-291). If the object is discarded before, nothing is captured."""
        self._restart()
        if self._awaited is not execution:
            self._awaited = execution
            execution.when_at_rest(lambda: self._capture_awaited(execution))

    def _capture_awaited(self, execution: Execution) -> None:
        if self._awaited is execution:
            self._awaited = None
        self.capture(execution)

    def awaits(self, execution: Execution) -> bool:
        """Whether the object is still to be captured at rest."""
        return self._awaited is execution

    def capture(self, execution: Execution) -> bytes | None:
        """Capture now. Returns None if the object has no state available now, or is captured in a copy
        (:attr:`is_copying`). If nothing was captured, the log is kept, and the next interval tries again
        (FTC-311)."""
        if not execution.is_at_rest or 0 < execution.position <= max(self.kept, self._unreadable):
            # A state that is already kept, or could not be read back at this position, is not captured again.
            # *Without it:* a cold backup reaches the same mark at each scan, and has no copy left for any
            # later one.
            self._restart()
            return None
        if self.is_large(execution):
            self._begin_copy(execution)
            return None
        self._restart()
        state = self.state_of(execution)
        if state is None:
            if self.failures.why:
                self._quiet_since = execution.position  # unchanged, it would fail again
            return None
        self._captured, self._captured_of = Captured(execution.position, state), ref(execution)
        self._quiet_since = execution.position
        self._state_bytes = len(state)
        self._is_wanted = False
        self._on_digest(
            execution.position, execution.digest(state, with_state=self._digests_state(execution))
        )
        return state

    def final_state(self, execution: Execution | None, committed: Position) -> Captured | None:
        """The object's current state; None if it is not available at once or not committed."""
        if execution is None or not execution.is_at_rest:
            return None
        if execution.position > committed or self.is_large(execution):
            return None
        state = self.state_of(execution)
        return Captured(execution.position, state) if state is not None else None

    def settle(self, execution: Execution, committed: Position) -> bool:
        """Make a checkpoint of everything executed, before an orderly stop. Returns whether nothing more
        can be done now. Otherwise a large state is being captured, or the state waits to be committed or
        at rest."""
        if execution.position <= self.kept or not self._is_trusted:
            return True  # a backup's state is not a checkpoint before it was compared (E8)
        if self.is_copying or execution.position > committed or not execution.is_at_rest:
            return False
        if self.failures.why and self.is_pausing:
            return True  # its state cannot be read back, and the reason was reported
        captured = self.final_state(execution, committed)
        if captured is not None:
            self.keep(captured)
            return True
        if not self.is_large(execution):
            return True  # it has no state available, and the reason was reported
        self._begin_copy(execution)
        return False

    def state_of(self, execution: Execution) -> bytes | None:
        """The object's current state, read back; None if the class gives none, or none that can be read back.
        The group continues to serve, and its log grows until an operator intervenes."""
        began_ns = self._ports.clock.now()
        try:
            state = execution.save()
        except NoStateAvailable:
            self._pause()
            return None
        except NotCapturable as error:
            self._unreadable = execution.position
            self.failures.failed("checkpoint_failed", str(error))
            self._pause()
            return None
        except Exception as error:
            self.failures.failed("object_failed", error_in_words(error))
            self._pause()
            return None
        finally:
            if self._ports.clock.now() - began_ns > self._config.inline_capture_ns_max:
                self._copies_left = COPIES_WHEN_SLOW
        self.failures.succeeded()
        return state

    def _pause(self) -> None:
        """Pause, however long the log is: otherwise marks would follow each other as fast as they are
        committed."""
        self._not_before = self._ports.clock.now() + self.failures.pause_ns

    @property
    def is_pausing(self) -> bool:
        """Whether the object had no readable state only a moment ago."""
        return self._ports.clock.now() < self._not_before

    def nothing_since(self, position: Position) -> None:
        """Record that what was ordered up to *position* after the capture only describes the capture."""
        self._quiet_since = position

    def only_told(self, before: Position, after: Position) -> None:
        """Record that what was ordered between the two positions only describes a capture, so that a group
        without calls stays quiet."""
        if self._quiet_since >= before:
            self._quiet_since = after

    def on_committed(self, up_to: Position) -> None:
        self._committed = max(self._committed, up_to)
        if self._captured is not None or self._copies.under_way is not None:
            self._keep_what_counts()

    def _keep_what_counts(self) -> None:
        captured = self._captured
        if (
            captured is not None
            and captured.position <= self._committed
            and self._may_count(captured.position)
        ):
            self._captured = None
            self.keep(captured)
        self._copies.maybe_keep(self._committed, self._may_count)

    def keep(self, captured: Captured) -> None:
        """Make a checkpoint from a committed state, unless there is a newer one."""
        if captured.position <= self.kept:
            return
        self.kept = captured.position
        self.failures.succeeded()
        self._ports.save_checkpoint(captured)

    def keep_sent(self, sent: Captured) -> None:
        """Make a checkpoint from a committed state that the primary has sent."""
        self._restart()
        self._captured = None
        self._copies.drop()
        self._quiet_since = Position(sent.position + 1)  # plus the record that contained it
        self._state_bytes = len(sent.state)
        self._is_wanted = False
        self.keep(sent)

    def installed(self, kept: Kept) -> None:
        """Record that the host has a checkpoint from another member or from an earlier process."""
        self.kept = self._quiet_since = self._committed = kept.position
        self._state_bytes = kept.size
        self._captured = None
        self.failures.begin_anew()
        self._copies.drop()

    def kept_elsewhere(self, position: Position, size: int) -> None:
        """Record that another process has made a checkpoint from committed records (E7)."""
        self.kept = max(self.kept, position)
        self._state_bytes = size

    def forget(self) -> None:
        """Drop captured states that are not committed, because they may never be."""
        if self._captured is not None and self._captured.position > self._committed:
            self._captured = None
        copying = self._copies.under_way
        if copying is not None and copying.position > self._committed:
            self._copies.drop()

    def _restart(self) -> None:
        self._taken_at = self._ports.clock.now()
        self._bytes = 0

    # --- copies

    def _begin_copy(self, execution: Execution) -> None:
        if self._ports.copies is None or self._is_busy:
            return
        if not self._copies.begin(execution, with_state=self._digests_state(execution)):
            self._postpone(BUSY_NS)
            return
        self._copies_left = max(self._copies_left - 1, 0)
        self._quiet_since = execution.position
        self._is_wanted = False
        self._restart()

    def _copied(self, position: Position, result: Copied | NotCopied) -> None:
        if isinstance(result, NotCopied):
            if result.is_of_state:
                self._unreadable = position
            if result.why:
                self._failed(result)
            return
        self.failures.succeeded()
        self._state_bytes = result.size
        self._on_digest(position, result.digest)
        self._copies.maybe_keep(self._committed, self._may_count)

    def _failed(self, result: NotCopied) -> None:
        """Handle a failed copy. The log keeps everything since the last checkpoint. The next copy starts
        after a pause, even if nothing is executed meanwhile, unless it would find the same state again."""
        self.failures.failed("checkpoint_failed", result.why)
        if not result.is_of_state:
            self._quiet_since = Position(0)
        self._postpone(self.failures.pause_ns)

    def _postpone(self, pause_ns: int) -> None:
        """Postpone the capture, which is still due."""
        self._not_before = self._ports.clock.now() + pause_ns
        self._taken_at = self._not_before - self._config.checkpoint_interval_ns

    def _kept_copy(self, position: Position) -> None:
        self.kept = max(self.kept, position)
