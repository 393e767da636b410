"""Two benchmarks never measure each other: the second waits, and says for whom."""

import os
import subprocess
import sys

import pytest

from holdfast.bench.measuring.machine_lock import alone
from holdfast.model.errors import Unavailable

NAME = f"\0holdfast-benchmark-test-{os.getpid()}"
HOLDER = """
import sys
from holdfast.bench.measuring.machine_lock import alone
with alone(print, name=sys.argv[1].replace("@", "\\0")):
    print("measuring", flush=True)
    sys.stdin.read()
"""


def test_a_second_benchmark_waits_and_names_the_first() -> None:
    said: list[str] = []
    command = [sys.executable, "-c", HOLDER, NAME.replace("\0", "@")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "measuring\n"
        with pytest.raises(Unavailable, match=f"pid {other.pid}"), alone(said.append, name=NAME, wait_s=0.0):
            pass
        with pytest.raises(Unavailable), alone(said.append, name=NAME, wait_s=0.1):
            pass
        assert said == [f"waiting for the benchmark with pid {other.pid}, which measures on this machine"]
        other.kill()  # however it ends, the lock is free
    with alone(said.append, name=NAME, wait_s=60.0):
        pass
    assert len(said) == 1


def test_the_lock_is_given_back() -> None:
    for _ in range(2):
        with alone(print, name=NAME, wait_s=0.0):
            pass
