"""Failing calls and signals do what they say to a real process."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from faults.preload import CallFaults, environment
from faults.signals import Victim

pytestmark = pytest.mark.cluster

WRITER = """
import errno, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)

def report(what, call, *arguments):
    try:
        print(what, call(*arguments), flush=True)
    except OSError as error:
        print(what, errno.errorcode[error.errno], flush=True)

for number in range(4):
    report("write", os.pwrite, descriptor, b"x" * 10, 10 * number)
    report("sync", os.fsync if number % 2 else os.fdatasync, descriptor)
report("allocate", os.posix_fallocate, descriptor, 0, 100)
"""

SYNCED_WRITER = (
    WRITER.partition("for number")[0]
    + """
for number in range(4):
    report("write", os.pwritev, descriptor, [b"x" * 10], 10 * number, os.RWF_DSYNC)
"""
)
"""Writes and syncs in one call each."""

ALL_WELL = ["write 10", "sync None"] * 4 + ["allocate None"]


def run_writer(
    library: Path, tmp_path: Path, faults: CallFaults, *, under: str = "here", program: str = WRITER
) -> tuple[int, list[str]]:
    """Return the exit status and lines of a program that writes below ``here`` and suffers *faults* below
    *under*."""
    (tmp_path / "here").mkdir()
    settings = environment(library, tmp_path / under, faults)
    command = [sys.executable, "-S", "-c", program, str(tmp_path / "here" / "file")]
    with Victim(command, env=settings) as victim:
        return victim.wait(timeout_s=120), victim.lines


def test_without_faults_nothing_changes(failing_calls: Path, tmp_path: Path) -> None:
    assert run_writer(failing_calls, tmp_path, CallFaults()) == (0, ALL_WELL)


def test_files_elsewhere_are_left_alone(failing_calls: Path, tmp_path: Path) -> None:
    """They neither fail nor are counted."""
    faults = CallFaults(sync_eio_at=1, write_enospc_at=1)
    assert run_writer(failing_calls, tmp_path, faults, under="elsewhere") == (0, ALL_WELL)


def test_the_nth_sync_fails_once(failing_calls: Path, tmp_path: Path) -> None:
    """fsync and fdatasync count together; the next one succeeds, as on Linux."""
    expected = [*ALL_WELL]
    expected[3] = "sync EIO"
    assert run_writer(failing_calls, tmp_path, CallFaults(sync_eio_at=2)) == (0, expected)


def test_the_disk_is_full_from_the_nth_write_on(failing_calls: Path, tmp_path: Path) -> None:
    """Writes and allocations fail, syncs do not."""
    status, lines = run_writer(failing_calls, tmp_path, CallFaults(write_enospc_at=3))
    assert status == 0
    assert lines == ["write 10", "sync None"] * 2 + ["write ENOSPC", "sync None"] * 2 + ["allocate ENOSPC"]
    assert (tmp_path / "here" / "file").stat().st_size == 20


def test_the_nth_write_is_short(failing_calls: Path, tmp_path: Path) -> None:
    expected = [*ALL_WELL]
    expected[2] = "write 5"
    assert run_writer(failing_calls, tmp_path, CallFaults(write_short_at=2)) == (0, expected)


@pytest.mark.parametrize("faults", [CallFaults(sync_kill_at=2), CallFaults(sync_kill_after=2)])
def test_the_process_dies_at_its_nth_sync(failing_calls: Path, tmp_path: Path, faults: CallFaults) -> None:
    """It is killed instead of the sync or just after it: either way it can no longer report that it
    synced."""
    status, lines = run_writer(failing_calls, tmp_path, faults)
    assert status == -signal.SIGKILL
    assert lines == ALL_WELL[:3]


@pytest.mark.parametrize(
    ("faults", "status", "lines"),
    [
        (CallFaults(), 0, ["write 10"] * 4),
        (CallFaults(sync_eio_at=2), 0, ["write 10", "write EIO", "write 10", "write 10"]),
        (CallFaults(write_enospc_at=3), 0, ["write 10", "write 10", "write ENOSPC", "write ENOSPC"]),
        (CallFaults(write_short_at=2), 0, ["write 10", "write 5", "write 10", "write 10"]),
        (CallFaults(sync_kill_at=2), -signal.SIGKILL, ["write 10"]),
        (CallFaults(sync_kill_after=2), -signal.SIGKILL, ["write 10"]),
    ],
)
def test_a_synced_write_suffers_as_a_write_and_as_a_sync(
    failing_calls: Path, tmp_path: Path, faults: CallFaults, status: int, lines: list[str]
) -> None:
    assert run_writer(failing_calls, tmp_path, faults, program=SYNCED_WRITER) == (status, lines)


COUNTER = """
import time
number = 0
while True:
    print(number, flush=True)
    number += 1
    time.sleep(0.001)
"""


@pytest.fixture
def counter() -> Victim:
    return Victim([sys.executable, "-S", "-c", COUNTER])


def test_everything_said_before_a_kill_is_heard(counter: Victim) -> None:
    """The lines have no gap, and the process is gone."""
    with counter:
        assert counter.wait_for_lines(20, timeout_s=120)
        counter.kill()
        heard = [int(line) for line in counter.lines]
        assert heard == list(range(len(heard)))
        assert len(heard) >= 20
        with pytest.raises(ProcessLookupError):
            os.kill(counter.pid, 0)


def test_a_stopped_process_stands_still_until_it_goes_on(counter: Victim) -> None:
    with counter:
        assert counter.wait_for_lines(5, timeout_s=120)
        counter.stop()
        before = counter.wait_until_silent()  # what was already in the pipe has been read
        time.sleep(0.1)
        assert len(counter.lines) == before
        counter.go_on()
        assert counter.wait_for_lines(before + 5, timeout_s=120)


def test_a_stopped_process_can_be_killed(counter: Victim) -> None:
    with counter:
        counter.stop()
        counter.kill()
        with pytest.raises(ProcessLookupError):
            os.kill(counter.pid, 0)


def test_a_new_life_starts_afresh(counter: Victim) -> None:
    """It is another process, with none of the output of the old one."""
    with counter:
        assert counter.wait_for_lines(5, timeout_s=120)
        counter.kill()
        first_pid = counter.pid
        counter.start()
        assert counter.wait_for_lines(1, timeout_s=120)
        assert counter.pid != first_pid
        assert counter.lines[0] == "0"


def test_half_a_line_was_never_said() -> None:
    program = "import os, time; os.write(1, b'whole\\nhal'); os.kill(os.getpid(), 9)"
    with Victim([sys.executable, "-S", "-c", program]) as victim:
        victim.wait(timeout_s=120)
        assert victim.lines == ["whole"]
