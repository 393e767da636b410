"""Simulated timers: they count by their machine's clock, and not while it sleeps."""

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from holdfast.model.ports import TimerId

if TYPE_CHECKING:
    from holdfast.sim.node import Life, SimNode


class SimTimers:
    """The Timers port of one process."""

    __slots__ = ("_armed", "_is_closed", "_last", "_life", "_node", "_on_timer")

    def __init__(self, node: "SimNode", life: "Life", on_timer: Callable[[Any], None]) -> None:
        self._node = node
        self._life = life
        self._on_timer = on_timer
        self._armed: dict[int, None] = {}
        self._last = 0
        self._is_closed = False

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        self._last = number = self._last + 1
        if not self._life.over and not self._is_closed:
            node = self._node
            delay_ns = node.clock.real_delay(delay_ns) if delay_ns > 0 else 0
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
