"""Tracks the calls that ended processes, on this host or on others (E4)."""

from typing import Final

from holdfast.execution.crash_attempts import Attempt, CrashSuspicions, Slot
from holdfast.model.ids import GroupId, HostId, Incarnation
from holdfast.model.ports import Clock

DEATHS_KEPT: Final = 1024
"""How many deaths are remembered, so that a death that several hosts report counts only once."""


class CrashSuspects:
    """The suspected calls of each group. Each death counts once for each call that ran, no matter how many
    hosts report it."""

    def __init__(self, slot: Slot, clock: Clock) -> None:
        self._slot = slot
        self._clock = clock
        self._groups: dict[GroupId, CrashSuspicions] = {}
        self._counted: dict[tuple[HostId, Incarnation, Attempt], None] = {}

    def of(self, group: GroupId) -> CrashSuspicions:
        known = self._groups.get(group)
        if known is None:
            known = self._groups[group] = CrashSuspicions(group, slot=self._slot, clock=self._clock)
        return known

    def on_death(self, host: HostId, incarnation: Incarnation, during: Attempt) -> None:
        """Record that the process died while it executed *during*."""
        if (host, incarnation, during) in self._counted:
            return
        self._counted[host, incarnation, during] = None
        if len(self._counted) > DEATHS_KEPT:
            del self._counted[next(iter(self._counted))]
        self.of(during.group).ended(during)

    def forget(self, group: GroupId) -> None:
        """Forget a group that has left this host for good."""
        self._groups.pop(group, None)
