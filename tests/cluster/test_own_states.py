"""Classes that provide their own state: what happens to objects that have none to give, or refuse one (FTC,
Checkpointable and Updateable)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from domain import WAIT_S, Domain, is_whole
from group_client import Client, run
from patients import wait_told

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"
OFTEN = {"CheckpointInterval": 500_000}
"""In units of 100 ns: a state is requested twenty times a second, while anything happens."""


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("own") / "d", "--app", str(APPS)) as made:
        made.wait("every host hears every other", is_whole)
        yield made


class Marks:
    """Tells the objects what to refuse, and records what they did and refused, by the pids of their
    processes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def refuse(self, method: str) -> None:
        (self.directory / f"refuse {method}").touch()

    def allow(self, method: str) -> None:
        (self.directory / f"refuse {method}").unlink()

    def pids(self, what: str) -> list[str]:
        file = self.directory / what
        return file.read_text().split() if file.exists() else []


@pytest.fixture
def marks(tmp_path: Path) -> Marks:
    return Marks(tmp_path)


class Writer:
    """Writes line after line into one group, and knows them all."""

    def __init__(self, group: Any) -> None:
        self._group = group
        self.lines: list[str] = []

    async def write(self) -> None:
        line = f"line {len(self.lines)}"
        assert await self._group.write(line) == len(self.lines) + 1
        self.lines.append(line)

    async def write_until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not holds():
                await self.write()

    async def check(self) -> None:
        assert await self._group.lines() == self.lines


def tell(domain: Domain, work: Callable[[Client], Awaitable[None]]) -> None:
    run(domain, work)
    domain.wait("every host hears every other", is_whole)


def faults_logged(domain: Domain) -> list[str]:
    """Return every fault of an object that a host has logged: a host that was killed may have told nobody
    else."""
    logs = [path.read_text(encoding="utf-8") for path in domain.directory.rglob("*.log")]
    return [line for log in logs for line in log.splitlines() if "kind=object_failed" in line]


@pytest.mark.covers("FTC-304", "FTC-310", "FTC-311")
def test_a_state_may_be_unavailable_and_one_that_is_not_taken_is_a_fault(
    domain: Domain, marks: Marks
) -> None:
    """While there is no state the group serves, fails over by its log, and no fault is reported."""

    async def work(client: Client) -> None:
        marks.refuse("get_state")
        directory = str(marks.directory)
        writer = Writer(
            await client.connection.create("moody:Moody", name="state", args=[directory], properties=OFTEN)
        )
        made = await client.wait_in_sync("state")
        await writer.write_until(lambda: len(marks.pids("refused get_state")) >= 5)
        assert not marks.pids("done get_state")
        await client.kill_primary("state")
        await writer.write()
        await writer.check()
        marks.allow("get_state")
        # By all three members, so that whichever is killed has kept one.
        await writer.write_until(lambda: len(marks.pids("done get_state")) >= 12)
        marks.refuse("set_state")
        found = await client.wait_in_sync("state")
        await client.kill(found.primary)
        await writer.write_until(lambda: bool(marks.pids("refused set_state")))
        await wait_told(client, made.group, "InvalidState: not this one")
        marks.allow("set_state")
        await writer.write()
        await writer.check()
        await client.wait_in_sync("state")

    tell(domain, work)
    logged = faults_logged(domain)
    assert any("InvalidState: not this one" in line for line in logged)
    assert not [line for line in logged if "NoStateAvailable" in line]


@pytest.mark.covers("FTC-305", "FTC-310", "FTC-311")
def test_an_update_may_be_unavailable_and_one_that_is_not_taken_is_a_fault(
    domain: Domain, marks: Marks
) -> None:
    """While there is no update the backups execute the operations again, and no fault is reported."""

    async def work(client: Client) -> None:
        writer = Writer(
            await client.connection.create("moody:Moody", name="update", args=[str(marks.directory)])
        )
        made = await client.wait_in_sync("update")
        await writer.write_until(lambda: len(set(marks.pids("done set_update"))) >= 2)
        marks.refuse("get_update")
        await writer.write_until(lambda: len(marks.pids("refused get_update")) >= 5)
        marks.allow("get_update")
        await client.kill_primary("update")
        await writer.write()
        await writer.check()
        marks.refuse("set_update")
        await writer.write_until(lambda: bool(marks.pids("refused set_update")))
        await wait_told(client, made.group, "InvalidUpdate: not this one")
        marks.allow("set_update")
        await client.wait_in_sync("update")
        await client.kill_primary("update")
        await writer.write()
        await writer.check()

    tell(domain, work)
    logged = faults_logged(domain)
    assert any("InvalidUpdate: not this one" in line for line in logged)
    assert not [line for line in logged if "NoUpdateAvailable" in line]
