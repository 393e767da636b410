"""kill -9 of a process that appends to the real log: what it acknowledged is there, and nothing else."""

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from log_verify import Promises, invented, lost, verify

from holdfast.storage.disk import Directory
from holdfast.storage.identity import load
from holdfast.storage.recovery import scan
from holdfast.storage.segments import salt_of

pytestmark = pytest.mark.cluster
PROGRAM = Path(__file__).with_name("log_writer.py")


def live_and_die(directory: Path, seed: int, after_s: float) -> bytes:
    """Run one life of the writer, ended by SIGKILL some time after its first promise; return what it
    printed."""
    child = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(directory), str(seed)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    first = line = child.stdout.readline()
    while line and not line.startswith(b"ack"):
        line = child.stdout.readline()
        first += line
    time.sleep(after_s)
    child.kill()
    rest, _ = child.communicate()
    return first + rest


@pytest.mark.timeout(3600)
def test_nothing_acknowledged_is_lost_by_kill(tmp_path: Path, rounds: Callable[..., int]) -> None:
    """However often the process is killed, every acknowledged record is in the files, complete."""
    promises = Promises(seed=7)
    rng = random.Random(7)
    for number in range(rounds(short=15, long=1000)):
        count = promises.read(live_and_die(tmp_path, 7, rng.random() * 0.05))
        assert count > 0, f"life {number} acknowledged nothing"
        verify(tmp_path, promises)
        check_recovery(tmp_path, promises)
    assert len(promises.acknowledged) > 100


def check_recovery(directory: Path, promises: Promises) -> None:
    """The log's own recovery agrees: no damage, and no group ends before what was acknowledged."""
    disk = Directory(directory)
    store = load(disk)
    assert store is not None
    found = scan(disk, salt=salt_of(store.store), sector=512)
    assert not found.damage
    for group, first in promises.acknowledged:
        assert found.groups[group].position >= first  # type: ignore[index]  # plain numbers here


def test_the_verifier_sees_a_loss_and_an_invention(tmp_path: Path) -> None:
    """Proof of the tool: an unkept promise and a body that nobody wrote are both reported."""
    promises = Promises(seed=7)
    promises.read(live_and_die(tmp_path, 7, 0.02))
    assert not lost(tmp_path, promises)
    promises.acknowledged[1, 10**9] = 1
    assert lost(tmp_path, promises) == [(1, 10**9)]
    assert invented(tmp_path, Promises(seed=8))
