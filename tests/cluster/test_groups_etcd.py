"""Groups whose authority is a real etcd of three: the same promises, also while etcd loses its leader."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from authority_backends import EtcdBackend
from domain import Domain, is_whole
from group_client import EXAMPLES, Client, run
from workload import Workload, check_members

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.etcd,
    pytest.mark.timeout(600),
]

STYLES = ("cold_passive", "warm_passive", "active")


@pytest.fixture
def domain(tmp_path: Path, etcd_backend: EtcdBackend) -> Iterator[Domain]:
    endpoints = [word for endpoint in etcd_backend.cluster.endpoints for word in ("--etcd", endpoint)]
    with Domain(tmp_path / "d", "--app", str(EXAMPLES), *endpoints) as made:
        made.wait("every host hears every other", is_whole)
        yield made


def test_groups_outlive_primaries_and_whole_outages_while_etcd_elects(
    domain: Domain, etcd_backend: EtcdBackend, rounds: Callable[..., int]
) -> None:
    """The primary of each style is killed in turn, then all hosts at once, each time just after etcd's
    leader: a host that wants to claim or to open a session waits for the next leader, and no call is lost or
    duplicated."""
    cluster = etcd_backend.cluster

    async def work(client: Client) -> None:
        stateless = await client.create("stateless", style="stateless")
        calls = {style: Workload(await client.create(style, style=style), callers=4) for style in STYLES}

        async def progress() -> None:
            await asyncio.gather(*(each.more(40) for each in calls.values()))
            assert await asyncio.gather(*(stateless.total() for _ in range(40))) == [0] * 40

        async with AsyncExitStack() as stack:
            for each in calls.values():
                await stack.enter_async_context(each)
            for number in range(rounds(short=2, long=40)):
                await progress()
                cluster.kill(await asyncio.to_thread(cluster.leader))
                try:
                    if number % 2:
                        await client.kill_all()
                    else:
                        for name in (*STYLES, "stateless"):
                            await client.kill_primary(name)
                    await progress()
                finally:
                    await asyncio.to_thread(cluster.heal)
        assert not any(each.unknown + each.refused for each in calls.values())
        await check_members(client, calls)

    run(domain, work)
