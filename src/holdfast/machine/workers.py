"""A host's worker processes: for work that would hold up its loop or keep its interpreter (W4).

A job is bytes for a function of ours (:class:`WorkerKind`), and its result is bytes that the host checks
before they count. A pool has a bounded number of processes, each with bounded memory, and each job a bounded
time. Jobs wait in a bounded queue, and beyond it are refused at once. A process that ends is replaced when
there is work. A job that has ended its process twice is refused from then on, because it would end every
other as well. Processes that have nothing to do end after a while.

Everything here runs on the loop, on the host's main thread.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from holdfast.machine.pipe_frames import FRAME_BYTES_MAX, framed
from holdfast.machine.trace import LibraryLog
from holdfast.machine.worker_main import DONE, WHY_BYTES_MAX
from holdfast.machine.worker_process import WorkerProcess
from holdfast.model.errors import InvalidRequest, Overloaded, Rejected, Unavailable
from holdfast.model.host_parts import WorkersStatus

ENDS_MAX: Final = 2
"""A job that has ended so many processes is refused (compare E4)."""
REMEMBERED_MAX: Final = 1_000
"""How many jobs that ended a process are remembered."""
_MAIN: Final = "holdfast.machine.worker_main"

Result = TypeVar("Result")

log = LibraryLog("holdfast.workers")


class JobFailed(Rejected):
    """Raised when a worker could not do its job, or its result was refused. Nothing came of it."""

    code = "job_failed"


class JobRefused(InvalidRequest):
    """Raised for a job that has ended its process too often; it is not tried again."""

    code = "job_refused"


class WorkerLimits(Struct, frozen=True, kw_only=True):
    """The bounds of a host's workers."""

    workers_max: int = 2
    """The most processes at a time. More take the machine's processors from its hosts."""
    waiting_max: int = 64
    """The most jobs that wait for a process. One more is refused."""
    memory_bytes: int = 1 << 30
    """The address space of each process, Python and what it imports included."""
    job_bytes_max: int = 16 << 20
    result_bytes_max: int = 16 << 20
    """The longest job and the longest result: both are in the host's memory at once."""
    job_s: float = 60.0
    """A job that takes longer is given up, and its process is killed."""
    idle_s: float = 60.0
    """A process that has had no work for this long ends. Less frees memory sooner, and starts anew more
    often."""

    def validate(self) -> None:
        """Raise ``InvalidRequest`` naming every problem."""
        longest = FRAME_BYTES_MAX - WHY_BYTES_MAX
        problems = [
            text
            for is_wrong, text in (
                (not 1 <= self.workers_max <= 64, "workers_max must be 1 to 64"),
                (not 0 <= self.waiting_max <= 100_000, "waiting_max must be 0 to 100000"),
                (self.memory_bytes < 64 << 20, "memory_bytes must be at least 67108864"),
                (not 0 < self.job_bytes_max <= longest, f"job_bytes_max must be 1 to {longest}"),
                (not 0 < self.result_bytes_max <= longest, f"result_bytes_max must be 1 to {longest}"),
                (min(self.job_s, self.idle_s) <= 0, "job_s and idle_s must be more than 0"),
            )
            if is_wrong
        ]
        if problems:
            raise InvalidRequest(f"limits of workers out of range: {'; '.join(problems)}")


@dataclass(frozen=True, slots=True)
class WorkerKind:
    """What some workers do. A process does one kind: another would find its modules and its memory."""

    name: str
    target: str
    """The function, as ``module:function``; it must import nothing that a host's process alone may have."""


@dataclass(slots=True)
class _Job:
    kind: WorkerKind
    body: bytes
    digest: bytes
    result: "asyncio.Future[bytes]"


class _Ended(Exception):
    """The process ended, or was ended, in the middle of a job."""


