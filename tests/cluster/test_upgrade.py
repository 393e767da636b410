"""New code: what was acknowledged does not change, and what comes next is computed by the new code (E7)."""

import asyncio
import shutil
import subprocess
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pytest
from domain import HOLDFAST, TRIES_MAX, WAIT_S, Domain, is_starved, is_whole
from group_client import Client, run

from holdfast.cli.admin import give_at
from holdfast.client.proxy import Group
from holdfast.model.admin.groups import ExplainGroup, GroupExplained, GroupHistory, GroupInfo, ShowHistory
from holdfast.model.ids import HostId

pytestmark = pytest.mark.cluster

ADDING = """
class Counter:
    version = "{version}"

    def __init__(self):
        self.count = 0

    def add(self, by):
        self.count += by * {times}
        return self.count
"""
STYLES = ("cold_passive", "warm_passive", "active")


class App:
    """An application's directory with one class, and a domain that has groups of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "app"
        self.directory.mkdir()
        self.write("1", 1)
        self.domain = Domain(directory / "d", "--app", str(self.directory))

    def write(self, version: str, times: int) -> None:
        (self.directory / "adding.py").write_text(ADDING.format(version=version, times=times))

    def up(self) -> None:
        self.domain.up()
        self.domain.wait("every host hears every other", is_whole)

    def group(self, *words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run `holdfast group` with these words."""
        command = [*HOLDFAST, "group", *words, "--dir", str(self.domain.directory)]
        for _ in range(TRIES_MAX):
            done = subprocess.run(command, capture_output=True, text=True, timeout=4 * WAIT_S, check=False)
            if not is_starved(done.stderr):
                break
        assert not check or done.returncode == 0, f"{words}: {done.stderr}"
        return done

    def forget_code(self) -> None:
        for host in (self.domain.directory / "hosts").iterdir():
            shutil.rmtree(host / "code")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    made = App(tmp_path)
    with made.domain:
        made.domain.wait("every host hears every other", is_whole)
        yield made


async def created(client: Client, style: str) -> Group[Any]:
    return await client._insist(lambda: client.connection.create("adding:Counter", name=style, style=style))


def history(client: Client, name: str) -> Awaitable[GroupHistory]:
    return give_at(client.layout, ShowHistory(name=name), GroupHistory)


def explained(client: Client, name: str) -> Awaitable[GroupExplained]:
    return give_at(client.layout, ExplainGroup(name=name), GroupExplained)


def complaints(status: dict[str, Any]) -> list[str]:
    """Return what the hosts tell their agent about their groups."""
    return [line for host in status["hosts"] if host["report"] for line in host["report"]["other_code"]]


