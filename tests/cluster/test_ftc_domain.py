"""What an application does with members, and what a domain has one of and what many, on real hosts."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from domain import WAIT_S, Domain, is_whole
from group_client import Client, run
from manager_doors import Manager

from holdfast.cli.admin import give_at
from holdfast.faults.consumers import Consumer
from holdfast.faults.events import Location
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.model.admin.hosts import HostList, ListHosts
from holdfast.model.admin.objects import FaultNotifierShown, ShowFaultNotifier
from holdfast.model.ids import GroupId, HostId
from holdfast.model.system_groups import MANAGER
from holdfast.node.layout import Layout

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"
PROPERTIES = "org.omg.ft.FTProperties"
TILL, OWN = "till:Till", "till:OWN"
BY_APPLICATION = {"MembershipStyle": "MEMB_APP_CTRL"}
HOSTS = ("host1", "host2", "host3")
ASKED_OFTEN = 3
"""A member that is asked at all has been asked by then."""


def watched(granularity: str) -> dict[str, Any]:
    """Properties of a group whose members are asked five times a second. The timeout does not matter: nothing
    here hangs for a minute."""
    times = {"monitoring_interval": 2_000_000, "timeout": 600_000_000}
    return {"FaultMonitoringGranularity": granularity, "FaultMonitoringIntervalAndTimeout": times}


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    with Domain(tmp_path_factory.mktemp("ftc-domain") / "d", "--app", str(APPS)) as made:
        made.wait("every host hears every other", is_whole)
        found = Manager(made)
        yield found
        found.close()


@pytest.fixture(scope="module")
def onlookers(manager: Manager) -> dict[str, str]:
    """Create an object on every host, by its name, which sees what its process has."""
    found = {host: f"onlooker at {host}" for host in HOSTS}
    for host, name in found.items():
        order = {"type_id": "till:Onlooker", "criteria": {"name": name}}
        manager.done("POST", f"/v1/factories/{host}/objects", order)
        manager.in_sync(name, 1)
    return found


def make(manager: Manager, name: str, properties: dict[str, Any], **criteria: Any) -> Any:
    """Create a group of tills through the replication manager."""
    order = {"type_id": TILL, "criteria": {"name": name, PROPERTIES: properties, **criteria}}
    return manager.done("POST", "/v1/objects", order)


def until(what: str, ask: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + WAIT_S
    while not holds(found := ask()):
        assert time.monotonic() < deadline, f"{what}: {found}"
        time.sleep(0.05)
    return found


def left(manager: Manager, name: str, host: str) -> None:
    """Remove the member there, and wait until it has left."""
    manager.done("DELETE", f"/v1/groups/{name}/members/{host}")
    manager.until(f"/v1/groups/{name}", lambda found: host not in (*found["leaving"], *found["in_sync"]))


@pytest.mark.covers("FTC-193", "FTC-195", "FTC-196", "FTC-234")
def test_an_object_that_the_application_made_is_a_member_until_it_is_removed(
    manager: Manager, onlookers: dict[str, str]
) -> None:
    """It executes what the group's primary does, with the group's state; removed, it still exists, as it was
    then. An object that a factory made is gone."""
    make(manager, "tills", BY_APPLICATION, min_in_sync=1)
    manager.done("POST", "/v1/groups/tills/members", {"location": "host1"})
    manager.in_sync("tills", 1)
    assert manager.call("tills", "add", 5) == 5
    assert manager.call("tills", "whose") == "a factory"
    there = onlookers["host2"]

    for wrong in ("till:NOTHING", "till:Till", "nowhere:OWN"):
        order = {"host": "host2", "own": wrong}
        assert manager.refused("POST", "/v1/groups/tills/added-members", order) == "ObjectNotAdded"
    added = manager.done("POST", "/v1/groups/tills/added-members", {"host": "host2", "own": OWN})
    assert {each["host"]: each["own"] for each in added["members"]} == {"host1": "", "host2": OWN}
    manager.in_sync("tills", 2)
    manager.done("POST", "/v1/groups/tills/primary", {"location": "host2"})
    assert manager.call("tills", "whose") == "the application"
    assert manager.call("tills", "add", 1) == 6, "it has the state of the group"
    assert manager.call(there, "total_of_own") == 6
    assert manager.call(there, "made_by_factories") == 0
    manager.done("POST", "/v1/groups", {"name": "others", "class_name": TILL, "replicas": 1})
    taken = {"host": "host2", "own": OWN}
    assert manager.refused("POST", "/v1/groups/others/added-members", taken) == "ObjectNotAdded"

    manager.done("POST", "/v1/groups/tills/primary", {"location": "host1"})
    left(manager, "tills", "host2")
    assert manager.call("tills", "add", 1) == 7
    assert manager.call(there, "total_of_own") == 6, "it is there, and is a member no more"

    manager.done("POST", "/v1/groups/tills/members", {"location": "host2"})
    manager.in_sync("tills", 2)
    manager.done("POST", "/v1/groups/tills/primary", {"location": "host2"})
    assert manager.call("tills", "whose") == "a factory"
    assert manager.call(there, "made_by_factories") == 1
    manager.done("POST", "/v1/groups/tills/primary", {"location": "host1"})
    left(manager, "tills", "host2")
    assert manager.call(there, "made_by_factories") == 0, "what the factory made is deleted"
    assert manager.call(there, "total_of_own") == 6
    assert manager.call("tills", "add", 1) == 8
    for name in ("tills", "others"):
        manager.done("DELETE", f"/v1/groups/{name}")


@pytest.mark.covers("FTC-229")
def test_members_are_activated_as_their_style_demands_and_monitored_as_they_were_asked_to(
    manager: Manager, onlookers: dict[str, str]
) -> None:
    """Of a cold group only the primary has an object, of an active one every member. Without an interval
    nobody is asked; by location one member of each host is asked for all."""

    def objects() -> dict[str, int]:
        return {host: manager.call(name, "made_by_factories") for host, name in onlookers.items()}

    def asked(group: str) -> list[int]:
        return [manager.call(name, "asked").get(group, 0) for name in onlookers.values()]

    make(manager, "cold", {"ReplicationStyle": "COLD_PASSIVE"})
    primary = manager.in_sync("cold", 3)["members"][0]["host"]
    assert manager.call("cold", "add", 1) == 1
    assert objects() == {host: int(host == primary) for host in HOSTS}
    manager.done("DELETE", "/v1/groups/cold")
    until("the cold group is gone", objects, lambda found: set(found.values()) == {0})

    for name in ("one", "other"):
        make(manager, name, {"ReplicationStyle": "ACTIVE", **watched("LOC")})
        manager.in_sync(name, 3)
    make(manager, "unasked", {"ReplicationStyle": "ACTIVE"})
    manager.in_sync("unasked", 3)
    assert objects() == dict.fromkeys(HOSTS, 3)
    until("one is asked", lambda: asked("one"), lambda found: min(found) >= ASKED_OFTEN)
    assert asked("other") == asked("unasked") == [0, 0, 0]
    make(manager, "each", {"ReplicationStyle": "ACTIVE", **watched("MEMB")})
    until("each is asked", lambda: asked("each"), lambda found: min(found) >= ASKED_OFTEN)
    for name in ("one", "other", "unasked", "each"):
        manager.done("DELETE", f"/v1/groups/{name}")


@pytest.mark.covers("FTC-236")
def test_a_member_that_is_added_is_in_the_reference_that_is_returned_and_monitored_from_then_on(
    manager: Manager, onlookers: dict[str, str]
) -> None:
    """This holds for both kinds: made by the factory there, and made by the application."""
    made = make(manager, "grows", {**BY_APPLICATION, **watched("MEMB")}, min_in_sync=1)
    versions, members = [made["reference"]["version"]], []
    steps = (
        ("host3", "members", {"location": "host3"}),
        ("host1", "added-members", {"host": "host1", "own": OWN}),
    )
    for host, path, order in steps:
        assert "grows" not in manager.call(onlookers[host], "asked")
        told = manager.done("POST", f"/v1/groups/grows/{path}", order)
        members.append(host)
        assert [each["host"] for each in told["members"]] == members
        versions.append(manager.in_sync("grows", len(members))["version"])
        assert told["version"] >= versions[-2]
        manager.done("POST", "/v1/groups/grows/primary", {"location": host})
        until(
            f"the member on {host} is asked",
            partial(manager.call, onlookers[host], "asked"),
            lambda found: found.get("grows", 0) >= ASKED_OFTEN,
        )
        manager.done("POST", "/v1/groups/grows/primary", {"location": "host3"})
    assert versions == sorted(set(versions)), "the content has changed each time (FTC-205)"
    manager.done("DELETE", "/v1/groups/grows")


async def _managers(client: Client) -> list[Consumer]:
    """Return the manager among the consumers of the notifier; waits until it is there."""
    async with asyncio.timeout(WAIT_S):
        while True:
            found = [each for each in await client.connection.faults.consumers() if _is_manager(each)]
            if found:
                return found
            await asyncio.sleep(0.1)


def _is_manager(consumer: Consumer) -> bool:
    return consumer.push_consumer == MANAGER


@pytest.mark.covers("FTC-229", "FTC-236", "FTC-313", "FTC-314")
def test_the_manager_hears_of_a_member_that_crashed_and_has_another_lead(manager: Manager) -> None:
    """A detector of the application reports the primary's object, in which its host finds nothing wrong. The
    manager is one consumer whichever host coordinates: the next coordinator continues where the last one was.
    """

    async def heard(client: Client, number: int) -> Consumer:
        async with asyncio.timeout(WAIT_S):
            while True:
                (found,) = await _managers(client)
                if found.reached >= number:
                    return found
                await asyncio.sleep(0.1)

    async def report(client: Client, group: int, host: str) -> int:
        crash = FaultReport(
            FaultKind.OBJECT_CRASH, client.name, Location.parse(host), TILL, GroupId(group), why="nonsense"
        )
        return await client.connection.faults.push(crash)

    async def leads(client: Client, other_than: str) -> str:
        found = await client.wait("doubted", "another leads", lambda info: info.primary != other_than)
        return found.primary

    async def coordinator(client: Client) -> str:
        return str((await give_at(client.layout, ListHosts(), HostList)).manager)

    async def work(client: Client) -> None:
        doubted = await client.connection.create(TILL, name="doubted", style="cold_passive")
        assert await doubted.add(1) == 1
        info = await client.wait_in_sync("doubted")
        (registered,) = await _managers(client)
        told = await report(client, info.group, info.primary)
        await leads(client, info.primary)
        assert (await heard(client, told)).id == registered.id
        assert await doubted.add(1) == 2
        killed = await client.kill(HostId(await coordinator(client)))

        def is_whole_again(status: dict[str, Any]) -> bool:
            return is_whole(status) and killed not in [host["pid"] for host in status["hosts"]]

        await asyncio.to_thread(client.domain.wait, "the killed one is back, and heard", is_whole_again)
        await client.wait_in_sync("doubted")
        now = (await client.info("doubted")).primary
        told = await report(client, info.group, now)
        assert await leads(client, now) != now
        assert (await heard(client, told)).id == registered.id
        assert await doubted.add(1) == 3
        await client.connection.delete("doubted")

    run(manager.domain, work)


@pytest.mark.covers("FTC-12")
def test_a_domain_has_one_manager_and_one_notifier_and_a_factory_and_a_detector_on_each_host(
    manager: Manager, onlookers: dict[str, str]
) -> None:
    """Every host names the same manager and the same notifier. A factory, and the detector that asks the
    members of a host whether they are alive, belong to one host: while it is stopped, they do not answer."""

    layout = Layout(manager.domain.directory)

    def each_says(order: ListHosts | ShowFaultNotifier, kind: type[Any]) -> list[Any]:
        return [asyncio.run(give_at(layout, order, kind, host=HostId(host))) for host in HOSTS]

    async def notifiers(client: Client) -> list[str]:
        found = await client.connection.groups(is_whole=True)
        return [each.name for each in found if each.class_name.endswith(":Notifier")]

    told = each_says(ShowFaultNotifier(is_made=True), FaultNotifierShown)
    assert [each.group for each in told] == 3 * run(manager.domain, notifiers)
    until(
        "all know the same manager",
        lambda: [each.manager for each in each_says(ListHosts(), HostList)],
        lambda found: len(set(found)) == 1 and found[0] in HOSTS,
    )

    factories = manager.done("GET", "/v1/factories")["factories"]
    assert sorted(each["host"] for each in factories) == [*HOSTS]
    for host in ("host2", "host3"):
        make(manager, f"of {host}", {**BY_APPLICATION, **watched("MEMB")}, min_in_sync=1)
        manager.done("POST", f"/v1/groups/of {host}/members", {"location": host})
    here, there = onlookers["host3"], onlookers["host2"]
    until("it is asked there", lambda: manager.call(there, "asked"), lambda found: "of host2" in found)
    pid = manager.domain.host("host2")["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        order = {"type_id": TILL, "criteria": {"name": "nowhere"}}
        until(
            "its factory is gone",
            lambda: manager.ask("POST", "/v1/factories/host2/objects", order).json(),
            lambda found: found.get("error", {}).get("exception") == "NoFactory",
        )
        left = manager.done("GET", "/v1/factories")["factories"]
        assert sorted(each["host"] for each in left) == ["host1", "host3"]
        before = manager.call(here, "asked")["of host3"]
        until(
            "the others go on",
            lambda: manager.call(here, "asked"),
            lambda found: found["of host3"] >= before + ASKED_OFTEN,
        )
        assert "of host2" not in manager.call(here, "asked")
        assert "of host2" not in manager.call(onlookers["host1"], "asked")
    finally:
        os.kill(pid, signal.SIGCONT)
    manager.domain.wait("every host hears every other", is_whole)
    for host in ("host2", "host3"):
        manager.done("DELETE", f"/v1/groups/of {host}")
