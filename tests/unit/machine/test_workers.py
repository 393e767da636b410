"""A pool of worker processes: everything is bounded, and nothing that a worker does harms its host (W4)."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from holdfast.machine.workers import (
    ENDS_MAX,
    JobFailed,
    JobRefused,
    WorkerKind,
    WorkerLimits,
    Workers,
)
from holdfast.model.errors import InvalidRequest, Overloaded, Unavailable
from holdfast.storage.lock import DirectoryLock, Holder

WAIT_S = 60.0


def kind(name: str) -> WorkerKind:
    return WorkerKind(name, f"work_for_workers:{name}")


@pytest.fixture(autouse=True)
def work_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)


def run(work: Callable[[Workers], Awaitable[None]], **limits: float) -> None:
    async def with_pool() -> None:
        workers = Workers(msgspec.convert(limits, WorkerLimits))
        try:
            async with asyncio.timeout(WAIT_S):
                await work(workers)
        finally:
            await workers.close()

    asyncio.run(with_pool())


async def result_of(workers: Workers, name: str, job: bytes = b"") -> bytes:
    return await workers.run(kind(name), job, bytes)


def test_a_job_is_done_in_another_process_which_is_used_again() -> None:
    async def work(workers: Workers) -> None:
        first = int(await result_of(workers, "pid"))
        assert first != os.getpid()
        assert workers.status.running == (("pid", first),)
        assert int(await result_of(workers, "pid")) == first
        assert await result_of(workers, "printing", b"job") == b"job"
        assert workers.status.done == 3

    run(work)


def test_a_worker_has_nothing_of_its_host(tmp_path: Path) -> None:
    """It inherits no file, so it never holds the store's lock (K2), and serving processes go before it."""
    lock = DirectoryLock.take(tmp_path, Holder(pid=os.getpid(), what="a host", since="now"))
    secret = os.open(tmp_path / "a file", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(secret, True)

    async def work(workers: Workers) -> None:
        found = await workers.run(kind("environment"), b"", msgspec.msgpack.decode)
        niceness, session, parent, files = found
        assert niceness >= 10
        assert session == os.getsid(0)  # niceness counts most among the processes of one session
        assert parent == os.getpid()
        assert files
        assert not [each for each in files if each.startswith(str(tmp_path))]

    try:
        run(work)
    finally:
        os.close(secret)
        lock.release()


def test_what_a_worker_made_counts_when_it_was_checked() -> None:
    async def work(workers: Workers) -> None:
        def check(result: bytes) -> int:
            if len(result) != 4:
                raise InvalidRequest(f"{len(result)} bytes")
            return len(result)

        assert await workers.run(kind("double"), b"ab", check) == 4
        with pytest.raises(JobFailed, match="the result of double does not hold: 6 bytes"):
            await workers.run(kind("double"), b"abc", check)
        with pytest.raises(JobFailed, match="does not hold"):
            await workers.run(kind("double"), b"\xc1", msgspec.msgpack.decode)

    run(work)


@pytest.mark.parametrize(
    ("name", "says"),
    [("fail", "ValueError: cannot do it"), ("leave", "SystemExit: 3"), ("nowhere", "nowhere")],
)
def test_work_that_raises_fails_and_its_process_goes_on(name: str, says: str) -> None:
    async def work(workers: Workers) -> None:
        for _ in range(ENDS_MAX + 1):
            with pytest.raises(JobFailed, match=says):
                await result_of(workers, name, b"it")
        (pid,) = [pid for _, pid in workers.status.running]
        os.kill(pid, 0)
        assert workers.status.ended == 0

    run(work)


def test_a_job_that_ends_its_process_is_tried_once_more(tmp_path: Path) -> None:
    async def work(workers: Workers) -> None:
        assert await result_of(workers, "die_once", os.fsencode(tmp_path / "dead")) == b"alive"
        assert workers.status.ended == 1

    run(work)


def test_a_job_that_ends_its_process_twice_is_refused() -> None:
    """And again without a try; other jobs of the kind are not affected (compare E4)."""

    async def work(workers: Workers) -> None:
        with pytest.raises(JobRefused, match=r"has ended 2 processes.*ended with -9"):
            await result_of(workers, "die", b"x")
        assert workers.status.ended == ENDS_MAX
        with pytest.raises(JobRefused):
            await result_of(workers, "die", b"x")
        assert workers.status.ended == ENDS_MAX
        assert await result_of(workers, "double", b"x") == b"xx"
        with pytest.raises(JobRefused):
            await result_of(workers, "die", b"another")
        assert workers.status.ended == 2 * ENDS_MAX

    run(work)


def test_a_worker_that_is_killed_while_idle_is_replaced() -> None:
    async def work(workers: Workers) -> None:
        first = int(await result_of(workers, "pid"))
        os.kill(first, signal.SIGKILL)
        assert int(await result_of(workers, "pid")) != first

    run(work)


@pytest.mark.parametrize("name", ["spin", "hold"])
def test_a_job_that_takes_too_long_is_given_up(name: str) -> None:
    async def work(workers: Workers) -> None:
        with pytest.raises(JobRefused, match=r"it took more than 0\.3 s"):
            await result_of(workers, name, b"3600")
        assert workers.status.ended == ENDS_MAX
        assert not workers.status.running

    run(work, job_s=0.3)


def test_memory_and_results_are_bounded() -> None:
    async def work(workers: Workers) -> None:
        with pytest.raises(JobFailed, match="MemoryError"):
            await result_of(workers, "grow", b"%d" % (600 << 20))
        assert await result_of(workers, "much", b"1000") == bytes(1000)
        with pytest.raises(JobFailed, match="the result has 1001 bytes; at most 1000"):
            await result_of(workers, "much", b"1001")
        with pytest.raises(InvalidRequest, match="a job has 2001 bytes; at most 2000"):
            await result_of(workers, "double", bytes(2001))

    run(work, memory_bytes=512 << 20, result_bytes_max=1000, job_bytes_max=2000)


def test_jobs_wait_in_a_bounded_queue() -> None:
    """Never more processes than allowed; one job more than may wait is refused, and says how many wait."""

    async def work(workers: Workers) -> None:
        jobs = [asyncio.ensure_future(result_of(workers, "spin", b"0.2")) for _ in range(5)]
        await asyncio.sleep(0)
        assert workers.status.waiting == 3
        with pytest.raises(Overloaded, match="3 jobs wait for a worker; at most 3"):
            await result_of(workers, "double")
        most = 0
        while not all(job.done() for job in jobs):
            most = max(most, len(workers.status.running))
            await asyncio.sleep(0.01)
        assert most == 2
        assert [job.result() for job in jobs] == [b"spun"] * 5
        assert workers.status.refused == 1

    run(work, workers_max=2, waiting_max=3)


def test_a_job_that_nobody_waits_for_any_more_makes_room() -> None:
    async def work(workers: Workers) -> None:
        running = asyncio.ensure_future(result_of(workers, "spin", b"0.3"))
        waiting = asyncio.ensure_future(result_of(workers, "double"))
        while not workers.status.running:
            await asyncio.sleep(0.01)
        with pytest.raises(Overloaded):
            await result_of(workers, "double", b"x")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert await result_of(workers, "double", b"x") == b"xx"
        assert await running == b"spun"

    run(work, workers_max=1, waiting_max=1)


def test_another_kind_takes_the_place_of_an_idle_process() -> None:
    async def work(workers: Workers) -> None:
        first = int(await result_of(workers, "pid"))
        assert await result_of(workers, "double", b"a") == b"aa"
        assert [name for name, _ in workers.status.running] == ["double"]
        with pytest.raises(ProcessLookupError):
            os.kill(first, 0)

    run(work, workers_max=1)


def test_an_idle_process_ends_after_a_while() -> None:
    async def work(workers: Workers) -> None:
        await result_of(workers, "pid")
        while workers.status.running:
            await asyncio.sleep(0.01)

    run(work, idle_s=0.05)


def test_closing_ends_all_and_says_so() -> None:
    async def work(workers: Workers) -> None:
        jobs = [asyncio.ensure_future(result_of(workers, "spin", b"3600")) for _ in range(3)]
        while len(workers.status.running) < 2:
            await asyncio.sleep(0.01)
        pids = [pid for _, pid in workers.status.running]
        await workers.close()
        for each in await asyncio.gather(*jobs, return_exceptions=True):
            assert isinstance(each, Unavailable)
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
        with pytest.raises(Unavailable):
            await result_of(workers, "double")

    run(work)


HOST = """
import asyncio, sys
from holdfast.machine.workers import WorkerKind, Workers

async def main():
    workers = Workers()
    kind = WorkerKind("w", "work_for_workers:" + sys.argv[1])
    job = asyncio.ensure_future(workers.run(kind, b"3600", bytes))
    while not workers.status.running:
        await asyncio.sleep(0.01)
    print(workers.status.running[0][1], flush=True)
    await job

asyncio.run(main())
"""


@pytest.mark.parametrize("name", ["spin", "hold"])
def test_workers_die_with_their_host(name: str) -> None:
    """Also when the host is killed, and whatever the worker does (K2)."""
    host = subprocess.Popen([sys.executable, "-c", HOST, name], stdout=subprocess.PIPE)
    assert host.stdout is not None
    worker = int(host.stdout.readline())
    state = Path(f"/proc/{worker}/stat")
    assert state.exists()
    deadline = time.monotonic() + WAIT_S
    while b"worker_main" not in Path(f"/proc/{worker}/cmdline").read_bytes() and time.monotonic() < deadline:
        time.sleep(0.01)
    host.kill()
    host.wait()
    host.stdout.close()
    while state.exists() and ") Z" not in state.read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not state.exists() or ") Z" in state.read_text()


def test_limits_out_of_range_are_all_named() -> None:
    with pytest.raises(InvalidRequest) as refused:
        Workers(WorkerLimits(workers_max=0, waiting_max=-1, memory_bytes=1, job_bytes_max=0, job_s=0))
    for each in ("workers_max", "waiting_max", "memory_bytes", "job_bytes_max", "job_s"):
        assert each in str(refused.value)


def test_who_closes_while_a_worker_ends_leaves_no_process_behind() -> None:
    """The end of a process is waited for, however often that is cancelled."""

    async def work(workers: Workers) -> None:
        await result_of(workers, "pid")
        (pid,) = [pid for _, pid in workers.status.running]
        other = asyncio.ensure_future(result_of(workers, "double", b"x"))
        await asyncio.sleep(0)  # it ends the idle worker, whose place it wants
        await asyncio.sleep(0)
        await workers.close()
        with pytest.raises(Unavailable):
            await other
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    run(work, workers_max=1)
