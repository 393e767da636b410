"""A group that waits for another whenever one looks is upgraded while it is called (E7, E12)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from domain import HOLDFAST, TRIES_MAX, Domain, is_starved, is_whole
from group_client import Client, run

from holdfast.client.proxy import Group

pytestmark = pytest.mark.cluster

SOURCE = (Path(__file__).parent / "apps" / "banks.py").read_text(encoding="utf-8")
STYLES = ("cold_passive", "warm_passive")
CALLERS = 3
BALANCE = 1_000_000


class App:
    """An application's directory with the banks, and a domain that has groups of them."""

    def __init__(self, directory: Path) -> None:
        self.source = directory / "app" / "banks.py"
        self.source.parent.mkdir()
        self.write("1")
        self.domain = Domain(directory / "d", "--app", str(self.source.parent))

    def write(self, version: str) -> None:
        said = f'class Bank:\n    version = "{version}"\n'
        self.source.write_text(SOURCE.replace("class Bank:\n", said, 1), encoding="utf-8")

    async def upgrade(self, name: str, *words: str) -> str:
        """Return what the command prints; it must not be refused."""
        for _ in range(TRIES_MAX):
            process = await asyncio.create_subprocess_exec(
                *(*HOLDFAST, "group", "upgrade", name, *words, "--dir", str(self.domain.directory)),
                stderr=asyncio.subprocess.PIPE,
            )
            _, said = await process.communicate()
            if not is_starved(said.decode()):
                break
        assert process.returncode == 0, said.decode()
        return said.decode()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    made = App(tmp_path)
    with made.domain:
        made.domain.wait("every host hears every other", is_whole)
        yield made


@asynccontextmanager
async def called(group: Group[Any]) -> AsyncIterator[list[str]]:
    """Transfer from the group without a pause; gives the outcomes. The other group takes its time, so that
    the calls keep the group waiting and not the machine busy."""
    ended: list[str] = []
    is_over = False

    async def transfer() -> None:
        while not is_over:
            ended.append(await group.transfer("target", 1))

    async with asyncio.TaskGroup() as callers:
        for _ in range(CALLERS):
            callers.create_task(transfer())
        yield ended
        is_over = True


@pytest.mark.parametrize("style", STYLES)
def test_a_busy_group_that_waits_for_another_is_tried_and_upgraded(app: App, style: str) -> None:
    async def work(client: Client) -> None:
        target = await client.connection.create("banks:SlowBank", name="target", args=[0])
        busy = await client.connection.create("banks:Bank", name="busy", style=style, args=[BALANCE])
        await client.wait_in_sync("busy")
        async with called(busy) as ended:
            while len(ended) < CALLERS:
                await asyncio.sleep(0.05)
            app.write("2")
            for _ in range(3):
                assert "busy would go on with 2" in await app.upgrade("busy", "--dry-run")
            before = len(ended)
            assert "upgraded 1" in await app.upgrade("busy", "--yes")
            assert len(ended) > before
        info = await client.info("busy")
        assert info.code is not None
        assert info.code.version == "2"
        assert {each.version for each in info.codes.values()} == {"2"}
        assert set(ended) == {"done"}
        assert await target.holds() == len(ended)
        assert await busy.holds() == BALANCE - len(ended)

    run(app.domain, work)
