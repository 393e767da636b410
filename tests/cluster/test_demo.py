"""`holdfast demo`: kills, a pause and lost datagrams under load, nothing lost, and nothing left behind."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from domain import HOLDFAST, WAIT_S
from faults.machine import require_tun

pytestmark = pytest.mark.cluster


def surroundings(tmp_path: Path) -> dict[str, str]:
    """An environment whose temporary directory is the test's."""
    return {**os.environ, "TMPDIR": str(tmp_path)}


def of_domains_in(tmp_path: Path) -> list[str]:
    """Return the processes that a demo started there."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended meanwhile
        if str(tmp_path).encode() in command:
            found.append(command.replace(b"\0", b" ").decode())
    return found


def test_nothing_is_lost_while_the_primary_is_killed_and_paused(
    tmp_path: Path, rounds: Callable[..., int]
) -> None:
    """Counted from the files of the stopped members: every acknowledged call is there once, and all members
    are equal."""
    seconds = rounds(short=8, long=120)
    command = [*HOLDFAST, "demo", "--seconds", str(seconds), "--every", "2", "--callers", "16"]
    done = subprocess.run(
        [*command, "--output", "json"],
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
        env=surroundings(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    found = msgspec.json.decode(done.stdout)
    assert found["calls_acknowledged"] > 0
    assert (found["calls_lost"], found["calls_duplicated"], found["replies_wrong"]) == (0, 0, 0)
    assert found["records_differing"] == 0
    assert found["members_counted"]
    kinds = [fault["kind"] for fault in found["faults"]]
    assert "kill" in kinds
    assert len(found["failover_ms"]) == kinds.count("kill")
    assert found["failovers"] <= len(kinds)
    assert list(tmp_path.iterdir()) == []
    assert of_domains_in(tmp_path) == []


def test_nothing_is_lost_on_three_machines_that_are_killed_and_cut_off(
    tmp_path: Path, rounds: Callable[..., int]
) -> None:
    """Three network namespaces with TLS between them: kills, cuts and one-way cuts under delay and loss."""
    require_tun()
    seconds = rounds(short=7, long=300)
    command = [*HOLDFAST, "demo", "--machines", "--seconds", str(seconds), "--every", "2", "--callers", "8"]
    done = subprocess.run(
        [*command, "--output", "json"],
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
        env=surroundings(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    found = msgspec.json.decode(done.stdout)
    assert found["calls_acknowledged"] > 0
    assert (found["calls_lost"], found["calls_duplicated"], found["replies_wrong"]) == (0, 0, 0)
    assert found["members_counted"]
    assert "kill" in [fault["kind"] for fault in found["faults"]]
    assert list(tmp_path.iterdir()) == []
    assert of_domains_in(tmp_path) == []


def test_the_books_of_an_exchange_are_equal_after_lost_datagrams_and_a_killed_leader(tmp_path: Path) -> None:
    """Every host throws datagrams away, and the leader is killed. Decisions about both streams are shown as
    they are taken; in the end every member has the same book, with every order, and the destination every
    trade."""
    command = [*HOLDFAST, "demo", "--scenario", "exchange", "--seconds", "6", "--loss", "0.03"]
    done = subprocess.run(
        [*command, "--output", "json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=surroundings(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    found = msgspec.json.decode(done.stdout)
    assert found["is_whole"]
    books = list(found["books"].values())
    assert len(books) == 3
    assert all(book == books[0] for book in books), "the digest is the first"
    _, orders, traded, quotes, problems = books[0]
    assert orders == found["orders"] > 0, "an order is never given up"
    assert traded == found["trades"] > 0
    assert 0 < quotes < found["quotes"], "quotes were lost, and that was decided"
    assert not problems
    said = done.stderr.splitlines()
    (killed,) = [number for number, line in enumerate(said) if line.startswith("kill -9 of ")]
    assert found["killed"] in said[killed]
    decided = [number for number, line in enumerate(said) if line.startswith("  decided: ")]
    assert decided[0] < killed, "they are shown as they are taken"
    assert any(": drop" in said[number] for number in decided)
    assert any("orders " in said[number] and ": recover" in said[number] for number in decided)
    assert found["losses"]["orders"] > 0
    assert found["losses"]["quotes"] > 0
    assert list(tmp_path.iterdir()) == []
    assert of_domains_in(tmp_path) == []


def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path) -> None:
    """Ctrl-C while its hosts run: processes and files are gone when it ends."""
    demo = subprocess.Popen(
        [*HOLDFAST, "demo", "--seconds", "120"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=surroundings(tmp_path),
    )
    try:
        deadline = time.monotonic() + WAIT_S
        while not any("--id" in each for each in of_domains_in(tmp_path)):
            assert time.monotonic() < deadline, "no host was started"
            time.sleep(0.05)
        demo.send_signal(signal.SIGINT)
        # Usually it has made no call yet; if it has, it counts first.
        assert demo.wait(2 * WAIT_S) in (0, 130)
    finally:
        demo.kill()
        demo.wait()
    assert of_domains_in(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
