"""States that cannot be read back: no checkpoint is made of them, the service continues, and after a restart
of all hosts everything acknowledged is served (E9)."""

import asyncio
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from domain import HOLDFAST, WAIT_S, Domain, is_whole
from group_client import Client, run

from holdfast.cli.admin import give_at
from holdfast.model.admin.groups import ExplainGroup, GroupExplained, GroupHistory, ShowHistory

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"
INTERVAL = 2_000_000
"""0.2 s, in units of 100 ns."""
GROUPS: dict[str, tuple[str, str, list[Any], str]] = {
    "scheduler": (
        "Scheduler",
        "warm_passive",
        [],
        "Scheduler.jobs['x'].due: annotated datetime | None, holds float 12.5",
    ),
    "large": (
        "Scheduler",
        "warm_passive",
        [400_000],
        "Scheduler.jobs['x'].due: annotated datetime | None, holds float 12.5",
    ),
    "refusing": (
        "Refusing",
        "cold_passive",
        [],
        "Refusing.set_state does not take what Refusing.get_state gave: ValueError: a name ends",
    ),
    "changing": (
        "Changing",
        "active",
        [],
        "Changing.rows[1] holds tuple ('x', 1) and would come back as list ['x', 1]",
    ),
}


async def why(client: Client, name: str) -> set[str]:
    """Return why its last checkpoints failed, as `holdfast group show` says."""
    told = await give_at(client.layout, ShowHistory(name=name), GroupHistory)
    return {each.why for each in told.checkpoints_failed}


async def until_told(client: Client, name: str, expected: str) -> None:
    """Wait until that is the reason why checkpoints of the group fail."""
    async with asyncio.timeout(WAIT_S):
        while not any(expected in each for each in await why(client, name)):
            await asyncio.sleep(0.1)


async def explained(client: Client, name: str) -> GroupExplained:
    return await give_at(client.layout, ExplainGroup(name=name), GroupExplained)


def shown_by(domain: Domain, *words: str) -> str:
    """Return what `holdfast` tells a person, on one line."""
    command = [*HOLDFAST, *words, "--dir", str(domain.directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return " ".join((done.stdout + done.stderr).split())


async def until_well(client: Client, name: str) -> None:
    """Wait until no member's checkpoints fail any more; backups make theirs when there is something to do."""
    group = await client.group(name)
    async with asyncio.timeout(WAIT_S):
        while await why(client, name):
            await group.add("again")
            await asyncio.sleep(0.2)


async def look(client: Client, *expected: str) -> None:
    """Require that everything acknowledged is there, and that the groups take calls."""
    for name in GROUPS:
        group = await client.group(name)
        assert await group.names() == ["first", "x", *expected], name
        assert await group.add(f"{len(expected)}") == 3 + len(expected), name


def test_states_that_cannot_be_read_back(tmp_path: Path) -> None:
    """States of every kind, small and large, in every style; all hosts are killed, and stopped in an orderly
    way."""
    with Domain(tmp_path / "d", "--app", str(APPS)) as domain:
        domain.wait("every host hears every other", is_whole)

        async def spoil(client: Client) -> None:
            for name, (cls, style, args, _) in GROUPS.items():
                group = await client.connection.create(
                    f"unreadable:{cls}",
                    name=name,
                    style=style,
                    args=args,
                    properties={"CheckpointInterval": INTERVAL},
                )
                await client.wait_in_sync(name)
                assert await group.add("first") == 1
            await asyncio.sleep(1.0)  # checkpoints of readable states
            for name, (*_, expected) in GROUPS.items():
                group = await client.group(name)
                assert await group.spoil("x") == 2
                await until_told(client, name, expected)
            for name, (*_, expected) in GROUPS.items():
                said = await explained(client, name)
                assert said.is_served
                assert any(expected in each for each in said.checkpoint_says), said
            await look(client)
            await client.kill_all()
            await look(client, "0")
            await asyncio.sleep(1.0)
            await look(client, "0", "1")  # a member tries again when a call comes after the interval
            for name, (*_, expected) in GROUPS.items():
                await until_told(client, name, expected)
                said = await explained(client, name)
                assert not said.group_says
            # Again, now that all of it was replayed.
            for name in GROUPS:
                await client.wait_in_sync(name)
                await until_told(client, name, GROUPS[name][-1])

        run(domain, spoil)
        *_, expected = GROUPS["scheduler"]
        shown = shown_by(domain, "explain", "scheduler")
        assert expected in shown
        assert "put right what is named" in shown
        assert "as wished for" not in shown
        assert "the last checkpoint failed" in shown_by(domain, "group", "show", "scheduler")
        deadline = time.monotonic() + WAIT_S  # hosts report now and then
        while "the last checkpoint of scheduler failed on host" not in (shown := shown_by(domain, "status")):
            assert time.monotonic() < deadline, shown
        faults = shown_by(domain, "faults", "list", "--where", "$type_name == 'CheckpointFailed'")
        assert "Scheduler.jobs['x'].due: annotated datetime | None, holds float 12.5" in faults
        domain.run("down")
        domain.up()

        async def mend(client: Client) -> None:
            await look(client, "0", "1", "2")
            held = {}
            for name in GROUPS:
                group = await client.group(name)
                await group.mend()
                await until_well(client, name)
                assert not (await explained(client, name)).checkpoint_says
                held[name] = await group.names()
            await client.kill_all()
            for name, names in held.items():
                assert names[:6] == ["first", "x", "0", "1", "2", "3"]
                assert await (await client.group(name)).names() == names

        run(domain, mend)
        said = "".join(path.read_text(encoding="utf-8") for path in domain.directory.rglob("*.log"))
        told = [line for line in said.splitlines() if "kind=checkpoint_failed" in line]
        lives, members = 3, 3
        assert 0 < len(told) <= len(GROUPS) * members * lives, "once per reason, member and process"
