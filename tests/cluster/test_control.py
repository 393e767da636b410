"""The domain's own state in real processes: coordinators are killed, and every answer was true."""

import asyncio
import contextlib
import itertools
import secrets
import signal
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from domain import HOLDFAST, WAIT_S, Domain, is_whole
from group_client import EXAMPLES, Client, run

from holdfast.cli.admin import give_at
from holdfast.client.admin_client import AdminRefused
from holdfast.model.admin.domain import DomainInspected, InspectDomain
from holdfast.model.admin.groups import CreateGroup, DeleteGroup, GroupList
from holdfast.model.admin.hosts import DrainHost, HostList, ListHosts
from holdfast.model.admin.objects import PropertiesShown, SetProperties, ShowProperties
from holdfast.model.errors import NoSuchGroup, OutcomeUnknown, Unavailable
from holdfast.model.ids import HostId
from holdfast.model.properties import MINIMUM_NUMBER

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("control"), pytest.mark.timeout(1200)]

CALLERS = 3
WISH = {MINIMUM_NUMBER: 2}


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("control") / "d", "--app", str(EXAMPLES)) as made:
        made.wait("every host hears every other", is_whole)
        yield made


@dataclass
class Book:
    """What was answered, and must therefore be true."""

    groups: dict[str, bool] = field(default_factory=dict)
    """Whether each group exists."""
    wished: dict[str, bool] = field(default_factory=dict)
    """Whether the request for it was granted."""
    asked: int = 0
    """The number of outcomes that were unknown at first."""
    known: int = 0
    """The number of orders whose outcome is known."""


async def settled(book: Book, give: Callable[[], Awaitable[object]]) -> bool:
    """Return whether *give* was done: by its answer, or, if none came, by the answer to a repetition under
    the same nonce."""
    was_done = await _settled(book, give)
    book.known += 1
    return was_done


async def _settled(book: Book, give: Callable[[], Awaitable[object]]) -> bool:
    is_doubtful = False
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                await give()
                return True
            except OutcomeUnknown:
                book.asked += not is_doubtful
                is_doubtful = True
            except Unavailable:
                if not is_doubtful:
                    return False  # nothing was done: the answer says so
            await asyncio.sleep(0.05)


class Owner:
    """Creates and deletes groups, requests properties for them, and records what it was told."""

    def __init__(self, client: Client, book: Book) -> None:
        self._layout = client.layout
        self._book = book

    async def see_to(self, name: str, *, is_to_end: bool) -> None:
        nonce = secrets.token_hex(16)
        create = CreateGroup(name=name, class_name="ledger:Ledger", style="cold_passive", nonce=nonce)
        made = await settled(self._book, lambda: give_at(self._layout, create, GroupList))
        self._book.groups[name] = made
        if made:
            wish = SetProperties(group=name, properties=WISH, nonce=secrets.token_hex(16))
            was = await settled(self._book, lambda: give_at(self._layout, wish, PropertiesShown))
            self._book.wished[name] = was
            if is_to_end:
                self._book.groups[name] = not await settled(self._book, lambda: self._end(name))

    async def _end(self, name: str) -> None:
        try:
            await give_at(self._layout, DeleteGroup(name=name), GroupList)
        except AdminRefused as refused:
            if refused.reason != NoSuchGroup.code:  # deleted by the first order, whose answer was lost
                raise


async def coordinated(client: Client, after_term: int = 0) -> HostList:
    """Wait until a host coordinates in a later term than *after_term*."""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                found = await give_at(client.layout, ListHosts(), HostList)
                if found.manager and found.term > after_term:
                    return found
            except (Unavailable, OutcomeUnknown):
                pass
            await asyncio.sleep(0.05)


async def uncoordinated(client: Client) -> HostList:
    """Wait until the host that is asked knows no coordinator: one that has just started follows the
    coordinator of the last term until it has heard nothing from it for long enough."""
    async with asyncio.timeout(WAIT_S):
        while (found := await give_at(client.layout, ListHosts(), HostList)).manager:
            await asyncio.sleep(0.05)
        return found


