"""A ward: one process in an agent's care. It is started, watched, and started again when it has ended.

A ward that the agent finds already running (it, not the agent, survived) is left running and watched by
its lock alone: a pid read from a file may be anybody's by now, the lock cannot be (K2).
"""

import asyncio
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

import structlog

from holdfast.agent.restart_policy import Restarts
from holdfast.agent.status_client import signal_holder
from holdfast.machine.child_process import DAMAGED_STATUS, HUNG_STATUS, Child, Output, describe_exit
from holdfast.model.ids import SECOND, Incarnation
from holdfast.model.ports import Clock
from holdfast.node.messages import Proof
from holdfast.storage.lock import DirectoryLock, LockHeld

LOCK_POLL_S: Final = 0.01
"""How often the lock of a process that is not our child is tried."""
STOP_GRACE_S: Final = 10.0
"""How long a process may take to end on SIGTERM before it is killed."""
_ADOPTED_DEATH: Final[tuple[Proof, str]] = ("lock", "ended while no agent was its parent")

log = structlog.get_logger("holdfast.ward")


class ProcessState(Enum):
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
    is_hang: bool = False
    """It ended itself because its loop stood still."""
    is_crash: bool = False
    """It was seen to end, and otherwise than in order."""
    is_damaged: bool = False
    """It ended because what it had stored is not what it wrote."""


class SupervisedProcess:
    """One process; *directory* is the one it locks while it lives."""

    def __init__(
        self,
        name: str,
        *,
        directory: Path,
        command: Sequence[str],
        output: Path,
        clock: Clock,
        on_death: Callable[["SupervisedProcess", Death], None],
    ) -> None:
        self.name = name
        self.state = ProcessState.STOPPED
        self.pid: int | None = None
        self.restarts = Restarts()
        self.last_exit: str | None = None
        self.started_at: int | None = None
        self._directory = directory
        self._command = command
        self._output = Output(output)
        self._clock = clock
        self._on_death = on_death
        self._child: Child | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopping = False
        self._ended = asyncio.Event()
        self._is_hung = False
        self._is_damaged = False
        self._is_crash = True
        """The last process ended otherwise than in order, as far as can be told."""
        self._proven: int | None = None
        """The last incarnation whose death was told: each is told once."""

    @property
    def is_running(self) -> bool:
        return self.state in (ProcessState.RUNNING, ProcessState.ADOPTED)

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
            lock = DirectoryLock.take(self._directory)
            self._tell_of_unwatched_death(lock)
            self._child = Child(self._command, output=self._output, on_exit=self._on_exit)
        except LockHeld as held:
            self._adopt(held.holder.pid)
        except OSError as error:
            self._start_again(f"could not be started: {error}")
        else:
            self.pid = self._child.pid
            self.state = ProcessState.RUNNING

    async def stop(self) -> None:
        """End the process in order, or by force when it does not heed; it is not started again."""
        self._is_stopping = True
        if self._timer is not None and self.state is ProcessState.WAITING:
            self._timer.cancel()
            self.state = ProcessState.STOPPED
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self.is_running:
                return
            self._signal(number)
            await self._wait_ended()
        if self.is_running:
            log.error("does not end, not even killed; does its disk hang?", process=self.name, pid=self.pid)

    async def _wait_ended(self) -> None:
        try:
            async with asyncio.timeout(STOP_GRACE_S):
                await self._ended.wait()
        except TimeoutError:
            return

    def _signal(self, number: signal.Signals) -> None:
        if self._child is not None:
            self._child.signal(number)
        else:
            signal_holder(self._directory, number)

    # --- proof

    def _adopt(self, pid: int) -> None:
        self.pid = pid if pid > 0 else None
        self.state = ProcessState.ADOPTED
        self._is_crash = True  # nobody can say how it will end
        self._seek_proof_later(*_ADOPTED_DEATH)

    def _on_exit(self, code: int) -> None:
        self._child = self.pid = None
        self._is_hung = code == HUNG_STATUS
        self._is_damaged = code == DAMAGED_STATUS
        complaint = self._output.complaint()
        how = describe_exit(code) + (f": {complaint}" if complaint and code > 0 else "")
        self._is_crash = code != 0
        self._seek_proof("waitpid", how)

    def _seek_proof(self, proof: Proof, how: str) -> None:
        """Take the lock: with it the process is proven gone, and its own word says as which incarnation."""
        try:
            lock = DirectoryLock.take(self._directory)
        except LockHeld as held:
            # Not ours, or not ours any more: if our child is gone, somebody has started one by hand.
            self._adopt(held.holder.pid)
        except OSError as error:
            # Without proof not a word (K2), and no second process.
            self.last_exit = f"{how}, but its directory cannot be locked: {error}"
            self._seek_proof_later(proof, how)
        else:
            self._on_proof(self._newly_proven(lock), proof, how)

    def _seek_proof_later(self, proof: Proof, how: str) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(LOCK_POLL_S, self._seek_proof, proof, how)

    def _tell_of_unwatched_death(self, lock: DirectoryLock) -> None:
        """A process that ended while no agent ran: the lock proves it as well as if we had watched."""
        incarnation = self._newly_proven(lock)
        if incarnation is not None:
            self._on_death(self, Death(incarnation, "lock", "ended while no agent ran"))

    def _newly_proven(self, lock: DirectoryLock) -> Incarnation | None:
        """Release *lock*; whom it has proven gone: its last holder, if that was not told already."""
        last = lock.last_holder
        lock.release()
        if last is None or last.incarnation is None or last.incarnation == self._proven:
            return None
        self._proven = last.incarnation
        return Incarnation(last.incarnation)

    def _on_proof(self, incarnation: Incarnation | None, proof: Proof, how: str) -> None:
        self.state = ProcessState.STOPPED
        self.pid = None
        is_hang, self._is_hung = self._is_hung, False
        is_damaged, self._is_damaged = self._is_damaged, False
        is_crash = self._is_crash and not self._is_stopping
        self._on_death(self, Death(incarnation, proof, how, is_hang, is_crash, is_damaged))
        self._ended.set()
        if self._is_stopping:
            self.last_exit = how
        else:
            self._start_again(how)

    def _start_again(self, how: str) -> None:
        self.last_exit = how
        lived_ns = self._clock.now() - (self.started_at or 0)
        self.restarts, delay_ns = self.restarts.after_death(lived_ns)
        self.started_at = None
        self.state = ProcessState.WAITING
        self._ended.clear()
        self._timer = asyncio.get_running_loop().call_later(delay_ns / SECOND, self.start)
