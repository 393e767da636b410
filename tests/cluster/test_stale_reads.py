"""Stale reads on real hosts: backups answer them, never with less than the client has seen (S7)."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from direct import Answer, DirectCaller
from domain import WAIT_S, Domain, is_whole
from group_client import EXAMPLES, Client, run

from holdfast.model.admin.groups import GroupInfo
from holdfast.model.calls import Seen
from holdfast.model.ids import Position

pytestmark = pytest.mark.cluster

MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("stale") / "d", "--app", str(EXAMPLES)) as made:
        made.wait("every host hears every other", is_whole)
        yield made


async def at_backup(client: Client, found: GroupInfo) -> DirectCaller:
    """Return a connection to one backup alone."""
    backup = next(host for host in found.in_sync if host != found.primary)
    caller = DirectCaller("backup", found.group, found.epoch)
    await caller.open(await client.address(backup), client.endpoint())
    return caller


async def answered(ask: Callable[[], "asyncio.Future[Answer | None]"]) -> Answer:
    """Return the host's answer once it gives one: its view may be newer, or its state not yet there."""
    async with asyncio.timeout(WAIT_S):
        while True:
            answer = await ask()
            if answer is not None:
                return answer
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("style", ["warm_passive", "active"])
def test_a_backup_answers_reads_and_holds_what_was_acknowledged_before(domain: Domain, style: str) -> None:
    async def work(client: Client) -> None:
        name = f"backup {style}"
        ledger = await client.create(name, style)
        found = await client.wait_in_sync(name)
        caller = await at_backup(client, found)
        try:
            for balance in range(1, 21):
                assert await ledger.deposit("alice", 1) == balance
                # Not older than the question: it includes everything acknowledged before.
                answer = await answered(lambda: caller.read("balance", "alice", stale_ms=0))
                assert answer.value == balance
            ahead = Seen(found.epoch, Position(10**9))
            assert await caller.read("balance", "alice", stale_ms=MINUTE_MS, seen=ahead) is None
            assert await caller.read("deposit", "alice", 1, stale_ms=MINUTE_MS) is None
            assert await ledger.balance("alice") == 20
        finally:
            caller.close()

    run(domain, work)


def test_a_cold_backup_sends_readers_to_the_primary(domain: Domain) -> None:
    async def work(client: Client) -> None:
        ledger = await client.create("cold", "cold_passive")
        caller = await at_backup(client, await client.wait_in_sync("cold"))
        try:
            assert await ledger.deposit("alice", 1) == 1
            assert await caller.read("balance", "alice", stale_ms=MINUTE_MS) is None
            stale = ledger.options(consistency="stale", stale_s=60)
            assert await asyncio.gather(*(stale.balance("alice") for _ in range(20))) == [1] * 20
        finally:
            caller.close()

    run(domain, work)


@pytest.mark.parametrize("style", ["warm_passive", "active"])
def test_a_client_reads_its_own_writes_wherever_it_reads(
    domain: Domain, style: str, rounds: Callable[..., int]
) -> None:
    """The bound is a minute: a member refuses only because of what the client has seen."""

    async def work(client: Client) -> None:
        ledger: Any = await client.create(f"own {style}", style)
        await client.wait_in_sync(f"own {style}")
        stale = ledger.options(consistency="stale", stale_s=60)
        for balance in range(1, 1 + rounds(short=60, long=2000)):
            assert await ledger.deposit("alice", 1) == balance
            assert await stale.balance("alice") == balance

    run(domain, work)


def test_while_the_primary_stands_still_a_backup_answers_within_the_bound(domain: Domain) -> None:
    """What the backup was told before is enough for a reader with a bound, but not for one without."""

    async def work(client: Client) -> None:
        ledger = await client.create("still")
        found = await client.wait_in_sync("still")
        caller = await at_backup(client, found)
        assert await ledger.deposit("alice", 5) == 5
        assert (await answered(lambda: caller.read("balance", "alice", stale_ms=0))).value == 5
        pid = await client.pid(found.primary)
        os.kill(pid, signal.SIGSTOP)
        try:
            answer = await answered(lambda: caller.read("balance", "alice", stale_ms=MINUTE_MS))
            assert answer.value == 5
            # Eventually another is primary, and tells it. Until then it does not guess.
            assert (await answered(lambda: caller.read("balance", "alice", stale_ms=0))).value == 5
        finally:
            os.kill(pid, signal.SIGCONT)
            caller.close()

    run(domain, work)
