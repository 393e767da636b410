"""A host that stops in an orderly way hands its groups over (K5), and leaves a checkpoint of every group of
which it has the object (E7)."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator

import msgspec
import pytest
from domain import HOLDFAST, WAIT_S, Domain, is_whole
from group_client import EXAMPLES, Client, run
from workload import Workload

from holdfast.agent.status_client import url_of
from holdfast.cli.admin import give_at
from holdfast.model.admin.groups import GroupHistory, ShowHistory
from holdfast.model.ids import GroupId
from holdfast.storage.checkpoint import checkpoint_of

pytestmark = pytest.mark.cluster


def free_base() -> int:
    """A base from which on the ports of a domain of three hosts are free now."""
    for base in range(61_000, 65_400, 50):  # above those of outgoing connections
        with contextlib.ExitStack() as opened, contextlib.suppress(OSError):
            for port in range(base, base + 40):
                opened.enter_context(socket.create_server(("127.0.0.1", port)))
            return base
    raise AssertionError("no forty ports in a row are free")


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    directory, base = tmp_path_factory.mktemp("orderly") / "d", str(free_base())
    with Domain(directory, "--app", str(EXAMPLES), "--port-base", base) as made:
        made.wait("every host hears every other", is_whole)
        yield made


def test_sigterm_hands_the_groups_over_before_the_host_ends(
    domain: Domain, capsys: pytest.CaptureFixture[str]
) -> None:
    """No call fails, nobody has to find out that the primary is gone, and no call waits for its
    acknowledgement: it is dropped before it ends."""

    async def work(client: Client) -> None:
        async with Workload(await client.create("stopped")) as workload:
            before = await client.wait_in_sync("stopped")
            await workload.more(20)
            workload.worst_s = 0.0
            os.kill(await client.pid(before.primary), signal.SIGTERM)
            await client.wait("stopped", "another host is primary", lambda it: it.primary != before.primary)
            await client.wait("stopped", "the host is dropped", lambda it: before.primary not in it.in_sync)
            await workload.more(20)
            # For whoever reads the figure on a quiet machine; speed is not asserted here.
            with capsys.disabled():
                print(f"\nSIGTERM of a primary's host: worst call {workload.worst_s * 1000:.0f} ms")
            await client.wait_in_sync("stopped")
            await workload.more(20)
        assert (workload.refused, workload.unknown) == ([], [])
        told = await give_at(client.layout, ShowHistory(name="stopped"), GroupHistory)
        since = [(each.why, each.text) for each in told.views if each.epoch > before.epoch]
        assert since[0] == ("released", "its host is being stopped")
        assert since[1] == ("dropped", "its host is being stopped")

    run(domain, work)


def test_all_hosts_are_restarted_one_by_one_by_url_while_calls_go_on(domain: Domain) -> None:
    """No call fails, the commands ask the domain at its address, with its secret, and every host is back on
    the port that `--port-base` gave it."""
    before = {host["id"]: host["incarnation"] for host in domain.status()["hosts"]}
    addresses = [host["address"] for host in domain.status()["hosts"]]
    assert [int(each.rpartition(":")[2]) % 50 for each in addresses] == [10, 20, 30]

    async def work(client: Client) -> None:
        url = ["--connect", await url_of(client.layout, client.layout.read()), "--dir", str(domain.directory)]
        async with Workload(await client.create("rolled")) as workload:
            await client.wait_in_sync("rolled")
            await asyncio.to_thread(holdfast, "restart", "--rolling", *url)
            await workload.more(20)
        assert (workload.refused, workload.unknown) == ([], [])
        shown = msgspec.json.decode(holdfast("status", "--output", "json", *url))
        after = {host["id"]: host["incarnation"] for host in shown["hosts"] if host["alive"]}
        assert set(after) == set(before)
        assert all(after[host] > before[host] for host in before)
        assert [host["address"] for host in shown["hosts"]] == addresses

    run(domain, work)


def holdfast(*words: str) -> str:
    done = subprocess.run([*HOLDFAST, *words], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_orderly_stop_takes_a_checkpoint_of_every_group(domain: Domain) -> None:
    """The checkpoint includes the last acknowledged call: nothing is left to be replayed."""

    async def work(client: Client) -> dict[GroupId, tuple[str, int]]:
        found = {}
        for style in ("cold_passive", "active"):
            group = await client.create(style, style=style)
            for _ in range(10):
                await group.deposit("a", 1)
            info = await client.info(style)
            found[info.group] = (info.primary, 10)
        return found

    expected = run(domain, work)
    domain.run("down")
    for group, (primary, calls) in expected.items():
        store = domain.directory / "hosts" / primary / "store"
        kept = [
            found[1] for each in store.iterdir() if (found := checkpoint_of(each.name)) and found[0] == group
        ]
        assert max(kept, default=0) >= calls
