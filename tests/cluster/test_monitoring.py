"""Members that are asked is_alive: one that says no, or never answers, is replaced by another."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from domain import WAIT_S, Domain, is_whole
from group_client import Client, run
from patients import (
    INTERVAL_AND_TIMEOUT,
    SAID_NO,
    mark,
    say_no,
    wait_heard_by_manager,
    wait_history,
    wait_told,
)

from holdfast.model.errors import Unavailable
from holdfast.model.ids import HostId
from holdfast.model.outcome import CallPoisoned

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("marks")


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("monitoring") / "d", "--app", str(APPS)) as made:
        yield made


@pytest.fixture
def whole(domain: Domain) -> Domain:
    """The domain, with every host alive and hearing every other, and without the groups of other tests."""
    domain.wait("every host hears every other", is_whole)

    async def work(client: Client) -> None:
        for each in await client.connection.groups():
            await client.connection.delete(each.name)

    run(domain, work)
    return domain


@pytest.mark.covers("FTC-21", "FTC-242", "FTC-248")
@pytest.mark.parametrize("membership", ["infrastructure", "application"])
def test_a_member_that_says_no_is_made_anew_while_another_serves(
    whole: Domain, marks: Path, membership: Literal["infrastructure", "application"]
) -> None:
    """The group's history says why, and so does the fault notifier: about that one member only. It is the
    same whoever looks after the number of members."""

    async def work(client: Client) -> None:
        group = await client.connection.create(
            "patient:Patient",
            name="no",
            membership=membership,
            args=[str(marks)],
            properties=INTERVAL_AND_TIMEOUT,
        )
        assert await group.write("before") == 1
        before = await client.wait_in_sync("no")
        await say_no(client, marks, before.primary)
        await client.wait("no", "another member leads", lambda found: found.primary != before.primary)
        assert await group.write("after") == 2
        await client.wait_in_sync("no")
        await wait_history(client, "no", SAID_NO)
        await wait_told(client, before.group, SAID_NO)

    run(whole, work)


@pytest.mark.covers("FTC-135")
def test_every_member_that_the_manager_makes_is_monitored_and_it_hears_of_their_faults(
    whole: Domain, marks: Path
) -> None:
    """This includes those it creates at first, and the one it creates when the group is below its minimum. It
    has also registered for notifications."""

    async def work(client: Client) -> None:
        group = await client.connection.create(
            "patient:Patient",
            name="kept",
            style="active",
            replicas=2,
            min_in_sync=1,
            args=[str(marks)],
            properties=INTERVAL_AND_TIMEOUT,
        )
        assert await group.write("before") == 1
        made, told = await client.wait_in_sync("kept"), 0
        for host in made.placed_on:
            await say_no(client, marks, host)
            told = await wait_told(client, made.group, SAID_NO, host, after=told)
            await wait_heard_by_manager(client, told)
        before = await client.wait_in_sync("kept")
        gone = next(host for host in before.placed_on if host != before.primary)
        await group.remove_member(gone)
        await client.wait("kept", f"{gone} has left", lambda found: not found.leaving)
        again = await client.wait("kept", "it has its minimum", lambda found: len(found.in_sync) == 2)
        (new,) = (host for host in again.placed_on if host not in before.placed_on or host == gone)
        await say_no(client, marks, new)
        told = await wait_told(client, made.group, SAID_NO, new, after=told)
        await wait_heard_by_manager(client, told)

    run(whole, work)


@pytest.mark.covers("FTC-145", "FTC-146")
def test_a_fault_of_the_representative_is_one_of_all_it_stands_for(whole: Domain, marks: Path) -> None:
    """LOC: of two members on a host one is asked. When it fails, both are made anew and both groups are
    served elsewhere; when it is removed, the other one is asked."""

    async def work(client: Client) -> None:
        properties = {**INTERVAL_AND_TIMEOUT, "FaultMonitoringGranularity": "LOC"}
        groups = {
            name: await client.connection.create(
                "patient:Patient", name=name, args=[str(marks)], properties=properties
            )
            for name in ("one", "two")
        }
        for name, group in groups.items():
            assert await group.write("before") == 1
            await client.wait_in_sync(name)
        async with asyncio.timeout(WAIT_S):
            while led_elsewhere := [name for name in groups if (await client.info(name)).primary != "host1"]:
                with contextlib.suppress(Unavailable):
                    await groups[led_elsewhere[0]].set_primary("host1")
        await say_no(client, marks, HostId("host1"))
        for name, group in groups.items():
            await client.wait(name, "another member leads", lambda found: found.primary != "host1")
            assert await group.write("after") == 2
            await wait_history(client, name, SAID_NO)
            await client.wait_in_sync(name)
        await client.connection.delete("one")
        left = await client.info("two")
        await say_no(client, marks, left.primary)
        await client.wait("two", "another member leads", lambda found: found.primary != left.primary)
        assert await groups["two"].write("alone") == 3

    run(whole, work)


@pytest.mark.covers("FTC-248", "FTC-312", "FTC-313", "FTC-318")
def test_a_member_that_never_answers_ends_its_host_and_another_serves(whole: Domain, marks: Path) -> None:
    """Its agent restarts the host, and knows that it hung; the notifier is told, and tells the manager. The
    use case of the source: COLD_PASSIVE, and PULL; the new primary is asked as the old one was."""

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
        await wait_heard_by_manager(client, await wait_told(client, before.group, "has stood still"))
        next_one = await client.info("blocked")
        await say_no(client, marks, next_one.primary)
        await client.wait("blocked", "a third one leads", lambda found: found.primary != next_one.primary)
        assert await group.write("at last") == 3

    run(whole, work)
    whole.wait("every host hears every other", is_whole)
    exits = [str(host["last_exit"]) for host in whole.status()["hosts"]]
    assert any("event loop has stood still" in each for each in exits), exits


def test_a_call_that_never_returns_is_given_up_when_it_has_ended_two_hosts(
    whole: Domain, marks: Path
) -> None:
    """A hang counts like any other end of a process (E4): the group serves on."""

    async def work(client: Client) -> None:
        group = await client.connection.create(
            "patient:Patient", name="hangs", args=[str(marks)], properties=INTERVAL_AND_TIMEOUT
        )
        with pytest.raises(CallPoisoned, match="ended 2 processes"):
            await group.hang()
        assert await group.write("after") == 1

    run(whole, work)
