"""Requests that wait because too many are in flight: first come, first served, within bounds."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from holdfast.calling.config import CallPolicy
from holdfast.model.errors import HoldfastError, Overloaded
from holdfast.model.units import SECOND

WAITING_MAX: Final = 100_000
WAITING_BYTES_MAX: Final = 64 << 20
"""Requests, and bytes of their arguments, that may wait; beyond it callers are told ``Overloaded``."""

Make = Callable[[asyncio.Future[Any], CallPolicy], object]
"""Makes the request that was put off; raises ``Overloaded`` while there is no room."""


class Queueing:
    """The requests of one group that have not begun. Their order is kept: nobody passes those who wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._name = name
        self.waiting: deque[_Waiting] = deque()
        """To be looked at only; nearly always empty."""
        self._bytes = 0
        self._is_admitting = False

    def add(self, make: Make, policy: CallPolicy, size: int) -> asyncio.Future[Any]:
        """Put a request off; a future of its outcome. Its duration counts from now."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        is_full = len(self.waiting) >= WAITING_MAX or self._bytes + size > WAITING_BYTES_MAX
        if is_full or not policy.waits_for_room:
            answer.set_exception(Overloaded(f"{self._name}: too many requests have no answer yet"))
            return answer
        self.waiting.append(_Waiting(answer, make, policy, size, self._loop))
        self._bytes += size
        return answer

    def admit(self) -> None:
        """Let begin what there is room for."""
        if self._is_admitting:
            return  # a connection ended because of what begins just now; whoever began it goes on
        self._is_admitting = True
        try:
            while self.waiting and self._has_begun(self.waiting.popleft()):
                pass
        finally:
            self._is_admitting = False

    def _has_begun(self, first: "_Waiting") -> bool:
        """Let *first* begin, or put it back. It is not among those who wait meanwhile: what begins once
        must not begin again, whatever happens as it does."""
        self._bytes -= first.size
        try:
            first.begin()
        except Overloaded:
            self.waiting.appendleft(first)
            self._bytes += first.size
            return False
        return True

    def close(self, error: HoldfastError) -> None:
        for each in self.waiting:
            each.end(error)
        self.waiting.clear()
        self._bytes = 0


class _Waiting:
    def __init__(
        self,
        answer: asyncio.Future[Any],
        make: Make,
        policy: CallPolicy,
        size: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.size = size
        self._answer = answer
        self._make = make
        self._policy = policy
        self._loop = loop
        self._until = loop.time() + policy.duration_ns / SECOND
        self._late = Overloaded("there was no room for the call within its duration; it was not executed")
        self._timer = loop.call_at(self._until, self.end, self._late)

    def begin(self) -> None:
        """Raises ``Overloaded`` when it must wait on."""
        left_ns = round((self._until - self._loop.time()) * SECOND)
        if left_ns <= 0:
            self.end(self._late)  # its timer is due, and has not run yet
            return
        if not self._answer.done():
            try:
                self._make(self._answer, self._policy.lasting(left_ns))
            except Overloaded:
                raise
            except HoldfastError as error:
                self._answer.set_exception(error)
        self._timer.cancel()

    def end(self, error: HoldfastError) -> None:
        self._timer.cancel()
        if not self._answer.done():
            self._answer.set_exception(error)