async def told(client: Client, name: str) -> list[str]:
    """Return the changes of its code, as soon as there is one: histories are written with a delay."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        found = await history(client, name)
        if found.code_changes:
            return [f"{each.from_code[0]} to {each.to_code[0]}" for each in found.code_changes]
        await asyncio.sleep(0.1)
    raise AssertionError(f"the history of {name} tells of no other code: {found}")


async def ten_calls(client: Client) -> None:
    for style in STYLES:
        group = await created(client, style)
        assert [await group.add(1) for _ in range(10)] == list(range(1, 11))


async def twelve(client: Client) -> None:
    for style in STYLES:
        assert await (await client.group(style)).add(1) == 12
        assert await told(client, style) == ["1 to 2"]


def test_what_was_acknowledged_before_an_edit_stays_as_it_was(app: App) -> None:
    """Ten add(1), down, the method adds twice as much, up: the value is 10, and one more makes 12."""
    run(app.domain, ten_calls)
    app.domain.run("down")
    app.write("2", 2)
    app.up()
    run(app.domain, twelve)


def test_the_same_when_everything_was_killed(app: App) -> None:
    """The calls are only in the log, and are replayed by the code that made them."""
    run(app.domain, ten_calls)
    app.domain.kill()
    app.write("2", 2)
    app.up()
    run(app.domain, twelve)


def test_without_the_kept_copy_it_waits_for_a_person(app: App) -> None:
    """The person is told in one line what to do; what they order may change what was acknowledged."""

    async def ten(client: Client) -> None:
        group = await created(client, "active")
        assert [await group.add(1) for _ in range(10)] == list(range(1, 11))

    run(app.domain, ten)
    app.domain.kill()
    app.write("2", 2)
    app.forget_code()
    app.up()

    async def refused(client: Client) -> str:
        for _ in range(600):
            found = await explained(client, "active")
            said = " ".join((*found.group_says, *found.members))
            if not found.is_served and said.count("--replay") == 3:
                return said
            await asyncio.sleep(0.1)
        raise AssertionError(f"nobody says why: {found}")

    said = run(app.domain, refused)
    assert "10 operations since the beginning were made by code 1" in said
    assert "`holdfast group upgrade active --replay`" in said
    app.group("upgrade", "active", "--replay", "--yes")

    async def replayed(client: Client) -> None:
        assert await (await client.group("active")).add(1) == 22

    run(app.domain, replayed)


def test_new_code_on_one_host_only_waits_and_says_so(app: App) -> None:
    """It acknowledges what the others order, and the group is not handed to it; with the old code back it
    serves like any other."""

    async def begun(client: Client) -> None:
        group = await created(client, "warm_passive")
        assert await group.add(1) == 1
        info = await client.wait_in_sync("warm_passive")
        stray = next(host for host in info.placed_on if host != info.primary)
        app.write("2", 2)
        await client.kill(stray)
        info = await client.wait("warm_passive", "it is back", lambda found: _version(found, stray) == "2")
        await client.wait_in_sync("warm_passive")
        found = await explained(client, "warm_passive")
        assert found.is_served
        assert any(f"{stray} has code 2" in line for line in found.code_says)
        assert [await group.add(1) for _ in range(9)] == list(range(2, 11))

    run(app.domain, begun)
    app.domain.wait(
        "its host says so", lambda status: any("here is 2" in each for each in complaints(status))
    )

    async def killed(client: Client) -> None:
        """The primary dies: another host with the old code serves, not the one with the new code."""
        await client.kill_primary("warm_passive")
        assert await (await client.group("warm_passive")).add(1) == 11

    app.write("1", 1)
    run(app.domain, killed)


def _version(info: GroupInfo, host: HostId) -> str:
    return info.codes[host].version if host in info.codes else ""


LACKING = """
class Counter:
    version = "2"

    def __init__(self):
        self.count = 0
        self.made = 0

    def add(self, by):
        self.count += 2 * by
        self.made += 1
        return self.count
"""
TAKING_OVER = f"""{LACKING}
    def upgraded(self, from_version):
        self.made = 100
"""


def test_a_trial_changes_nothing_and_an_upgrade_does_what_it_told(app: App) -> None:
    """An upgrade that would be refused is refused before anything is restarted."""

    async def ten(client: Client) -> None:
        group = await created(client, "warm_passive")
        assert [await group.add(1) for _ in range(10)] == list(range(1, 11))

    run(app.domain, ten)
    pids = [host["pid"] for host in app.domain.status()["hosts"]]
    same = app.group("upgrade", "warm_passive", "--yes", check=False)
    assert same.returncode == 1
    assert "nothing to upgrade" in same.stderr
    source = app.directory / "adding.py"
    source.write_text("import nothing_that_there_is")
    broken = app.group("upgrade", "warm_passive", "--yes", check=False)
    assert broken.returncode == 2
    source.write_text(LACKING)
    refused = app.group("upgrade", "warm_passive", "--dry-run", check=False)
    assert refused.returncode == 1
    assert "made" in refused.stderr
    unasked = app.group("upgrade", "warm_passive", "--yes", check=False)
    assert unasked.returncode == 1
    assert "made" in unasked.stderr
    source.write_text(TAKING_OVER)
    told = app.group("upgrade", "warm_passive", "--dry-run")
    assert "made is new" in told.stderr
    assert "count would be 20; it stays 10" in told.stderr
    assert pids == [host["pid"] for host in app.domain.status()["hosts"]]

    done = app.group("upgrade", "warm_passive", "--yes")
    assert "upgraded 1" in done.stderr

    async def eleventh(client: Client) -> None:
        assert await (await client.group("warm_passive")).add(1) == 12
        info = await client.info("warm_passive")
        assert {each.version for each in info.codes.values()} == {"2"}
        assert len(info.codes) == 3

    run(app.domain, eleventh)
