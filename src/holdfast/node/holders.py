"""Processes known by the directory they hold, whoever started them.

A pid read from anywhere may be another process's by now. The kernel says which process holds a lock, and a
pidfd keeps meaning that process; so a signal sent from here reaches the holder or nobody (K2).
"""

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from holdfast.model.errors import Unavailable
from holdfast.node.layout import Description, Layout
from holdfast.storage.lock import holder_of

POLL_S: Final = 0.02
AGENT_GRACE_S: Final = 45.0
"""How long an agent may take to stop everything before it is killed: more than its own patience."""
STOP_GRACE_S: Final = 10.0
"""How long any other process may take to end on SIGTERM before it is killed."""


def signal_holder(directory: Path, number: signal.Signals) -> bool:
    """Signal the process that holds *directory*; False when none does or it is out of our reach."""
    holder = holder_of(directory)
    if holder is None or holder.pid <= 0:
        return False  # a holder in another pid namespace has no number here
    try:
        pidfd = os.pidfd_open(holder.pid)
    except ProcessLookupError:
        return False
    try:
        again = holder_of(directory)
        # Still the holder while we have its pidfd: the pidfd is the holder's, not a successor's.
        if again is None or again.pid != holder.pid:
            return False
        signal.pidfd_send_signal(pidfd, number)
        return True
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(pidfd)


async def stop_domain(layout: Layout, description: Description) -> bool:
    """Stop every process of the domain on this machine, in order; whether there was any.

    Raises ``Unavailable`` naming a process that does not end, not even when killed.
    """
    hosts = [layout.host(host) for host in description.hosts]
    # Whoever starts or shows the domain stops its agent, and the agent stops what is in its care. Only what
    # outlived its agent is left for the later steps.
    steps: tuple[tuple[Sequence[Path], float], ...] = (
        ([layout.directory], AGENT_GRACE_S),
        ([layout.agent_directory], AGENT_GRACE_S),
        (hosts, STOP_GRACE_S),
        ([layout.authority], STOP_GRACE_S),
    )
    stopped = [await _stop_holders(directories, grace_s) for directories, grace_s in steps]
    return any(stopped)


async def stop_orphans(layout: Layout, description: Description) -> None:
    """Stop what an agent that is gone has left behind; nothing, when another agent has it in care."""
    if holder_of(layout.agent_directory) is None:
        await _stop_holders([layout.host(host) for host in description.hosts], STOP_GRACE_S)
        await _stop_holders([layout.authority], STOP_GRACE_S)


async def _stop_holders(directories: Sequence[Path], grace_s: float) -> bool:
    return any(await asyncio.gather(*(_stop_holder(directory, grace_s) for directory in directories)))


async def _stop_holder(directory: Path, grace_s: float) -> bool:
    if holder_of(directory) is None:
        return False
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, STOP_GRACE_S)):
        signal_holder(directory, number)
        try:
            async with asyncio.timeout(patience_s):
                while holder_of(directory) is not None:
                    await asyncio.sleep(POLL_S)
            return True
        except TimeoutError:
            continue
    holder = holder_of(directory)
    if holder is not None:
        raise Unavailable(
            f"{holder.what} (pid {holder.pid}) does not end, not even killed; does its disk hang?"
        )
    return True
