"""An event loop in a thread of its own, to which other threads hand what they wait for."""

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from holdfast.client.ordering import OrderUnsettled
from holdfast.model.errors import Unavailable

T = TypeVar("T")

END_S: Final = 10.0
"""How long what is cancelled at the end may take to clean up; what takes longer is left behind."""


class LoopThread:
    """Runs from when it is made until :meth:`stop`. Of the process that made it alone: one that is forked has
    a copy of everything but the thread."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._handing = threading.Lock()
        """Held to hand something in, and to stop: what was handed in is seen by who stops."""
        self._is_stopped = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast client", daemon=True)
        self._thread.start()

    @property
    def is_inherited(self) -> bool:
        """Whether this is a copy, in a process that was forked."""
        return os.getpid() != self._process

    def run(self, coroutine: Coroutine[Any, Any, T], *, is_question: bool = False) -> T:
        """Wait for *coroutine*. Raises ``Unavailable`` when it cannot run. If it is ended by :meth:`stop`, so
        does a *question*; of anything else it is unknown what it came to (``OutcomeUnknown``)."""
        future = self._hand_in(coroutine)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            if is_question:
                raise Unavailable("the domain was closed") from None
            raise OrderUnsettled("the domain was closed; it may have been carried out") from None

    def stop(self) -> None:
        """End all that runs, and the thread. Nothing happens to a copy: its loop's files are the parent's."""
        if self.is_inherited:
            return
        with self._handing:
            self._is_stopped = True
            ending = asyncio.run_coroutine_threadsafe(self._end_all(), self._loop)
        ending.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _hand_in(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        if self.is_inherited:  # looked at first: another thread may have held the lock as it was forked
            coroutine.close()
            raise Unavailable("this process was forked since the domain was entered: connect anew")
        with self._handing:
            if self._is_stopped:
                coroutine.close()
                raise Unavailable("the domain is closed: use it within `with`")
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    async def _end_all(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=END_S)
        await self._loop.shutdown_asyncgens()
