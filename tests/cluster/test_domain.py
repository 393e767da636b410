"""A domain of real processes: it starts, survives kill -9 of anything, reports what it sees, and stops."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from domain import HOLDFAST, Domain, is_whole

from holdfast.machine.process_tuning import SHORT_NS, slice_ns
from holdfast.storage.lock import holder_of

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("domain") / "d") as made:
        yield made


@pytest.fixture
def whole(domain: Domain) -> Domain:
    """The domain, with every host alive and hearing every other."""
    domain.wait("every host hears every other", is_whole)
    return domain


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def test_three_hosts_live_and_hear_each_other(whole: Domain) -> None:
    status = whole.status()
    assert [host["id"] for host in status["hosts"]] == ["host1", "host2", "host3"]
    assert status["authority"]["kind"] == "sqlite"
    assert len({host["pid"] for host in status["hosts"]}) == 3
    assert all(host["report"]["opening"] >= 1 for host in status["hosts"])


def test_status_prints_one_json_object_that_scripts_can_read(whole: Domain) -> None:
    printed = msgspec.json.decode(whole.run("status", "--output", "json").stdout)
    assert [host["id"] for host in printed["hosts"]] == ["host1", "host2", "host3"]
    assert all(host["alive"] and host["pid"] and host["incarnation"] for host in printed["hosts"])
    table = whole.run("status").stdout
    assert table.count("alive") >= 4


def test_a_killed_host_is_back_with_a_new_incarnation_on_the_same_store(whole: Domain) -> None:
    before = whole.host("host2")
    kill(before["pid"])
    after = whole.wait(
        "host2 is back", lambda status: is_whole(status) and status["hosts"][1]["pid"] != before["pid"]
    )["hosts"][1]
    assert after["incarnation"] > before["incarnation"]
    assert after["restarts"] == before["restarts"] + 1
    assert "SIGKILL" in after["last_exit"]
    assert after["report"]["store"] == before["report"]["store"]
    assert after["report"]["opening"] == before["report"]["opening"] + 1


def test_the_others_are_told_exactly_which_incarnation_died(whole: Domain) -> None:
    """K2: the agent's report names the incarnation that ended, and no other."""
    before = whole.host("host3")
    kill(before["pid"])
    status = whole.wait("host3 is back", is_whole)
    whole.wait(
        "both others were told",
        lambda now: all(
            any(
                death["host"] == "host3" and death["incarnation"] == before["incarnation"]
                for death in deaths(host)
            )
            for host in now["hosts"][:2]
        ),
    )
    assert status["hosts"][2]["incarnation"] not in {
        death["incarnation"] for host in status["hosts"] for death in deaths(host) if death["host"] == "host3"
    }


def test_every_thread_of_its_processes_asks_for_short_slices(whole: Domain) -> None:
    """A host next to a busy process answers at once: its loop, its disk's thread, its heart."""
    status = whole.status()
    pids = [host["pid"] for host in status["hosts"]]
    if slice_ns(pids[0]) == slice_ns():
        pytest.skip("this kernel grants no slices (Linux before 6.12, or forbidden here)")
    pids += [status["agent"]["pid"], status["authority"]["pid"]]
    threads = [int(thread.name) for pid in pids for thread in Path(f"/proc/{pid}/task").iterdir()]
    assert len(threads) > len(pids)
    assert {slice_ns(each) for each in threads} == {SHORT_NS}


