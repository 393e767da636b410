"""When a member captures its object's state, and when that becomes a checkpoint (FTC-291 to 296, 306,
311)."""

from collections.abc import Callable

from holdfast.model.ids import Position
from holdfast.sequence.ports import Captured
from holdfast.styles.capture import NoStateAvailable
from holdfast.styles.config import StyleConfig
from holdfast.styles.execution import Execution
from holdfast.styles.ports import StylePorts


class Checkpointing:
    """The states one member captures, at ``checkpoint_interval_ns``."""

    def __init__(self, ports: StylePorts, config: StyleConfig) -> None:
        self._ports = ports
        self._config = config
        self._taken_at = ports.clock.now()
        self._bytes = 0
        self._quiet_since = Position(0)
        """Nothing was executed beyond this since the last capture: an idle group takes none."""
        self.kept = Position(0)
        """Where the newest checkpoint of this host stands: its log reaches back so far, and no further."""
        self._captured: Captured | None = None
        """Waits for its position to commit: what is not final is no checkpoint (E1)."""

    def is_due(self, execution: Execution) -> bool:
        """Whether the interval is over and something happened in it, or the log has grown long."""
        if self._bytes >= self._config.checkpoint_bytes:
            return True
        elapsed_ns = self._ports.clock.now() - self._taken_at
        return elapsed_ns >= self._config.checkpoint_interval_ns and execution.position > self._quiet_since

    def grew(self, record_bytes: int) -> None:
        """The log has one more record, of this length."""
        self._bytes += record_bytes

    def maybe_capture(self, execution: Execution) -> None:
        """Capture, if it is due. The state has its place in the sequence now or, if a method waits, between
        it and the next one (FTC-291)."""
        if self.is_due(execution):
            self._restart()
            execution.when_at_rest(lambda: self.capture(execution))

    def capture(self, execution: Execution) -> bytes | None:
        """Capture now; None when the object has no state to give at this moment. Then the log stays as it is,
        and the next interval tries again (FTC-311)."""
        self._restart()
        if not execution.is_at_rest:
            return None
        state = self.ask(execution.save)
        if state is not None:
            self._captured = Captured(execution.position, state)
            self._quiet_since = execution.position
        return state

    def ask(self, get: Callable[[], bytes]) -> bytes | None:
        """What the class's own code gives as state or update; None when it gives none."""
        try:
            return get()
        except NoStateAvailable:
            return None
        except Exception as error:
            # The group serves on, and its log grows until somebody looks.
            self._ports.fault("object_failed", f"no state could be captured: {error!r}")
            return None

    def nothing_since(self, position: Position) -> None:
        """What was ordered up to here after the capture only says that it took place."""
        self._quiet_since = position

    def on_committed(self, up_to: Position) -> None:
        if self._captured is not None and self._captured.position <= up_to:
            captured, self._captured = self._captured, None
            self.keep(captured)

    def keep(self, captured: Captured) -> None:
        """Make a checkpoint of a final state."""
        self.kept = captured.position
        self._ports.save_checkpoint(captured)

    def installed(self, position: Position) -> None:
        """The host has a checkpoint from elsewhere."""
        self.kept = self._quiet_since = position
        self._captured = None

    def _restart(self) -> None:
        self._taken_at = self._ports.clock.now()
        self._bytes = 0

    def forget(self) -> None:
        """What was captured may never become final."""
        self._captured = None