async def kill_coordinators(client: Client, book: Book, count: int, strike: Callable[[int], None]) -> None:
    """Kill coordinators one after the other; *strike* harms the authority too. Every second one is killed as
    soon as it is elected, the others when an order has ended, so that all orders end, however slow the
    machine is."""
    term = 0
    for number in range(count):
        found = await coordinated(client, term)
        if number % 2:
            await one_more_is_known(book)
        await asyncio.to_thread(strike, number)
        await client.kill(found.manager)
        term = found.term


async def one_more_is_known(book: Book) -> None:
    known = book.known
    async with asyncio.timeout(WAIT_S):
        while book.known == known:
            await asyncio.sleep(0.02)


async def properties_of(client: Client, name: str) -> dict[str, object]:
    return (await give_at(client.layout, ShowProperties(group=name), PropertiesShown)).own


def answers_are_true(
    domain: Domain, *, groups: int, kills: int, strike: Callable[[int], None] = lambda _: None
) -> None:
    async def work(client: Client) -> None:
        book, numbers = Book(), itertools.count()
        killing = asyncio.create_task(kill_coordinators(client, book, kills, strike))

        async def own() -> None:
            owner = Owner(client, book)
            while (number := next(numbers)) < groups or not killing.done():
                await owner.see_to(f"group{number}", is_to_end=bool(number % 2))

        await asyncio.gather(killing, *(own() for _ in range(CALLERS)))
        await asyncio.to_thread(domain.wait, "every host hears every other", is_whole)
        await coordinated(client)
        there = {each.name for each in await client.connection.groups()}
        assert there == {name for name, is_there in book.groups.items() if is_there}
        for name in sorted(there):
            expected = WISH if book.wished[name] else {}
            assert await properties_of(client, name) == expected, name
        for name in sorted(there)[1:]:
            await client.connection.delete(name)

    run(domain, work)


def test_every_answer_is_true_while_coordinators_are_killed(
    domain: Domain, rounds: Callable[..., int]
) -> None:
    """What was reported done is there, what failed is not, and unknown outcomes can be asked for."""
    answers_are_true(domain, groups=rounds(short=4, long=200), kills=rounds(short=1, long=60))


@pytest.mark.etcd
def test_every_answer_is_true_also_while_etcd_elects(
    tmp_path: Path, request: pytest.FixtureRequest, rounds: Callable[..., int]
) -> None:
    """The authority is etcd, whose leader is killed with every fifth coordinator."""
    cluster = request.getfixturevalue("etcd_backend").cluster
    first = rounds(short=0, long=2)

    def strike(number: int) -> None:
        if number % 5 == first:
            cluster.kill(cluster.leader())
        elif number % 5 == first + 1:
            cluster.heal()

    endpoints = [word for endpoint in cluster.endpoints for word in ("--etcd", endpoint)]
    with Domain(tmp_path / "d", "--app", str(EXAMPLES), *endpoints) as made:
        made.wait("every host hears every other", is_whole)
        try:
            answers_are_true(
                made, groups=rounds(short=4, long=200), kills=rounds(short=1, long=60), strike=strike
            )
        finally:
            cluster.heal()


def test_wishes_outlive_the_death_of_all_hosts_at_once(domain: Domain) -> None:
    """The hosts have the state: those that come back bring what was committed."""
    domain.wait("every host hears every other", is_whole)

    async def work(client: Client) -> None:
        before = await coordinated(client)
        drained = await give_at(client.layout, DrainHost(host=before.hosts[2].host), HostList)
        await client.kill_all()
        after = await coordinated(client, drained.term)
        assert after.cas >= drained.cas
        assert [each.host for each in after.hosts if each.is_draining] == [before.hosts[2].host]
        await asyncio.to_thread(domain.wait, "every host hears every other", is_whole)
        again = DrainHost(host=before.hosts[2].host, is_draining=False)
        assert not any(each.is_draining for each in (await give_at(client.layout, again, HostList)).hosts)

    run(domain, work)


