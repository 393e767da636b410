"""The last thing that a host does in order: a checkpoint of every group whose object it holds (E7).

Whoever starts next then loads states and replays nothing: with other code than before, nothing needs to be
replayed by the old one. It is a convenience, and has little time: what it leaves undone, as a kill would, is
in the log.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from holdfast.groups.hosted_group import HostedGroup
from holdfast.machine import MachineClock
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import MILLISECOND

SETTLE_S: Final = 4.0
"""An agent kills a host that has not ended in ten."""
POLL_S: Final = 0.002
SLICE_NS: Final = 5 * MILLISECOND
"""Of looking at groups, between two turns of the loop: other hosts may wait for what this one holds."""

log = structlog.get_logger("holdfast.settling")


async def settle(housed: Callable[[], Iterable[HostedGroup]], within_s: float = SETTLE_S) -> int:
    """Have checkpoints of all of *housed*, as far as time allows; how many are left without."""
    waiting, clock = list(housed()), MachineClock()
    try:
        async with asyncio.timeout(within_s):
            while waiting:
                left, until_ns = [], clock.now() + SLICE_NS
                for each in waiting:
                    if not _is_settled(each):
                        left.append(each)
                    if clock.now() >= until_ns:
                        await asyncio.sleep(0)
                        until_ns = clock.now() + SLICE_NS
                waiting = left
                if waiting:
                    await asyncio.sleep(POLL_S)
    except TimeoutError:
        log.info("groups are left without a checkpoint of their last calls", groups=len(waiting))
    return len(waiting)


def _is_settled(housed: HostedGroup) -> bool:
    try:
        return housed.settle()
    except HoldfastError as error:
        log.warning("a group could not be settled", group=housed.group, why=str(error))
        return True
