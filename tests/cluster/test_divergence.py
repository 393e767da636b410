"""A host on which a class computes different results: it has no object, says so, is never primary, and comes
back (E8)."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from domain import WAIT_S, Domain, is_whole
from group_client import Client, run

import holdfast as hf
from holdfast.cli.admin import give_at
from holdfast.model.admin.groups import ExplainGroup, GroupExplained, GroupInfo
from holdfast.model.errors import OutcomeUnknown, Unavailable
from holdfast.model.ids import HostId

pytestmark = pytest.mark.cluster

APPS = Path(__file__).parent / "apps"
OFTEN = {"CheckpointInterval": 500_000}
"""In units of 100 ns: states are compared twenty times a second, while anything happens. That is as often as
a state takes to reach a host that returns, which must catch up all the same (M4)."""


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("divergence") / "d", "--app", str(APPS)) as made:
        made.wait("every host hears every other", is_whole)
        yield made


class Adder:
    """Adds 1 again and again, and knows the expected total."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.total = 0

    async def add(self) -> None:
        assert await self.group.add(1) == self.total + 1
        self.total += 1


async def explained(
    client: Client, adder: Adder, name: str, holds: Callable[[GroupExplained], bool]
) -> GroupExplained:
    """Continue adding until *holds* is true of the group's explanation."""
    deadline = time.monotonic() + WAIT_S
    found = None
    while time.monotonic() < deadline:
        await adder.add()
        try:
            found = await give_at(client.layout, ExplainGroup(name=name), GroupExplained)
        except (Unavailable, OutcomeUnknown):
            continue
        if holds(found):
            return found
    raise AssertionError(f"did not happen within {WAIT_S:g} s: {found}")


async def shown_by_status(domain: Domain, text: str) -> None:
    """Wait until `holdfast status` says *text*: it shows what hosts have reported, which is a moment old."""
    end = asyncio.get_running_loop().time() + WAIT_S
    while text not in (said := (await asyncio.to_thread(domain.told, "status")).stdout).replace("\n", ""):
        assert asyncio.get_running_loop().time() < end, said


def lacking(found: GroupInfo) -> list[HostId]:
    return [each.host for each in found.without_object]


@pytest.mark.parametrize("style", ["active", "warm_passive"])
def test_a_host_that_computes_otherwise_leads_nobody(domain: Domain, tmp_path: Path, style: str) -> None:
    """It stays in sync and acknowledges; `explain`, `group show` and `status` say why; the group is not
    handed to it, and when the primary dies another takes over. Repaired and restarted, it is a full member
    again."""
    name = f"swayed-{style}"

    async def work(client: Client) -> None:
        made = await client.connection.create(
            "swayed:Swayed",
            name=name,
            args=[str(tmp_path)],
            style=style,
            properties=OFTEN if style == "active" else {},
        )
        found = await client.wait_in_sync(name)
        adder = Adder(made)
        await adder.add()
        other, swayed = [host for host in found.placed_on if host != found.primary]
        mark = tmp_path / str(await client.pid(swayed))
        mark.touch()
        if style == "warm_passive":
            # It executes nothing again before it takes over, and then computes replies that differ from those
            # given.
            await asyncio.to_thread(domain.told, "group", "handover", name, swayed)

        def stays_without(said: GroupExplained) -> bool:
            return (
                lacking(said.group) == [swayed] and "start the host anew" in said.group.without_object[0].why
            )

        if style == "active":
            said = await explained(client, adder, name, stays_without)
            assert said.is_served
            assert set(said.group.in_sync) == set(found.placed_on), "it holds what is acknowledged"
            assert any(f"{swayed} has no object" in line for line in said.members)
            shown = json.loads(
                (await asyncio.to_thread(domain.told, "group", "show", name, "--output", "json")).stdout
            )
            assert [each["host"] for each in shown["without_object"]] == [swayed]
            await shown_by_status(domain, f"{swayed} has no object of {name}")
            refused = await asyncio.to_thread(domain.told, "group", "handover", name, swayed)
            assert refused.returncode != 0
            os.kill(await client.pid(found.primary), signal.SIGKILL)
            await adder.add()
            assert (await client.info(name)).primary == other
            # One member away at a time: this is about objects that differ, not about how soon two return.
            everybody = set(found.placed_on)
            await explained(client, adder, name, lambda said: set(said.group.in_sync) == everybody)
        else:
            said = await explained(client, adder, name, lambda said: said.is_served)
            assert said.group.primary != swayed
        assert await made.total() == adder.total

        mark.unlink()
        os.kill(await client.pid(swayed), signal.SIGKILL)
        await explained(
            client,
            adder,
            name,
            lambda said: (
                not said.group.without_object
                and said.is_served
                and set(said.group.in_sync) == set(found.placed_on)
            ),
        )
        await asyncio.to_thread(domain.told, "group", "handover", name, swayed)
        assert (await client.info(name)).primary == swayed
        assert await made.total() == adder.total

    run(domain, work)


@pytest.mark.parametrize("style", ["active", "warm_passive"])
def test_sets_within_replies_part_nobody_from_the_group(domain: Domain, style: str) -> None:
    """Each host iterates over a set in its own order, and gives the same replies when it executes again, as a
    member next to the primary and as the next primary."""
    name = f"tagged-{style}"

    async def work(client: Client) -> None:
        made = await client.connection.create(
            "tagged:Tagged", name=name, style=style, properties=OFTEN if style == "active" else {}
        )
        found = await client.wait_in_sync(name)
        expected: set[str] = set()
        for number in range(1, 13):
            expected |= {f"tag {number}", f"mark {number}"}
            tags = {"tags": sorted(expected, key=lambda tag: (len(tag), tag))}
            assert await made.add(1) == tags
            assert (await made.entry())["tags"] == (await made.anything())[1]["in"] == tags["tags"]
            with pytest.raises(hf.MethodRaised, match=r"KeyError: frozenset\(\{'mark 1', "):
                await made.fail()
        for host in [each for each in found.placed_on if each != found.primary]:
            await asyncio.to_thread(domain.told, "group", "handover", name, host)
            assert (await client.info(name)).primary == host
            assert (await made.entry())["tags"] == tags["tags"]
        said = await give_at(client.layout, ExplainGroup(name=name), GroupExplained)
        assert said.group.without_object == ()

    run(domain, work)
