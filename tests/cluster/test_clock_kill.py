"""kill -9 of a real process that assigns CSNs, with its clock moved, again and again (CSN-21)."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.model.csn import Csn, parse
from holdfast.model.ids import ReplicaId

pytestmark = pytest.mark.cluster

PROGRAM = Path(__file__).with_name("clock_process.py")
START_LIMIT_S = 120


@pytest.mark.covers("CSN-21", "CSN-37")
def test_first_csn_after_a_kill_is_greater_than_any_seen(tmp_path: Path, rounds: Callable[..., int]) -> None:
    """The process continues above every CSN that it assigned or certainly knew before it was killed."""
    rng = random.Random(21)
    greatest = Csn(0, 0, ReplicaId(0))
    handed_out = 0
    for number in range(rounds(short=12, long=500)):
        peer_csn = Csn(max(greatest.timestamp, int(time.time())) + rng.randrange(2), 7, ReplicaId(2))
        lines = run_and_kill(tmp_path, number, peer_csn, offset_s=rng.randint(-30, 5), rng=rng)
        taken = [parse(line) for line in lines if not line.startswith("known ")]
        known = [parse(line.removeprefix("known ")) for line in lines if line.startswith("known ")]
        assert taken, f"round {number}: nothing was handed out"
        assert taken[0] > greatest, f"round {number}: began at {taken[0]}, behind {greatest}"
        assert all(a < b for a, b in pairwise(taken)), f"round {number}"
        greatest = max(*taken, *known, greatest)
        handed_out += len(taken)
    assert handed_out > 1000


def run_and_kill(
    directory: Path, number: int, peer_csn: Csn, *, offset_s: int, rng: random.Random
) -> list[str]:
    """Return what the process printed until it was killed, some time after its first CSN."""
    output = directory / f"said-{number}"
    command = [sys.executable, PROGRAM, directory / "store", peer_csn.text(), str(offset_s), str(number)]
    with output.open("wb") as said:
        process = subprocess.Popen(command, stdout=said)
    try:
        deadline = time.monotonic() + START_LIMIT_S
        while not output.stat().st_size and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(rng.choice((0, rng.random() * 0.01, rng.random() * 0.2)))
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL, "it ended by itself"
    text = output.read_text()
    return text[: text.rfind("\n")].splitlines()
