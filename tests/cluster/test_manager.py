"""The domain maintains itself: lost members are replaced, hosts are drained, and it says what it waits
for."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from domain import HOLDFAST, WAIT_S, Domain, is_whole
from group_client import EXAMPLES, Client, run

from holdfast.cli.admin import give_at
from holdfast.client.admin_client import AdminRefused
from holdfast.model.admin.groups import ExplainGroup, GroupExplained, GroupInfo
from holdfast.model.admin.hosts import DrainHost, HostList, ListHosts, RemoveHost
from holdfast.model.errors import OutcomeUnknown, Unavailable
from holdfast.model.ids import HostId

pytestmark = pytest.mark.cluster

HOSTS = ("host1", "host2", "host3", "host4")
GROUPS = tuple(f"kept{number}" for number in range(6))


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    directory = tmp_path_factory.mktemp("manager") / "d"
    options = ("--app", str(EXAMPLES), "--hosts", str(len(HOSTS)), "--loss-seconds", "2")
    with Domain(directory, *options) as made:
        made.wait("every host hears every other", is_whole)
        yield made


def is_whole_without(host: str, found: GroupInfo) -> bool:
    """Whether there are three members, all in sync, none of them there."""
    is_in_sync = len(found.placed_on) == 3 and set(found.in_sync) == set(found.placed_on)
    return is_in_sync and host not in found.placed_on


def drain(domain: Domain, host: str) -> str:
    """Return what `holdfast host drain` says until the host is empty."""
    command = [*HOLDFAST, "host", "drain", host, "--dir", str(domain.directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * WAIT_S, check=True)
    return done.stderr


async def explained(client: Client, name: str, holds: Callable[[GroupExplained], bool]) -> GroupExplained:
    """Return the explanation of a group once *holds* is true of it."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(Unavailable, OutcomeUnknown):
            found = await give_at(client.layout, ExplainGroup(name=name), GroupExplained)
            if holds(found):
                return found
        await asyncio.sleep(0.2)
    raise AssertionError(f"did not happen within {WAIT_S:g} s: {found}")


@pytest.mark.covers("FTC-135", "FTC-149", "FTC-150")
def test_groups_regain_their_minimum_elsewhere_when_a_host_is_lost(domain: Domain) -> None:
    """Nobody gives any order, and every group takes calls meanwhile. For a group that needs all four hosts
    the explanation says what it waits for. When the lost host is back it forgets the groups that went on
    without it."""

    async def work(client: Client) -> None:
        create = client.connection.create
        ledgers = {name: await client.create(name) for name in GROUPS}
        await create("ledger:Ledger", name="wide", replicas=len(HOSTS))
        found = [await client.wait_in_sync(name) for name in (*GROUPS, "wide")]
        assert [each.minimum for each in found] == [3] * len(GROUPS) + [4]
        lost = found[0].primary
        pid = await client.pid(lost)
        os.kill(pid, signal.SIGSTOP)
        try:
            for name, ledger in ledgers.items():
                assert await ledger.deposit("alice", 5) == 5, name
            for name in GROUPS:
                await client.wait(name, f"it is whole without {lost}", partial(is_whole_without, lost))
            for name, ledger in ledgers.items():
                assert await ledger.deposit("alice", 1) == 6, name
            said = await explained(client, "wide", lambda each: len(each.manager_says) == 2)
            assert said.members == (f"{lost} is not in sync: it does not live",)
            assert said.manager_says[0] == "1 more needed, and no host can take it"
            assert said.manager in HOSTS
            assert said.manager != lost
        finally:
            os.kill(pid, signal.SIGCONT)
        for name in GROUPS:
            await client.wait(name, f"{lost} has left", lambda each: not each.leaving)
        await client.wait_in_sync("wide")
        await explained(client, "wide", lambda each: not each.manager_says and not each.members)

    run(domain, work)


