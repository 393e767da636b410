"""Methods that compute for seconds, on real hosts: everybody else is served meanwhile (E15)."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from domain import Domain, is_whole
from group_client import Client, run

from holdfast.model.ids import HostId
from holdfast.model.outcome import CallPoisoned
from holdfast.node.layout import Layout

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"
SLOW_S = 2.5
"""Several times as long as a silent host is waited for."""
STYLES = ("warm_passive", "active")


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("slow") / "d", "--app", str(APPS)) as made:
        made.wait("every host hears every other", is_whole)
        yield made


async def silent_hosts(domain: Domain) -> int:
    """How many hosts suspect another at this moment."""
    status = await asyncio.to_thread(domain.status)
    return sum(
        peer["silent"] for host in status["hosts"] if host["report"] for peer in host["report"]["peers"]
    )


@pytest.mark.parametrize("style", STYLES)
def test_other_groups_are_served_while_one_computes_for_seconds(domain: Domain, style: str) -> None:
    """Nobody is suspected, and no view changes; calls of its own group are answered after it."""

    async def work(client: Client) -> None:
        names = [f"{name}-{style}" for name in ("slow", "beside")]
        slow, beside = [await client.connection.create("mill:Mill", name=name, style=style) for name in names]
        before = [await client.wait_in_sync(name) for name in names]
        assert await slow.add("before") == 1
        computed = asyncio.ensure_future(slow.grind("ground", SLOW_S))
        await asyncio.sleep(0)
        behind = asyncio.ensure_future(slow.add("behind"))
        answered = suspicions = 0
        while not computed.done():
            await beside.add("x")
            answered += 1
            if answered % 20 == 0:
                suspicions += await silent_hosts(domain)
        assert await computed == 2
        assert await behind == 3
        assert answered > 10, "had they waited behind it, one would have been answered"
        assert suspicions == 0
        after = [await client.info(name) for name in names]
        assert [(each.epoch, each.primary) for each in after] == [
            (each.epoch, each.primary) for each in before
        ]
        assert await slow.read() == ["before", "ground", "behind"]

    run(domain, work)


@pytest.mark.parametrize("style", STYLES)
def test_a_query_sees_the_state_before_it(domain: Domain, style: str) -> None:
    async def work(client: Client) -> None:
        group = await client.connection.create("mill:Mill", name=f"asked-{style}", style=style)
        assert await group.add("before") == 1
        computed = asyncio.ensure_future(group.wait("slow", 2.0))
        seen: list[list[str]] = []
        while not computed.done():
            seen.append(await group.read())
        await computed
        assert ["before"] in seen
        assert await group.read() == ["before", "slow"]

    run(domain, work)


@pytest.mark.parametrize("style", STYLES)
def test_another_member_computes_it_when_the_primary_is_killed(domain: Domain, style: str) -> None:
    """It takes effect once."""

    async def work(client: Client) -> None:
        name = f"killed-{style}"
        group = await client.connection.create("mill:Mill", name=name, style=style)
        assert await group.add("before") == 1
        before = await client.wait_in_sync(name)
        computed = asyncio.ensure_future(group.wait("slow", 2.0))
        await asyncio.sleep(0.5)
        await client.kill(before.primary)
        assert await computed == 2
        assert await group.add("after") == 3
        assert await group.read() == ["before", "slow", "after"]
        assert (await client.info(name)).primary != before.primary

    run(domain, work)
    domain.wait("every host hears every other", is_whole)


@pytest.mark.parametrize("style", STYLES)
def test_one_that_crashes_ends_few_hosts_and_is_given_up(domain: Domain, style: str) -> None:
    """E4: never all members at once; the group goes on, and so does everything else."""

    async def work(client: Client) -> None:
        name = f"crashing-{style}"
        group = await client.connection.create("mill:Mill", name=name, style=style)
        assert await group.add("before") == 1
        await client.wait_in_sync(name)
        before = await asyncio.to_thread(incarnations, domain)
        with pytest.raises(CallPoisoned):
            await group.crash("x")
        assert await group.add("after") == 2
        await client.wait_in_sync(name)
        after = await asyncio.to_thread(incarnations, domain)
        ended = [host for host, number in after.items() if number != before[host]]
        assert 1 <= len(ended) <= 2

    run(domain, work)
    domain.wait("every host hears every other", is_whole)


def incarnations(domain: Domain) -> dict[str, int]:
    found = domain.wait("every host lives", lambda status: all(host["alive"] for host in status["hosts"]))
    return {host["id"]: host["incarnation"] for host in found["hosts"]}


def test_a_method_that_holds_the_loop_is_named_with_its_time(domain: Domain) -> None:
    """And with what to do about it."""

    async def work(client: Client) -> None:
        group = await client.connection.create("mill:Mill", name="standing")
        await group.stand(1.0)
        primary = (await client.info("standing")).primary
        deadline = time.monotonic() + 60
        while not named(client.layout, primary) and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        line = named(client.layout, primary)[0]
        assert int(line.partition("took_ms=")[2].split()[0]) >= 1000
        assert "@holdfast.slow" in line

    run(domain, work)


def named(layout: Layout, host: HostId) -> list[str]:
    lines = layout.output(host).read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if "method=stand" in line and "a call was slow" in line]
