"""Groups on a network that fails: hosts on machines of their own, cut off from each other on command."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from faults.internet import Internet
from faults.machine import require_tun
from spread_domain import AUTHORITY, MACHINES, SpreadClient, SpreadDomain

from holdfast.model.orders import GroupInfo

LEASES_BACK_S = 1.0
"""Enough for heartbeats to pass again, usually. A test that is too fast for them proves less, and passes."""

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("groups-cut")]


@pytest.fixture
def domain(tmp_path: Path) -> Iterator[SpreadDomain]:
    require_tun()
    with Internet(MACHINES, seed=1) as net, SpreadDomain(net, tmp_path / "d") as made:
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
                after = await client.wait("stale", "it takes over", partial(is_led_by, rival))
                # Not by a client of all members: that would ask the old primary first, and so tell it.
                assert await client.deposit_at(rival, after, "alice") == number
                acknowledged = number
                client.net.heal()
                if number % 2:
                    # Only its peers hear it again, and give it leases: those alone allow no answer.
                    client.net.cut(before.primary, AUTHORITY)
                    await asyncio.sleep(LEASES_BACK_S)
                    client.net.heal()
        assert sum(watch.answers for watch in watches) > 0

    domain.call(work)


def is_led_by(host: str, found: GroupInfo) -> bool:
    return found.primary == host
