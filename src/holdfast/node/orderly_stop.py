"""An orderly stop: a host hands its groups over, and takes checkpoints, before its process ends (K5, E7).

It goes on serving meanwhile. First it gives notice to the other hosts. Then it hands over the groups that it
is primary of, and takes a checkpoint of every group that has an object here. The next process then loads
states and replays nothing; so even if its code has changed, it does not need the old code to replay calls.
Last, the primaries elsewhere drop this host's members, so that no call waits for them once it is gone.

All this is only an optimization and gets little time: whatever it leaves undone is in the log and becomes a
failover, as after a kill.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Final

import structlog

from holdfast.groups.host_groups import HostGroups
from holdfast.groups.hosted_group import HostedGroup
from holdfast.machine import MachineClock
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import MILLISECOND

NOTICE_S: Final = 0.25
"""How long to hear of other hosts that stop at the same time, before any group is handed over. It is over as
soon as all of them stop."""
HAND_OVER_S: Final = 3.0
"""How long to try to hand over. A successor that does not take a group costs it a second."""
SETTLE_S: Final = 4.0
"""How long to try to take checkpoints. With the other times, this is less than the ten seconds after which an
agent kills a host that has not ended."""
LEAVE_S: Final = 1.0
"""How long to wait until the groups go on without this host."""
POLL_S: Final = 0.002
ASK_S: Final = 0.02
"""How often to ask to be dropped: a primary ignores it while another change of its view is under way."""
SLICE_NS: Final = 5 * MILLISECOND
"""How long to process groups between two turns of the loop: other hosts may be waiting for this one."""

log = structlog.get_logger("holdfast.settling")


async def stop_in_order(groups: HostGroups) -> None:
    """Hand over, take checkpoints and leave the groups, each as far as its time permits."""
    stopping = groups.stopping
    if stopping.has_survivors:
        stopping.announce()
        await _repeat(lambda: stopping.has_survivors, POLL_S, NOTICE_S)
    if stopping.has_survivors:
        left = await _repeat(stopping.hand_over, POLL_S, HAND_OVER_S)
        log.info("handed over", groups_left=left)
    await settle(groups.hosted.values)
    if stopping.has_survivors:
        left = await _repeat(stopping.leave, ASK_S, LEAVE_S)
        log.info("left the groups", groups_left=left)


async def _repeat(work: Callable[[], int], every_s: float, within_s: float) -> int:
    """Do *work* until it has nothing left to wait for; returns how much that is when the time is over."""
    left = work()
    try:
        async with asyncio.timeout(within_s):
            while left:
                await asyncio.sleep(every_s)
                left = work()
    except TimeoutError:
        pass
    return left


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


async def until_one_ends(*work: Coroutine[object, object, object]) -> None:
    """Run all of *work* until the first ends, then cancel the others. Raises that one's error, if any."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if task in done:
            task.result()
