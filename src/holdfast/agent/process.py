"""A supervised process: started, watched, and restarted when it ends.

A process that is already running when the agent starts (because it survived the agent) is left running and
watched by its lock alone: a pid read from a file may belong to another process by now, but the lock cannot
(K2). It is the lock of a file and not of a name: a directory that was put in the place of the process's own
proves nothing.
"""

import asyncio
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Final

import structlog

from holdfast.agent.restart_policy import Restarts
from holdfast.agent.status_client import signal_found
from holdfast.machine.child_process import DAMAGED_STATUS, HUNG_STATUS, Child, Output, describe_exit
from holdfast.model.ids import SECOND, Incarnation
from holdfast.model.ports import Clock
from holdfast.node.messages import Proof
from holdfast.storage.lock import DirectoryLock, LockWatch, seize

LOCK_POLL_S: Final = 0.01
"""How often to try the lock of a process that is not this agent's child."""
STOP_GRACE_S: Final = 10.0
"""How long a process may take to end on SIGTERM before it is killed."""
_ADOPTED_DEATH: Final[tuple[Proof, str]] = ("lock", "ended while no agent was its parent")

log = structlog.get_logger("holdfast.ward")


class ProcessState(Enum):
    STOPPED = "stopped"
    RUNNING = "running"
    ADOPTED = "adopted"
    """Running, but started by an earlier agent."""
    WAITING = "waiting"
    """Ended, and about to be started again."""


@dataclass(frozen=True, slots=True)
class Death:
    """The proven end of one process."""

    incarnation: Incarnation | None
    """None if it ended before it got one: then it never had a role that could be missed."""
    proof: Proof
    how: str
    is_hang: bool = False
    """The process ended itself because its loop stood still."""
    is_crash: bool = False
    """The agent saw the process end, and the end was not orderly."""
    is_damaged: bool = False
    """The process ended because its stored data is not what it wrote."""
    will_be_quoted: bool = False
    """The same death is reported again with what the process said last, which takes a look at its output."""


class SupervisedProcess:
    """One supervised process; *directory* is the directory it locks while it is alive."""

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
        self._watch: LockWatch | None = None
        """The lock of a process that is not this agent's child."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopping = False
        self._ended = asyncio.Event()
        self._is_hung = False
        self._is_damaged = False
        self._is_crash = True
        """Whether the last process, as far as is known, did not end in order."""
        self._may_have_complained = False
        """Whether the last process ended by itself, and may have said why."""
        self._is_first = True
        """Whether this agent has not started or found the process yet."""
        self._proven: int | None = None
        """The last incarnation whose death was reported: each is reported once."""

    @property
    def is_running(self) -> bool:
        return self.state in (ProcessState.RUNNING, ProcessState.ADOPTED)

    @property
    def uptime_s(self) -> float | None:
        return None if self.started_at is None else (self._clock.now() - self.started_at) / SECOND

    def start(self) -> None:
        """Start the process, or supervise the one that is already running."""
        self._timer = None
        if self._is_stopping:
            return
        self.started_at = self._clock.now()
        try:
            lock = seize(self._directory)
            if isinstance(lock, LockWatch):
                self._adopt(lock)
                return
            self._tell_of_unwatched_death(lock)
            self._child = Child(self._command, output=self._output, on_exit=self._on_exit)
        except OSError as error:
            self._start_again(f"could not be started: {error}")
        else:
            self.pid = self._child.pid
            self.state = ProcessState.RUNNING

    async def stop(self) -> None:
        """Stop the process with SIGTERM, then SIGKILL if it does not end; it is not restarted."""
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
        elif self._watch is not None:
            signal_found(self._watch.holder, number)

    # --- proof

    def _adopt(self, watch: LockWatch) -> None:
        self._is_first = False
        holder = watch.holder()
        self.pid = holder.pid if holder is not None and holder.pid > 0 else None
        self.state = ProcessState.ADOPTED
        self._is_crash = True  # nobody will know how it ended
        self._watch = watch
        self._look_later()

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOCK_POLL_S, self._look)

    def _look(self) -> None:
        """See whether the process that this agent did not start is gone."""
        lock = self._watch.take() if self._watch is not None else None
        if lock is None:
            self._look_later()
        else:
            self._watch = None
            self._on_proof(self._newly_proven(lock), *_ADOPTED_DEATH)

    def _on_exit(self, code: int) -> None:
        ended, self._child, self.pid = self.pid, None, None
        self._is_hung = code == HUNG_STATUS
        self._is_damaged = code == DAMAGED_STATUS
        self._is_crash = code != 0
        self._may_have_complained = code > 0
        self._seek_proof(ended, describe_exit(code))

    def _seek_proof(self, ended: int | None, how: str) -> None:
        """Take the lock of the child *ended*, whose note names the incarnation."""
        try:
            lock = seize(self._directory)
        except OSError as error:
            # Without proof, report nothing (K2) and start no second process.
            self.last_exit = f"{how}, but its directory cannot be locked: {error}"
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(LOCK_POLL_S, self._seek_proof, ended, how)
            return
        if isinstance(lock, LockWatch):
            # Somebody else holds it: our child is gone, so a person has started another process by hand.
            self._adopt(lock)
        else:
            self._on_proof(self._newly_proven(lock, ended), "waitpid", how)

    def _tell_of_unwatched_death(self, lock: DirectoryLock) -> None:
        """Report a process that ended while no agent ran: the lock is proof enough. Later this agent watches
        each process itself, and knows better than a file that was put there meanwhile."""
        incarnation = self._newly_proven(lock)
        is_first, self._is_first = self._is_first, False
        if incarnation is not None and is_first:
            self._on_death(self, Death(incarnation, "lock", "ended while no agent ran"))

    def _newly_proven(self, lock: DirectoryLock, ended: int | None = None) -> Incarnation | None:
        """Release *lock*; returns the incarnation that it proves dead, unless that was reported already. If
        the process *ended* was waited for, a note of another one says nothing about it."""
        last = lock.last_holder
        lock.release()
        if last is None or last.incarnation is None or last.incarnation == self._proven:
            return None
        if ended is not None and last.pid != ended:
            return None
        self._proven = last.incarnation
        return Incarnation(last.incarnation)

    def _on_proof(self, incarnation: Incarnation | None, proof: Proof, how: str) -> None:
        self.state = ProcessState.STOPPED
        self.pid = None
        is_hang, self._is_hung = self._is_hung, False
        is_damaged, self._is_damaged = self._is_damaged, False
        is_crash = self._is_crash and not self._is_stopping
        may_quote, self._may_have_complained = self._may_have_complained, False
        death = Death(incarnation, proof, how, is_hang, is_crash, is_damaged)
        if not may_quote:
            self._tell_and_go_on(death)
            return
        if incarnation is not None:
            # Others wait for this word, and it leaves at the end of this turn: nothing is read before.
            self._on_death(self, replace(death, will_be_quoted=True))
        asyncio.get_running_loop().call_soon(self._quote, death)

    def _quote(self, death: Death) -> None:
        complaint = self._output.complaint()
        self._tell_and_go_on(replace(death, how=f"{death.how}: {complaint}") if complaint else death)

    def _tell_and_go_on(self, death: Death) -> None:
        self._on_death(self, death)
        how = death.how
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
