"""Simulated timers: they count by their machine's clock, and not while it sleeps.

They fire a moment early, where a run says so, as those of a real loop do: uvloop counts whole milliseconds
and rounds what it is asked for. A core whose timer finds nothing due must set it again.
"""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final

from holdfast.model.ports import TimerId

if TYPE_CHECKING:
    from holdfast.sim.node import Life, SimNode

LEAST_NS: Final = 100_000
"""A longer timer takes at least this, however early it fires: about a turn of a loop. *Without it:* a core
that sets one again for what is left does so for ever at one moment, as its handlers take no time here."""


class SimTimers:
    """The Timers port of one process."""

    __slots__ = ("_armed", "_early_ns", "_early_rng", "_is_closed", "_last", "_life", "_node", "_on_timer")

    def __init__(self, node: "SimNode", life: "Life", on_timer: Callable[[Any], None]) -> None:
        self._node = node
        self._life = life
        self._on_timer = on_timer
        self._early_ns = node.world.options.timers_early_ns
        self._early_rng = node.world.rng("timers")
        self._armed: dict[int, None] = {}
        self._last = 0
        self._is_closed = False

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        self._last = number = self._last + 1
        if not self._life.over and not self._is_closed:
            node = self._node
            delay_ns = self._drawn(node.clock.real_delay(delay_ns)) if delay_ns > 0 else 0
            # All that a firing needs travels with the event; what is armed only says whether it still counts.
            self._armed[number] = None
            due_ns = node.awake_ns() + delay_ns
            node.world.after(delay_ns, node.run, self._life, self._fire, number, tag, due_ns)
        return TimerId(number)

    def cancel(self, timer: TimerId) -> None:
        self._armed.pop(timer, None)

    def close(self) -> None:
        """None fires any more, and none can be set."""
        self._armed.clear()
        self._is_closed = True

    def _drawn(self, delay_ns: int) -> int:
        """After what time one that was set for *delay_ns* fires, if all goes well."""
        if not self._early_ns:
            return delay_ns
        early_ns = int(self._early_rng.random() * self._early_ns)
        return max(delay_ns - early_ns, min(delay_ns, LEAST_NS))

    def _fire(self, number: int, tag: Hashable, due_ns: int) -> None:
        if number not in self._armed:
            return
        node = self._node
        owed_ns = due_ns - node.awake_ns()
        if owed_ns > 0:  # the machine slept meanwhile
            node.world.after(owed_ns, node.run, self._life, self._fire, number, tag, due_ns)
            return
        del self._armed[number]
        node.world.trace.add(f"{node.world.now} {node.name} timer {tag}")
        self._on_timer(tag)
