"""Making many groups for a benchmark: some at a time at each host, and insisting on each."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from holdfast.bench import Progress
from holdfast.client.ordering import order
from holdfast.model.errors import OutcomeUnknown, Unavailable
from holdfast.model.orders import CreateGroup
from holdfast.net import Address, Endpoint, Identity, Role
from holdfast.node.layout import Description

AT_A_TIME: Final = 16
"""Groups that one host makes at a time: making one is mostly waiting for the authority's disk."""
ORDERS_MAX: Final = 30
"""How often a group is ordered before it is given up."""
PAUSE_S: Final = 1.0
TOLD_EVERY: Final = 500


async def make_groups(
    wanted: Iterable[CreateGroup], description: Description, addresses: Sequence[Address], progress: Progress
) -> float:
    """Have the hosts at *addresses* make the groups *wanted*, each its share, of which it is primary then;
    how long that took, in seconds. An order must carry a nonce: it may have to be given twice."""
    began = time.perf_counter()
    endpoint = Endpoint(Identity(description.domain, Role.CLIENT, "bench"))
    waiting = enumerate(wanted, start=1)
    async with asyncio.TaskGroup() as makers:
        for address in addresses:
            for _ in range(AT_A_TIME):
                makers.create_task(_make_some(waiting, address, endpoint, progress))
    return time.perf_counter() - began


async def _make_some(
    waiting: Iterator[tuple[int, CreateGroup]], address: Address, endpoint: Endpoint, progress: Progress
) -> None:
    for number, wanted in waiting:
        await _insist(address, endpoint, wanted)
        if number % TOLD_EVERY == 0:
            progress(f"{number:,} groups made")


async def _insist(address: Address, endpoint: Endpoint, wanted: CreateGroup) -> None:
    for _ in range(ORDERS_MAX - 1):
        try:
            await order([address], endpoint, wanted)
            return
        except (OutcomeUnknown, Unavailable):
            await asyncio.sleep(PAUSE_S)
    await order([address], endpoint, wanted)
