"""Groups that call groups, on real hosts: a nested call happens once, whichever host is killed meanwhile
(E3)."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from domain import WAIT_S, Domain, is_whole
from group_client import Client, run

from holdfast.client.domain import connect
from holdfast.client.proxy import Group
from holdfast.model.calls import CallOutcomeUnknown
from holdfast.model.errors import HoldfastError
from holdfast.model.outcome import MethodRaised

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"
STYLES = ("warm_passive", "cold_passive", "active")
CALLERS = 4
ROUNDS_MAX = 20
SOON_S = 60.0
"""Long before a call expires, which takes minutes; on a quiet machine it is a second at most."""


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("nested") / "d", "--app", str(APPS)) as made:
        yield made


@pytest.fixture
def whole(domain: Domain) -> Domain:
    """The domain, with every host alive and hearing every other."""
    domain.wait("every host hears every other", is_whole)
    return domain


async def market(client: Client, name: str, style: str) -> tuple[Group[Any], Group[Any]]:
    """A shop and its stock, both of *style*."""
    stock = await client.connection.create("market:Stock", name=f"{name} stock", style=style)
    shop = await client.connection.create(
        "market:Shop", name=f"{name} shop", style=style, args=[f"{name} stock"]
    )
    return shop, stock


@pytest.mark.covers("FTC-16")
def test_any_program_calls_a_replicated_object_and_that_one_calls_an_unreplicated_one(whole: Domain) -> None:
    """The program knows HTTP and nothing about replicas; the stock is one object, made by a host's
    factory."""
    door = whole.host("host1")["report"]["details"]["http"]
    with httpx.Client(base_url=door, timeout=2 * WAIT_S, trust_env=False) as program:

        def post(path: str, body: object) -> Any:
            answer = program.post(path, json=body)
            assert answer.status_code in (200, 201), answer.text
            return answer.json()

        stock = {"type_id": "market:Stock", "criteria": {"name": "one stock"}}
        made = post("/v1/factories/host2/objects", stock)
        assert [each["host"] for each in made["reference"]["members"]] == ["host2"]
        shop = {"name": "three shops", "class_name": "market:Shop", "replicas": 3, "arguments": ["one stock"]}
        assert len(post("/v1/groups", shop)["placed_on"]) == 3
        bought = post("/v1/groups/three shops/calls/buy?duration_s=60", ["bread"])
        assert bought["result"] == 11
        found = post("/v1/groups/one stock/calls/times", [])
        assert found["result"] == {"bread": 1, "bread, again": 1}


@pytest.mark.covers("FTC-15")
@pytest.mark.parametrize("style", STYLES)
def test_a_method_calls_another_group_and_goes_on_with_its_answer(whole: Domain, style: str) -> None:
    async def work(client: Client) -> None:
        shop, stock = await market(client, f"plain {style}", style)
        assert await shop.buy("one") == 11
        assert await stock.times() == {"one": 1, "one, again": 1}
        assert await shop.orders() == {"one": 11}
        with pytest.raises(MethodRaised, match="sold out"):
            await shop.fail()
        with pytest.raises(MethodRaised, match="there is no group 'no such group'"):
            await shop.nobody()
        assert await shop.buy("two") == 11

    run(whole, work)


def test_a_call_back_into_a_group_that_waits_is_refused_at_once(whole: Domain) -> None:
    """The call would wait for itself forever: it gets CallCycle, which names the circle."""

    async def work(client: Client) -> None:
        shop, _ = await market(client, "circle", "warm_passive")
        assert "circle shop -> circle stock -> circle shop" in await shop.circle()
        assert await shop.orders() == {}

    run(whole, work)


async def banks(client: Client, name: str, count: int, style: str) -> list[Group[Any]]:
    return [
        await client.connection.create("banks:Bank", name=f"{name} {each}", style=style, args=[1000])
        for each in range(count)
    ]


@pytest.mark.parametrize("style", STYLES)
def test_groups_that_call_each_other_at_once_all_go_on(whole: Domain, style: str) -> None:
    """Three transfers go from A to B and three from B to A, so pairs wait for each other's group. One of each
    pair is refused before it has begun, so what it took from its own group can be returned (E10)."""

    async def work(client: Client) -> tuple[list[str], float, int, list[list[str]]]:
        name = f"both ways {style}"
        both = await banks(client, name, 2, style)
        ended: list[str] = []
        took_s = 0.0
        while "call_cycle" not in ended and len(ended) < 6 * ROUNDS_MAX:  # they may just miss each other
            began = time.monotonic()
            ended += await asyncio.gather(
                *(both[each % 2].transfer(f"{name} {1 - each % 2}", 10 + each) for each in range(6))
            )
            took_s = max(took_s, time.monotonic() - began)
        said = [await each.said() for each in both]
        return ended, took_s, sum([await each.holds() for each in both]), said

    ended, took_s, total, said = run(whole, work)
    assert total == 2000
    assert set(ended) == {"done", "call_cycle"}
    assert took_s < SOON_S, "nothing waits until it expires"
    circles = (f"both ways {style} 0 -> both ways {style} 1", f"both ways {style} 1 -> both ways {style} 0")
    assert all(any(each in text for each in circles) for texts in said for text in texts)


def test_interleaved_groups_that_call_each_other_refuse_nothing(whole: Domain) -> None:
    """No call stands in line behind a waiting operation, so there is no circle, and none is reported."""

    async def work(client: Client) -> tuple[list[str], int]:
        both = [
            await client.connection.create("banks:OpenBank", name=f"open {each}", args=[1000])
            for each in range(2)
        ]
        ended = await asyncio.gather(
            *(both[each % 2].transfer(f"open {1 - each % 2}", 10 + each) for each in range(40))
        )
        return ended, sum([await each.holds() for each in both])

    assert run(whole, work) == (["done"] * 40, 2000)


def test_a_ring_of_three_groups_goes_on(whole: Domain) -> None:
    """Each transfers to the next, some of them through it to the one after: circles of two and of three."""

    async def work(client: Client) -> tuple[list[str], int]:
        ring = await banks(client, "ring", 3, "warm_passive")

        def transfer(each: int) -> Any:
            at, after, beyond = (each % 3, (each + 1) % 3, (each + 2) % 3)
            if each < 6:
                return ring[at].transfer(f"ring {after}", 1 + each)
            return ring[at].pass_on(1 + each, [f"ring {after}", f"ring {beyond}"])

        ended = await asyncio.gather(*(transfer(each) for each in range(12)))
        return ended, sum([await each.holds() for each in ring])

    ended, total = run(whole, work)
    assert total == 3000
    assert set(ended) <= {"done", "call_cycle"}
    assert "done" in ended


def test_a_call_that_nobody_answers_ends_by_expiration(whole: Domain) -> None:
    """It is recorded as unknown: the operation that waited for it continues, and so does its group."""

    async def work(client: Client) -> None:
        asker = await client.connection.create("market:Stock", name="asker")
        found = await client.wait_in_sync("asker")
        elsewhere = next(host for host in found.in_sync if host != found.primary)
        async with connect(
            f"holdfast://{await client.address(elsewhere)}/{client.name}", dir=client.layout.directory
        ) as there:
            await there.create("market:Stock", name="lonely", replicas=1)  # on the host that is asked
        pid = await client.pid(elsewhere)
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(CallOutcomeUnknown):
                await asker.options(duration_s=3, outcome_s=0).wait_for("lonely")
            # A query sees the state before the operation until the operation has ended.
            while (noted := await asker.noted()) != ["unknown"]:
                assert noted == []
                await asyncio.sleep(0.05)
        finally:
            os.kill(pid, signal.SIGCONT)

    run(whole, work)


def test_a_call_with_a_timeout_holds_its_group_up_no_longer(whole: Domain) -> None:
    """The host that may have taken it has stopped, so its outcome is unknown: that is reported soon after its
    one second, not when the request expires; the called group is asked first (X3)."""

    async def work(client: Client) -> tuple[str, float, str]:
        asker = await client.connection.create("market:Stock", name="hasty", replicas=1)
        found = await client.wait_in_sync("hasty")
        elsewhere = next(host for host in ("host1", "host2") if host != found.primary)
        async with connect(
            f"holdfast://{await client.address(elsewhere)}/{client.name}", dir=client.layout.directory
        ) as there:
            await there.create("market:Stock", name="stopped", replicas=1)
        await client.wait_in_sync("stopped")
        assert await asker.ask_within("stopped", SOON_S) == "done"
        pid = await client.pid(elsewhere)
        os.kill(pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            ended: str = await asker.ask_within("stopped", 1)
            took_s = time.monotonic() - began
        finally:
            os.kill(pid, signal.SIGCONT)
        return ended, took_s, await asker.ask_within("stopped", SOON_S)

    ended, took_s, after = run(whole, work)
    assert (ended, after) == ("unknown", "done")
    assert took_s < SOON_S


def test_a_call_that_times_out_in_line_never_runs(whole: Domain) -> None:
    """The called group's line is blocked; what stands there has not begun, so it can be withdrawn (X3)."""

    async def work(client: Client) -> tuple[str, list[str], dict[str, int]]:
        create = client.connection.create
        asker = await create("market:Stock", name="asks in line", replicas=1)
        shop = await create("market:Shop", name="in line shop", replicas=1, args=["in line stock"])
        found = await client.wait_in_sync("in line shop")
        elsewhere = next(host for host in ("host1", "host2") if host != found.primary)
        async with connect(
            f"holdfast://{await client.address(elsewhere)}/{client.name}", dir=client.layout.directory
        ) as there:
            stock = await there.create("market:Stock", name="in line stock", replicas=1)
            await client.wait_in_sync("in line stock")
            pid = await client.pid(elsewhere)
            os.kill(pid, signal.SIGSTOP)
            try:
                slow = shop.buy("slow")  # it waits for the stock
                ended: str = await asker.sell_within("in line shop", "fast", 0.5)
            finally:
                os.kill(pid, signal.SIGCONT)
            await slow
            return ended, sorted(await shop.orders()), await stock.times()

    assert run(whole, work) == ("not_executed", ["slow"], {"slow": 1, "slow, again": 1})


