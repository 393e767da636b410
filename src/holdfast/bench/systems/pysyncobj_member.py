"""One process of PySyncObj under measurement: it answers questions about itself, and calls when told to."""

import logging
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from typing import Any, Final

from holdfast.bench.measuring.callers import LOADED_S, Load, summed
from holdfast.bench.measuring.usage import cpu_of

RETRY_S: Final = 0.002
"""How often a survivor calls again, whether it was answered or not."""
LATE_S: Final = 30.0
"""How long after the end of a run its last calls may end."""


@dataclass(frozen=True, slots=True)
class WhoLeads:
    """Asks for the leader's name; with *is_self*, whether this process is the leader."""

    is_self: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """Asks to keep that many calls in flight for that long."""

    in_flight: int
    seconds: float
    pids: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Insist:
    """Asks to kill the leader, and to call until a call begun after that is acknowledged.

    The answer is the seconds.
    """

    leader: int
    within_s: float


Ask = WhoLeads | Run | Insist


def serve(pipe: Pipe, own: str, others: Sequence[str], options: Mapping[str, Any]) -> None:
    """Run the process until it is killed."""
    os.setsid()
    # Imported here: where PySyncObj is missing, only this process needs it.
    from pysyncobj import SyncObj, SyncObjConf, replicated

    class Counter(SyncObj):  # type: ignore[misc]  # of an untyped class
        def __init__(self) -> None:
            super().__init__(own, others, SyncObjConf(**options))
            self.total = 0

        @replicated  # type: ignore[untyped-decorator]
        def add(self, amount: int) -> int:
            self.total += amount
            return self.total

    logging.disable()  # it reports every election on the terminal
    counter = Counter()
    while True:
        match pipe.recv():
            case WhoLeads(is_self=False):
                leader = counter._getLeader()
                pipe.send(None if leader is None else str(leader))
            case WhoLeads():
                pipe.send(counter._isLeader())
            case Run() as run:
                pipe.send(_run(counter, run))
            case Insist() as insist:
                pipe.send(_insist(counter, insist))


def _run(counter: Any, run: Run) -> Load:
    """Make calls one after the other in PySyncObj's own thread, where it calls back."""
    took_s: list[float] = []
    ended = threading.Event()
    before = cpu_of(run.pids)
    began = time.perf_counter()
    until = began + run.seconds
    in_flight = 0

    def call() -> None:
        nonlocal in_flight
        called = time.perf_counter()
        if called >= until:
            if not in_flight:
                ended.set()
            return
        in_flight += 1

        def called_back(_: object, error: object) -> None:
            nonlocal in_flight
            in_flight -= 1
            if not error:
                took_s.append(time.perf_counter() - called)
            call()

        counter.add(1, callback=called_back)

    for _ in range(run.in_flight):
        call()
    ended.wait(run.seconds + LATE_S)
    return summed(took_s, run.in_flight, time.perf_counter() - began, before, cpu_of(run.pids))


def _insist(counter: Any, insist: Insist) -> float:
    time.sleep(LOADED_S)
    acknowledged: list[float] = []

    def called_back(_: object, error: object) -> None:
        if not error:
            acknowledged.append(time.perf_counter())

    os.kill(insist.leader, signal.SIGKILL)
    killed_at = time.perf_counter()
    while not acknowledged and time.perf_counter() < killed_at + insist.within_s:
        counter.add(1, callback=called_back)
        time.sleep(RETRY_S)
    return (acknowledged[0] if acknowledged else float("inf")) - killed_at
