"""Failing, hanging, full and corrupted disks under the real log: it stops, says so, and keeps its
promises."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults.disk import FaultyDisk
from faults.preload import CallFaults, environment
from log_life import WORDS_TIMEOUT_S, LogLife
from log_verify import Promises, verify
from log_writer import body_of

pytestmark = pytest.mark.cluster

CALLS_MAX = 60
"""Calls before one fails: opening a new store makes about ten syncs, so some faults hit it."""


def goes_on(directory: Path, promises: Promises) -> None:
    """Require that nothing promised is lost, and that a new life continues the log."""
    verify(directory, promises)
    with LogLife(directory, promises) as life:
        assert life.victim.wait_for_lines(1, timeout_s=WORDS_TIMEOUT_S), life.victim.errors
    verify(directory, promises)


def live_with(directory: Path, promises: Promises, library: Path, faults: CallFaults) -> tuple[int, str]:
    """Return the exit status and last words of a writer that suffers *faults*."""
    with LogLife(directory, promises, env=environment(library, directory, faults)) as life:
        status = life.victim.wait(timeout_s=WORDS_TIMEOUT_S)
    return status, life.last_words


def test_a_failed_sync_stops_the_writer(
    failing_calls: Path, tmp_path: Path, rounds: Callable[..., int]
) -> None:
    """Whichever sync fails, of a file or of the directory, it is not retried: the writer ends (D1)."""
    promises, dice = Promises(1), random.Random(1)
    for _ in range(rounds(short=4, long=100)):
        faults = CallFaults(sync_eio_at=dice.randint(1, CALLS_MAX))
        assert live_with(tmp_path, promises, failing_calls, faults) == (1, "stopped disk_failed"), faults
        verify(tmp_path, promises)
    goes_on(tmp_path, promises)


def test_a_full_disk_stops_the_writer(
    failing_calls: Path, tmp_path: Path, rounds: Callable[..., int]
) -> None:
    """The disk is full from any write or allocation on."""
    promises, dice = Promises(2), random.Random(2)
    for _ in range(rounds(short=4, long=100)):
        faults = CallFaults(write_enospc_at=dice.randint(1, CALLS_MAX))
        assert live_with(tmp_path, promises, failing_calls, faults) == (1, "stopped no_space"), faults
        verify(tmp_path, promises)
    goes_on(tmp_path, promises)


def test_killed_at_a_sync(failing_calls: Path, tmp_path: Path, rounds: Callable[..., int]) -> None:
    """It is killed instead of the sync or just after it: what was acknowledged is there, what was not may
    be."""
    promises, dice = Promises(3), random.Random(3)
    for number in range(rounds(short=4, long=100)):
        at = dice.randint(1, CALLS_MAX)
        faults = CallFaults(sync_kill_after=at) if number % 2 else CallFaults(sync_kill_at=at)
        status, _ = live_with(tmp_path, promises, failing_calls, faults)
        assert status == -signal.SIGKILL
        verify(tmp_path, promises)
    goes_on(tmp_path, promises)


def test_a_short_write_is_completed(failing_calls: Path, tmp_path: Path) -> None:
    """A write of half its bytes is not an error; the rest follows, and the records are complete."""
    promises = Promises(4)
    settings = environment(failing_calls, tmp_path, CallFaults(write_short_at=12))
    with LogLife(tmp_path, promises, env=settings) as life:
        assert life.victim.wait_for_lines(200, timeout_s=WORDS_TIMEOUT_S), life.victim.errors
    goes_on(tmp_path, promises)


def test_what_a_failed_sync_should_have_kept_was_never_promised(
    faulty_disk: FaultyDisk, rounds: Callable[..., int]
) -> None:
    """The disk drops the data of the failed sync, as Linux does, and then the power fails as well."""
    promises, dice = Promises(5), random.Random(5)
    directory = faulty_disk.path / "store"
    for _ in range(rounds(short=3, long=50)):
        faulty_disk.fail_syncs(1, after=dice.randint(0, CALLS_MAX))
        with LogLife(directory, promises) as life:
            assert life.victim.wait(timeout_s=WORDS_TIMEOUT_S) == 1
        assert life.last_words == "stopped disk_failed"
        faulty_disk.power_cut()
        verify(directory, promises)
    goes_on(directory, promises)


def test_a_disk_that_fills_up_and_is_freed(faulty_disk: FaultyDisk) -> None:
    """The log needs room only for new files; without room it stops, and it continues once there is room."""
    promises = Promises(6)
    directory = faulty_disk.path / "store"
    with LogLife(directory, promises) as life:
        assert life.victim.wait_for_lines(1, timeout_s=WORDS_TIMEOUT_S)
        faulty_disk.fill_up()
        assert life.victim.wait(timeout_s=WORDS_TIMEOUT_S) == 1
    assert life.last_words == "stopped no_space"
    verify(directory, promises)
    faulty_disk.free_up()
    goes_on(directory, promises)


def test_nothing_is_promised_while_a_sync_hangs(faulty_disk: FaultyDisk) -> None:
    """No acknowledgement is sent before its sync has ended, however long that takes; then all continues."""
    promises = Promises(7)
    directory = faulty_disk.path / "store"
    with LogLife(directory, promises) as life:
        assert life.victim.wait_for_lines(1, timeout_s=WORDS_TIMEOUT_S)
        faulty_disk.hang_syncs()
        said = life.victim.wait_until_silent()  # what was in transit has arrived
        time.sleep(0.2)
        assert len(life.victim.lines) == said
        faulty_disk.resume_syncs()
        assert life.victim.wait_for_lines(said + 20, timeout_s=WORDS_TIMEOUT_S)
    goes_on(directory, promises)


def inspect(directory: Path) -> tuple[int, dict[str, Any]]:
    """Return the exit status and findings of ``holdfast log inspect``."""
    command = [sys.executable, "-m", "holdfast", "log", "inspect", str(directory), "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WORDS_TIMEOUT_S)
    return done.returncode, json.loads(done.stdout)


def place_of(directory: Path, body: bytes) -> tuple[Path, int]:
    """Return the log's file and the offset in it where *body* is."""
    for path in sorted(directory.glob("log-*")):
        offset = path.read_bytes().find(body)
        if offset >= 0:
            return path, offset
    raise LookupError(body)


def test_a_flipped_bit_below_the_synced_mark_is_named_and_never_cut(faulty_disk: FaultyDisk) -> None:
    """Inspection names the place and ends with 1; the log refuses to open and changes nothing (D2)."""
    promises = Promises(8)
    directory = faulty_disk.path / "store"
    with LogLife(directory, promises) as life:
        assert life.victim.wait_for_lines(200, timeout_s=WORDS_TIMEOUT_S)
    assert inspect(directory)[0] == 0
    # Some batches before the last: those after it prove that it was synced.
    (group, first), serial = list(promises.acknowledged.items())[-50]
    path, offset = place_of(directory, body_of(promises.seed, group, first, serial))
    faulty_disk.flip_bits(path, offset, mask=0x10)

    status, findings = inspect(directory)
    assert (status, findings["is_damaged"]) == (1, True)
    named = [problem for problem in findings["problems"] if problem["file"] == path.name]
    assert named
    assert min(problem["offset"] for problem in named) <= offset
    with LogLife(directory, promises) as life:
        assert life.victim.wait(timeout_s=WORDS_TIMEOUT_S) == 1
    assert life.victim.lines == []
    assert f"the log is damaged: {path.name}" in life.victim.errors

    faulty_disk.flip_bits(path, offset, mask=0x10)
    goes_on(directory, promises)
