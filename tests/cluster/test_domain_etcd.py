"""A domain on a real etcd: hosts continue while etcd loses its leader."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest
from authority_backends import EtcdBackend
from domain import WAIT_S, Domain, is_whole
from group_client import EXAMPLES, Client, run

from holdfast.cli.admin import give_at
from holdfast.faults.events import Location
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.model.admin.groups import HandedOver, SetPrimary
from holdfast.model.admin.hosts import HostList, ListHosts
from holdfast.model.errors import OutcomeUnknown, Unavailable
from holdfast.model.ids import HostId
from holdfast.model.system_groups import NOTIFIER

pytestmark = [pytest.mark.cluster, pytest.mark.etcd]

T = TypeVar("T")


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory, etcd_backend: EtcdBackend) -> Iterator[Domain]:
    endpoints = [word for endpoint in etcd_backend.cluster.endpoints for word in ("--etcd", endpoint)]
    with Domain(tmp_path_factory.mktemp("on-etcd") / "d", "--app", str(EXAMPLES), *endpoints) as made:
        yield made


def test_a_domain_on_etcd_survives_the_loss_of_etcds_leader(
    domain: Domain, etcd_backend: EtcdBackend
) -> None:
    """No host ends with the leader, and a host killed meanwhile gets its new incarnation from the others."""
    before = domain.wait("whole", is_whole)
    assert before["authority"]["kind"] == "etcd"
    try:
        etcd_backend.cluster.kill(etcd_backend.cluster.leader())
        os.kill(before["hosts"][1]["pid"], signal.SIGKILL)
        after = domain.wait(
            "host2 is back",
            lambda now: is_whole(now) and now["hosts"][1]["pid"] != before["hosts"][1]["pid"],
        )
    finally:
        etcd_backend.cluster.heal()
    assert after["hosts"][0]["pid"] == before["hosts"][0]["pid"]
    assert after["hosts"][1]["incarnation"] > before["hosts"][1]["incarnation"]


async def insist(ask: Callable[[], Awaitable[T]]) -> T:
    """Repeat a request until a host can answer."""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                return await ask()
            except (Unavailable, OutcomeUnknown):
                await asyncio.sleep(0.1)


@pytest.mark.covers("FTC-1")
def test_no_part_of_a_domain_is_the_only_one_of_its_kind(domain: Domain, etcd_backend: EtcdBackend) -> None:
    """One host coordinates, and is primary of the fault notifier and a group; it is stopped, and so is etcd's
    leader. Without them the group serves, a property is set, a group is created, reports are delivered, and
    the host that does not answer is found."""
    cluster = etcd_backend.cluster

    async def work(client: Client) -> None:
        connection, faults = client.connection, client.connection.faults

        async def push(where: str) -> int:
            report = FaultReport(FaultKind.OBJECT_CRASH, client.name, Location.parse(where))
            return await insist(lambda: faults.push(report, once=where))

        async def lead(name: str, host: HostId) -> HandedOver:
            return await give_at(client.layout, SetPrimary(name=name, host=host), HandedOver)

        ledger = await client.create("before")
        before = await push("somewhere")
        async with asyncio.timeout(WAIT_S):
            while any(len(each.in_sync) < 3 for each in await connection.groups(is_whole=True)):
                await asyncio.sleep(0.1)
        only = (await give_at(client.layout, ListHosts(), HostList)).manager
        for name in (NOTIFIER, "before"):
            await insist(lambda name=name: lead(name, only))  # type: ignore[misc]  # mypy sees no default
        assert await ledger.deposit("alice", 1) == 1

        pid = await client.pid(only)
        cluster.kill(await asyncio.to_thread(cluster.leader))
        os.kill(pid, signal.SIGSTOP)
        try:
            assert await ledger.deposit("alice", 1) == 2
            await insist(lambda: connection.properties.set(CheckpointInterval=70_000))
            made = await insist(lambda: connection.create("ledger:Ledger", name="meanwhile", replicas=2))
            assert await made.deposit("bob", 1) == 1
            assert await push("elsewhere") > before
            async with asyncio.timeout(WAIT_S):
                where = f"$type_name == 'HostCrash' and $HostId == '{only}'"
                while not await faults.list(where):
                    await asyncio.sleep(0.1)
        finally:
            os.kill(pid, signal.SIGCONT)
            await asyncio.to_thread(cluster.heal)

    domain.wait("every host hears every other", is_whole)
    run(domain, work)