class Workers:
    """The pool of one host."""

    def __init__(self, limits: WorkerLimits | None = None) -> None:
        """Raises ``InvalidRequest`` for limits that are out of range."""
        self._limits = limits or WorkerLimits()
        self._limits.validate()
        self._waiting: deque[_Job] = deque()
        self._tasks: dict[asyncio.Task[None], WorkerKind] = {}
        """What serves each process, from its start to its end."""
        self._idle: dict[asyncio.Task[None], asyncio.Event] = {}
        """Those without a job, the longest idle first, and how to wake them."""
        self._coming: dict[asyncio.Task[None], None] = {}
        """Those that were begun or woken for a job and have not taken one yet."""
        self._pids: dict[asyncio.Task[None], int] = {}
        self._ends: dict[bytes, int] = {}
        """How many processes each job has ended, the oldest first."""
        self._done = self._failed = self._ended = self._refused = 0
        self._is_closed = False

    async def run(self, kind: WorkerKind, body: bytes, check: Callable[[bytes], Result]) -> Result:
        """Have a worker do this job; returns what *check* makes of the result, which counts only then (W4).

        *check* raises ``InvalidRequest`` or ``msgspec.MsgspecError`` for a result that does not hold. Raises
        ``Overloaded`` when too many jobs wait, ``JobFailed``, ``JobRefused`` for a job that has ended two
        processes, ``InvalidRequest`` for one that is too long, ``Unavailable`` when the host closes.
        """
        if self._is_closed:
            raise Unavailable("the host is closing")
        limits = self._limits
        if len(body) > limits.job_bytes_max:
            raise InvalidRequest(f"a job has {len(body)} bytes; at most {limits.job_bytes_max}")
        digest = hashlib.blake2b(body, digest_size=16, person=kind.name.encode()[:16]).digest()
        if self._ends.get(digest, 0) >= ENDS_MAX:
            self._refused += 1
            raise JobRefused(f"this job of {kind.name} has ended {ENDS_MAX} processes; it is not tried again")
        self._drop_abandoned()
        has_place = self._idle or len(self._tasks) < limits.workers_max
        if self._without_worker >= limits.waiting_max and not has_place:
            self._refused += 1
            raise Overloaded(f"{self._without_worker} jobs wait for a worker; at most {limits.waiting_max}")
        job = _Job(kind, body, digest, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        self._employ()
        try:
            return check(await job.result)
        except (InvalidRequest, msgspec.MsgspecError) as error:
            if isinstance(error, JobRefused):
                raise
            self._failed += 1
            raise JobFailed(f"the result of {kind.name} does not hold: {error}") from error

    @property
    def status(self) -> WorkersStatus:
        return WorkersStatus(
            running=tuple((self._tasks[task].name, pid) for task, pid in self._pids.items()),
            busy=len(self._tasks) - len(self._idle),
            waiting=self._without_worker,
            done=self._done,
            failed=self._failed,
            ended=self._ended,
            refused=self._refused,
        )

    async def close(self) -> None:
        """Kill every process; whoever waits is told that the host closes."""
        self._is_closed = True
        while self._waiting:
            _settle(self._waiting.popleft(), Unavailable("the host is closing"))
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- which process does what

    @property
    def _without_worker(self) -> int:
        """How many jobs wait and no process is about to take them."""
        return max(len(self._waiting) - len(self._coming), 0)

    def _drop_abandoned(self) -> None:
        """Forget the jobs that nobody waits for any more: they are not to count as waiting."""
        if any(job.result.done() for job in self._waiting):
            self._waiting = deque(job for job in self._waiting if not job.result.done())

    def _employ(self) -> None:
        """Give waiting jobs to processes: idle ones of their kind, then new ones, if need be in the place of
        idle ones of other kinds."""
        wanted = [job.kind for job in self._waiting]
        for task in self._coming:
            if self._tasks[task] in wanted:
                wanted.remove(self._tasks[task])
        for task in list(self._idle):
            if self._tasks[task] in wanted:
                wanted.remove(self._tasks[task])
                self._idle.pop(task).set()
                self._coming[task] = None
        for kind in wanted:
            if len(self._tasks) < self._limits.workers_max:
                task = asyncio.get_running_loop().create_task(self._serve(kind))
                self._tasks[task] = kind
                self._coming[task] = None
            elif self._idle:
                task = next(iter(self._idle))
                del self._idle[task]
                task.cancel()  # at its end there is a place

    def _next(self, kind: WorkerKind) -> _Job | None:
        self._drop_abandoned()
        for job in self._waiting:
            if job.kind == kind:
                self._waiting.remove(job)
                return job
        return None

    async def _serve(self, kind: WorkerKind) -> None:
        """One process, from its start to its end."""
        task = asyncio.current_task()
        assert task is not None
        process: WorkerProcess | None = None
        try:
            while (job := await self._job_for(task, kind)) is not None:
                try:
                    if process is None:
                        process = await self._started(task, kind)
                    await self._do(process, job)
                except _Ended as error:
                    await self._end(task, process)
                    process = None
                    self._on_ended(job, str(error))
                except OSError as error:
                    _settle(job, JobFailed(f"no worker can be started: {error}"))
                    self._failed += 1
                except asyncio.CancelledError:
                    _settle(job, Unavailable("the host is closing"))
                    raise
        finally:
            await self._end(task, process)
            self._idle.pop(task, None)
            self._coming.pop(task, None)
            del self._tasks[task]
            if self._waiting and not self._is_closed:
                self._employ()

    async def _job_for(self, task: "asyncio.Task[None]", kind: WorkerKind) -> _Job | None:
        """The next job; None when there was none for a while, or when jobs of other kinds want its place."""
        while True:
            self._coming.pop(task, None)
            job = self._next(kind)
            if job is not None:
                return job
            if self._waiting:
                return None  # of another kind: its place is wanted
            woken = self._idle[task] = asyncio.Event()
            try:
                async with asyncio.timeout(self._limits.idle_s):
                    await woken.wait()
            except TimeoutError:
                return None
            finally:
                self._idle.pop(task, None)

    async def _started(self, task: "asyncio.Task[None]", kind: WorkerKind) -> WorkerProcess:
        limits = self._limits
        process = await WorkerProcess.start(
            _MAIN, str(limits.memory_bytes), str(limits.result_bytes_max), kind.target
        )
        self._pids[task] = process.pid
        return process

    async def _end(self, task: "asyncio.Task[None]", process: WorkerProcess | None) -> None:
        self._pids.pop(task, None)
        if process is not None:
            await process.end()

    async def _do(self, process: WorkerProcess, job: _Job) -> None:
        """Have the process do a job. Raises :class:`_Ended`."""
        try:
            async with asyncio.timeout(self._limits.job_s):
                await process.write(framed(job.body))
                answer = await process.read(self._limits.result_bytes_max + WHY_BYTES_MAX)
        except TimeoutError:
            raise _Ended(f"it took more than {self._limits.job_s:g} s") from None
        except (EOFError, OSError):
            raise _Ended(f"its process ended with {await process.wait()}") from None
        except msgspec.ValidationError as error:
            raise _Ended(f"its answer cannot be read: {error}") from None
        if answer[:1] == DONE:
            self._done += 1
            _settle(job, answer[1:])
        else:
            self._failed += 1
            why = answer[1:].decode(errors="replace")
            _settle(job, JobFailed(f"a worker could not do {job.kind.name}: {why}"))

    def _on_ended(self, job: _Job, why: str) -> None:
        """Try the job once more, in another process; or give it up."""
        self._ended += 1
        ends = self._ends.pop(job.digest, 0) + 1
        self._ends[job.digest] = ends
        while len(self._ends) > REMEMBERED_MAX:
            del self._ends[next(iter(self._ends))]
        log.warning("a worker has ended", kind=job.kind.name, why=why, ends=ends)
        if ends < ENDS_MAX:
            if not job.result.done():
                self._waiting.appendleft(job)
            return
        self._refused += 1
        said = f"this job of {job.kind.name} has ended {ends} processes; it is not tried again: {why}"
        _settle(job, JobRefused(said))


def _settle(job: _Job, found: bytes | Exception) -> None:
    if job.result.done():
        return  # whoever waited has gone
    if isinstance(found, bytes):
        job.result.set_result(found)
    else:
        job.result.set_exception(found)
