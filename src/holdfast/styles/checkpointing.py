"""When a member captures its object's state, and when that becomes a checkpoint (FTC-291 to 296, 306,
311).

A small state is captured between two calls. A large one would stop them for seconds: it is captured in a copy
of the process (E5, :mod:`.checkpoint_copies`), which goes on while the object changes, and its end is an
event like any other. Either way what was captured waits until its position is committed: what is not final is
no checkpoint (E1). Whoever captures a state also reads it back (E9), which takes longer than to write it: a
state for which that takes too long between two calls goes to a copy as well.

And it waits until it is known to be the group's. Who has taken up office has answered, so its state is the
truth; anybody else's counts when its digest was found equal (E8, :mod:`.divergence`). The log is let go up to
such a checkpoint only. A state that is never compared, since the primary died meanwhile or could make no copy
there, makes room for the next one. Only when the log has grown long does one count all the same: with a full
log a backup acknowledges nothing. Should it be found to differ later, it is void like any other.
"""

from collections.abc import Callable
from typing import Final

from holdfast.execution.capture import NoStateAvailable, NotCapturable, NoUpdateAvailable
from holdfast.execution.execution import Execution
from holdfast.model.ids import MILLISECOND, Position
from holdfast.model.outcome import error_in_words
from holdfast.sequence.ports import Captured, Kept
from holdfast.styles.checkpoint_copies import CheckpointCopies, CheckpointFailures
from holdfast.styles.config import StyleConfig
from holdfast.styles.ports import Copied, NotCopied, StylePorts

BUSY_NS: Final = 100 * MILLISECOND
"""When no copy can be begun now, as another group has one, it is tried again after this."""

AGAIN_NS: Final = 200 * MILLISECOND
"""While a log is too long a state is captured again after this, though nothing was executed meanwhile; and a
passive backup looks for it as often."""

STATES_IN_LOG: Final = 4
"""A log so many times as long as the state is replayed in longer than the state is written, by far."""

COPIES_WHEN_SLOW: Final = 16
"""After a state that took long between two calls so many are captured in copies; then it is tried again, as
it may have been the machine that was slow."""

OnDigest = Callable[[Position, bytes], None]


