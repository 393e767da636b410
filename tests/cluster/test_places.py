"""Where members are, on real hosts: racks, roles, named hosts, and members that never lead."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest
from domain import HOLDFAST, WAIT_S, Domain, is_whole
from group_client import EXAMPLES, Client, run

from holdfast.cli.admin import order_at
from holdfast.model.admin.groups import GroupInfo, ListGroups
from holdfast.model.errors import HoldfastError
from holdfast.node.layout import Layout

pytestmark = pytest.mark.cluster

RACKS = {"host1": "rack1", "host2": "rack2", "host3": "rack3"}
RACKS |= {"host4": "rack1", "host5": "rack2", "host6": "rack3", "host7": "rack1"}
SEARCHING = "host7"
GROUPS = 12


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    """Three racks of two hosts, and a seventh host that is for search."""
    directory = tmp_path_factory.mktemp("places") / "d"
    racks = [word for rack in ("rack1", "rack2", "rack3") for word in ("--location", rack)]
    more = ("--hosts", "7", *racks, "--role", "search=1")
    with Domain(directory, "--app", str(EXAMPLES), *more) as made:
        made.wait("every host hears every other", is_whole)
        yield made


def holdfast(domain: Domain, *words: str) -> Any:
    """Return what a command prints, decoded."""
    done = said(domain, *words, "--output", "json")
    assert done.returncode == 0, f"{words}: {done.stdout} {done.stderr}"
    return msgspec.json.decode(done.stdout)


def said(domain: Domain, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [*HOLDFAST, *words, "--dir", str(domain.directory)]
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * WAIT_S, check=False)


def insist(domain: Domain, *words: str) -> Any:
    """The same, until enough hosts are known to each other that it can be done."""
    deadline = time.monotonic() + WAIT_S
    while True:
        done = said(domain, *words, "--output", "json")
        if done.returncode == 0 or time.monotonic() > deadline:
            assert done.returncode == 0, f"{words}: {done.stderr}"
            return msgspec.json.decode(done.stdout)
        time.sleep(0.5)


def web(domain: Domain, path: str) -> Any:
    """The answer of some host's HTTP door."""
    doors = [host["report"]["details"]["http"] for host in domain.status()["hosts"] if host["alive"]]
    return httpx.get(doors[0] + path, timeout=240, trust_env=False).json()


