"""Groups on a network that fails: hosts on separate machines, cut off from each other on command."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator

import pytest
from faults.machine import require_tun
from spread_domain import AUTHORITY, HOSTS, MACHINES, SpreadClient, SpreadDomain
from workload import LAST, Workload, check_members

from holdfast.demo.network.internet import Internet

LEASES_BACK_S = 1.0
"""Usually enough for heartbeats to pass again. If it is too short, the test proves less and still passes."""

FAULT_S = 1.5
"""How long the network stays cut: past leases and graces."""

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SpreadDomain]:
    require_tun()
    directory = tmp_path_factory.mktemp("spread")
    with Internet(MACHINES, seed=1) as net, SpreadDomain(net, directory) as made:
        yield made


def test_a_primary_cut_from_a_backup_answers_nothing_old(
    domain: SpreadDomain, rounds: Callable[..., int]
) -> None:
    """Cut the primary from one backup, let that one take over, and heal, while all are asked directly (R1).

    In every other round the old primary is also cut from the authority, for longer, so that nobody tells it.
    """
    acknowledged = 0

    async def work(client: SpreadClient) -> None:
        nonlocal acknowledged
        await client.create("stale")
        async with client.watching("stale", "alice", lambda: acknowledged) as watches:
            for number in range(1, 1 + rounds(short=5, long=200)):
                before = await client.wait_in_sync("stale")
                rival = next(host for host in before.in_sync if host != before.primary)
                client.net.cut(before.primary, rival)
                if number % 2:
                    client.net.cut(before.primary, AUTHORITY)
                acknowledged = await client.deposit_behind(before.primary, "stale", "alice")
                assert acknowledged >= number
                client.net.heal()
                if number % 2:
                    # Only its peers hear it again, and give it leases: those alone permit no answer.
                    client.net.cut(before.primary, AUTHORITY)
                    await asyncio.sleep(LEASES_BACK_S)
                    client.net.heal()
        assert sum(watch.answers for watch in watches) > 0

    domain.call(work)


Fault = Callable[[Internet, str, str, str], None]
"""Does something to the network, given the primary and the two backups."""

SURVIVABLE: dict[str, Fault] = {
    "deaf": lambda net, primary, *backups: cut_towards(net, primary, backups),
    "mute": lambda net, primary, *backups: cut_from(net, primary, backups),
    "half deaf": lambda net, primary, near, far: net.cut(near, primary, one_way=True),
    "half mute": lambda net, primary, near, far: net.cut(primary, near, one_way=True),
    "apart": lambda net, primary, near, far: net.cut(primary, near),
    "alone": lambda net, primary, near, far: cut_both(net, primary, (near, far)),
    "without authority": lambda net, primary, near, far: net.cut(primary, AUTHORITY),
    "unplugged": lambda net, primary, near, far: net.unplug(primary),
    "backups apart": lambda net, primary, near, far: net.cut(near, far),
    "lossy": lambda net, *_: net.set(loss=0.1, duplicate=0.1, reorder=0.2, jitter_ms=5),
}
"""Two hosts, the authority and the callers can hear each other: calls must continue during these faults."""

TRYING: dict[str, Fault] = {
    "flapping": lambda net, primary, near, far: net.flap(primary, near, up_ms=400, down_ms=900),
    "all flapping": lambda net, *_: [net.flap(host, up_ms=700, down_ms=700) for host in HOSTS] and None,
    "nobody hears anybody": lambda net, *hosts: [net.cut(host) for host in hosts] and None,
}
"""Calls may have to wait until these faults are over."""
ALL = SURVIVABLE | TRYING
SHORT = ["deaf", "without authority", "flapping"]


def test_cuts_lose_and_double_no_call(domain: SpreadDomain, rounds: Callable[..., int]) -> None:
    """One-way, partial and flapping cuts come one after the other while calls continue; after each the
    network heals and all members become in sync again. Hosts that are asked directly give no stale answer
    meanwhile."""

    async def work(client: SpreadClient) -> None:
        counted = 0

        async def count() -> None:
            nonlocal counted
            while True:
                counted = await ledger.deposit(LAST, 1)

        ledger = await client.create("cut")
        async with Workload(ledger) as calls, client.watching("cut", LAST, lambda: counted):
            counting = asyncio.create_task(count())
            for name in SHORT * rounds(short=1, long=0) + list(ALL) * rounds(short=0, long=20):
                before = await client.wait_in_sync("cut")
                backups = [host for host in before.in_sync if host != before.primary]
                print(f"{time.strftime('%T')} {name}: {before.primary} leads {backups}")
                ALL[name](client.net, before.primary, *backups)
                await asyncio.sleep(FAULT_S)
                if name in SURVIVABLE:
                    await calls.more(20)
                client.net.heal()
                await calls.more(20)
            counting.cancel()
        assert not calls.unknown + calls.refused
        await check_members(client, {"cut": calls})

    domain.call(work)


def cut_towards(net: Internet, host: str, others: Iterable[str]) -> None:
    for other in others:
        net.cut(other, host, one_way=True)


def cut_from(net: Internet, host: str, others: Iterable[str]) -> None:
    for other in others:
        net.cut(host, other, one_way=True)


def cut_both(net: Internet, host: str, others: Iterable[str]) -> None:
    for other in others:
        net.cut(host, other)