@pytest.mark.covers("FTC-22")
@pytest.mark.parametrize("style", STYLES)
def test_a_nested_call_happens_once_though_its_callers_primaries_die(
    whole: Domain, style: str, rounds: Callable[..., int]
) -> None:
    """The calling group's primary and the called one's are killed -9 while orders go through both."""
    orders = rounds(short=40, long=1000)

    async def work(client: Client) -> tuple[dict[str, int], dict[str, int]]:
        name = f"killed {style}"
        shop, stock = await market(client, name, style)
        numbers = iter(range(orders))
        done = 0

        async def buy() -> None:
            nonlocal done
            for number in numbers:
                assert await shop.buy(f"order {number}") == 11
                done += 1

        async def kill() -> None:
            for share, victim in ((1, "shop"), (2, "stock"), (3, "shop")):
                while done < orders * share // 4:
                    await asyncio.sleep(0.001)
                await client.kill_primary(f"{name} {victim}")

        await asyncio.gather(kill(), *(buy() for _ in range(CALLERS)))
        return await shop.orders(), await stock.times()

    sold, reserved = run(whole, work)
    assert sold == {f"order {each}": 11 for each in range(orders)}
    assert len(reserved) == 2 * orders
    assert set(reserved.values()) == {1}


@pytest.mark.parametrize("style", STYLES)
def test_interleaved_calls_happen_once_though_primaries_die(
    whole: Domain, style: str, rounds: Callable[..., int]
) -> None:
    """All orders are in progress at once, and wait for the stock twice each; both primaries are killed."""
    orders = rounds(short=60, long=1000)

    async def work(client: Client) -> tuple[dict[str, int], dict[str, int]]:
        name = f"busy {style}"
        stock = await client.connection.create("market:Stock", name=f"{name} stock", style=style)
        shop = await client.connection.create(
            "market:BusyShop", name=f"{name} shop", style=style, args=[f"{name} stock"]
        )
        done = 0

        async def buy(number: int) -> None:
            nonlocal done
            assert await shop.buy(f"order {number}") == 11
            done += 1

        async def kill() -> None:
            for share, victim in ((0, "shop"), (1, "stock")):
                while done < orders * share // 2:
                    await asyncio.sleep(0.001)
                await client.kill_primary(f"{name} {victim}")

        await asyncio.gather(kill(), *(buy(number) for number in range(orders)))
        return await shop.orders(), await stock.times()

    sold, reserved = run(whole, work)
    assert sold == {f"order {each}": 11 for each in range(orders)}
    assert len(reserved) == 2 * orders
    assert set(reserved.values()) == {1}


