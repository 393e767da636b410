"""Groups on real hosts: what was acknowledged is there, once, whichever host is killed."""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
import pytest
from direct import DirectCaller
from domain import HOLDFAST, Domain, is_whole
from group_client import EXAMPLES, POLICY, Client, run

from holdfast.agent.status_client import url_of
from holdfast.calling.config import ClientConfig
from holdfast.cli.admin import give_at
from holdfast.client.admin_client import order
from holdfast.client.domain import connect
from holdfast.client.sync import connect_sync
from holdfast.model.admin.groups import CreateGroup, GroupInfo
from holdfast.model.admin.hosts import Deafen, Deafened
from holdfast.model.calls import CallOutcomeUnknown
from holdfast.model.errors import HoldfastError, InvalidRequest, Unavailable
from holdfast.model.ids import HOUR, HostId
from holdfast.net import Address, ConnectionSettings, PeerIdentity, Role
from holdfast.node.layout import Layout

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("groups") / "d", "--app", str(EXAMPLES)) as made:
        yield made


@pytest.fixture
def whole(domain: Domain) -> Domain:
    """The domain, with every host alive and hearing every other."""
    domain.wait("every host hears every other", is_whole)
    return domain


async def at_primary(client: Client, name: str) -> tuple[GroupInfo, DirectCaller]:
    """Return a connection to the primary alone, which has answered on it."""
    while True:
        found = await client.wait_in_sync(name)
        direct = DirectCaller(name, found.group, found.epoch)
        await direct.open(await client.address(found.primary), client.endpoint())
        if await direct.send("total") is not None:
            return found, direct
        direct.close()  # it is not the primary any more


