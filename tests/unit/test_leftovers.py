"""Processes that tests leave behind are ended and named; those of other sessions are not touched."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leftovers import MARK, end_leftovers, is_ours
from means import ROOT

LASTING = "import time; time.sleep(600)"
STARTING = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {LASTING!r}, "holdfast"])
print(child.pid, flush=True)
child.wait()
"""
CARELESS = f"""
import subprocess, sys

def test_that_leaves_a_process():
    left = subprocess.Popen([sys.executable, "-c", {LASTING!r}, "holdfast"])
    print("started", left.pid)
    left.returncode = 0  # so that nobody waits for it
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes with a mark, and ends them."""
    started = []

    def begin(mark: str, *words: str, program: str = LASTING) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", program, *words]
        started.append(
            subprocess.Popen(command, env={**os.environ, MARK: mark}, stdout=subprocess.PIPE, text=True)
        )
        return started[-1]

    yield begin
    for each in started:
        each.kill()
        each.communicate()


def test_those_of_the_session_and_of_its_workers_are_ended(start: Start) -> None:
    left, of_worker = start("a", "holdfast"), start("a.gw1", "holdfast")
    others = [start("b", "holdfast"), start("ab", "holdfast"), start("a", "etcd")]
    assert {each.pid for each in end_leftovers("a")} == {left.pid, of_worker.pid}
    assert left.wait(60) == of_worker.wait(60) == -9
    assert [each.poll() for each in others] == [None] * 3
    assert end_leftovers("a") == []


def test_only_those_of_a_directory_are_ended(start: Start, tmp_path: Path) -> None:
    """Another directory's name may begin alike."""
    here = start("c", "holdfast", "--dir", str(tmp_path / "d" / "authority"))
    elsewhere = start("c", "holdfast", "--dir", str(tmp_path / "d2"))
    assert [each.pid for each in end_leftovers("c", str(tmp_path / "d"))] == [here.pid]
    assert here.wait(60) == -9
    assert elsewhere.poll() is None


def test_what_a_leftover_has_started_ends_too(start: Start, tmp_path: Path) -> None:
    """Also if it does not name the directory."""
    parent = start("e", "holdfast", str(tmp_path), program=STARTING)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert {each.pid for each in end_leftovers("e", str(tmp_path))} == {parent.pid, child}
    _wait_gone(child)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["python", "-m", "holdfast", "host", "--id", "host1"], True),
        (["python", "/somewhere/.venv/bin/holdfast", "up"], True),
        (["python", "/somewhere/tests/cluster/log_writer.py"], True),
        (["/home/me/holdfast/.venv/bin/python", "-c", "import sys;exec(eval(sys.stdin.readline()))"], False),
        (["etcd", "--data-dir", "/tmp/x"], False),
    ],
)
def test_servers_and_workers_that_tests_share_are_not_meant(command: list[str], expected: bool) -> None:
    assert is_ours(command) == expected


@pytest.mark.parametrize("how", [[], ["-n", "1"]])
def test_a_session_says_what_its_tests_left_and_ends_it(tmp_path: Path, how: list[str]) -> None:
    careless = tmp_path / "test_careless.py"
    careless.write_text(CARELESS)
    command = [sys.executable, "-m", "pytest", "-q", "-rP", "-p", "conftest", "-p", "no:cacheprovider", *how]
    done = subprocess.run(
        [*command, "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), str(careless)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pid = int(done.stdout.partition("started ")[2].split()[0])
    (said,) = (line for line in done.stdout.splitlines() if line.startswith("LEFT RUNNING"))
    assert "test_careless.py left" in said
    assert f"pid {pid}:" in said
    _wait_gone(pid)


def _wait_gone(pid: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":  # whoever inherited it has yet to wait for it
            return
        time.sleep(0.01)
    raise AssertionError(f"{pid} still runs")
