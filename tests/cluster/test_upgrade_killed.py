"""`holdfast group upgrade` under load, forward and back, while everything is killed: old or new, never in
between (E7)."""

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from domain import HOLDFAST, Domain, is_whole
from group_client import EXAMPLES, Client, run
from workload import Workload

from holdfast.cli.admin import give_at
from holdfast.client.proxy import Group
from holdfast.model.admin.groups import HandedOver, SetPrimary

pytestmark = pytest.mark.cluster

NAME = "ledger"
ATTEMPTS_MAX = 8
LEDGER = (EXAMPLES / "ledger.py").read_text(encoding="utf-8")
ALL = """
    @hf.query
    def all(self) -> dict[str, int]:
        return self.balances

    @hf.query
    def total"""
ONE = LEDGER.replace(
    '    """Balances by account.', '    version = "1"\n    """Balances by account.', 1
).replace("\n    @hf.query\n    def total", ALL, 1)
TWO = (
    ONE.replace('version = "1"', 'version = "2"', 1)
    .replace(
        "self.balances: dict[str, int] = {}", "self.balances: dict[str, int] = {}\n        self.made = 0", 1
    )
    .replace(
        "        return self.balances[account]",
        "        self.made += 1\n        return self.balances[account]",
        1,
    )
    .replace(
        ALL,
        f"""
    def upgraded(self, from_version: str) -> None:
        self.made = len(self.balances)
{ALL}""",
        1,
    )
)
"""Counts deposits; when it takes over from the other version, it knows how many there were."""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    directory = tmp_path / "app"
    directory.mkdir()
    (directory / "ledger.py").write_text(ONE, encoding="utf-8")
    return directory


@pytest.fixture
def domain(tmp_path: Path, app: Path) -> Iterator[Domain]:
    with Domain(tmp_path / "d", "--app", str(app)) as made:
        made.wait("every host hears every other", is_whole)
        yield made


async def upgrade(domain: Domain, hurt: Callable[[asyncio.subprocess.Process], Any] | None = None) -> None:
    """Upgrade again and again until it is done; call *hurt* the first time."""
    for attempt in range(ATTEMPTS_MAX):
        process = await asyncio.create_subprocess_exec(
            *(*HOLDFAST, "group", "upgrade", NAME, "--yes", "--dir", str(domain.directory)),
            stderr=asyncio.subprocess.PIPE,
        )
        hurting = asyncio.create_task(hurt(process)) if hurt is not None and attempt == 0 else None
        _, said = await process.communicate()
        if hurting is not None:
            await hurting
        if process.returncode == 0 or b"nothing to upgrade" in said:
            return
    raise AssertionError(f"not upgraded in {ATTEMPTS_MAX} attempts: {said.decode()}")


async def check_all(client: Client, group: Group[Any], calls: Workload) -> None:
    """Check what each member has, by making it primary."""
    balances = []
    info = await client.wait_in_sync(NAME)
    for host in info.placed_on:
        if (await client.info(NAME)).primary != host:
            await give_at(client.layout, SetPrimary(name=NAME, host=host, is_any_style=True), HandedOver)
        balances.append(await group.all())
        calls.check(balances[-1])
    assert all(each == balances[0] for each in balances)


@pytest.mark.timeout(3600)
def test_upgraded_forth_and_back_under_load_nothing_is_lost_or_changed(
    domain: Domain, app: Path, rounds: Callable[..., int]
) -> None:
    """A host, all hosts, or the upgrade itself are killed at any step."""
    dice = random.Random(os.urandom(8))

    async def work(client: Client) -> None:
        group = await client.create(NAME, style=dice.choice(("warm_passive", "active", "cold_passive")))

        async def hurt(process: asyncio.subprocess.Process) -> None:
            with contextlib.suppress(TimeoutError):  # or at once, when the upgrade is over
                await asyncio.wait_for(process.wait(), dice.uniform(0.5, 15))
            victim = dice.choice(("host", "primary", "all", "upgrade"))
            if victim == "upgrade":
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGKILL)
            elif victim == "all":
                await client.kill_all()
            elif victim == "primary":
                await client.kill_primary(NAME)
            else:
                await client.kill(dice.choice((await client.info(NAME)).placed_on))

        async with Workload(group, callers=4) as calls:
            await calls.more(20)
            for number in range(rounds(short=2, long=24)):
                source = ONE if number % 2 else TWO
                (app / "ledger.py").write_text(source, encoding="utf-8")
                await upgrade(domain, hurt)
                await calls.more(20)
                wanted = "1" if number % 2 else "2"
                info = await client.info(NAME)
                assert info.code is not None
                assert info.code.version == wanted
        assert not calls.unknown + calls.refused
        await check_all(client, group, calls)

    run(domain, work)
