"""A supervised process: started, watched, proven dead, restarted. With real processes."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from holdfast.agent import process as wards
from holdfast.agent.process import Death, ProcessState, SupervisedProcess
from holdfast.machine import MachineClock
from holdfast.storage.lock import DirectoryLock, Holder

LOCKER = """
import os, signal, sys, time
from pathlib import Path
from holdfast.storage.lock import DirectoryLock, Holder
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
holder = Holder(pid=os.getpid(), what="a ward", incarnation=int(sys.argv[2]))
lock = DirectoryLock.take(Path(sys.argv[1]), holder)
print("ready", flush=True)
time.sleep(60)
"""
SLEEPER = (sys.executable, "-c", "import time; time.sleep(60)")
WAIT_S = 60.0


class Care:
    """One supervised process and what is reported of it."""

    def __init__(self, directory: Path, command: tuple[str, ...]) -> None:
        self.directory = directory
        self.deaths: list[Death] = []
        self.supervised = SupervisedProcess(
            "w",
            directory=directory / "w",
            command=command,
            output=directory / "w.log",
            clock=MachineClock(),
            on_death=lambda _, death: self.deaths.append(death),
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not holds():
                await asyncio.sleep(0.01)


def run(story: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(story, WAIT_S))


def locker(directory: Path, incarnation: int, *more: str) -> tuple[str, ...]:
    return (sys.executable, "-c", LOCKER, str(directory / "w"), str(incarnation), *more)


def start_locker(directory: Path, incarnation: int) -> "subprocess.Popen[str]":
    """A process that an earlier agent started; it holds the directory when this returns."""
    process = subprocess.Popen(locker(directory, incarnation), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


def test_a_child_that_ends_is_proven_dead_by_waitpid_and_started_again(tmp_path: Path) -> None:
    async def story() -> None:
        care = Care(tmp_path, locker(tmp_path, 7))
        care.supervised.start()
        await care.until(lambda: (tmp_path / "w.log").read_text() == "ready\n")
        first = care.supervised.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await care.until(lambda: care.supervised.is_running and care.supervised.pid != first)
        assert care.deaths == [Death(7, "waitpid", "was ended by SIGKILL", is_crash=True)]
        assert care.supervised.restarts.count == 1
        await care.supervised.stop()
        assert care.supervised.state is ProcessState.STOPPED

    run(story())


def test_a_process_that_says_why_it_ends_is_quoted(tmp_path: Path) -> None:
    """The status says why, so that nobody has to look for a log first."""
    says = "import sys; print('holdfast: no room', file=sys.stderr); print('later', flush=True); sys.exit(1)"

    async def story() -> None:
        care = Care(tmp_path, (sys.executable, "-c", says))
        care.supervised.start()
        await care.until(lambda: bool(care.deaths))
        assert care.deaths[0] == Death(None, "waitpid", "exited with code 1: no room", is_crash=True)
        assert care.supervised.last_exit == "exited with code 1: no room"
        await care.supervised.stop()

    run(story())


def test_a_death_is_told_before_the_output_is_read(tmp_path: Path) -> None:
    """Groups without a primary wait for the first word; what the process said last is for people."""
    says = f"import os; print('holdfast: no room', flush=True); {LOCKER}".replace(
        "time.sleep(60)", "os._exit(1)"
    )

    async def story() -> None:
        care = Care(tmp_path, (sys.executable, "-c", says, str(tmp_path / "w"), "7"))
        care.supervised.start()
        await care.until(lambda: len(care.deaths) >= 2)
        assert care.deaths[:2] == [
            Death(7, "waitpid", "exited with code 1", is_crash=True, will_be_quoted=True),
            Death(7, "waitpid", "exited with code 1: no room", is_crash=True),
        ]
        await care.supervised.stop()

    run(story())


def test_a_start_that_fails_is_tried_again(tmp_path: Path) -> None:
    """A full disk or a missing permission must not end the supervision, and with it the host, for good."""

    async def story() -> None:
        care = Care(tmp_path, SLEEPER)
        in_the_way = tmp_path / "w"
        in_the_way.write_text("a file where the directory should be")
        care.supervised.start()
        assert care.supervised.state is ProcessState.WAITING
        assert "could not be started" in (care.supervised.last_exit or "")
        in_the_way.unlink()
        await care.until(lambda: care.supervised.state is ProcessState.RUNNING)
        await care.supervised.stop()

    run(story())


def test_a_process_that_died_while_no_agent_ran_is_told_of_once(tmp_path: Path) -> None:
    """Having obtained the lock is proof (K2): the others need not wait for a grace time."""
    end(start_locker(tmp_path, 3))

    async def story() -> None:
        care = Care(tmp_path, SLEEPER)
        care.supervised.start()
        assert care.deaths == [Death(3, "lock", "ended while no agent ran")]
        assert care.supervised.pid is not None
        os.kill(care.supervised.pid, signal.SIGKILL)
        await care.until(lambda: len(care.deaths) == 2)
        # This one ended before it locked anything: the incarnation found there is not its own.
        assert care.deaths[1].incarnation is None
        await care.supervised.stop()

    run(story())


def test_a_running_process_is_taken_into_care_not_started_twice(tmp_path: Path) -> None:
    older = start_locker(tmp_path, 5)

    async def story() -> None:
        care = Care(tmp_path, locker(tmp_path, 6))
        care.supervised.start()
        assert (care.supervised.state, care.supervised.pid) == (ProcessState.ADOPTED, older.pid)
        await asyncio.sleep(0.1)
        assert care.deaths == []
        older.kill()
        await care.until(lambda: bool(care.deaths))
        assert care.deaths[0].incarnation == 5
        assert care.deaths[0].proof == "lock"
        await care.until(lambda: care.supervised.state is ProcessState.RUNNING)
        await care.supervised.stop()

    try:
        run(story())
    finally:
        end(older)


def test_an_adopted_process_is_stopped_in_order(tmp_path: Path) -> None:
    older = start_locker(tmp_path, 5)

    async def story() -> None:
        care = Care(tmp_path, SLEEPER)
        care.supervised.start()
        await care.supervised.stop()
        assert care.supervised.state is ProcessState.STOPPED
        assert care.deaths[0].incarnation == 5

    try:
        run(story())
        assert older.wait(WAIT_S) == -signal.SIGTERM
    finally:
        end(older)


def test_a_process_deaf_to_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wards, "STOP_GRACE_S", 0.3)

    async def story() -> None:
        care = Care(tmp_path, locker(tmp_path, 1, "deaf"))
        care.supervised.start()
        await care.until(lambda: (tmp_path / "w.log").read_text() == "ready\n")
        await care.supervised.stop()
        assert care.deaths == [Death(1, "waitpid", "was ended by SIGKILL")]

    run(story())


def test_a_ward_stopped_while_it_waits_is_not_started(tmp_path: Path) -> None:
    async def story() -> None:
        care = Care(tmp_path, (sys.executable, "-c", "raise SystemExit(1)"))
        care.supervised.start()
        await care.until(lambda: len(care.deaths) == 3 and care.supervised.state is ProcessState.WAITING)
        await care.supervised.stop()
        await asyncio.sleep(0.5)
        assert (care.supervised.state, len(care.deaths)) == (ProcessState.STOPPED, 3)

    run(story())


def swap(directory: Path) -> Path:
    """Move the directory away while its process runs, and put a copy in its place."""
    moved = directory.with_name("moved")
    directory.rename(moved)
    shutil.copytree(moved, directory)
    return moved


def test_a_swapped_directory_proves_no_death_of_an_adopted_process(tmp_path: Path) -> None:
    """The agent waits for the file that the process holds, wherever that is now."""

    async def story() -> None:
        process = start_locker(tmp_path, 4)
        care = Care(tmp_path, SLEEPER)
        try:
            care.supervised.start()
            swap(tmp_path / "w")
            await asyncio.sleep(10 * wards.LOCK_POLL_S)
            assert (care.supervised.state, care.deaths) == (ProcessState.ADOPTED, [])
        finally:
            end(process)
        await care.until(lambda: bool(care.deaths))
        assert [(death.incarnation, death.proof) for death in care.deaths] == [(4, "lock")]
        await care.supervised.stop()

    run(story())


def test_an_agent_that_starts_beside_a_swapped_directory_proves_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        process = start_locker(tmp_path, 4)
        care = Care(tmp_path, SLEEPER)
        try:
            swap(tmp_path / "w")
            care.supervised.start()
            assert care.deaths == []
        finally:
            end(process)
            await care.supervised.stop()

    run(story())


def test_a_note_of_another_process_says_nothing_about_the_child_that_ended(tmp_path: Path) -> None:
    """Somebody puts another lock file there, whose note is whole and names another incarnation."""

    async def story() -> None:
        care = Care(tmp_path, locker(tmp_path, 7))
        care.supervised.start()
        await care.until(lambda: (tmp_path / "w.log").read_text() == "ready\n")
        (tmp_path / "w" / "lock").unlink()
        other = DirectoryLock.take(tmp_path / "w", Holder(pid=1, what="a ward", incarnation=99))
        other.release()
        assert care.supervised.pid is not None
        os.kill(care.supervised.pid, signal.SIGKILL)
        await care.until(lambda: bool(care.deaths))
        assert [death.incarnation for death in care.deaths] == [None]
        await care.supervised.stop()

    run(story())
