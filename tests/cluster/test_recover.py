"""`holdfast group recover`: all in-sync disks are lost, and a person decides to continue from what is
left."""

import asyncio
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from domain import HOLDFAST, WAIT_S, Domain, is_whole

from holdfast.cli.admin import give_at, order_at
from holdfast.model.admin.groups import (
    CreateGroup,
    GroupHistory,
    GroupInfo,
    GroupRecovered,
    ListGroups,
    RecoverGroup,
    ShowHistory,
)
from holdfast.model.errors import Unavailable
from holdfast.model.ids import HostId
from holdfast.node.layout import Layout
from holdfast.node.store import STORE

pytestmark = pytest.mark.cluster

EXAMPLES = Path(__file__).parents[2] / "examples"
CUTS_MAX = 5


@pytest.fixture
def domain(tmp_path: Path) -> Iterator[Domain]:
    with Domain(tmp_path / "d", "--app", str(EXAMPLES)) as made:
        made.wait("every host hears every other", is_whole)
        yield made


def typed(domain: Domain, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [*HOLDFAST, *words, "--dir", str(domain.directory)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=False, stdin=subprocess.DEVNULL
    )


def done(domain: Domain, *words: str) -> str:
    ended = typed(domain, *words)
    assert ended.returncode == 0, f"{words}: {ended.stdout} {ended.stderr}"
    return ended.stdout


def shown(domain: Domain) -> GroupInfo:
    return asyncio.run(order_at(Layout(domain.directory), ListGroups(name="ledger")))[0]


def wait_in_sync(domain: Domain, members: int) -> GroupInfo:
    deadline = time.monotonic() + WAIT_S
    while len((found := shown(domain)).in_sync) != members:
        assert time.monotonic() < deadline, f"never {members} in sync: {found}"
        time.sleep(0.1)
    return found


def incarnation(domain: Domain, host: str) -> int:
    (found,) = [each["incarnation"] for each in domain.status()["hosts"] if each["id"] == host]
    return int(found)


def let_fall_behind(domain: Domain, host: str, others: list[HostId]) -> int:
    """Cut *host* off and let the others continue without it; return the balance that it has. On a busy
    machine more may happen than that it is dropped: it restarts and hears everyone, or it is primary for a
    moment and also has what the others were told then. In that case it returns, and is cut off again."""
    for _ in range(CUTS_MAX):
        before, incarnation_before = wait_in_sync(domain, 3), incarnation(domain, host)
        held = int(done(domain, "call", "ledger", "balance", '"alice"'))
        for other in sorted(
            others, key=lambda each: each == before.primary
        ):  # so that it is not primary in between
            done(domain, "chaos", "cut", host, other)
        after = done(domain, "call", "ledger", "deposit", '"alice"', "1", "--timeout", "60")
        assert int(after) == held + 1
        dropped = wait_in_sync(domain, 2)
        if dropped.epoch == before.epoch + 1 and incarnation(domain, host) == incarnation_before:
            assert host not in dropped.in_sync
            return held
        for other in others:
            done(domain, "chaos", "heal", host, other)
    raise AssertionError(f"more happened each time than that {host} was dropped")


def inspected(domain: Domain) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(
        done(domain, "group", "recover", "ledger", "--output", "json")
    )
    return found


def test_a_group_whose_in_sync_disks_are_lost_goes_on_from_what_is_left(domain: Domain) -> None:
    """The command shows what would be lost, changes nothing without consent, and leaves a record in the
    history."""
    layout = Layout(domain.directory)
    asyncio.run(order_at(layout, CreateGroup(name="ledger", class_name="ledger:Ledger")))
    group = wait_in_sync(domain, 3)
    behind = next(host for host in group.in_sync if host != group.primary)
    assert done(domain, "call", "ledger", "deposit", '"alice"', "5") == "5\n"

    ended = typed(domain, "group", "recover", "nobody", "--from", behind, "--yes")
    assert (ended.returncode, "there is no group 'nobody'" in ended.stderr) == (2, True)

    # While the group is served there is nothing to recover.
    assert inspected(domain)["is_served"]
    ended = typed(domain, "group", "recover", "ledger", "--from", behind, "--yes")
    assert (ended.returncode, "nothing is to be recovered" in ended.stderr) == (2, True)

    # One member is cut off and dropped; the others continue, and then their disks are destroyed.
    others = [HostId(host) for host in group.in_sync if host != behind]
    held = let_fall_behind(domain, behind, others)
    domain.run("down")
    for other in others:
        shutil.rmtree(layout.host(other) / STORE)
    domain.up()
    domain.wait("every host hears every other", is_whole)

    deadline = time.monotonic() + WAIT_S
    while (found := inspected(domain))["silent"]:
        assert time.monotonic() < deadline, found
    assert not found["is_served"]
    members = {each["host"]: each for each in found["members"]}
    assert members[behind]["position"] > 0
    assert not members[behind]["is_listed"]

    # Without consent it changes nothing; nor for someone who looked at another view.
    ended = typed(domain, "group", "recover", "ledger", "--from", behind)
    assert (ended.returncode, "say --yes" in ended.stderr) == (2, True)
    stale = RecoverGroup(name="ledger", source=behind, epoch=found["epoch"] - 1)
    with pytest.raises(Unavailable, match="look again"):
        asyncio.run(give_at(layout, stale, GroupRecovered))
    assert shown(domain).epoch == found["epoch"]

    done(domain, "group", "recover", "ledger", "--from", behind, "--yes")
    assert done(domain, "call", "ledger", "balance", '"alice"', "--timeout", "60") == f"{held}\n"
    assert done(domain, "call", "ledger", "deposit", '"alice"', "2", "--timeout", "60") == f"{held + 2}\n"
    views = asyncio.run(give_at(layout, ShowHistory(name="ledger"), GroupHistory)).views
    (recovered,) = [each for each in views if each.why == "recovered"]
    assert recovered.primary == behind
    assert "more may be lost" in recovered.text
    wait_in_sync(domain, 3)
