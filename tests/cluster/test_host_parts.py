"""What runs in and beside real hosts: their services, and workers that are as busy as can be (W4)."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from domain import HOLDFAST, WAIT_S, Domain, is_whole
from group_client import Client, run

from holdfast.cli.admin import give_at
from holdfast.model.admin.hosts import KeepBusy, KeptBusy
from holdfast.model.errors import HoldfastError
from holdfast.node.services.running import DIRECTORY

pytestmark = pytest.mark.cluster

EXAMPLES = Path(__file__).parents[2] / "examples"
BUSY_S = 5.0


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("parts") / "d", "--app", str(EXAMPLES)) as made:
        made.wait("every host hears every other", is_whole)
        yield made


def holdfast(domain: Domain, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [*HOLDFAST, *words, "--dir", str(domain.directory)]
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * WAIT_S, check=False)


def shipping_of(domain: Domain) -> dict[str, Any]:
    done = holdfast(domain, "shipping", "status", "--output", "json")
    assert done.returncode == 0, done.stderr
    return {each["host"]: each for each in json.loads(done.stdout)}


def test_every_host_runs_shipping_in_a_directory_of_its_own(domain: Domain) -> None:
    """`shipping status` shows each, for people and for machines; so does `status`."""
    found = shipping_of(domain)
    assert [each["state"] for each in found.values()] == ["runs"] * 3
    assert len({each["address"] for each in found.values()}) == 3
    for host, each in found.items():
        assert each["status"]["is_open"], each
        assert each["status"]["fetching"] is None
        assert (domain.directory / "hosts" / host / DIRECTORY / "shipping").is_dir()
    table = holdfast(domain, "shipping", "status").stdout
    assert all(host in table for host in found)
    assert "services: shipping on host1, host2, host3" in domain.run("status").stdout


def test_shipping_of_a_host_that_was_killed_runs_again(domain: Domain) -> None:
    before = domain.host("host3")["incarnation"]
    assert holdfast(domain, "chaos", "kill-host", "host3").returncode == 0
    domain.wait(
        "host3 lives again",
        lambda status: (
            all(host["alive"] for host in status["hosts"]) and before < _incarnation(status, "host3")
        ),
    )
    domain.wait("every host hears every other", is_whole)
    assert [each["state"] for each in shipping_of(domain).values()] == ["runs"] * 3


def _incarnation(status: dict[str, Any], host: str) -> int:
    return next(each["incarnation"] or 0 for each in status["hosts"] if each["id"] == host)


async def silent_hosts(domain: Domain) -> int:
    """How many hosts suspect another at this moment."""
    status = await asyncio.to_thread(domain.status)
    return sum(
        peer["silent"] for host in status["hosts"] if host["report"] for peer in host["report"]["peers"]
    )


@pytest.mark.parametrize("how", ["spin", "hold"])
def test_busy_workers_hold_up_nobody(domain: Domain, how: str) -> None:
    """While workers of every host are busy, groups answer and nobody is suspected: no view changes."""

    async def work(client: Client) -> None:
        name = f"beside-{how}"
        group = await client.create(name)
        await client.wait_in_sync(name)
        before = await client.info(name)
        hosts = client.layout.read().hosts
        order = KeepBusy(how=how, seconds=BUSY_S)  # type: ignore[arg-type]  # the parameter's values are these
        busy = [asyncio.ensure_future(give_at(client.layout, order, KeptBusy, host=host)) for host in hosts]
        answered = suspicions = 0
        while not all(each.done() for each in busy):
            await group.deposit("a", 1)
            answered += 1
            if answered % 20 == 0:
                suspicions += await silent_hosts(domain)
        pids = {(await each).pid for each in busy}
        assert len(pids) == 3
        assert not pids & {host["pid"] for host in (await asyncio.to_thread(domain.status))["hosts"]}
        assert answered > 20
        assert suspicions == 0
        after = await client.info(name)
        assert (after.epoch, after.primary) == (before.epoch, before.primary)

    run(domain, work)


def test_workers_die_with_their_host(domain: Domain) -> None:
    async def work(client: Client) -> None:
        order = KeepBusy(how="hold", seconds=15.0)
        asked = asyncio.ensure_future(
            give_at(client.layout, order, KeptBusy, host=client.layout.read().hosts[1])
        )
        pid = 0
        while not pid:
            report = (await asyncio.to_thread(domain.host, "host2"))["report"]
            pid = next((number for kind, number in report["workers"]["running"] if kind == "busy"), 0)
        await asyncio.to_thread(holdfast, domain, "chaos", "kill-host", "host2")
        while Path(f"/proc/{pid}").exists() and b"worker_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
            await asyncio.sleep(0.01)
        with pytest.raises(HoldfastError):
            await asked

    run(domain, work)
    domain.wait("every host hears every other", is_whole)


def test_a_domain_without_chaos_keeps_no_worker_busy(tmp_path: Path) -> None:
    with Domain(tmp_path / "d", "--hosts", "1", "--no-chaos") as domain:
        done = holdfast(domain, "chaos", "busy", "host1", "--seconds", "1")
        assert done.returncode != 0
        assert "without chaos" in done.stderr


def test_a_host_that_may_open_too_few_files_says_what_to_do(tmp_path: Path) -> None:
    """It is refused at its start, in one line."""
    script = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 1000)); "
    script += "os.execv(sys.argv[1], sys.argv[1:])"
    directory = str(tmp_path / "d")
    words = [sys.executable, "-c", script, *HOLDFAST, "up", "--dir", directory, "--detach", "--hosts", "1"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode != 0
        assert "open files at once, and this system allows it 1000" in done.stderr
    finally:
        subprocess.run([*HOLDFAST, "down", "--dir", directory], check=False, capture_output=True)
    assert os.path.isdir(directory)
