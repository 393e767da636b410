"""Settings of a domain: changed by its file, in force on real hosts, and refused whole if one is wrong."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from domain import HOLDFAST, WAIT_S, Domain, is_whole
from group_client import EXAMPLES, Client, run

from holdfast.model.errors import HoldfastError
from holdfast.model.ids import GroupId
from holdfast.storage.checkpoint import checkpoint_of

pytestmark = pytest.mark.cluster

RARELY = '[execution]\ncheckpoint_interval = "1 h"\n'
"""No checkpoint is due within any test by this."""
LONG = '[leases]\nlease = "12 s"\ninterval = "300 ms"\n'
BEATS_S = 3.0
"""Ten heartbeats: by then the leases of before have been renewed with the new length."""
SILENT_MS = 4_000
"""Several times the default lease and its grace."""
FIVE_MISTAKES = (
    '[leases]\nlease = 600\n[sequenze]\nwindow = 3\n[execution]\nlog_bytes = "4 MiB"\nin_line_max = 0\n'
    '[output]\nlevel = "loud"\n'
)


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    directory = tmp_path_factory.mktemp("settings") / "d"
    directory.mkdir()
    (directory / "holdfast.toml").write_text(RARELY)
    with Domain(directory, "--app", str(EXAMPLES)) as made:
        made.wait("every host hears every other", is_whole)
        yield made


def config(domain: Domain, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [*HOLDFAST, "config", *words, "--dir", str(domain.directory)]
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * WAIT_S, check=False)


def applied(domain: Domain, text: str) -> str:
    """Write the file and apply it; returns what a person is told."""
    (domain.directory / "holdfast.toml").write_text(text)
    done = config(domain, "apply")
    assert done.returncode == 0, done.stderr
    return done.stderr


def shown(domain: Domain) -> dict[str, dict[str, Any]]:
    done = config(domain, "show", "--output", "json")
    assert done.returncode == 0, done.stderr
    return {each["setting"]: each for each in json.loads(done.stdout)}


def kept(domain: Domain, host: str, group: GroupId) -> int:
    """The position of the newest checkpoint of the group on that host."""
    names = [each.name for each in (domain.directory / "hosts" / host / "store").iterdir()]
    return max(
        (found[1] for name in names if (found := checkpoint_of(name)) and found[0] == group), default=0
    )


def test_a_longer_lease_lets_a_silent_host_keep_its_groups(domain: Domain) -> None:
    """By the default lease a host that is silent for seconds has lost its groups; by a shorter one it has."""

    async def work(client: Client) -> None:
        group = await client.create("leased")
        await group.deposit("a", 1)
        applied(domain, RARELY + LONG)
        await asyncio.sleep(BEATS_S)
        before = await client.wait_in_sync("leased")
        paused = await client.pid(before.primary)
        os.kill(paused, signal.SIGSTOP)
        try:
            await asyncio.to_thread(domain.wait, "its peers miss it", lambda it: _missed(it, before.primary))
            assert (await client.info("leased")).epoch == before.epoch
        finally:
            os.kill(paused, signal.SIGCONT)
        assert await group.deposit("a", 1) == 2
        assert (await client.info("leased")).epoch == before.epoch

        applied(domain, RARELY + LONG.replace("12 s", "900 ms"))
        paused = await client.pid(before.primary)
        # A lease that was granted is kept: who is stopped now was promised the longer one until a moment ago.
        os.kill(paused, signal.SIGSTOP)
        try:
            await client.wait("leased", "another leads", lambda it: it.primary != before.primary)
        finally:
            os.kill(paused, signal.SIGCONT)
        assert await group.deposit("a", 1) == 3

    run(domain, work)


def _missed(status: dict[str, Any], host: str) -> bool:
    others = [each for each in status["hosts"] if each["id"] != host]
    heard = [peer for each in others for peer in each["report"]["peers"] if peer["host"] == host]
    # One whose session has ended meanwhile is no peer any more.
    return all(peer["heard_ms"] > SILENT_MS for peer in heard)


def test_checkpoints_are_kept_as_often_as_the_file_says(domain: Domain) -> None:
    async def work(client: Client) -> None:
        applied(domain, RARELY)
        group = await client.create("kept")
        await group.deposit("a", 1)
        info = await client.wait_in_sync("kept")
        said = applied(domain, '[execution]\ncheckpoint_interval = "200 ms"\n')
        assert "applied: execution.checkpoint_interval" in said
        assert "in force on host1, host2, host3" in said
        before = kept(domain, info.primary, info.group)

        async def is_newer() -> None:
            while kept(domain, info.primary, info.group) <= before:
                await group.deposit("a", 1)
                await asyncio.sleep(0.05)

        await asyncio.wait_for(is_newer(), WAIT_S)

    run(domain, work)


def test_a_groups_own_option_comes_before_the_file(domain: Domain) -> None:
    """No checkpoint is due by time; by the option one is due after a few long calls."""

    async def work(client: Client) -> None:
        applied(domain, RARELY)
        options = {"CheckpointBytes": 65_536, "NotifyMilliseconds": 0}
        group = await client.connection.create("ledger:Ledger", name="own", properties=options)
        info = await client.wait_in_sync("own")

        async def is_kept() -> None:
            number = 0
            while kept(domain, info.primary, info.group) == 0:
                number += 1
                await group.deposit(f"{number:020000d}", 1)

        await asyncio.wait_for(is_kept(), WAIT_S)

    run(domain, work)


def test_a_bound_is_in_force_at_once(domain: Domain) -> None:
    """A call that no record takes is refused by the primary; the same call was taken before."""

    async def work(client: Client) -> None:
        group = await client.create("bounded")
        assert await group.deposit("x" * 20_000, 1) == 1
        applied(domain, '[sequence]\nrecord_bytes_max = "10 kB"\n[execution]\nrecord_bytes = "8 kB"\n')
        with pytest.raises(HoldfastError):
            await group.deposit("y" * 20_000, 1)
        assert await group.deposit("z", 1) == 1
        applied(domain, "")
        assert await group.deposit("y" * 20_000, 1) == 1

    run(domain, work)


def test_a_file_with_five_mistakes_is_five_lines_and_changes_nothing(domain: Domain) -> None:
    applied(domain, LONG)
    before = shown(domain)
    assert (before["leases.lease"]["value"], before["leases.lease"]["unit"]) == ("12", "s")
    assert before["leases.lease"]["source"] == "file"
    (domain.directory / "holdfast.toml").write_text(FIVE_MISTAKES)
    for verb in ("check", "apply"):
        done = config(domain, verb)
        assert done.returncode == 2
        assert len(done.stdout.splitlines()) == 5
        assert all(line.startswith("holdfast.toml:") for line in done.stdout.splitlines())
    assert shown(domain) == before
    domain.run("down")
    refused = domain.run("up", "--detach", check=False)
    assert refused.returncode == 2
    assert sum("holdfast.toml:" in line for line in refused.stderr.splitlines()) == 5
    assert not any(host["alive"] for host in domain.status()["hosts"])


def test_what_cannot_change_while_a_host_runs_is_in_force_after_its_restart(domain: Domain) -> None:
    """The domain was stopped by the test before, or runs."""
    (domain.directory / "holdfast.toml").write_text("")
    if not all(host["alive"] for host in domain.status()["hosts"]):
        domain.up()
    said = applied(domain, "[connections]\nconnections_max = 77\n")
    assert "connections.connections_max wait for a restart of host1, host2, host3" in said
    assert shown(domain)["connections.connections_max"]["value"] == "1024"
    killed = domain.host("host1")
    os.kill(killed["pid"], signal.SIGKILL)
    domain.wait("host1 is back", lambda it: is_whole(it) and it["hosts"][0]["pid"] != killed["pid"])
    found = shown(domain)["connections.connections_max"]
    assert (found["value"], found["other_hosts"]) == ("77", {"host2": "1024", "host3": "1024"})
    assert "wait for a restart of host2, host3" in config(domain, "show").stderr
