"""Runs slow methods of this host's groups on threads of their own (E15).

A group has one method at a time, and the host a bounded number of threads; what comes beyond that waits. The
interpreter is shared: it changes hands more often while a slow method runs, so that the loop gets it soon.
A method that keeps the interpreter without end, as a library in C may, holds up the loop all the same.

Nothing can end a thread. One whose object was given up meanwhile runs to its end, and its result is dropped;
the group's next slow method waits for it, because the two could share more than the object.
"""

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from holdfast.machine import MachineClock
from holdfast.machine.process_tuning import USUAL_NS, ask_for_slices, wake_on_time
from holdfast.model.ids import SECOND

THREADS_MAX: Final = 4
"""How many slow methods run at a time. They share one interpreter, so more would only slow each other."""
SWITCH_S: Final = 0.00005
"""How long a thread keeps the interpreter while a slow method runs, and another thread wants it. The loop
waits so long at the beginning of each turn. With ten times that, turns began 0.4 ms later; with twice, 0.04
ms. With less than half hardly anything is gained, because handing over takes as long, and turns of the loop
are interrupted more often (decision 98)."""
NAMED_S: Final = 60.0
"""A method that has run for so long is named in the log, and again after each such time."""

log = structlog.get_logger("holdfast.slow")


@dataclass(slots=True, eq=False)
class _Run:
    group: str
    work: Callable[[], bytes]
    then: Callable[[bytes], None]
    began_ns: int = 0


class SlowThreads:
    """The slow methods of one host. Used from the loop's thread only."""

    def __init__(self, *, threads_max: int = THREADS_MAX, named_s: float = NAMED_S) -> None:
        self._threads_max = threads_max
        self._named_s = named_s
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Run] = deque()
        self._running: dict[str, _Run] = {}
        """The run of each group that has one."""
        self._usual_s = sys.getswitchinterval()
        wake_on_time()  # the loop's waits for the interpreter would be twice as long

    @property
    def running(self) -> int:
        return len(self._running)

    def of(self, group: str) -> "GroupSlowThread":
        """What runs the slow methods of one group."""
        return GroupSlowThread(self, group)

    def run(self, group: str, work: Callable[[], bytes], then: Callable[[bytes], None]) -> None:
        self._waiting.append(_Run(group, work, then))
        self._begin_next()

    def _begin_next(self) -> None:
        for each in tuple(self._waiting):
            if len(self._running) >= self._threads_max:
                break
            if each.group not in self._running:
                self._waiting.remove(each)
                self._begin(each)
        sys.setswitchinterval(SWITCH_S if self._running else self._usual_s)

    def _begin(self, run: _Run) -> None:
        self._running[run.group] = run
        run.began_ns = MachineClock.now()
        self._loop.call_later(self._named_s, self._name, run)
        threading.Thread(
            target=self._compute, args=(run,), name=f"slow {run.group}"[:15], daemon=True
        ).start()

    def _compute(self, run: _Run) -> None:
        found: bytes | BaseException
        ask_for_slices(USUAL_NS)  # the threads that serve ask for short ones, and are let in before this one
        try:
            found = run.work()
        except BaseException as error:
            # The method's own exceptions are its outcome: this is a broken invariant, or memory is gone.
            found = error
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ended, run, found)

    def _ended(self, run: _Run, found: bytes | BaseException) -> None:
        del self._running[run.group]
        self._begin_next()
        if isinstance(found, BaseException):
            raise found  # on the loop, where it ends the process
        run.then(found)

    def _name(self, run: _Run) -> None:
        if self._running.get(run.group) is run:
            took_s = round((MachineClock.now() - run.began_ns) / SECOND)
            log.warning("a slow method has not ended", group=run.group, runs_s=took_s)
            self._loop.call_later(self._named_s, self._name, run)


@dataclass(frozen=True, slots=True)
class GroupSlowThread:
    """Implements :class:`holdfast.styles.ports.SlowPort`."""

    threads: SlowThreads
    group: str

    def run(self, work: Callable[[], bytes], then: Callable[[bytes], None]) -> None:
        self.threads.run(self.group, work, then)
