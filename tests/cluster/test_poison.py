"""Calls that harm their host. A call that ends the interpreter ends two hosts at most; then it is given up,
and all serve on (E4). A call that blocks the loop for a while costs no host its groups (R4)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from domain import WAIT_S, Domain, is_whole
from group_client import Client, run

from holdfast.cli.admin import give_at
from holdfast.model.admin.groups import GroupHistory, ShowHistory
from holdfast.model.outcome import CallPoisoned

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"
STANDING_S = 1.5
"""More than twice the time that a silent host is waited for."""
TRIES_MAX = 5
"""A machine may be so busy that hosts are not heard for other reasons, but hardly this many times in a
row."""


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("poison") / "d", "--app", str(APPS)) as made:
        yield made


@pytest.fixture
def whole(domain: Domain) -> Domain:
    """The domain, with every host alive and hearing every other."""
    domain.wait("every host hears every other", is_whole)
    return domain


def restarts(domain: Domain) -> int:
    """Return how often hosts were restarted in total."""
    return sum(host["restarts"] for host in domain.status()["hosts"])


async def poisoned(client: Client, name: str) -> list[tuple[str, int]]:
    """Return what `holdfast group show` lists: the calls, and how many processes each ended."""
    told = await give_at(client.layout, ShowHistory(name=name), GroupHistory)
    return [(each.call, each.attempts) for each in told.poisoned]


def test_the_only_host_of_a_group_learns_from_its_own_deaths(
    whole: Domain,
) -> None:
    """Nobody else may have seen the deaths."""

    async def work(client: Client) -> None:
        lonely = await client.connection.create("deadly:Deadly", name="only", replicas=1)
        with pytest.raises(CallPoisoned, match=r"exit\('alone'\) ended 2 processes"):
            await lonely.exit("alone")
        assert await lonely.read() == []

    run(whole, work)


@pytest.mark.parametrize(
    ("style", "method", "arguments"),
    [
        ("warm_passive", "exit", ["for good"]),
        ("cold_passive", "crash", []),
        ("active", "exit", ["for good"]),
        ("warm_passive", "look_and_exit", []),
    ],
)
def test_two_hosts_restart_at_most_and_then_the_call_is_poisoned(
    whole: Domain, style: str, method: str, arguments: list[str]
) -> None:
    """The call can be examined afterwards: the fault in the host's log names the call and the request."""

    async def work(client: Client) -> None:
        name = f"{style} {method}"
        deadly = await client.connection.create("deadly:Deadly", name=name, style=style)
        beside = await client.connection.create("deadly:Deadly", name=f"beside {name}", style=style)
        assert await deadly.write("before") == 1
        await client.wait_in_sync(name)
        before = await asyncio.to_thread(restarts, whole)
        with pytest.raises(CallPoisoned, match="ended 2 processes"):
            await deadly.call(method, *arguments)
        assert await deadly.write("after") == 2
        assert await deadly.read() == ["before", "after"]
        assert await beside.write("unharmed") == 1
        # Every host lives again, and none dies of what it replays.
        await client.wait_in_sync(name)
        await asyncio.to_thread(whole.wait, "every host hears every other", is_whole)
        assert 1 <= await asyncio.to_thread(restarts, whole) - before <= 2
        if method == "exit":
            async with asyncio.timeout(WAIT_S):
                while not await poisoned(client, name):  # histories are written with a delay
                    await asyncio.sleep(0.1)
            assert await poisoned(client, name) == [("exit('for good')", 2)]

    run(whole, work)
    if arguments:
        said = "".join(path.read_text(encoding="utf-8") for path in whole.directory.rglob("*.log"))
        assert "kind=poisoned" in said
        assert "exit('for good') of request" in said


def test_an_operation_that_waited_is_given_up_too_and_its_nested_call_was_made_once(
    whole: Domain,
) -> None:

    async def work(client: Client) -> None:
        deadly = await client.connection.create("deadly:Deadly", name="waiting")
        other = await client.connection.create("deadly:Deadly", name="asked")
        before = await asyncio.to_thread(restarts, whole)
        with pytest.raises(CallPoisoned, match=r"ask_and_exit\('asked'\) ended 2 processes"):
            await deadly.ask_and_exit("asked")
        assert await deadly.write("after") == 1
        assert await other.read() == ["asked"]
        await asyncio.to_thread(whole.wait, "every host hears every other", is_whole)
        assert await asyncio.to_thread(restarts, whole) - before <= 2

    run(whole, work)


def test_a_timer_that_ends_processes_is_given_up(whole: Domain) -> None:

    async def work(client: Client) -> None:
        deadly = await client.connection.create("deadly:Deadly", name="timed")
        before = await asyncio.to_thread(restarts, whole)
        await deadly.exit_later()
        async with asyncio.timeout(WAIT_S):
            while await asyncio.to_thread(restarts, whole) - before < 2:
                await asyncio.sleep(0.05)
        assert await deadly.write("after") == 1
        await asyncio.to_thread(whole.wait, "every host hears every other", is_whole)
        assert await asyncio.to_thread(restarts, whole) - before == 2

    run(whole, work)


def test_a_host_whose_loop_stands_keeps_its_groups(whole: Domain) -> None:
    """A long method does not look like a dead host, also while others call (R4)."""

    async def work(client: Client) -> None:
        group = await client.connection.create("standing:Standing", name="standing")
        for _ in range(TRIES_MAX):
            before = await client.wait_in_sync("standing")
            await asyncio.gather(group.stand(STANDING_S), *(group.add() for _ in range(20)))
            after = await client.info("standing")
            if (after.primary, after.epoch) == (before.primary, before.epoch):
                return
        raise AssertionError(f"{before.primary} lost its group by standing, {TRIES_MAX} times")

    run(whole, work)
