"""Members that are asked is_alive: one that says no, or never answers, gives way to another."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from domain import WAIT_S, Domain, is_whole
from group_client import Client, run

from holdfast.cli.ordering import give_at
from holdfast.model.errors import HoldfastError
from holdfast.model.orders import GroupHistory, ShowHistory
from holdfast.model.outcome import CallPoisoned
from holdfast.model.system_groups import MANAGER

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"
INTERVAL_AND_TIMEOUT = {
    # In units of 100 ns. So long a busy machine does not let a loop stand that only waits for its turn.
    "FaultMonitoringIntervalAndTimeout": {"monitoring_interval": 2_000_000, "timeout": 40_000_000}
}


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("marks")


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("monitoring") / "d", "--app", str(APPS)) as made:
        yield made


@pytest.fixture
def whole(domain: Domain) -> Domain:
    """The domain, with every host alive and hearing every other."""
    domain.wait("every host hears every other", is_whole)
    return domain


def mark(marks: Path, pid: int, word: str) -> None:
    """The object in that process shall answer so, once; the word is there as a whole or not at all."""
    aside = marks / "aside"
    aside.write_text(word)
    aside.rename(marks / str(pid))


async def history(client: Client, name: str) -> str:
    told = await give_at(client.layout, ShowHistory(name=name), GroupHistory)
    return msgspec.json.encode(told).decode()


async def told_of(client: Client, group: int, why: str) -> int:
    """The number under which the notifier was told that a member of the group crashed, and why; 0 if it was
    not."""
    try:
        told = await client.connection.faults.list(
            f"$type_name == 'ObjectCrashFault' and $ObjectGroupId == {group}", parts=True
        )
    except HoldfastError:
        return 0
    return next((each.number for each in told if why in str(each.event.remainder_of_body)), 0)


async def is_heard_by_manager(client: Client, number: int) -> bool:
    try:
        consumers = await client.connection.faults.consumers()
    except HoldfastError:
        return False
    return any(each.push_consumer == MANAGER and each.reached >= number for each in consumers)


@pytest.mark.covers("FTC-21", "FTC-242", "FTC-248")
def test_a_member_that_says_no_is_made_anew_while_another_serves(whole: Domain, marks: Path) -> None:
    """The group's history says why, and so does the fault notifier: of that one member."""

    async def work(client: Client) -> None:
        group = await client.connection.create(
            "patient:Patient", name="no", args=[str(marks)], properties=INTERVAL_AND_TIMEOUT
        )
        assert await group.write("before") == 1
        before = await client.wait_in_sync("no")
        mark(marks, await client.pid(before.primary), "no")
        await client.wait("no", "another member leads", lambda found: found.primary != before.primary)
        assert await group.write("after") == 2
        await client.wait_in_sync("no")
        async with asyncio.timeout(WAIT_S):
            while "is_alive answered False" not in await history(client, "no"):
                await asyncio.sleep(0.1)  # histories are written at leisure
            while not await told_of(client, before.group, "is_alive answered False"):
                await asyncio.sleep(0.1)  # and so is the notifier made, and told

    run(whole, work)


@pytest.mark.covers("FTC-248", "FTC-313")
def test_a_member_that_never_answers_ends_its_host_and_another_serves(whole: Domain, marks: Path) -> None:
    """Its agent starts the host again, and knows that it hung; the notifier is told, and tells the manager.
    The use case of the source: COLD_PASSIVE, and PULL."""

    async def work(client: Client) -> None:
        group = await client.connection.create(
            "patient:Patient",
            name="blocked",
            style="cold_passive",
            args=[str(marks)],
            properties=INTERVAL_AND_TIMEOUT,
        )
        assert await group.write("before") == 1
        before = await client.wait_in_sync("blocked")
        mark(marks, await client.pid(before.primary), "block")
        await client.wait("blocked", "another member leads", lambda found: found.primary != before.primary)
        assert await group.write("after") == 2
        await client.wait_in_sync("blocked")
        async with asyncio.timeout(WAIT_S):
            while not (number := await told_of(client, before.group, "has stood still")):
                await asyncio.sleep(0.1)
            while not await is_heard_by_manager(client, number):
                await asyncio.sleep(0.1)

    run(whole, work)
    whole.wait("every host hears every other", is_whole)
    exits = [str(host["last_exit"]) for host in whole.status()["hosts"]]
    assert any("event loop has stood still" in each for each in exits), exits


def test_a_call_that_never_returns_is_given_up_when_it_has_ended_two_hosts(
    whole: Domain, marks: Path, rounds: Callable[..., int]
) -> None:
    """A hang is an end like others (E4): the group serves on."""
    if not rounds(short=0, long=1):
        pytest.skip("of the long form: it restarts two hosts")

    async def work(client: Client) -> None:
        group = await client.connection.create(
            "patient:Patient", name="hangs", args=[str(marks)], properties=INTERVAL_AND_TIMEOUT
        )
        with pytest.raises(CallPoisoned, match="ended 2 processes"):
            await group.hang()
        assert await group.write("after") == 1

    run(whole, work)
