"""Groups that call groups of another domain: two domains of real processes, whose primaries die."""

import asyncio
import contextlib
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from domain import HOLDFAST, WAIT_S, Domain, is_whole
from group_client import Client, run

from holdfast.agent.status_client import url_of
from holdfast.model.outcome import MethodRaised
from holdfast.node.layout import Layout

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"
CALLERS = 4


@pytest.fixture(scope="module")
def domains(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Domain, Domain]]:
    """Two domains: one that calls, and one that is called."""
    directory, options = tmp_path_factory.mktemp("abroad"), ("--app", str(APPS), "--hosts", "2")
    home, there = (Domain(directory / name, *options) for name in "ab")
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as pool:
        list(pool.map(stack.enter_context, (home, there)))
        yield home, there


def url(domain: Domain) -> str:
    layout = Layout(domain.directory)
    return asyncio.run(url_of(layout, layout.read()))


def make(domain: Domain, cls: str, name: str, *args: str) -> None:
    async def work(client: Client) -> None:
        await client.connection.create(cls, name=name, replicas=2, args=args)
        await client.wait_in_sync(name)

    domain.wait("every host hears every other", is_whole)
    run(domain, work)


@pytest.fixture(scope="module")
def market(domains: tuple[Domain, Domain]) -> tuple[Domain, Domain]:
    """A shop in one domain that sells from a stock in the other."""
    home, there = domains
    for giver, taker in ((there, home), (home, there)):
        key = giver.run("key", "neighbour").stdout.strip()
        command = [*HOLDFAST, "key", "keep", Layout(giver.directory).read().domain]
        subprocess.run([*command, "--dir", str(taker.directory)], input=key, text=True, check=True)
    make(there, "market:Stock", "stock")
    make(home, "market:Shop", "shop", "stock", url(there))
    return domains


async def reserved(client: Client) -> dict[str, int]:
    """Return how often each order has reserved something."""
    found: dict[str, int] = await (await client.group("stock")).times()
    return found


@pytest.mark.covers("FTC-6")
def test_a_method_calls_a_group_of_another_domain_and_goes_on_with_its_answer(
    market: tuple[Domain, Domain],
) -> None:
    """It also learns what the called group raises, that no group of a name exists, and that calls form a
    circle."""
    home, there = market
    address, elsewhere = url(home), Layout(there.directory).read().domain

    async def work(client: Client) -> None:
        shop = await client.group("shop")
        assert await shop.buy("one") == 11
        with pytest.raises(MethodRaised, match="sold out"):
            await shop.fail()
        with pytest.raises(
            MethodRaised, match=f"there is no group 'holdfast://.*/{elsewhere}/no such group'"
        ):
            await shop.nobody()
        assert f"shop -> holdfast://{elsewhere}/stock -> shop" in await shop.circle(address)
        assert (await shop.orders())["one"] == 11

    run(home, work)
    times = run(there, reserved)
    assert (times["one"], times["one, again"]) == (1, 1)


@pytest.mark.covers("FTC-6")
def test_a_call_whose_caller_dies_before_it_is_answered_is_made_again_and_happens_once(
    market: tuple[Domain, Domain], tmp_path: Path
) -> None:
    """The stock executes the call while the shop's primary is killed, so nobody receives the answer. The next
    primary makes the call again, and gets the result of the first."""
    home, there = market

    async def work(client: Client) -> int:
        shop = await client.group("shop")
        bought = asyncio.ensure_future(shop.buy_when("held", str(tmp_path)))
        async with asyncio.timeout(WAIT_S):
            while not (tmp_path / "entered").exists():
                await asyncio.sleep(0.01)
        await client.kill_primary("shop")
        (tmp_path / "released").touch()
        found: int = await bought
        return found

    home.wait("every host hears every other", is_whole)
    assert run(home, work) == 1
    assert run(there, reserved)["held"] == 1


@pytest.mark.covers("FTC-6", "FTC-22")
def test_a_call_to_another_domain_happens_once_though_primaries_of_both_die(
    market: tuple[Domain, Domain], rounds: Callable[..., int]
) -> None:
    """The calling group's primary, the called one's, and the calling one's again are killed -9 while orders
    go through both."""
    home, there = market
    orders = rounds(short=40, long=1_000)

    async def work(client: Client) -> dict[str, int]:
        shop, numbers, done = await client.group("shop"), iter(range(orders)), 0

        async def buy() -> None:
            nonlocal done
            for number in numbers:
                assert await shop.buy(f"order {number}") == 11
                done += 1

        async def kill() -> None:
            for share, domain, victim in ((1, home, "shop"), (2, there, "stock"), (3, home, "shop")):
                while done < orders * share // 4:
                    await asyncio.sleep(0.001)
                await asyncio.to_thread(run, domain, partial(Client.kill_primary, name=victim))

        await asyncio.gather(kill(), *(buy() for _ in range(CALLERS)))
        found: dict[str, int] = await shop.orders()
        return found

    sold = run(home, work)
    assert {f"order {each}": 11 for each in range(orders)}.items() <= sold.items()
    times = run(there, reserved)
    assert {f"order {each}{again}" for each in range(orders) for again in ("", ", again")} <= set(times)
    assert set(times.values()) == {1}
