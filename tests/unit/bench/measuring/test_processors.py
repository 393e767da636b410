"""A process has a processor of its own while the others have the rest, and all share them afterwards."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast.bench.measuring.processors import set_apart

SLEEPS = "import time; time.sleep(60)"
WITH_A_CHILD = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {SLEEPS!r}])
print(child.pid, flush=True)
try:
    child.wait()
finally:
    child.kill()
"""


@pytest.fixture
def working() -> Iterator[tuple[int, int]]:
    """A process, and the child it has."""
    with subprocess.Popen([sys.executable, "-c", WITH_A_CHILD], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        yield process.pid, child
        os.kill(child, 9)


@pytest.fixture
def other() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", SLEEPS]) as process:
        yield process.pid
        process.kill()


def test_one_has_a_processor_of_its_own_for_a_while(working: tuple[int, int], other: int) -> None:
    mine = os.sched_getaffinity(0)
    if len(mine) < 2:
        pytest.skip("this machine has one processor")
    with set_apart(working[0], [other]):
        apart, rest = os.sched_getaffinity(working[0]), os.sched_getaffinity(other)
        assert len(apart) == 1
        assert os.sched_getaffinity(working[1]) == apart, "its children work for it"
        assert rest == os.sched_getaffinity(0) == mine - apart
    for each in (*working, other, 0):
        assert os.sched_getaffinity(each) == mine


def test_one_that_has_ended_is_no_failure(other: int) -> None:
    mine = os.sched_getaffinity(0)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    with set_apart(other, [ended.pid]):
        pass
    assert os.sched_getaffinity(0) == mine
