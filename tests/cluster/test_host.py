"""One host and an authority, as real processes: killed while it starts, told to stop, hung, refused."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from domain import HOLDFAST
from hanging_host import LIMIT_S

from holdfast.agent.startup import describe
from holdfast.machine.child_process import HUNG_STATUS
from holdfast.model.ids import HostId
from holdfast.node.layout import Layout
from holdfast.storage.lock import DirectoryLock, Holder, holder_of

pytestmark = pytest.mark.cluster

HERE = Path(__file__).parent
HOST = HostId("host1")
WAIT_S = 120.0


@pytest.fixture
def alone(tmp_path: Path) -> Layout:
    """A described domain of one host, without any process."""
    layout = Layout(tmp_path / "d")
    describe(layout, hosts=1, etcd=())
    return layout


@pytest.fixture
def layout(alone: Layout) -> Iterator[Layout]:
    """The same, with its authority running."""
    description = alone.read()
    command = [*HOLDFAST, "authority", "serve", "--dir", str(alone.authority), "--domain", description.domain]
    command += ["--listen", str(description.authority_address), "--secret-dir", str(alone.directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as authority:
        assert authority.stdout is not None
        assert "listening" in authority.stdout.readline()
        yield alone
        authority.kill()


def test_a_host_killed_at_any_moment_of_its_start_keeps_its_store(
    layout: Layout, rounds: Callable[..., int]
) -> None:
    """Decision 0002: however the kills fall, the store stays the one that the authority knows. Every process
    that got an incarnation got a new one (V2), and openings are never counted back (V5)."""
    lives = rounds(short=25, long=1000)
    program = [sys.executable, str(HERE / "host_lives.py"), str(layout.directory), str(lives), "1"]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    found = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    assert len(found) == lives
    incarnations = [each["incarnation"] for each in found if each["incarnation"] is not None]
    assert len(incarnations) > lives / 4, "the kills fell too early to show anything"
    assert incarnations == sorted(set(incarnations))
    stores = [each for each in found if each["store"] is not None]
    assert len({each["store"] for each in stores}) == 1
    openings = [each["opening"] for each in stores]
    assert openings == sorted(openings)
    assert openings[-1] > lives / 8


def test_a_host_that_waits_for_its_authority_heeds_sigterm(alone: Layout) -> None:
    with start_host(alone) as host:
        wait_until_held(alone)  # it handles signals before it takes the lock
        assert host.poll() is None
        host.terminate()
        _, said = host.communicate(timeout=WAIT_S)
    assert host.returncode == 0, said


def test_a_host_does_not_look_at_a_store_that_another_holds(alone: Layout) -> None:
    """What it read before it had the lock would be outdated when it gets it. An outdated opening number is
    that of an unknown store, so the store would be created anew."""
    me = Holder(pid=os.getpid(), what="a test")
    lock = DirectoryLock.take(alone.host(HOST), me)
    try:
        with start_host(alone) as host:
            _, said = host.communicate(timeout=WAIT_S)
        assert host.returncode == 1
        assert f"held by a test (pid {os.getpid()})" in said
        assert not (alone.host(HOST) / "store").exists()
    finally:
        lock.release()


def test_the_log_of_a_host_that_runs_is_not_inspected(alone: Layout) -> None:
    """A log that is being written looks torn."""
    store = alone.host(HOST) / "store"
    store.mkdir()
    lock = DirectoryLock.take(alone.host(HOST), Holder(pid=os.getpid(), what="a host"))
    try:
        command = [*HOLDFAST, "log", "inspect", str(store)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
        assert done.returncode == 1
        assert f"held by a host (pid {os.getpid()})" in done.stderr
    finally:
        lock.release()


@pytest.mark.parametrize(
    ("what", "word", "status"),
    [("loop", "the event loop has stood still", HUNG_STATUS), ("sync", "a disk sync", 1)],
)
def test_a_host_that_hangs_ends_itself(layout: Layout, what: str, word: str, status: int) -> None:
    """K3: also when the disk hangs while the store is being opened. The agent can report a hanging loop."""
    program = [sys.executable, str(HERE / "hanging_host.py"), str(layout.directory), what]
    done = subprocess.run(program, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == status
    assert f"holdfast: this host ends itself: {word}" in done.stderr
    assert holder_of(layout.host(HOST)) is None


def test_a_host_paused_beyond_its_limits_goes_on(layout: Layout) -> None:
    """A pause of the whole process is not a hang of its loop or its disk (K3)."""
    program = [sys.executable, str(HERE / "hanging_host.py"), str(layout.directory), "none"]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as host:
        wait_until_held(layout)
        time.sleep(1)
        host.send_signal(signal.SIGSTOP)
        time.sleep(LIMIT_S + 1)
        host.send_signal(signal.SIGCONT)
        time.sleep(1)
        assert host.poll() is None
        host.terminate()
        _, said = host.communicate(timeout=WAIT_S)
    assert host.returncode == 0, said


def start_host(layout: Layout) -> "subprocess.Popen[str]":
    command = [*HOLDFAST, "host", "--dir", str(layout.directory), "--id", HOST]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def wait_until_held(layout: Layout) -> None:
    deadline = time.monotonic() + WAIT_S
    while holder_of(layout.host(HOST)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
