"""Takes a checkpoint of every group that has an object on this host before an orderly stop (E7).

The next process then loads states and replays nothing. So even if its code has changed, it does not need
the old code to replay calls. This is only an optimization and gets little time: whatever it leaves undone
is in the log, as after a kill.
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
"""How long to try; an agent kills a host that has not ended after ten seconds."""
POLL_S: Final = 0.002
SLICE_NS: Final = 5 * MILLISECOND
"""How long to process groups between two turns of the loop: other hosts may be waiting for this one."""

log = structlog.get_logger("holdfast.settling")


async def settle(hosted: Callable[[], Iterable[HostedGroup]], within_s: float = SETTLE_S) -> int:
    """Take checkpoints of all of *hosted*, as far as time permits; returns how many groups have none."""
    waiting, clock = list(hosted()), MachineClock()
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


def _is_settled(hosted: HostedGroup) -> bool:
    try:
        return hosted.settle()
    except HoldfastError as error:
        log.warning("a group could not be settled", group=hosted.group, why=str(error))
        return True
