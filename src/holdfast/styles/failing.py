"""Checkpoints that cannot be made, for whoever must know: told once per reason, not once per attempt.

A state that cannot be read back is no checkpoint (E9): the last good one and the log after it stay, the group
serves on, and only when the log has reached its limit are calls refused, with this reason. The object may be
well again after any call, so it is tried again, after longer and longer pauses.
"""

import re
from typing import Final

from holdfast.styles.config import StyleConfig
from holdfast.styles.ports import StylePorts

WHY_CHARACTERS_MAX: Final = 500
REASONS_MAX: Final = 32
"""Told of one group in a row. With so many, the next one says nothing new."""

_VALUE: Final = re.compile(r"(holds \w+|come back as \w+) .*?(?= and would|: annotate|, which|$)")
_VARYING: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|[0-9]+")
"""Keys, values and numbers: a state that is unreadable at another key each time has one reason."""


def reason_of(why: str) -> str:
    """The same for failures of one kind."""
    return _VARYING.sub("*", _VALUE.sub(r"\1", why))


class Failing:
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