class Checkpointing:
    """The states one member captures, at ``checkpoint_interval_ns``. *on_digest* is told the digest of
    each."""

    def __init__(
        self,
        ports: StylePorts,
        config: StyleConfig,
        log_bytes: Callable[[], int],
        on_digest: OnDigest,
        *,
        digests_state: Callable[[Execution], bool] = lambda _: True,
    ) -> None:
        """*log_bytes*: what the records take that no checkpoint stands for. *digests_state*: whether the
        digest covers the object, or only the replies and timers."""
        self._ports = ports
        self._config = config
        self._log_bytes = log_bytes
        self._on_digest = on_digest
        self._digests_state = digests_state
        self._is_trusted = False
        """This member has answered: its state is the truth."""
        self._told = Position(0)
        """The newest of the primary's digests is of there."""
        self._equal: Position | None = None
        """The state captured there was found equal."""
        self._is_wanted = False
        """A checkpoint is due, whatever the interval says."""
        self._taken_at = ports.clock.now()
        self._bytes = 0
        self._quiet_since = Position(0)
        """Nothing was executed beyond this since the last capture: an idle group takes none."""
        self.kept = Position(0)
        """Where the newest checkpoint of this host stands: its log reaches back so far, and no further."""
        self._captured: Captured | None = None
        self._copies = CheckpointCopies(ports, self._copied, self._kept_copy)
        self._awaited: Execution | None = None
        """The object that is captured at its next moment of rest."""
        self._committed = Position(0)
        self._state_bytes = 0
        """Of the last state captured or installed."""
        self._not_before = 0
        self._copies_left = 0
        """Captures for which a copy is made, small as the state is."""
        self._failing = CheckpointFailures(ports, config)
        self._unreadable = Position(0)
        """The state as of there could not be read back; executed again, it is the same."""

    def tune(self, config: StyleConfig) -> None:
        """Capture states as *config* says from now on."""
        self._config = config
        self._failing.tune(config)

    @property
    def why_none(self) -> str:
        """Why the last state was not captured or could not be read back; empty when it was."""
        return self._failing.why

    def is_unreadable(self, position: Position) -> bool:
        """Whether the state as of there, or a later one, is known to be none that can be read back."""
        return bool(self._failing.why) and self._unreadable >= position

    @property
    def is_copying(self) -> bool:
        """Whether a state is being captured in a copy of the process."""
        return self._copies.under_way is not None

    def is_copying_at(self, position: Position) -> bool:
        copying = self._copies.under_way
        return copying is not None and copying.position == position

    def is_due(self, execution: Execution) -> bool:
        """Whether the interval is over and something happened in it, or the log has grown long: by that, now
        and then only while the moment of rest is awaited in which it is captured. *Without it:* a log is long
        and a method waits for another group; whatever says that a checkpoint is due makes the next one due,
        until the log is full."""
        if self._is_busy or self.is_pausing:
            return False
        if self._is_wanted and execution.position > self.kept:
            return True
        if self._bytes >= self._checkpoint_bytes():
            return True
        elapsed_ns = self._ports.clock.now() - self._taken_at
        is_quiet = execution.position <= self._quiet_since
        if self._log_bytes() >= self._config.long_log_bytes:
            # It reaches back to the older of two checkpoints, and may be too long for the call that would
            # make the second one due.
            is_again = elapsed_ns >= AGAIN_NS and execution.position > self.kept
            return is_again or (not is_quiet and not self.awaits(execution))
        is_interval_over = elapsed_ns >= self._config.checkpoint_interval_ns
        return is_interval_over and not is_quiet and not self.awaits(execution)

    @property
    def _is_busy(self) -> bool:
        """Whether a copy is under way; not one whose digest the primary has passed over, which waits for a
        word that never comes. *Without it:* marks follow each other faster than a primary writes its copies;
        a backup drops each of its own for the next before it was compared, and its log is never let go."""
        copying = self._copies.under_way
        if copying is None:
            return False
        is_word_due = copying.position > self._told
        return not copying.is_written or is_word_due or self._may_count(copying.position)

    def hasten(self) -> None:
        """Somebody needs a newer checkpoint than there is."""
        self._is_wanted = True

    def trust(self) -> None:
        """This member has taken up office."""
        self._is_trusted = True
        self._failing.begin_reign()
        self._keep_what_counts()

    def distrust(self) -> None:
        """It has laid it down: another answers."""
        self._is_trusted = False

    def told(self, position: Position) -> None:
        """The primary's digest of the state as of there is known."""
        self._told = max(self._told, position)

    def equal(self, position: Position) -> None:
        """The state captured there was found to be the primary's."""
        self._equal = position
        self._keep_what_counts()

    def void(self) -> None:
        """The object was not the group's: what was captured of it is nobody's (E8)."""
        self._is_trusted = False
        self._captured = self._awaited = self._equal = None
        copying = self._copies.under_way
        if copying is not None and not copying.is_kept:
            self._copies.drop()

    def _may_count(self, position: Position) -> bool:
        return self._is_trusted or position == self._equal or self._is_log_long

    @property
    def _is_log_long(self) -> bool:
        return self._log_bytes() >= self._config.long_log_bytes

    def _checkpoint_bytes(self) -> int:
        """The log that is borne since the last checkpoint. Who starts again replays it, so a small state,
        which costs little to write, is captured much oftener than a large one."""
        config = self._config
        small = max(config.checkpoint_bytes_least, STATES_IN_LOG * self._state_bytes)
        return min(small, config.checkpoint_bytes)

    def is_large(self, execution: Execution) -> bool:
        """Whether the object's state should not be asked for between two calls."""
        limit = self._config.inline_state_bytes_max
        return self._ports.copies is not None and (
            self._copies_left > 0 or self._state_bytes > limit or execution.weighs_over(limit)
        )

    @property
    def is_kept_large(self) -> bool:
        """Whether to load the object takes long; whoever holds it need not ask."""
        return self._state_bytes > self._config.inline_state_bytes_max

    def grew(self, record_bytes: int) -> None:
        """The log has one more record, of this length."""
        self._bytes += record_bytes

    def maybe_capture(self, execution: Execution) -> None:
        """Capture at rest, if it is due."""
        if self.is_due(execution):
            self.capture_at_rest(execution)

    def capture_at_rest(self, execution: Execution) -> None:
        """Capture, once. The state has its place in the sequence now or, if a method waits, between it and
        the next one (FTC-291). Of an object that is discarded before there comes nothing."""
        self._restart()
        if self._awaited is not execution:
            self._awaited = execution
            execution.when_at_rest(lambda: self._capture_awaited(execution))

    def _capture_awaited(self, execution: Execution) -> None:
        if self._awaited is execution:
            self._awaited = None
        self.capture(execution)

    def awaits(self, execution: Execution) -> bool:
        """Whether it is still to be captured, at rest."""
        return self._awaited is execution

    def capture(self, execution: Execution) -> bytes | None:
        """Capture now; None when the object has no state to give at this moment, or gives it to a copy
        (:attr:`is_copying`). Without any, the log stays as it is, and the next interval tries again
        (FTC-311)."""
        if not execution.is_at_rest or 0 < execution.position <= max(self.kept, self._unreadable):
            # What is kept already is not captured again, nor what could not be read back there. *Without
            # it:* a cold backup meets the same mark at each look, and has no copy left for any later one.
            self._restart()
            return None
        if self.is_large(execution):
            self._begin_copy(execution)
            return None
        self._restart()
        state = self.state_of(execution)
        if state is None:
            if self._failing.why:
                self._quiet_since = execution.position  # as it is, it fails again
            return None
        self._captured = Captured(execution.position, state)
        self._quiet_since = execution.position
        self._state_bytes = len(state)
        self._is_wanted = False
        self._on_digest(
            execution.position, execution.digest(state, with_state=self._digests_state(execution))
        )
        return state

    def final_state(self, execution: Execution | None, committed: Position) -> Captured | None:
        """The object's state as it is; None when there is none to give at once, or it is not final."""
        if execution is None or not execution.is_at_rest:
            return None
        if execution.position > committed or self.is_large(execution):
            return None
        state = self.state_of(execution)
        return Captured(execution.position, state) if state is not None else None

    def settle(self, execution: Execution, committed: Position) -> bool:
        """Have a checkpoint of all that was executed, before an orderly stop; whether nothing more can be
        done about it now. A large state is on its way then, and one that is not final comes to be."""
        if execution.position <= self.kept or not self._is_trusted:
            return True  # a backup's state is no checkpoint before it was compared (E8)
        if self.is_copying or execution.position > committed or not execution.is_at_rest:
            return False
        if self._failing.why and self.is_pausing:
            return True  # its state is none that can be read, and said why
        captured = self.final_state(execution, committed)
        if captured is not None:
            self.keep(captured)
            return True
        if not self.is_large(execution):
            return True  # it has no state to give, and said why
        self._begin_copy(execution)
        return False

    def state_of(self, execution: Execution) -> bytes | None:
        """The object's state as it is, read back; None when the class gives none, or none that can be read.
        The group serves on, and its log grows until somebody looks."""
        began_ns = self._ports.clock.now()
        try:
            state = execution.save()
        except NoStateAvailable:
            self._pause()
            return None
        except NotCapturable as error:
            self._unreadable = execution.position
            self._failing.failed("checkpoint_failed", str(error))
            self._pause()
            return None
        except Exception as error:
            self._failing.failed("object_failed", error_in_words(error))
            self._pause()
            return None
        finally:
            if self._ports.clock.now() - began_ns > self._config.inline_capture_ns_max:
                self._copies_left = COPIES_WHEN_SLOW
        self._failing.succeeded()
        return state

    def _pause(self) -> None:
        """However long the log is: marks would follow each other as fast as they are committed."""
        self._not_before = self._ports.clock.now() + self._failing.pause_ns

    @property
    def is_pausing(self) -> bool:
        """Whether the object had no state, or none that can be read, only a moment ago."""
        return self._ports.clock.now() < self._not_before

    def update_of(self, execution: Execution) -> bytes | None:
        """What the class says has changed; None when it says nothing."""
        try:
            return execution.get_update()
        except (NoStateAvailable, NoUpdateAvailable):
            return None
        except Exception as error:
            self._failing.mention("object_failed", error_in_words(error))
            return None

    def nothing_since(self, position: Position) -> None:
        """What was ordered up to here after the capture only says that it took place."""
        self._quiet_since = position

    def only_told(self, before: Position, after: Position) -> None:
        """What was ordered between the two only speaks of a capture: a group without calls stays quiet."""
        if self._quiet_since >= before:
            self._quiet_since = after

    def on_committed(self, up_to: Position) -> None:
        self._committed = max(self._committed, up_to)
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
        """Make a checkpoint of a final state, unless there is one that stands for more."""
        if captured.position <= self.kept:
            return
        self.kept = captured.position
        self._failing.succeeded()
        self._ports.save_checkpoint(captured)

    def keep_sent(self, sent: Captured) -> None:
        """Make one of a final state that the primary has sent."""
        self._restart()
        self._captured = None
        self._copies.drop()
        self._quiet_since = Position(sent.position + 1)  # and the record that brought it
        self._state_bytes = len(sent.state)
        self._is_wanted = False
        self.keep(sent)

    def installed(self, kept: Kept) -> None:
        """The host has a checkpoint from elsewhere, or from an earlier process."""
        self.kept = self._quiet_since = self._committed = kept.position
        self._state_bytes = kept.size
        self._captured = None
        self._failing.begin_anew()
        self._copies.drop()

    def kept_elsewhere(self, position: Position, size: int) -> None:
        """Another process has made a checkpoint of final records (E7)."""
        self.kept = max(self.kept, position)
        self._state_bytes = size

    def forget(self) -> None:
        """What was captured and is not final may never become so."""
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
        self._failing.succeeded()
        self._state_bytes = result.size
        self._on_digest(position, result.digest)
        self._copies.maybe_keep(self._committed, self._may_count)

    def _failed(self, result: NotCopied) -> None:
        """The log keeps all that the last checkpoint needs. The next copy comes after a pause, also if
        nothing is executed meanwhile, unless it would find the same state again."""
        self._failing.failed("checkpoint_failed", result.why)
        if not result.is_of_state:
            self._quiet_since = Position(0)
        self._postpone(self._failing.pause_ns)

    def _postpone(self, pause_ns: int) -> None:
        """It is still due, but not before this."""
        self._not_before = self._ports.clock.now() + pause_ns
        self._taken_at = self._not_before - self._config.checkpoint_interval_ns

    def _kept_copy(self, position: Position) -> None:
        self.kept = max(self.kept, position)
