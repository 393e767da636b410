"""Passwords are hashed on threads of their own: it takes long on purpose, and the loop serves others."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

THREADS: Final = 2
"""How many passwords are hashed at once; hashing lets other threads run meanwhile."""
WAITING_MAX: Final = 64
"""How many may wait: some three seconds' work. Further clients are told "busy" instead of waiting longer."""


class PasswordThreads:
    """The door's :class:`.Hasher` on an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, waiting_max: int = WAITING_MAX) -> None:
        self._loop = loop
        self._most = waiting_max + THREADS
        self._waiting = 0
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="ldap-password")

    def submit(self, work: Callable[[], Any], then: Callable[[Any], None]) -> bool:
        if self._waiting >= self._most:
            return False
        self._waiting += 1
        self._pool.submit(work).add_done_callback(lambda done: self._post(done, then))
        return True

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _post(self, done: "Future[Any]", then: Callable[[Any], None]) -> None:
        if not done.cancelled() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._finish, done, then)

    def _finish(self, done: "Future[Any]", then: Callable[[Any], None]) -> None:
        self._waiting -= 1
        then(done.result())
