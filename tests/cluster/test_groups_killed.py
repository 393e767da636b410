"""Groups under load while hosts, agents and authorities are killed: what was acknowledged is there, once."""

import asyncio
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack

import pytest
from domain import WAIT_S, Domain, is_whole
from group_client import EXAMPLES, Client, run
from workload import Workload, check_members

from holdfast.cli.admin import give_at
from holdfast.model.admin.groups import GroupHistory, ShowHistory
from holdfast.model.ids import HostId

pytestmark = pytest.mark.cluster

STYLES = ("cold_passive", "warm_passive", "active")


@pytest.fixture(scope="module")
def stopped_and_started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("killed") / "d", "--app", str(EXAMPLES)) as made:
        yield made


@pytest.fixture
def domain(stopped_and_started: Domain) -> Domain:
    """The domain, started, with every host alive and hearing every other; tests leave it stopped."""
    if stopped_and_started.status()["agent"] is None:
        stopped_and_started.up()
    stopped_and_started.wait("every host hears every other", is_whole)
    return stopped_and_started


@pytest.mark.covers("FTC-2", "FTC-4")
def test_every_style_outlives_its_primary(domain: Domain, rounds: Callable[..., int]) -> None:
    """200 calls go to a group of each style while its primary is killed; a stateless group simply
    continues."""

    async def work(client: Client) -> None:
        stateless = await client.create("stateless", style="stateless")
        calls = {style: Workload(await client.create(style, style=style), callers=4) for style in STYLES}
        async with AsyncExitStack() as stack:
            for each in calls.values():
                await stack.enter_async_context(each)
            for _ in range(rounds(short=1, long=30)):
                for name in (*STYLES, "stateless"):
                    await asyncio.gather(*(each.more(50) for each in calls.values()))
                    await client.kill_primary(name)
                    answers = await asyncio.gather(*(stateless.total() for _ in range(50)))
                    assert answers == [0] * 50
            await asyncio.gather(*(each.more(50) for each in calls.values()))
        assert not any(each.unknown + each.refused for each in calls.values())
        await check_members(client, calls)

    run(domain, work)


def test_all_hosts_killed_under_load_lose_nothing(domain: Domain, rounds: Callable[..., int]) -> None:
    """K6: all hosts are killed -9 at once, again and again; callers only wait."""

    async def work(client: Client) -> None:
        async with Workload(await client.create("outage")) as calls:
            for _ in range(rounds(short=1, long=50)):
                await calls.more(100)
                await client.kill_all()
            await calls.more(100)
        assert not calls.unknown + calls.refused
        await check_members(client, {"outage": calls})

    run(domain, work)


def test_a_failover_without_agent_or_authority_waits_and_loses_nothing(
    domain: Domain, rounds: Callable[..., int]
) -> None:
    """The primary dies while nobody can prove it (K2), then while nobody can be asked who is next (A4)."""

    async def work(client: Client) -> None:
        async with Workload(await client.create("unproven")) as calls:
            for _ in range(rounds(short=1, long=20)):
                await calls.more(50)
                os.kill(await asyncio.to_thread(pid_of, domain, "agent"), signal.SIGKILL)
                await client.kill_primary("unproven")
                await calls.more(50)
                await asyncio.to_thread(domain.up)
                os.kill(await asyncio.to_thread(pid_of, domain, "authority"), signal.SIGKILL)
                await client.kill_primary("unproven")
                await calls.more(50)
        assert not calls.unknown + calls.refused
        await check_members(client, {"unproven": calls})

    run(domain, work)


def test_hosts_that_end_as_soon_as_they_begin_lose_nothing(
    domain: Domain, rounds: Callable[..., int]
) -> None:
    """V3, V5: each host in turn is killed again and again, milliseconds after its restart."""
    seed = random.randrange(1 << 32)
    moments = random.Random(seed)
    print(f"seed {seed}")

    async def work(client: Client) -> None:
        async with Workload(await client.create("restless")) as calls:
            for number in range(rounds(short=3, long=150)):
                await calls.more(10)
                host = HostId(f"host{1 + number % 3}")
                for _ in range(2):
                    await client.kill(host)
                    await asyncio.sleep(moments.random() * 0.3)
        assert not calls.unknown + calls.refused
        await check_members(client, {"restless": calls})

    run(domain, work)


def pid_of(domain: Domain, who: str) -> int:
    pid: int = domain.wait(f"there is an {who}", lambda status: bool(status[who] and status[who]["pid"]))[
        who
    ]["pid"]
    return pid


def test_a_group_in_memory_restarts_by_itself_if_it_was_told_to(domain: Domain) -> None:
    """All processes that had its state are killed: it begins anew, and its history says so (V4)."""

    async def work(client: Client) -> None:
        ledger = await client.connection.create(
            "ledger:Ledger", name="restarting", durability="memory", on_total_loss="restart"
        )
        assert await ledger.deposit("alice", 5) == 5
        await client.wait_in_sync("restarting")
        await client.kill_all()
        assert await ledger.deposit("alice", 1) == 1
        causes: list[str] = []
        async with asyncio.timeout(WAIT_S):
            while "restarted" not in causes:  # histories are written with a delay
                told = await give_at(client.layout, ShowHistory(name="restarting"), GroupHistory)
                causes = [view.why for view in told.views]
                await asyncio.sleep(0.1)

    run(domain, work)