def test_queries_are_answered_while_a_call_waits_for_a_group_that_is_not_served(whole: Domain) -> None:
    """The answers come from the state before the waiting operation. Whoever waited for it would get none: the
    host that it waits for stands still until all are there."""

    async def work(client: Client) -> None:
        asker = await client.connection.create("market:Stock", name="patient asker")
        found = await client.wait_in_sync("patient asker")
        elsewhere = next(host for host in found.in_sync if host != found.primary)
        async with connect(
            f"holdfast://{await client.address(elsewhere)}/{client.name}", dir=client.layout.directory
        ) as there:
            await there.create("market:Stock", name="silent", replicas=1)
        await asker.touch()
        pid = await client.pid(elsewhere)
        os.kill(pid, signal.SIGSTOP)
        try:
            waiting = asyncio.ensure_future(asker.wait_for("silent"))
            await asyncio.sleep(0.5)  # it is being executed, or soon
            for _ in range(100):
                assert await asker.noted() == ["touched"]
                await asyncio.sleep(0.005)
            assert not waiting.done()
        finally:
            os.kill(pid, signal.SIGCONT)
        await waiting

    run(whole, work)


def test_a_stateless_group_can_be_called_and_calls_nobody(whole: Domain) -> None:
    async def work(client: Client) -> None:
        _, stock = await market(client, "less", "warm_passive")
        less = await client.connection.create(
            "market:Shop", name="less less", style="stateless", args=["less stock"]
        )
        with pytest.raises(HoldfastError, match="only an ordered operation"):
            await less.buy("one")
        assert await stock.times() == {}

    run(whole, work)