def until(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, f"did not happen within {WAIT_S:g} s: {what}"
        time.sleep(0.2)


def doubled(groups: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """The groups with two members in one rack, or with one where no groups are."""
    found = []
    for each in groups:
        racks = [RACKS[host] for host in each["placed_on"]]
        if len(set(racks)) < len(racks) or SEARCHING in each["placed_on"]:
            found.append((each["name"], each["placed_on"]))
    return found


def test_no_group_has_two_members_in_one_rack_and_a_host_can_still_be_drained(domain: Domain) -> None:
    """Three racks of two hosts, groups of three: each has one member in each rack, before and after a host
    was drained, and none on the host that is for search."""
    names = [f"racked{number}" for number in range(GROUPS)]

    async def create(client: Client) -> None:
        for name in names:
            await client.create(name)

    async def delete(client: Client) -> None:
        for name in names:
            await client.connection.delete(name)

    run(domain, create)
    assert doubled(holdfast(domain, "group", "list")["groups"]) == []
    drained = holdfast(domain, "host", "drain", "host1")
    assert (drained["members"], drained["leaving"]) == (0, 0)
    groups = holdfast(domain, "group", "list")["groups"]
    assert doubled(groups) == []
    assert {len(each["placed_on"]) for each in groups} == {3}
    holdfast(domain, "host", "undrain", "host1")
    run(domain, delete)


def test_locations_and_roles_are_shown_wherever_hosts_are(domain: Domain) -> None:
    listed = {each["host"]: each for each in holdfast(domain, "host", "list")["hosts"]}
    assert {host: each["location"] for host, each in listed.items()} == RACKS
    roles = {host: each["roles"] for host, each in listed.items()}
    assert roles == {host: ["search" if host == SEARCHING else "groups"] for host in RACKS}
    shown = {each["host"]: (each["location"], each["roles"]) for each in web(domain, "/v1/hosts")["hosts"]}
    assert shown[SEARCHING] == ("rack1", ["search"])
    assert domain.host(SEARCHING)["report"]["details"]["roles"] == "search"
    assert f"{SEARCHING} at rack1: for search" in said(domain, "status").stdout
    refused = said(domain, "group", "add-member", "nothing", SEARCHING)
    assert refused.returncode != 0


@pytest.mark.covers("IM-40", "IM-43", "IM-121", "IM-122")
def test_the_control_plane_names_its_replicas_and_the_hosts_with_index_data(domain: Domain) -> None:
    """GetIndexerNodes: the hosts with the role search. GetIndexCoordinatorReplicas: the managers that do
    not coordinate; and an index is laid out on the hosts that are for search, each named with its address and
    all its roles."""
    addresses = {host["id"]: host["address"] for host in domain.status()["hosts"]}

    def cluster() -> dict[str, Any]:
        found: dict[str, Any] = web(domain, "/v1/coordinator")["cluster"]
        return found

    until("somebody coordinates", lambda: bool(cluster()["masterAddr"]))
    until("the host for search is known", lambda: cluster()["nodes"] == [addresses[SEARCHING]])
    doors = {host["id"]: host["report"]["details"]["http"] for host in domain.status()["hosts"]}

    def is_told_alike() -> bool:
        parts = {host: _role(door) for host, door in doors.items()}
        replicas = sorted(addresses[host] for host, part in parts.items() if part == "replica")
        masters = [addresses[host] for host, part in parts.items() if part == "coordinator"]
        found = cluster()
        return [found["masterAddr"]] == masters and sorted(found["replicas"]) == replicas

    until("the authority and the hosts agree on who takes part", is_told_alike)

    made = insist(domain, "index", "create", "by_city", "/city", "--bucket", "people", "--replicas", "0")
    assert made["hosts"] == [SEARCHING]
    node = {"name": SEARCHING, "connectionAddr": addresses[SEARCHING], "role": ["local-indexer-node"]}
    assert made["servers"] == [node]
    assert made["partition_map"] == [[0, -1, -1, -1]] * made["partitions"]


def _role(door: str) -> str:
    found: str = httpx.get(f"{door}/v1/coordinator", timeout=240, trust_env=False).json()["role"]
    return found


@pytest.mark.covers("LOSS-5")
def test_a_member_that_never_leads_is_no_successor_whoever_dies(domain: Domain) -> None:
    """Only host1 may lead. Its process is killed, twice, while the others are in sync: they would take over
    within a moment, and wait for it. While it is away, `explain` says so."""
    never = "host2,host3"
    made = insist(
        *(domain, "group", "create", "home", "ledger:Ledger"),
        *("--on", "host1,host2,host3", "--never-lead", never),
    )
    assert (made["named"], made["never_lead"]) == (["host1", "host2", "host3"], ["host2", "host3"])
    until("all are in sync", lambda: len(_info(domain, "home")["in_sync"]) == 3)
    refused = said(domain, "group", "set-primary", "home", "host2")
    assert refused.returncode != 0
    assert "never leads" in refused.stderr
    for _ in range(2):
        before = _info(domain, "home")["epoch"]
        os.kill(domain.host("host1")["pid"], signal.SIGKILL)

        def is_served_again(before: int = before) -> bool:
            info = _info(domain, "home")
            return info["epoch"] > before and len(info["in_sync"]) == 3

        until("host1 leads again", is_served_again)
        assert _info(domain, "home")["primary"] == "host1"
    pid = domain.host("host1")["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        until("it is said what it waits for", lambda: "and never leads" in _why(domain, "home"))
    finally:
        os.kill(pid, signal.SIGCONT)
    history = holdfast(domain, "group", "history", "home")
    assert {each["primary"] for each in history["views"]} == {"host1"}
    assert run(domain, _deposits("home"))


def _info(domain: Domain, name: str) -> dict[str, Any]:
    """What `holdfast group show` prints, without starting the command each time."""
    found: dict[str, Any] = {}
    with contextlib.suppress(HoldfastError):
        found = msgspec.to_builtins(asyncio.run(order_at(Layout(domain.directory), ListGroups(name=name)))[0])
    return {"epoch": 0, "in_sync": [], "primary": "", **found}


def _why(domain: Domain, name: str) -> str:
    return said(domain, "explain", name).stderr


def _deposits(name: str) -> Callable[[Client], Any]:
    async def work(client: Client) -> bool:
        ledger = await client.group(name)
        return bool(await ledger.deposit("alice", 1) == 1)

    return work


def test_a_group_moves_to_named_hosts_under_calls_and_stays_there(domain: Domain) -> None:
    """Member by member: at whatever moment, the group is not smaller than it was, no call fails, and
    none is lost. A host that it is named for cannot be taken from it by other commands."""

    async def work(client: Client) -> list[GroupInfo]:
        ledger = await client.create("nomad")
        await client.wait_in_sync("nomad")
        stop, seen = asyncio.Event(), [await client.info("nomad")]

        async def deposit() -> int:
            count = 0
            while not stop.is_set():
                count += 1
                assert await ledger.deposit("alice", 1) == count
            return count

        async def look() -> None:
            while not stop.is_set():
                seen.append(await client.info("nomad"))
                await asyncio.sleep(0.02)

        tasks = [asyncio.create_task(deposit()), asyncio.create_task(look())]
        try:
            for hosts in ("host4,host5,host6", "host1,host2,host3"):
                done = await asyncio.to_thread(
                    said, domain, "group", "move", "nomad", "--on", hosts, "--never-lead", hosts[-5:]
                )
                assert done.returncode == 0, done.stderr
                found = await client.info("nomad")
                assert sorted(found.in_sync) == sorted(found.placed_on) == hosts.split(",")
                assert (found.leaving, found.never_lead) == ((), (hosts[-5:],))
                assert found.primary != hosts[-5:]
        finally:
            stop.set()
        count, _ = await asyncio.gather(*tasks)
        assert await ledger.balance("alice") == count
        return seen

    seen = run(domain, work)
    assert min(len(each.in_sync) for each in seen) >= 2, "never below its in-sync number"
    outside = said(domain, "group", "remove-member", "nomad", "host1", "--no-wait")
    assert "is named for nomad" in outside.stderr
    outside = said(domain, "group", "add-member", "nomad", "host5", "--no-wait")
    assert "is on named hosts" in outside.stderr
    refused = said(domain, "group", "move", "nomad", "--on", f"host1,host2,{SEARCHING}")
    assert f"{SEARCHING} is for search, and takes no groups" in refused.stderr
    refused = said(domain, "group", "move", "nomad", "--on", "host1")
    assert "2 members must hold an operation" in refused.stderr
    free = holdfast(domain, "group", "move", "nomad", "--anywhere")
    assert free["named"] == []


def test_a_host_is_told_to_be_elsewhere_and_for_something_else(domain: Domain) -> None:
    """By command, while it runs: it is restarted in order, and its members go where they may be."""
    insist(domain, "group", "create", "settler", "ledger:Ledger", "--on", "host4,host5,host6")
    until("all are in sync", lambda: len(_info(domain, "settler")["in_sync"]) == 3)
    holdfast(domain, "group", "move", "settler", "--anywhere")
    done = said(domain, "host", "set", "host6", "--roles", "search,directory", "--location", "hall2/rack9")
    assert done.returncode == 0, done.stderr
    listed = {each["host"]: each for each in holdfast(domain, "host", "list")["hosts"]}
    assert (listed["host6"]["location"], listed["host6"]["roles"]) == ("hall2/rack9", ["directory", "search"])

    def has_gone() -> bool:
        info = _info(domain, "settler")
        return "host6" not in (*info["placed_on"], *info["leaving"]) and len(info["in_sync"]) == 3

    until("its member has gone", has_gone)
    info = _info(domain, "settler")
    assert len({RACKS[host] for host in info["placed_on"]}) == 3
    for wrong in (("--roles", "groups,cooking"), ("--location", "a//b"), ()):
        refused = said(domain, "host", "set", "host6", *wrong)
        assert refused.returncode != 0
    assert said(domain, "host", "set", "host6", "--roles", "groups", "--location", "rack3").returncode == 0
