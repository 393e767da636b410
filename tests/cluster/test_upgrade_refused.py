"""Upgrades that are impossible, and code that is restored: what the commands say, and that the group serves
on (E7, E9)."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from domain import HOLDFAST, TRIES_MAX, Domain, is_starved, is_whole
from group_client import Client, run

from holdfast.agent.rolling_upgrade import Given, NotUpgraded, RollingUpgrade, probe
from holdfast.agent.status_client import signal_holder
from holdfast.cli.admin import give_at
from holdfast.cli.explain import in_words
from holdfast.model.admin.groups import (
    ExplainGroup,
    GroupExplained,
    GroupHistory,
    GroupList,
    Order,
    ShowHistory,
)
from holdfast.model.admin.upgrades import UpgradeGroup
from holdfast.node.layout import Layout

pytestmark = pytest.mark.cluster

SOURCE = (Path(__file__).parent / "apps" / "unreadable.py").read_text(encoding="utf-8")
NAME = "scheduler"
UNREADABLE = "Scheduler.jobs['x'].due: annotated datetime | None, holds float 12.5"


class App:
    """An application's directory, and a domain that has a group of it."""

    def __init__(self, directory: Path) -> None:
        self.source = directory / "app" / "unreadable.py"
        self.source.parent.mkdir()
        self.write("1")
        self.domain = Domain(directory / "d", "--app", str(self.source.parent))
        self.layout = Layout(directory / "d")

    def write(self, version: str) -> None:
        said = f'class Scheduler:\n    version = "{version}"\n'
        self.source.write_text(SOURCE.replace("class Scheduler:\n", said, 1), encoding="utf-8")

    async def upgrade(self, *words: str) -> tuple[int | None, str]:
        """Return how the command ends, and what it prints."""
        for _ in range(TRIES_MAX):
            process = await asyncio.create_subprocess_exec(
                *(*HOLDFAST, "group", "upgrade", NAME, *words, "--dir", str(self.domain.directory)),
                stderr=asyncio.subprocess.PIPE,
            )
            _, said = await process.communicate()
            if not is_starved(said.decode()):
                break
        return process.returncode, said.decode()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    made = App(tmp_path)
    with made.domain:
        made.domain.wait("every host hears every other", is_whole)
        yield made


async def rolled(app: App) -> list[str]:
    """Do what `holdfast group upgrade` does once it has begun, for a state that is spoilt too late for the
    command to see; return what it prints."""

    async def give(wanted: Order, kind: type[Given]) -> Given:
        return await give_at(app.layout, wanted, kind)

    async def try_it() -> str:
        return ""

    said: list[str] = []
    new = await probe(app.source.parent, (), "unreadable:Scheduler")
    await RollingUpgrade(app.layout, give, NAME, new, said.append, try_it).roll()
    return said


def test_upgrades_that_cannot_be_and_code_that_is_put_back(app: App) -> None:
    """All of it uses one domain, because starting one takes longer than any of this."""

    async def work(client: Client) -> None:
        group = await client.connection.create("unreadable:Scheduler", name=NAME, style="warm_passive")
        await client.wait_in_sync(NAME)
        await group.add("first")
        await group.spoil("x")
        app.write("2")
        await refused(app)
        await spoilt_too_late(app, client)
        assert await group.names() == ["first", "x"]
        await group.mend()
        await upgraded_though_killed(app, client)
        assert await group.names() == ["first", "x"]
        await put_back(app, client)

    run(app.domain, work)


async def refused(app: App) -> None:
    """A state that cannot be read back is refused before anything is restarted."""
    for words in (("--dry-run",), ("--yes",)):
        code, said = await app.upgrade(*words)
        assert code == 1, said
        assert UNREADABLE in said
        assert "by calls" in said
        assert "started again" not in said


async def spoilt_too_late(app: App, client: Client) -> None:
    """The command ends with the reason; the old code serves on, and no upgrade is pending."""
    with pytest.raises(NotUpgraded) as caught:
        await asyncio.wait_for(rolled(app), 400)
    assert UNREADABLE in str(caught.value)
    assert "is served by 1" in str(caught.value)
    info = await client.info(NAME)
    assert info.upgrade is None
    assert info.code is not None
    assert info.code.version == "1"
    history = await give_at(client.layout, ShowHistory(name=NAME), GroupHistory)
    dropped = {in_words(each) for each in history.views if each.why == "dropped"}
    assert dropped
    assert all(each.endswith("was dropped: its host is being stopped") for each in dropped), dropped


async def upgraded_though_killed(app: App, client: Client) -> None:
    """The upgrade continues with the new primary, and its messages contain no internal names."""
    upgrading = asyncio.create_task(app.upgrade("--yes"))
    await asyncio.sleep(1.2)  # it asks the primary, or is about to
    signal_holder(app.layout.host((await client.info(NAME)).primary), signal.SIGKILL)
    code, said = await asyncio.wait_for(upgrading, 400)
    assert code == 0, said
    assert "GROUP_ORDER" not in said


async def put_back(app: App, client: Client) -> None:
    """One host had the requested code, and no longer has it: no upgrade is pending."""
    info = await client.wait_in_sync(NAME)
    stray = next(host for host in info.placed_on if host != info.primary)

    async def started_again(version: str) -> None:
        app.write(version)
        signal_holder(app.layout.host(stray), signal.SIGTERM)
        await client.wait(
            NAME, "it has it", lambda found: stray in found.codes and found.codes[stray].version == version
        )

    await started_again("3")
    found = (await client.info(NAME)).codes[stray]
    wanted = UpgradeGroup(name=NAME, version=found.version, digest=found.digest)
    await give_at(client.layout, wanted, GroupList)
    explained = await give_at(client.layout, ExplainGroup(name=NAME), GroupExplained)
    assert any("is wished for" in line for line in explained.code_says)
    await started_again("2")
    await client.wait(NAME, "nothing is wished", lambda found: found.upgrade is None)
    explained = await give_at(client.layout, ExplainGroup(name=NAME), GroupExplained)
    assert explained.code_says == ()
