"""What the members of a group have of their streams, for tests with real processes."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from direct import DirectCaller
from domain import WAIT_S
from group_client import Client

from holdfast.cli.admin import give_at
from holdfast.model.admin.streams import LoseStream, StreamLost
from holdfast.model.ids import HostId


async def tallies(client: Client, name: str) -> dict[str, Any]:
    """What each member has of the streams."""
    info = await client.info(name)
    found: dict[str, Any] = {}
    for host in info.placed_on:
        caller = DirectCaller(host, info.group, info.epoch)
        await caller.open(await client.address(host), client.endpoint())
        answer = await caller.read("tally", stale_ms=3_600_000)
        found[host] = None if answer is None else answer.value
        caller.close()
    return found


async def equal_tallies(client: Client, name: str, holds: Callable[[Any], bool]) -> Any:
    """Wait until all members say the same, and it is so."""
    deadline = time.monotonic() + WAIT_S
    while True:
        found = await tallies(client, name)
        first = next(iter(found.values()))
        if len(found) == 3 and all(each == first for each in found.values()) and first and holds(first):
            return first
        assert time.monotonic() < deadline, f"members differ: {found}"
        await asyncio.sleep(0.1)


async def lose(client: Client, host: HostId, stream: str, part: float) -> None:
    await give_at(client.layout, LoseStream(name=stream, part=part), StreamLost, host=host)