def test_groups_serve_and_fail_over_without_a_control_plane_until_it_is_recovered(domain: Domain) -> None:
    """Every copy of the state is lost: no coordinator is elected rather than a wrong one (IM-139), and groups
    notice nothing. Then a person lets the domain continue from what there is (T4)."""
    domain.wait("every host hears every other", is_whole)

    async def work(client: Client) -> None:
        ledger = await client.create("served")
        await client.wait_in_sync("served")
        await ledger.deposit("alice", 5)
        wish = SetProperties(group="served", properties=WISH)
        assert (await give_at(client.layout, wish, PropertiesShown)).own == WISH
        # a host that is still receiving the state would write it again
        await client.signal_all(signal.SIGSTOP)
        for file in domain.directory.glob("hosts/*/control/*"):
            file.unlink()  # as if it were on a disk that is gone
        await client.kill_all()
        await asyncio.to_thread(domain.wait, "every host hears every other", is_whole)
        await client.wait_in_sync("served")
        await client.kill_primary("served")
        assert await ledger.deposit("alice", 1) == 6
        listed = await uncoordinated(client)
        assert listed.cas == 0
        await asyncio.to_thread(domain.wait, "the killed one is back", is_whole)
        await asyncio.to_thread(recover, domain)
        await coordinated(client, listed.term)
        assert await properties_of(client, "served") == {}
        assert (await give_at(client.layout, wish, PropertiesShown)).own == WISH
        assert await ledger.balance("alice") == 6

    run(domain, work)


def recover(domain: Domain) -> None:
    command(domain, "domain", "recover", "--from", "host1", "--yes")


def command(domain: Domain, *words: str) -> None:
    line = [*HOLDFAST, *words, "--dir", str(domain.directory)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=2 * WAIT_S, check=False)
    assert done.returncode == 0, done.stderr


async def roles(client: Client, expected: dict[str, int]) -> dict[HostId, str]:
    """Return the role of each host, once there are that many of each."""
    async with asyncio.timeout(WAIT_S):
        while True:
            hosts, found = client.layout.read().hosts, dict[HostId, str]()
            with contextlib.suppress(Unavailable, OutcomeUnknown):
                for host in hosts:
                    inspected = await give_at(client.layout, InspectDomain(), DomainInspected, host=host)
                    found[host] = inspected.role
            if Counter(found.values()) == Counter(expected):
                return found
            await asyncio.sleep(0.2)


async def known_at(client: Client, hosts: Iterable[HostId], group: str) -> None:
    """Wait until every host shows what was requested; observers learn it after participants."""
    async with asyncio.timeout(WAIT_S):
        for host in hosts:
            show = ShowProperties(group=group)
            while (await give_at(client.layout, show, PropertiesShown, host=host)).own != WISH:
                await asyncio.sleep(0.05)


def test_a_domain_grows_and_shrinks_and_those_who_keep_its_state_follow(
    tmp_path: Path, rounds: Callable[..., int]
) -> None:
    """Of four or five hosts three participate and others observe; when a participant is removed, another host
    participates. A request becomes known at every host, and can be made at every host."""
    added = ("host4", "host5")[: rounds(short=1, long=2)]
    with Domain(tmp_path / "d", "--app", str(EXAMPLES)) as domain:
        domain.wait("every host hears every other", is_whole)

        async def work(client: Client) -> None:
            await client.create("kept")
            wish = SetProperties(group="kept", properties=WISH)
            await give_at(client.layout, wish, PropertiesShown)
            for host in added:
                await asyncio.to_thread(command, domain, "host", "add", host)
            await asyncio.to_thread(domain.wait, "the new hosts hear the others", is_whole)
            wide = await client.connection.create("ledger:Ledger", name="wide", replicas=3 + len(added))
            await client.wait_in_sync("wide")
            assert await wide.deposit("alice", 5) == 5
            found = await roles(client, {"coordinator": 1, "replica": 2, "onlooker": len(added)})
            looker = next(host for host, role in found.items() if role == "onlooker")
            wish = SetProperties(group="wide", properties=WISH)
            await give_at(client.layout, wish, PropertiesShown, host=looker)
            await known_at(client, found, "wide")
            await client.connection.delete("wide")
            for left, role in reversed(list(enumerate(("replica", "coordinator")[-len(added) :]))):
                gone = next(host for host, each in found.items() if each == role)
                await asyncio.to_thread(command, domain, "host", "drain", gone)
                await asyncio.to_thread(command, domain, "host", "remove", gone, "--yes")
                found = await roles(client, {"coordinator": 1, "replica": 2, "onlooker": left})
            await known_at(client, found, "kept")

        run(domain, work)
