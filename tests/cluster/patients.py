"""Objects that are asked whether they are alive (``apps/patient.py``) and told how to answer, and the reports
about them."""

import asyncio
from pathlib import Path

import msgspec
from domain import WAIT_S
from group_client import Client

from holdfast.cli.admin import give_at
from holdfast.model.admin.groups import GroupHistory, ShowHistory
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import HostId
from holdfast.model.system_groups import MANAGER

INTERVAL_AND_TIMEOUT = {
    # In units of 100 ns. Longer than a busy machine keeps a loop waiting for its turn.
    "FaultMonitoringIntervalAndTimeout": {"monitoring_interval": 2_000_000, "timeout": 40_000_000}
}
SAID_NO = "is_alive answered False"


def mark(marks: Path, pid: int, word: str) -> None:
    """Tell the object in that process to answer so, once; the file appears complete or not at all."""
    aside = marks / "aside"
    aside.write_text(word)
    aside.rename(marks / str(pid))


async def say_no(client: Client, marks: Path, host: HostId) -> None:
    """Tell the next object that is asked on *host* to say no."""
    mark(marks, await client.pid(host), "no")


async def wait_history(client: Client, name: str, words: str) -> None:
    """Wait until the group's history says so; it is written with a delay."""
    async with asyncio.timeout(WAIT_S):
        while words not in await _history(client, name):
            await asyncio.sleep(0.1)


async def _history(client: Client, name: str) -> str:
    told = await give_at(client.layout, ShowHistory(name=name), GroupHistory)
    return msgspec.json.encode(told).decode()


async def wait_told(client: Client, group: int, why: str, host: str = "", after: int = 0) -> int:
    """Wait until the notifier was told that a member of the group on *host* crashed, and why; return the
    number of that report, which is beyond *after*. The notifier is created, and told, with a delay."""
    async with asyncio.timeout(WAIT_S):
        while not (number := await _told(client, group, why, host, after)):
            await asyncio.sleep(0.1)
    return number


async def _told(client: Client, group: int, why: str, host: str, after: int) -> int:
    where = f"$type_name == 'ObjectCrashFault' and $ObjectGroupId == {group}"
    if host:
        where += f" and $Location[0].id == '{host}'"
    try:
        told = await client.connection.faults.list(where, after=after, parts=True)
    except HoldfastError:
        return 0
    return next((each.number for each in told if why in str(each.event.remainder_of_body)), 0)


async def wait_heard_by_manager(client: Client, number: int) -> None:
    """Wait until the manager, which has registered for notifications, has received that."""
    async with asyncio.timeout(WAIT_S):
        while not await _is_heard(client, number):
            await asyncio.sleep(0.1)


async def _is_heard(client: Client, number: int) -> bool:
    try:
        consumers = await client.connection.faults.consumers()
    except HoldfastError:
        return False
    return any(each.push_consumer == MANAGER and each.reached >= number for each in consumers)
