"""Calls that groups send without waiting for answers, on real hosts: executed once, in order, whichever host
is killed."""

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from domain import HOLDFAST, WAIT_S, Domain, is_whole
from group_client import Client, run

from holdfast.client.proxy import Group

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("sends") / "d", "--app", str(APPS)) as made:
        yield made


@pytest.fixture
def whole(domain: Domain) -> Domain:
    domain.wait("every host hears every other", is_whole)
    return domain


async def heard(group: Group[Any], lines: int) -> list[str]:
    """Return what it has received, once there are that many."""
    async with asyncio.timeout(WAIT_S):
        while len(found := await group.lines()) < lines:
            await asyncio.sleep(0.05)
    return list(found)


@pytest.mark.parametrize("style", ["warm_passive", "cold_passive", "active"])
def test_every_line_is_heard_once_and_in_order_though_primaries_die(
    whole: Domain, style: str, rounds: Callable[..., int]
) -> None:
    count = rounds(short=40, long=1000)

    async def work(client: Client) -> None:
        create = client.connection.create
        herald = await create("market:Herald", name=f"{style} herald", style=style)
        names = [f"{style} {side}" for side in ("east", "west")]
        listeners = [await create("market:Listener", name=name, style=style) for name in names]
        for number in range(count):
            await herald.tell(f"line {number}", *names)
            if number == count // 4:
                await client.kill_primary(f"{style} herald")
            if number == count // 2:
                await client.kill_primary(names[0])
        told = await herald.lines()
        for each in listeners:
            assert await heard(each, count) == told

    run(whole, work)


def test_one_that_comes_to_nothing_is_listed(whole: Domain) -> None:
    async def work(client: Client) -> None:
        herald = await client.connection.create("market:Herald", name="lonely herald")
        await herald.tell_soon("to nobody", "no such listener")
        async with asyncio.timeout(WAIT_S):
            while not (found := await herald.call("@sends"))["failed"]:
                await asyncio.sleep(0.05)
        (failed,) = found["failed"]
        assert (failed["group"], failed["code"]) == ("no such listener", "no_such_group")
        assert failed["text"] == "it was not executed: there is no group 'no such listener'"
        assert found["waiting"] == []

    run(whole, work)
    command = (*HOLDFAST, "group", "sends", "lonely herald", "--dir", str(whole.directory))
    shown = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=True).stdout
    assert "lonely herald: 0 to send, 1 came to nothing" in shown
    assert "no such listener.hear" in shown
    door = whole.host("host1")["report"]["details"]["http"]
    answer = httpx.get(f"{door}/v1/groups/lonely herald/sends", timeout=WAIT_S, trust_env=False)
    assert answer.json()["failed"][0]["code"] == "no_such_group"