def deaths(host: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = host["report"]["deaths"]
    return found


def test_a_paused_host_is_silent_but_not_reported_dead(whole: Domain) -> None:
    """SIGSTOP gives no proof: the agent reports nothing, and the peers only notice the silence (K2)."""
    before = whole.host("host1")
    os.kill(before["pid"], signal.SIGSTOP)
    try:
        whole.wait(
            "the others find host1 silent",
            lambda status: all(
                any(peer["host"] == "host1" and peer["silent"] for peer in host["report"]["peers"])
                for host in status["hosts"][1:]
            ),
        )
        told = [death for host in whole.status()["hosts"][1:] for death in deaths(host)]
        assert not any(
            death["host"] == "host1" and death["incarnation"] == before["incarnation"] for death in told
        )
    finally:
        os.kill(before["pid"], signal.SIGCONT)
    after = whole.wait("host1 is heard again", is_whole)["hosts"][0]
    assert (after["pid"], after["incarnation"]) == (before["pid"], before["incarnation"])


def test_the_authority_may_die_and_no_host_does(whole: Domain) -> None:
    """Losing the authority stops nothing; after its restart every session is still there (A4)."""
    before = whole.status()
    kill(before["authority"]["pid"])
    after = whole.wait(
        "the authority is back",
        lambda status: (
            status["authority"]["pid"] not in (None, before["authority"]["pid"]) and is_whole(status)
        ),
    )
    assert [host["pid"] for host in after["hosts"]] == [host["pid"] for host in before["hosts"]]
    assert [host["incarnation"] for host in after["hosts"]] == [
        host["incarnation"] for host in before["hosts"]
    ]


def test_an_authority_that_does_not_answer_is_not_called_alive(whole: Domain) -> None:
    before = whole.status()
    assert before["authority"]["alive"]
    os.kill(before["authority"]["pid"], signal.SIGSTOP)
    try:
        whole.wait("its silence shows", lambda status: not status["authority"]["alive"])
    finally:
        os.kill(before["authority"]["pid"], signal.SIGCONT)
    after = whole.wait("it is back", lambda status: bool(status["authority"]["alive"]) and is_whole(status))
    assert after["authority"]["pid"] == before["authority"]["pid"]
    assert [host["pid"] for host in after["hosts"]] == [host["pid"] for host in before["hosts"]]


def test_a_second_up_says_who_holds_the_directory(whole: Domain) -> None:
    agent = whole.status()["agent"]["pid"]
    second = whole.run("up", "--detach", check=False)
    assert second.returncode == 1
    assert f"pid {agent}" in second.stderr
    assert whole.status()["agent"]["pid"] == agent


def test_a_restarted_agent_takes_the_running_hosts_into_care(whole: Domain) -> None:
    """K2: the new agent neither starts a second process on a held store nor reports a host dead."""
    before = whole.status()
    kill(before["agent"]["pid"])
    whole.up()
    after = whole.wait("the hosts report to the new agent", is_whole)
    assert [host["pid"] for host in after["hosts"]] == [host["pid"] for host in before["hosts"]]
    assert [host["incarnation"] for host in after["hosts"]] == [
        host["incarnation"] for host in before["hosts"]
    ]
    # Its proof for a process that is not its child is the lock.
    victim = after["hosts"][0]
    kill(victim["pid"])
    again = whole.wait(
        "host1 is back", lambda status: is_whole(status) and status["hosts"][0]["pid"] != victim["pid"]
    )
    assert again["hosts"][0]["incarnation"] > victim["incarnation"]


def test_down_stops_every_process_and_up_brings_the_same_stores_back(tmp_path: Path) -> None:
    with Domain(tmp_path / "d", "--hosts", "1") as domain:
        before = domain.wait("whole", is_whole)
        domain.run("down")
        stopped = domain.status()
        assert stopped["agent"] is None
        assert not any(host["alive"] for host in stopped["hosts"])
        assert all(holder_of(domain.directory / "hosts" / host["id"]) is None for host in before["hosts"])
        domain.up()
        after = domain.wait("whole again", is_whole)
        for old, new in zip(before["hosts"], after["hosts"], strict=True):
            assert new["report"]["store"] == old["report"]["store"]
            assert new["incarnation"] > old["incarnation"]


def test_up_in_the_foreground_ends_cleanly_on_ctrl_c(tmp_path: Path) -> None:
    directory = tmp_path / "d"
    process = subprocess.Popen(
        [*HOLDFAST, "up", "--dir", str(directory), "--hosts", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert any("host1 alive" in line for line in process.stdout)
    process.send_signal(signal.SIGINT)
    _, talk = process.communicate(timeout=240)
    assert process.returncode == 0, talk
    assert holder_of(directory / "hosts" / "host1") is None
    assert holder_of(directory / "agent") is None


def test_the_domain_stops_when_the_one_who_shows_it_is_killed(tmp_path: Path) -> None:
    directory = tmp_path / "d"
    with subprocess.Popen(
        [*HOLDFAST, "up", "--dir", str(directory), "--hosts", "1"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert any("host1 alive" in line for line in process.stdout)
        process.kill()
    deadline = time.monotonic() + 60
    while holder_of(directory / "agent") is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert holder_of(directory / "agent") is None
    assert holder_of(directory / "hosts" / "host1") is None


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("status",), 2, "holdfast up --dir"),
        (("down",), 2, "holdfast up --dir"),
        (("up", "--hosts", "0"), 2, "1 to 64 hosts"),
        (("up", "--hosts", "many"), 2, "many"),
    ],
)
def test_bad_input_gets_one_clear_error_and_changes_nothing(
    tmp_path: Path, words: tuple[str, ...], code: int, complaint: str
) -> None:
    directory = tmp_path / "none"
    done = Domain(directory).run(*words, check=False)
    assert done.returncode == code
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert not directory.exists()
