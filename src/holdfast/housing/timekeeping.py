"""A host whose time is not the others' leads no group, if another can (X4)."""

from collections.abc import Callable, Hashable, Mapping
from typing import Final

from holdfast.housing.housed import Housed
from holdfast.housing.ports import Journal, MakeTimers
from holdfast.model.ids import GroupId
from holdfast.model.units import MILLISECOND, SECOND
from holdfast.sequence.peer_clocks import PeerClocks

LOOK_NS: Final = 250 * MILLISECOND
HOLD_NS: Final = 30 * SECOND
"""A group that comes back is kept for so long: where all clocks differ, nobody is a better primary."""


class Timekeeping:
    """Looks at the clocks now and then, and hands over what this host should not stamp."""

    def __init__(
        self,
        clocks: PeerClocks,
        housed: Mapping[GroupId, Housed],
        timers: MakeTimers,
        journal: Journal,
        on_skew: Callable[[int], None],
    ) -> None:
        """*on_skew* is told when this host's time is wrong, and by how much; and 0 when it is right again."""
        self._clocks = clocks
        self._housed = housed
        self._timers = timers(self._on_timer)
        self._journal = journal
        self._passed_at: dict[GroupId, int] = {}
        self._jump_s = 0
        self._on_skew = on_skew
        self._is_skewed = False
        self._timers.set(LOOK_NS, "look")

    def close(self) -> None:
        self._timers.close()

    def _on_timer(self, tag: Hashable) -> None:
        self._tell_of_jump()
        self._tell_of_skew()
        if self._clocks.is_off:
            self._hand_over()
        self._timers.set(LOOK_NS, "look")

    def _tell_of_jump(self) -> None:
        before, self._jump_s = self._jump_s, self._clocks.clock.jump_ns // SECOND
        if self._jump_s and not before:
            self._journal.warning("this machine's clock was set, and is not followed", by_s=self._jump_s)

    def _tell_of_skew(self) -> None:
        was_skewed, skew_ns = self._is_skewed, self._clocks.skew_ns
        self._is_skewed = skew_ns != 0
        if self._is_skewed is not was_skewed:
            self._on_skew(skew_ns)

    def _hand_over(self) -> None:
        now = self._clocks.clock.now()
        for group, housed in list(self._housed.items()):
            passed_at = self._passed_at.get(group)
            if housed.is_primary and (passed_at is None or now - passed_at >= HOLD_NS):
                self._passed_at[group] = now
                housed.pass_on(f"the time on {housed.ground.me.host} is not that of the other hosts")
