"""A ward: one process in an agent's care. It is started, watched, and started again when it has ended.

A ward that the agent finds already running (it, not the agent, survived) is left running and watched by
its lock alone: a pid read from a file may be anybody's by now, the lock cannot be (PROTOCOL K2).
"""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from holdfast.model.ids import Incarnation
from holdfast.model.ports import Clock
from holdfast.model.units import SECOND
from holdfast.node.child import Child, describe_exit
from holdfast.node.messages import Proof
from holdfast.node.restarts import Restarts
from holdfast.storage.lock import DirectoryLock, Held

LOCK_POLL_S: Final = 0.01
"""How often the lock of a process that is not our child is tried."""
STOP_GRACE_S: Final = 10.0
"""How long a process may take to end on SIGTERM before it is killed."""


class WardState(Enum):
    STOPPED = "stopped"
    RUNNING = "running"
    ADOPTED = "adopted"
    """Running, started by an earlier agent."""
    WAITING = "waiting"
    """Ended, and about to be started again."""


@dataclass(frozen=True, slots=True)
class Death:
    """The end of one process, proven."""

    incarnation: Incarnation | None
    """None when it ended before it was given one: then it never had a role that could be missed."""
    proof: Proof
    how: str


class Ward:
    """One process; *directory* is the one it locks while it lives."""

    def __init__(
        self,
        name: str,
        *,
        directory: Path,
        command: Sequence[str],
        output: Path,
        clock: Clock,
        on_death: Callable[["Ward", Death], None],
    ) -> None:
        self.name = name
        self.state = WardState.STOPPED
        self.pid: int | None = None
        self.restarts = Restarts()
        self.last_exit: str | None = None
        self.started_at: int | None = None
        self._directory = directory
        self._command = command
        self._output = output
        self._clock = clock
        self._on_death = on_death
        self._child: Child | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopping = False
        self._ended = asyncio.Event()

    @property
    def is_running(self) -> bool:
        return self.state in (WardState.RUNNING, WardState.ADOPTED)

    @property
    def uptime_s(self) -> float | None:
        return None if self.started_at is None else (self._clock.now() - self.started_at) / SECOND

    def start(self) -> None:
        """Start the process, or take the one that runs already into care."""
        self._timer = None
        if self._is_stopping:
            return
        self.started_at = self._clock.now()
        try:
            DirectoryLock.take(self._directory).release()
        except Held as held:
            self._adopt(held.holder.pid)
            return
        self._child = Child(self._command, output=self._output, on_exit=self._on_exit)
        self.pid = self._child.pid
        self.state = WardState.RUNNING

    async def stop(self) -> None:
        """End the process in order, or by force when it does not heed; it is not started again."""
        self._is_stopping = True
        if self._timer is not None and self.state is WardState.WAITING:
            self._timer.cancel()
            self.state = WardState.STOPPED
        if self.is_running:
            self._signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._ended.wait(), STOP_GRACE_S)
            except TimeoutError:
                self._signal(signal.SIGKILL)
                await self._ended.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self._child is not None:
            self._child.signal(number)
        elif self.pid is not None:
            # An adopted process: the kernel said a moment ago that this pid holds the lock.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _adopt(self, pid: int) -> None:
        self.pid = pid
        self.state = WardState.ADOPTED
        self._try_lock_later()

    def _try_lock_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOCK_POLL_S, self._try_lock)

    def _try_lock(self) -> None:
        try:
            lock = DirectoryLock.take(self._directory)
        except Held as held:
            self.pid = held.holder.pid
            self._try_lock_later()
            return
        self._on_proof(lock, "lock", "ended while no agent was its parent")

    def _on_exit(self, code: int) -> None:
        self._child = None
        try:
            lock = DirectoryLock.take(self._directory)
        except Held as held:
            # Our child is gone, yet another process has its directory: somebody started one by hand.
            self._adopt(held.holder.pid)
            return
        self._on_proof(lock, "waitpid", describe_exit(code))

    def _on_proof(self, lock: DirectoryLock, proof: Proof, how: str) -> None:
        last = lock.last_holder
        lock.release()
        incarnation = last.incarnation if last is not None and last.pid == self.pid else None
        self.state = WardState.STOPPED
        self.pid = None
        self.last_exit = how
        self._on_death(self, Death(None if incarnation is None else Incarnation(incarnation), proof, how))
        self._ended.set()
        if not self._is_stopping:
            self._start_again()

    def _start_again(self) -> None:
        lived_ns = self._clock.now() - (self.started_at or 0)
        self.restarts, delay_ns = self.restarts.after_death(lived_ns)
        self.started_at = None
        self.state = WardState.WAITING
        self._ended.clear()
        self._timer = asyncio.get_running_loop().call_later(delay_ns / SECOND, self.start)