def test_a_host_is_emptied_and_takes_members_again(domain: Domain) -> None:
    """Every member on it is first created elsewhere; then it hosts nothing, until it is told otherwise."""
    domain.wait("every host hears every other", is_whole)

    async def work(client: Client) -> None:
        await client.connection.delete("wide")
        ledger = await client.create("emptied")
        before = await client.wait_in_sync("emptied")
        await ledger.deposit("alice", 5)
        said = await asyncio.to_thread(drain, domain, before.primary)
        assert said.splitlines()[-1] == f"{before.primary}: it is empty"
        assert await ledger.balance("alice") == 5
        await client.wait("emptied", "it is whole", partial(is_whole_without, before.primary))
        listed = await give_at(client.layout, ListHosts(), HostList)
        assert [each.host for each in listed.hosts if each.is_draining] == [before.primary]
        assert [each.members for each in listed.hosts if each.is_draining] == [0]
        again = DrainHost(host=before.primary, is_draining=False)
        assert not any(each.is_draining for each in (await give_at(client.layout, again, HostList)).hosts)

    run(domain, work)


@pytest.mark.covers("FTC-133")
def test_an_application_that_keeps_its_members_itself_is_left_alone(domain: Domain) -> None:
    """The manager says what is missing, and places no member."""
    domain.wait("every host hears every other", is_whole)

    async def work(client: Client) -> None:
        own = await client.connection.create("ledger:Ledger", name="own", membership="application")
        made = await client.wait_in_sync("own")
        await own.remove_member(made.placed_on[2])
        await client.wait("own", "it has left", lambda each: not each.leaving)
        said = await explained(client, "own", lambda each: bool(each.manager_says))
        assert said.manager_says == ("2 members, 3 wished for: its application places them",)
        assert said.group.placed_on == made.placed_on[:2]

    run(domain, work)


def test_a_host_that_is_empty_is_removed_for_good(domain: Domain) -> None:
    """A host that still hosts something is not removed. Its process ends and is not restarted, the others
    continue, and nothing is placed there any more. This is the last test of its domain."""
    domain.wait("every host hears every other", is_whole)

    async def work(client: Client) -> None:
        ledger = await client.create("outlives")
        before = await client.wait_in_sync("outlives")
        gone, layout = before.primary, client.layout
        with pytest.raises(AdminRefused, match="empty it first"):
            await give_at(layout, RemoveHost(host=gone), HostList)
        with pytest.raises(AdminRefused, match="lives: empty it"):
            await give_at(layout, RemoveHost(host=gone, is_lost=True), HostList)
        await client.connection.delete("own")
        await asyncio.to_thread(drain, domain, gone)
        words = ("host", "remove", gone, "--yes", "--output", "json", "--dir", str(domain.directory))
        done = await asyncio.to_thread(subprocess.run, [*HOLDFAST, *words], capture_output=True, check=True)
        left = [each.host for each in msgspec.json.decode(done.stdout, type=HostList).hosts]
        assert left == [host for host in HOSTS if host != gone]
        assert layout.read().hosts == tuple(left)
        await asyncio.to_thread(
            domain.wait, f"{gone} has ended", lambda status: [each["id"] for each in status["hosts"]] == left
        )
        assert await ledger.deposit("alice", 5) == 5
        with pytest.raises(AdminRefused, match="takes no members"):
            await ledger.add_member(gone)
        assert (await client.wait_in_sync("outlives")).placed_on != before.placed_on
        await check_name_is_used_again(domain, client, ledger, gone)

    run(domain, work)


async def check_name_is_used_again(domain: Domain, client: Client, ledger: Any, name: str) -> None:
    """A host of the removed one's name begins with nothing, takes members, and is in sync."""
    files = client.layout.host(HostId(name))
    words = [*HOLDFAST, "host", "add", name, "--dir", str(domain.directory)]
    done = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    again = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True)
    assert (again.returncode, f"there is a host '{name}'" in again.stderr) == (2, True), again.stderr
    await asyncio.to_thread(domain.wait, f"{name} lives again", is_whole)
    assert files.with_name(f"{name}.removed-1").is_dir()
    await ledger.add_member(name)
    while name not in (await client.wait_in_sync("outlives")).in_sync:
        await asyncio.sleep(0.05)
