"""What goes wrong around a domain: rivals, lost agents, failing disks, readers that leave. Nothing
remains."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from domain import HOLDFAST, Domain, is_whole
from faults.preload import CallFaults, environment

from holdfast.node.layout import Layout
from holdfast.storage.lock import holder_of

pytestmark = pytest.mark.cluster

WAIT_S = 120.0


def foreground(directory: Path, *options: str) -> "subprocess.Popen[str]":
    command = [*HOLDFAST, "up", "--dir", str(directory), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kill_holder(directory: Path) -> None:
    holder = holder_of(directory)
    assert holder is not None
    os.kill(holder.pid, signal.SIGKILL)


def nothing_runs(directory: Path) -> bool:
    layout = Layout(directory)
    places = [layout.agent_directory, layout.authority, *map(layout.host, layout.read().hosts)]
    return all(holder_of(place) is None for place in places)


def test_of_two_who_start_one_domain_one_does(tmp_path: Path) -> None:
    """Otherwise both would describe it, each with its own id, and its processes would refuse each other."""
    directory = tmp_path / "d"
    rivals = [foreground(directory, "--hosts", "1", "--detach") for _ in range(3)]
    talk = [rival.communicate(timeout=240)[1] for rival in rivals]
    try:
        assert sorted(rival.returncode for rival in rivals) == [0, 1, 1], talk
        assert sum("is held by" in each for each in talk) == 2
        (host,) = Domain(directory).status()["hosts"]
        assert host["alive"]
    finally:
        Domain(directory).run("down")


def test_a_host_that_dies_while_no_agent_runs_is_told_of_by_the_next(tmp_path: Path) -> None:
    """K2: the lock that it no longer holds is proof. Its peer learns of exactly that incarnation."""
    with Domain(tmp_path / "d", "--hosts", "2") as domain:
        before = domain.wait("whole", is_whole)
        os.kill(before["agent"]["pid"], signal.SIGKILL)
        alone = domain.wait("no agent", lambda status: status["agent"] is None)
        assert [host["pid"] for host in alone["hosts"]] == [host["pid"] for host in before["hosts"]]
        victim = before["hosts"][0]
        os.kill(victim["pid"], signal.SIGKILL)
        domain.up()
        after = domain.wait(
            "host2 is told",
            lambda status: (
                is_whole(status)
                and any(
                    (death["host"], death["incarnation"]) == ("host1", victim["incarnation"])
                    for death in status["hosts"][1]["report"]["deaths"]
                )
            ),
        )
        assert after["hosts"][1]["pid"] == before["hosts"][1]["pid"]
        assert after["hosts"][0]["incarnation"] > victim["incarnation"]
        # What a killed agent leaves running, `down` stops.
        os.kill(after["agent"]["pid"], signal.SIGKILL)
        domain.run("down")
        assert nothing_runs(domain.directory)


def test_a_host_with_a_damaged_store_says_so_and_the_other_goes_on(tmp_path: Path) -> None:
    with Domain(tmp_path / "d", "--hosts", "2") as domain:
        domain.run("down")
        record = domain.directory / "hosts" / "host1" / "store" / "store"
        damaged = bytearray(record.read_bytes())
        damaged[-1] ^= 0xFF
        record.write_bytes(damaged)
        done = domain.run("up", "--detach", check=False)
        assert done.returncode == 1
        assert f"holdfast log inspect {record.parent}" in done.stderr
        assert done.stderr.count("log inspect") == 1, "once is enough"
        host1, host2 = domain.status()["hosts"]
        assert (host1["alive"], host2["alive"]) == (False, True)
        assert "the store's record is damaged" in host1["last_exit"]
        assert record.read_bytes() == damaged


@pytest.mark.parametrize(
    ("faults", "reason"),
    [
        (CallFaults(sync_eio_at=2), "Input/output error"),
        (CallFaults(write_enospc_at=3), "No space left on device"),
    ],
)
def test_a_host_whose_disk_fails_says_so_and_the_other_goes_on(
    tmp_path: Path, failing_calls: Path, monkeypatch: pytest.MonkeyPatch, faults: CallFaults, reason: str
) -> None:
    """D1: it fails visibly, and the reason is where people look first."""
    spoilt = tmp_path / "d" / "hosts" / "host1" / "store"
    for name, value in environment(failing_calls, spoilt, faults).items():
        monkeypatch.setenv(name, value)
    with Domain(tmp_path / "d", "--hosts", "2", is_whole=False) as domain:

        def says_why(status: dict[str, Any]) -> bool:
            """Whether it is restarted again and again, and fails each time."""
            host1, host2 = status["hosts"]
            said = host1["last_exit"] or ""
            return reason in said and str(spoilt) in said and host2["alive"] and not host1["alive"]

        domain.wait("host1 is down and says why, host2 lives", says_why)


def test_up_in_the_foreground_outlives_a_pause_of_its_agent_and_ends_with_it(tmp_path: Path) -> None:
    directory = tmp_path / "d"
    agent = directory / "agent"
    with foreground(directory, "--hosts", "1") as shown:
        assert shown.stdout is not None
        assert "host1 alive" in shown.stdout.readline()
        holder = holder_of(agent)
        assert holder is not None
        os.kill(holder.pid, signal.SIGSTOP)
        assert "host1 without its agent" in shown.stdout.readline()
        os.kill(holder.pid, signal.SIGCONT)
        assert "host1 alive" in shown.stdout.readline()
        kill_holder(agent)
        _, talk = shown.communicate(timeout=WAIT_S)
    assert shown.returncode == 1
    assert "the agent has ended" in talk
    assert nothing_runs(directory)


def test_up_ends_quietly_when_its_reader_leaves(tmp_path: Path) -> None:
    directory = tmp_path / "d"
    with foreground(directory, "--hosts", "1") as shown:
        assert shown.stdout is not None
        shown.stdout.readline()
        shown.stdout.close()
        kill_holder(directory / "hosts" / "host1")  # so that there is something to print
        assert shown.stderr is not None
        talk = shown.stderr.read()
        assert shown.wait(WAIT_S) == 1
    assert "Traceback" not in talk
    assert "Exception" not in talk
    assert nothing_runs(directory)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_start_that_is_cut_short_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    directory = tmp_path / "d"
    with foreground(directory, "--hosts", "1") as starting:
        deadline = time.monotonic() + WAIT_S
        while not (directory / "output" / "agent.log").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        starting.send_signal(number)
        starting.communicate(timeout=WAIT_S)
    while not nothing_runs(directory) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)  # an agent that was about to lock would have done so by now
    assert nothing_runs(directory)


def test_down_stops_a_domain_that_is_shown_and_its_owner_takes_it_well(tmp_path: Path) -> None:
    directory = tmp_path / "d"
    with foreground(directory, "--hosts", "1") as shown:
        assert shown.stdout is not None
        shown.stdout.readline()
        second = Domain(directory).run("up", check=False)
        assert second.returncode == 1
        assert f"held by holdfast up (pid {shown.pid})" in second.stderr
        Domain(directory).run("down")
        _, talk = shown.communicate(timeout=WAIT_S)
    assert shown.returncode == 0, talk
    assert nothing_runs(directory)


@pytest.mark.parametrize("verb", ["up", "status", "down"])
def test_a_file_where_the_directory_should_be_is_named(tmp_path: Path, verb: str) -> None:
    file = tmp_path / "file"
    file.write_text("not a domain")
    done = Domain(file).run(verb, check=False)
    assert done.returncode == 1
    assert str(file) in done.stderr
    assert "Traceback" not in done.stderr
