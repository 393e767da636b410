"""The Clock, Timers and Random ports on the real machine, and fresh nonces."""

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Hashable
from functools import partial

from holdfast.model.ids import SECOND, Nonce
from holdfast.model.ports import TimerId


class MachineClock:
    """This machine's clocks. ``now`` counts suspended time: a lease must not outlive a closed lid (R3)."""

    # These are not Python methods: one call reads the clocks twenty times, and a Python function around each
    # read costs more than the read.
    now = staticmethod(partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME))
    wall = staticmethod(time.time_ns)


class LoopTimers:
    """The timers of one core on one loop. After :meth:`close` none fires and none can be set."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_timer: Callable[[Hashable], None]) -> None:
        self._loop = loop
        self._on_timer = on_timer
        self._handles: dict[TimerId, asyncio.TimerHandle] = {}
        self._last = 0
        self._closed = False

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        self._last += 1
        timer = TimerId(self._last)
        if not self._closed:
            self._handles[timer] = self._loop.call_later(delay_ns / SECOND, self._fire, timer, tag)
        return timer

    def cancel(self, timer: TimerId) -> None:
        handle = self._handles.pop(timer, None)
        if handle is not None:
            handle.cancel()

    def close(self) -> None:
        self._closed = True
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()

    def _fire(self, timer: TimerId, tag: Hashable) -> None:
        if self._handles.pop(timer, None) is not None:
            self._on_timer(tag)


class MachineRandom:
    """This machine's randomness. The system seeds each stream; only the simulator needs reproducible ones."""

    def __init__(self) -> None:
        self._streams: dict[str, random.Random] = {}

    def stream(self, name: str) -> random.Random:
        if name not in self._streams:
            self._streams[name] = random.Random(random.SystemRandom().getrandbits(256))
        return self._streams[name]


def fresh_nonce() -> Nonce:
    return Nonce(secrets.token_hex(16))
