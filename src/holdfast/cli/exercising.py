"""Running a class's own methods in this process with made-up arguments, for a bounded time."""

import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from holdfast.cli.output import talk
from holdfast.model.errors import EndsProcess
from holdfast.sim.exercise import Exercised, TooSlow, Unfinished, exercise
from holdfast.styles.definition import Definition

WITHIN_S: Final = 30.0
"""For all operations."""
OPERATION_S: Final = 1.0
"""For one: a loop over a number that was made up may take for ever."""
MEMORY_BYTES: Final = 2 << 30
"""More than this process has already: a list of a length that was made up may not take the machine's."""
TOLD_EVERY_S: Final = 2.0


class _OutOfTime(EndsProcess):
    """Raised within a method; no method can take it for an exception of its own."""


def exercised(definition: Definition, *, operations: int, seed: int) -> Exercised:
    """What making so many operations of the class's methods finds; says how far it is when it takes long."""
    until_s = time.monotonic() + WITHIN_S
    told_s = time.monotonic()

    def progress(done: int) -> None:
        nonlocal told_s
        if time.monotonic() - told_s >= TOLD_EVERY_S:
            told_s = time.monotonic()
            talk.print(f"tried {done} of {operations} operations")

    def run(work: Callable[[], list[bytes]]) -> list[bytes]:
        if time.monotonic() >= until_s:
            raise Unfinished
        signal.setitimer(signal.ITIMER_REAL, OPERATION_S)
        try:
            return work()
        except _OutOfTime:
            raise TooSlow from None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    with _bounded():
        return exercise(definition, operations=operations, seed=seed, progress=progress, run=run)


@contextmanager
def _bounded() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, _end)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as statm:
        has_bytes = int(statm.read().split()[0]) * resource.getpagesize()
    wanted = has_bytes + MEMORY_BYTES
    if hard == resource.RLIM_INFINITY or wanted < hard:
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)


def _end(number: int, frame: FrameType | None) -> None:
    raise _OutOfTime
