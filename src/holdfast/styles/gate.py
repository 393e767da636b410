"""When a primary lets no interleaved operation begin, so that its object comes to rest and can be captured
(E12).

It closes the gate by a record, for every member and every replay alike, as soon as somebody waits for a
moment of rest: a checkpoint that is due, an upgrade, an orderly stop. The object opens it itself when it has
been at rest (:mod:`.line`). Where that takes too long, as an operation waits for a group that does not
answer, another record opens it, and the rest is waited for again later.
"""

from holdfast.model.ports import Clock
from holdfast.styles.config import StyleConfig
from holdfast.styles.line import Line
from holdfast.styles.operation import Marked, Unmarked


class Gate:
    """Of one member, as its primary."""

    def __init__(self, clock: Clock, config: StyleConfig) -> None:
        self._clock = clock
        self._config = config
        self._not_before = 0
        """Until then nothing is ordered about it: the last record is on its way, or the pause is not over."""
        self._given_up_at: int | None = None
        """When a closed gate is opened though nothing came to rest."""

    def due(self, line: Line) -> Marked | Unmarked | None:
        """What to order now. What could not be ordered is due again in a while."""
        if not line.is_gate_closed:
            self._given_up_at = None
            if not line.needs_gate or self._clock.now() < self._not_before:
                return None
            self._not_before = self._clock.now() + self._config.gate_again_ns
            return Marked()
        now = self._clock.now()
        if self._given_up_at is None:
            self._given_up_at = now + self._config.gate_ns
        if now < self._given_up_at:
            return None
        self._given_up_at = None
        self._not_before = now + self._config.gate_pause_ns
        return Unmarked()

    def next_ns(self, line: Line) -> int | None:
        """When, by the clock, :meth:`due` should be asked though nothing comes in."""
        if line.is_gate_closed:
            return self._given_up_at
        return self._not_before if line.needs_gate else None
