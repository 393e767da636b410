"""The primary of many groups is killed: every group continues elsewhere, with all its state (K4)."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from domain import Domain, is_whole
from group_client import EXAMPLES, Client, run

from holdfast.authority.views import VIEWS_PER_TXN_MAX
from holdfast.client.proxy import Group

pytestmark = pytest.mark.cluster


@pytest.fixture
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("many") / "d", "--app", str(EXAMPLES)) as made:
        made.wait("every host hears every other", is_whole)
        yield made


def test_all_groups_of_a_killed_host_go_on(domain: Domain, rounds: Callable[..., int]) -> None:
    """There are more groups than fit one transaction; each call is there once, and no group stays with the
    dead host."""
    count = rounds(short=VIEWS_PER_TXN_MAX + 5, long=500)

    async def work(client: Client) -> None:
        names = [f"ledger-{number}" for number in range(count)]
        ledgers: list[Group[Any]] = await asyncio.gather(*(client.create(name) for name in names))
        deposits = (ledger.deposit("alice", number) for number, ledger in enumerate(ledgers))
        assert await asyncio.gather(*deposits) == list(range(count))
        await asyncio.gather(*(client.wait_in_sync(name) for name in (names[0], names[-1])))
        victim = (await client.info("ledger-0")).primary
        before = {each.name for each in await client.connection.groups() if each.primary == victim}
        assert len(before) > VIEWS_PER_TXN_MAX
        await client.kill_primary("ledger-0")
        found = await asyncio.gather(*(ledger.deposit("alice", 1) for ledger in ledgers))
        assert found == list(range(1, count + 1))
        after = {each.name: each.primary for each in await client.connection.groups()}
        assert victim not in {after[name] for name in before}

    run(domain, work)