def holdfast(domain: Domain, *words: str) -> Any:
    """Return what a command prints, decoded."""
    command = [*HOLDFAST, *words, "--dir", str(domain.directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout} {done.stderr}"
    return msgspec.json.decode(done.stdout) if done.stdout else None


def test_a_deposit_survives_its_primary(whole: Domain) -> None:
    """As the command line shows it: deposit, kill the primary's host, ask for the balance."""
    before = holdfast(whole, "group", "create", "ledger", "ledger:Ledger", "--output", "json")
    assert (before["style"], before["min_in_sync"], len(before["placed_on"])) == ("warm_passive", 2, 3)
    assert holdfast(whole, "call", "ledger", "deposit", '"alice"', "5") == 5
    holdfast(whole, "chaos", "kill-primary", "ledger")
    assert holdfast(whole, "call", "ledger", "balance", '"alice"') == 5
    after = holdfast(whole, "group", "show", "ledger", "--output", "json")
    assert after["primary"] != before["primary"]


def test_a_group_of_two_serves_with_one_of_them(whole: Domain) -> None:
    """This is the default: otherwise neither of two could continue without the other."""
    made = holdfast(whole, "group", "create", "pair", "ledger:Ledger", "--replicas", "2", "--output", "json")
    assert (made["min_in_sync"], len(made["placed_on"])) == (1, 2)


def test_an_order_given_again_while_it_is_under_way_makes_one_group(whole: Domain) -> None:
    """The order is repeated at other hosts too, which do not know the group yet: the name that they find
    taken is its own (A1)."""

    async def work(client: Client) -> None:
        endpoint = ConnectionSettings(
            PeerIdentity(client.name, Role.CLIENT, "again"), credentials=client.layout.secret(client.name)
        )
        hosts = [each["id"] for each in (await asyncio.to_thread(whole.status))["hosts"]]
        addresses = [Address.parse(await client.address(host)) for host in hosts]
        wanted = CreateGroup(name="again", class_name="ledger:Ledger", nonce="given-again")
        made = await asyncio.gather(*(order([each], endpoint, wanted) for each in addresses * 2))
        assert len({group.group for (group,) in made}) == 1
        other = CreateGroup(name="again", class_name="ledger:Ledger", nonce="another-order")
        with pytest.raises(InvalidRequest, match="there is a group 'again' already"):
            await order(addresses[:1], endpoint, other)

    run(whole, work)


def test_a_primary_that_was_paused_answers_no_query_with_old_state_and_commits_nothing(
    whole: Domain, rounds: Callable[..., int]
) -> None:
    """It is stopped past its lease and another takes over; woken, it finds queries and a call that were sent
    only to it, in its own epoch, while it was stopped (R1)."""

    async def work(client: Client) -> None:
        ledger = await client.create("paused")
        for number in range(1, 1 + rounds(short=2, long=50)):
            before, direct = await at_primary(client, "paused")
            pid = await client.pid(before.primary)
            os.kill(pid, signal.SIGSTOP)
            try:
                assert await ledger.deposit("alice", 1) == number
                asked = [direct.send("balance", "alice") for _ in range(20)]
                ghost = direct.send("deposit", "ghost", 1)
            finally:
                os.kill(pid, signal.SIGCONT)
            asked += [direct.send("balance", "alice") for _ in range(20)]
            # If the woken host answers at all, it answers with the new state.
            assert {answer.value for answer in await asyncio.gather(*asked) if answer} <= {number}
            assert await ghost is None
            assert await ledger.balance("ghost") == 0
            direct.close()

    run(whole, work)


def test_a_client_need_not_lose_patience_with_a_paused_primary(whole: Domain) -> None:
    """The new primary tells the client. Otherwise this client would keep waiting: it gives frames an hour,
    and the connection to a stopped process stays up."""
    patient = ClientConfig(
        patience_ns=HOUR, patience_most_ns=HOUR, heartbeat_interval_ns=HOUR, heartbeat_timeout_ns=2 * HOUR
    )

    async def work(client: Client) -> None:
        await client.create("told")
        found = await client.wait_in_sync("told")
        url = f"holdfast://{await client.address(found.primary)}/{client.name}"
        async with connect(url, dir=whole.directory, policy=POLICY, config=patient) as domain:
            ledger = await domain.group("told")
            assert await ledger.deposit("alice", 5) == 5
            pid = await client.pid(found.primary)
            os.kill(pid, signal.SIGSTOP)
            try:
                assert await ledger.deposit("alice", 1) == 6
            finally:
                os.kill(pid, signal.SIGCONT)

    run(whole, work)


def test_a_group_in_memory_survives_its_primary_and_is_lost_with_all_of_its_processes(
    whole: Domain, rounds: Callable[..., int]
) -> None:
    """V4: a restarted process is another member; nobody answers for the state that is gone."""

    async def work(client: Client) -> None:
        ledger = await client.connection.create("ledger:Ledger", name="fleeting", durability="memory")
        assert (await client.wait_in_sync("fleeting")).durability == "memory"
        assert await ledger.deposit("alice", 5) == 5
        for balance in range(6, 6 + rounds(short=1, long=4)):
            await client.kill_primary("fleeting")
            assert await ledger.deposit("alice", 1) == balance
            await client.wait_in_sync("fleeting")
        await client.kill_all()
        with pytest.raises((Unavailable, CallOutcomeUnknown)):
            await ledger.options(duration_s=3).balance("alice")

    run(whole, work)
    whole.wait("every host hears every other", is_whole)
    words = ("also", "ledger:Ledger", "--durability", "memory", "--output", "json")
    shown = holdfast(whole, "group", "create", *words)
    assert shown["durability"] == "memory"


def test_programs_without_an_event_loop_make_call_and_end_groups(whole: Domain) -> None:
    layout = Layout(whole.directory)
    url = asyncio.run(url_of(layout, layout.read()))
    with connect_sync(url, dir=whole.directory, policy=POLICY) as domain:
        ledger = domain.create("ledger:Ledger", name="patient")
        assert ledger.deposit("alice", 5) == 5
        assert "patient" in [each.name for each in domain.groups()]
        domain.delete("patient")
        assert "patient" not in [each.name for each in domain.groups()]


def test_a_deleted_group_is_gone_and_its_name_is_free(whole: Domain) -> None:
    async def work(client: Client) -> None:
        for _ in range(2):
            brief = await client.create("brief")
            assert await brief.deposit("alice", 1) == 1
            assert "brief" in [each.name for each in await client.connection.groups()]
            await client.connection.delete("brief")
        with pytest.raises(InvalidRequest, match="no group 'brief'"):
            await client.connection.delete("brief")
        with pytest.raises(InvalidRequest, match="no group 'brief'"):
            await client.group("brief")

    run(whole, work)
    assert all(host["alive"] for host in whole.status()["hosts"])


def test_an_old_primary_that_was_cut_off_by_order_answers_nothing_old(
    whole: Domain, rounds: Callable[..., int]
) -> None:
    """As in ``test_groups_cut``, also where there is no network to cut: with `holdfast chaos cut` the primary
    and a backup ignore each other, another takes over, and they hear each other again (R1). Now and then, on
    a busy machine, the primary drops the backup before that claims, and goes on: then they are cut off from
    each other once more."""
    acknowledged = 0
    wanted = rounds(short=2, long=200)

    async def work(client: Client) -> None:
        nonlocal acknowledged
        await client.create("parted")
        taken_over = 0
        async with client.watching("parted", "alice", lambda: acknowledged) as watches:
            for _ in range(3 * wanted):
                before = await client.wait_in_sync("parted")
                pair = (before.primary, next(host for host in before.in_sync if host != before.primary))
                async with cut_off_from_each_other(client, pair):
                    after = await client.wait("parted", "one gives the other up", one_gave_up(*pair))
                    if after.primary != before.primary:
                        acknowledged = await client.deposit_behind(before.primary, "parted", "alice")
                        taken_over += 1
                        assert acknowledged >= taken_over
                if taken_over == wanted:
                    break
        assert taken_over == wanted
        assert sum(watch.answers for watch in watches) > 0

    run(whole, work)


def one_gave_up(primary: HostId, backup: HostId) -> Callable[[GroupInfo], bool]:
    return lambda found: found.primary != primary or backup not in found.in_sync


@contextlib.asynccontextmanager
async def cut_off_from_each_other(client: Client, pair: tuple[HostId, HostId]) -> AsyncIterator[None]:
    try:
        for host in pair:
            await give_at(client.layout, Deafen(hosts=pair), Deafened, host=host)
        yield
    finally:
        for host in pair:
            await give_at(client.layout, Deafen(hosts=pair, is_deaf=False), Deafened, host=host)


def test_calls_with_long_arguments_do_not_fill_the_log_for_good(
    whole: Domain, rounds: Callable[..., int]
) -> None:
    """D4: more bytes than the log accepts for one group, in few calls that are executed soon. Every member
    must take checkpoints in time: a full one acknowledges nothing, and the group would never serve again."""
    wide = "x" * 900_000

    async def work(client: Client) -> None:
        ledger = await client.create("wide")
        for number in range(1, 1 + rounds(short=160, long=1000)):
            with pytest.raises(HoldfastError, match="a deposit of -1"):
                await ledger.deposit(wide, -1)
            if number % 10 == 0:
                assert await ledger.deposit("alice", 1) == number // 10
        await client.connection.delete("wide")

    run(whole, work)
