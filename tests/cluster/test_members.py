"""Members of a running group come and go, on real hosts."""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from domain import HOLDFAST, Domain, is_whole
from group_client import EXAMPLES, Client, run
from member_files import ledger_of

from holdfast.client.admin_client import AdminRefused
from holdfast.client.proxy import Group
from holdfast.model.admin.groups import GroupInfo
from holdfast.model.errors import InvalidRequest
from holdfast.node.layout import Layout

pytestmark = pytest.mark.cluster

HOSTS = ("host1", "host2", "host3", "host4")


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    directory = tmp_path_factory.mktemp("members") / "d"
    with Domain(directory, "--app", str(EXAMPLES), "--hosts", str(len(HOSTS))) as made:
        made.wait("every host hears every other", is_whole)
        yield made


def holdfast(domain: Domain, *words: str) -> Any:
    """Return what a command prints, decoded."""
    command = [*HOLDFAST, *words, "--dir", str(domain.directory), "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout} {done.stderr}"
    return msgspec.json.decode(done.stdout)


class Load:
    """Deposits 1 again and again; every deposit must be acknowledged."""

    def __init__(self) -> None:
        self.acknowledged = 0

    @contextlib.asynccontextmanager
    async def on(self, ledger: Group[Any]) -> AsyncIterator["Load"]:
        stop = asyncio.Event()

        async def deposit() -> None:
            while not stop.is_set():
                self.acknowledged += 1
                assert await ledger.deposit("alice", 1) == self.acknowledged

        async with asyncio.TaskGroup() as group:
            group.create_task(deposit())
            yield self
            stop.set()


def has_left(host: str, found: GroupInfo) -> bool:
    return host not in (*found.placed_on, *found.leaving, *found.in_sync)


@pytest.mark.covers("FTC-197", "FTC-205")
def test_a_group_moves_off_its_hosts_while_it_is_called(domain: Domain, rounds: Callable[..., int]) -> None:
    """The primary's host is removed and another added, again and again: no call fails, references follow with
    growing versions, and the host that left has nothing of the group on its disk."""

    async def work(client: Client) -> tuple[GroupInfo, str, int]:
        ledger = await client.create("moving")
        before = await client.wait_in_sync("moving")
        async with Load().on(ledger) as load:
            for _ in range(rounds(short=1, long=10)):
                (outside,) = (host for host in HOSTS if host not in before.placed_on)
                await ledger.add_member(outside)
                whole = await client.wait_in_sync("moving")
                assert set(whole.placed_on) == set(HOSTS)
                told = await ledger.remove_member(whole.primary)
                assert whole.primary not in told.placed_on
                leaver = whole.primary
                after = await client.wait("moving", f"{leaver} has left", partial(has_left, leaver))
                assert after.primary != leaver
                assert before.epoch < whole.epoch < after.epoch
                before = after
        assert await ledger.balance("alice") == load.acknowledged
        await client.wait_in_sync("moving")
        return before, leaver, load.acknowledged

    found, leaver, deposited = run(domain, work)
    domain.run("down")
    layout = Layout(domain.directory)
    assert ledger_of(layout.host(leaver), found.group).position == 0
    for host in found.placed_on:
        assert ledger_of(layout.host(host), found.group).balances["alice"] == deposited
    domain.up()
    domain.wait("every host hears every other", is_whole)


def test_members_from_the_command_line(domain: Domain) -> None:
    """Each command shows the state of the group when it is done."""
    made = holdfast(domain, "group", "create", "typed", "ledger:Ledger")
    (outside,) = (host for host in HOSTS if host not in made["placed_on"])
    added = holdfast(domain, "group", "add-member", "typed", outside)
    assert outside in added["in_sync"]
    assert holdfast(domain, "group", "set-primary", "typed", outside)["group"]["primary"] == outside
    removed = holdfast(domain, "group", "remove-member", "typed", outside)
    assert outside not in (*removed["placed_on"], *removed["leaving"])
    history = holdfast(domain, "group", "history", "typed")
    assert [view["host"] for view in history["views"] if view["why"] == "removed"] == [outside]


@pytest.mark.covers("FTC-134", "FTC-200")
def test_what_cannot_be_is_refused_and_changes_nothing(domain: Domain) -> None:
    """Each gives one clear error."""

    async def work(client: Client) -> None:
        ledger = await client.connection.create("ledger:Ledger", name="refusing", membership="application")
        before = await client.wait_in_sync("refusing")
        inside = before.placed_on[0]
        (outside,) = (host for host in HOSTS if host not in before.placed_on)
        with pytest.raises(AdminRefused, match=f"has a member on {inside} already") as present:
            await ledger.add_member(inside)
        assert present.value.reason == "member_already_present"
        with pytest.raises(InvalidRequest, match="there is no host 'nowhere'"):
            await ledger.add_member("nowhere")
        for order in (ledger.remove_member, ledger.set_primary):
            with pytest.raises(AdminRefused, match=f"has no member on {outside}") as absent:
                await order(outside)
            assert absent.value.reason == "member_not_found"
        active = await client.create("refusing-too", style="active")
        with pytest.raises(AdminRefused, match="only passive groups have a primary to set") as bad:
            await active.set_primary(inside)
        assert bad.value.reason == "bad_replication_style"
        other = next(each for each in (await client.wait_in_sync("refusing-too")).in_sync if each != inside)
        assert (await active.hand_over(other)).primary == other
        assert (await client.info("refusing")).placed_on == before.placed_on
        await ledger.remove_member(before.placed_on[2])
        with pytest.raises(InvalidRequest, match="add another one first"):
            await ledger.remove_member(before.placed_on[1])
        assert (await client.info("refusing")).placed_on == before.placed_on[:2]

    run(domain, work)
