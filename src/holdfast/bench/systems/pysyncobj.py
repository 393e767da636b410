"""The peer PySyncObj: three processes, with the callers inside the leader's, since it has no clients.

It keeps its state in memory; the journal it can write is never synced. So it is compared with groups in
memory.
"""

import asyncio
import multiprocessing
import multiprocessing.process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Final

from holdfast.bench.measuring.callers import Load
from holdfast.bench.systems import FAIL_OVER_S, START_S, Absent, Durability
from holdfast.bench.systems.grpc import free_ports
from holdfast.bench.systems.pysyncobj_member import Ask, Insist, Run, WhoLeads, serve

ANSWER_S: Final = 60.0
TUNED: Final = {"autoTickPeriod": 0.001, "appendEntriesPeriod": 0.001}


@dataclass(frozen=True, slots=True)
class PySyncObj:
    """PySyncObj with the options that its own documentation recommends for speed, or with its defaults."""

    is_tuned: bool = True
    durability: Durability = "memory"

    @property
    def name(self) -> str:
        return "PySyncObj tuned" if self.is_tuned else "PySyncObj as shipped"

    @property
    def configuration(self) -> str:
        options = ", ".join(f"{name}={value}" for name, value in TUNED.items())
        return (
            f"PySyncObj {_version()}, 3 processes, {options if self.is_tuned else 'defaults throughout'}; "
            "called by its leader's own process with callbacks, so without a client's hop; in memory"
        )

    @asynccontextmanager
    async def running(self, directory: Path) -> AsyncIterator["RunningPySyncObj"]:
        if _version() is None:
            raise Absent("pysyncobj is not installed (requirements/bench.txt)")
        context = multiprocessing.get_context("spawn")
        addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
        members = []
        try:
            for own in addresses:
                here, there = context.Pipe()
                others = [each for each in addresses if each != own]
                options = TUNED if self.is_tuned else {}
                process = context.Process(target=serve, args=(there, own, others, options), daemon=True)
                process.start()
                members.append(Member(process, here))
            running = RunningPySyncObj(members)
            await running.wait_until_whole()
            yield running
        finally:
            for member in members:
                member.process.kill()
                member.process.join()


@dataclass(frozen=True, slots=True)
class Member:
    process: multiprocessing.process.BaseProcess
    pipe: Pipe

    async def ask(self, question: Ask) -> object:
        return await asyncio.to_thread(self._ask, question)

    def _ask(self, question: Ask) -> object:
        self.pipe.send(question)
        if not self.pipe.poll(ANSWER_S):
            raise TimeoutError(f"no answer to {question} within {ANSWER_S:g} s")
        return self.pipe.recv()


class RunningPySyncObj:
    """Three processes that know their leader."""

    def __init__(self, members: list[Member]) -> None:
        self._members = members
        self._pids = {f"member{number}": each.process.pid or 0 for number, each in enumerate(members, 1)}

    async def wait_until_whole(self) -> None:
        async with asyncio.timeout(START_S):
            while not await self._leader():
                await asyncio.sleep(0.05)

    async def load(self, *, in_flight: int, seconds: float) -> Load:
        leader = await self._leader()
        if leader is None:
            raise Absent("PySyncObj has no leader")
        load = await leader.ask(Run(in_flight, seconds, self._pids))
        assert isinstance(load, Load)
        return load

    async def fail_over(self) -> float:
        leader = await self._leader()
        if leader is None:
            raise Absent("PySyncObj has no leader")
        survivor = next(each for each in self._members if each is not leader)
        elapsed = await survivor.ask(Insist(leader.process.pid or 0, FAIL_OVER_S))
        assert isinstance(elapsed, float)
        return elapsed

    async def _leader(self) -> Member | None:
        """Return the leader if all members agree on it, otherwise None."""
        named = [await member.ask(WhoLeads()) for member in self._members]
        if len(set(named)) != 1 or named[0] is None:
            return None
        for member in self._members:
            if await member.ask(WhoLeads(is_self=True)):
                return member
        return None


def _version() -> str | None:
    try:
        return version("pysyncobj")
    except PackageNotFoundError:
        return None
