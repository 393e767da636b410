"""The commands that people use for groups: histories, handovers, and deliberate faults."""

import asyncio
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from domain import HOLDFAST, WAIT_S, Domain, is_whole

from holdfast.agent.status_client import url_of
from holdfast.calling.config import CallPolicy
from holdfast.cli.admin import give_at, order_at
from holdfast.cli.main import app
from holdfast.client.domain import connect
from holdfast.model.admin.groups import (
    CreateGroup,
    GroupHistory,
    GroupInfo,
    ListGroups,
    ShowHistory,
    ViewInfo,
)
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import SECOND
from holdfast.node.layout import Layout

pytestmark = pytest.mark.cluster

EXAMPLES = Path(__file__).parents[2] / "examples"
POLICY = CallPolicy(duration_ns=60 * SECOND)


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Domain]:
    with Domain(tmp_path_factory.mktemp("people") / "d", "--app", str(EXAMPLES)) as made:
        yield made


@pytest.fixture
def whole(domain: Domain) -> Domain:
    domain.wait("every host hears every other", is_whole)
    return domain


def done(domain: Domain, *words: str) -> str:
    """Return the output of a command that must succeed."""
    command = [*HOLDFAST, *words, "--dir", str(domain.directory)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, f"{words}: {ended.stdout} {ended.stderr}"
    return ended.stdout + ended.stderr


def refused(domain: Domain, *words: str) -> str:
    """Return the one line that a misused command prints."""
    with pytest.raises(InvalidRequest) as raised:
        app([*words, "--dir", str(domain.directory)], exit_on_error=False, result_action="return_value")
    said = str(raised.value)
    assert len(said.splitlines()) == 1
    return said


def wait_for(what: str, found: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + WAIT_S
    while not holds(value := found()):
        assert time.monotonic() < deadline, f"did not happen within {WAIT_S:g} s: {what}; {value}"
        time.sleep(0.1)
    return value


def shown(domain: Domain, name: str) -> GroupInfo:
    return asyncio.run(order_at(Layout(domain.directory), ListGroups(name=name)))[0]


def group_of_three(domain: Domain, name: str) -> GroupInfo:
    """Create a group, and return once all of its members are in sync."""
    asyncio.run(order_at(Layout(domain.directory), CreateGroup(name=name, class_name="ledger:Ledger")))
    return all_in_sync(domain, name)


def all_in_sync(domain: Domain, name: str) -> GroupInfo:
    found: GroupInfo = wait_for(
        "three members in sync", lambda: shown(domain, name), lambda group: len(group.in_sync) == 3
    )
    return found


def views_until(domain: Domain, name: str, holds: Callable[[tuple[ViewInfo, ...]], bool]) -> Any:
    def views() -> tuple[ViewInfo, ...]:
        return asyncio.run(give_at(Layout(domain.directory), ShowHistory(name=name), GroupHistory)).views

    return wait_for("the history tells it", views, holds)


def said_of(said: str, pattern: str) -> str:
    """Return whom a command says that it has hit."""
    found = re.search(pattern, said)
    assert found is not None, said
    return found[1]


def a_backup(group: GroupInfo) -> str:
    return next(host for host in group.in_sync if host != group.primary)


def deaf(status: dict[str, Any]) -> dict[str, list[str]]:
    """Return which hosts each host ignores."""
    return {host["id"]: list(host["report"]["deaf_to"]) for host in status["hosts"] if host["report"]}


@pytest.mark.covers("FTC-77")
def test_the_history_says_why_each_view_changed(whole: Domain) -> None:
    """Creation, members that caught up, and a killed primary, with the steps measured."""
    group_of_three(whole, "told")
    killed = said_of(done(whole, "chaos", "kill-primary", "told"), r"killed (\S+), the primary of told")

    def claims(views: tuple[ViewInfo, ...]) -> list[ViewInfo]:
        # On a machine so slow that the lease expires before the agent reports, it is a claim after silence.
        return [each for each in views if each.why in ("dead", "silent") and each.host == killed]

    views = views_until(whole, "told", lambda views: any(each.ready_ms is not None for each in claims(views)))
    assert [each.epoch for each in views] == sorted({each.epoch for each in views})
    assert (views[0].epoch, views[0].why) == (1, "created")
    assert [each.why for each in views].count("added") >= 2
    claim = next(each for each in claims(views) if each.ready_ms is not None)
    assert claim.primary != killed
    assert 0 <= claim.claimed_ms <= claim.committed_ms <= claim.ready_ms
    said = " ".join(done(whole, "group", "history", "told").split())
    assert "the group was created" in said
    assert f"{killed} died" in said or f"{killed} was silent" in said
    printed = msgspec.json.decode(done(whole, "group", "history", "told", "--output", "json"))
    assert [each["epoch"] for each in printed["views"]][: len(views)] == [each.epoch for each in views]


def test_a_hand_over_moves_the_primary_and_fails_no_call(whole: Domain) -> None:
    """It happens under load, twice; the history says that it was requested."""
    group_of_three(whole, "handed")
    layout = Layout(whole.directory)

    async def work() -> int:
        async with connect(
            await url_of(layout, layout.read()), dir=layout.directory, policy=POLICY
        ) as connection:
            ledger = await connection.group("handed")
            is_over = asyncio.Event()
            calls = 0

            async def deposit(account: str) -> None:
                nonlocal calls
                while not is_over.is_set():
                    await ledger.deposit(account, 1)
                    calls += 1

            callers = [asyncio.create_task(deposit(f"account {each}")) for each in range(8)]
            for _ in range(2):
                group = await asyncio.to_thread(all_in_sync, whole, "handed")
                to = a_backup(group)
                said = await asyncio.to_thread(done, whole, "group", "handover", "handed", to)
                assert f"{to} is the primary of handed" in said
            is_over.set()
            await asyncio.gather(*callers)  # a failed call would raise here
            assert await ledger.total() == calls
            return calls

    assert asyncio.run(work()) > 0
    views_until(whole, "handed", lambda views: [each.why for each in views].count("released") >= 2)


def test_only_an_in_sync_backup_is_handed_a_group(whole: Domain) -> None:
    done(whole, "group", "create", "single", "ledger:Ledger", "--replicas", "1")
    primary = shown(whole, "single").primary
    other = next(host for host in ("host1", "host2") if host != primary)
    said = refused(whole, "group", "handover", "single", other)
    assert said == f"single has no member on {other}; its members are on {primary}"
    assert f"{primary} is the primary of single" in done(whole, "group", "handover", "single", primary)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("group", "handover", "strict", "host9"), "there is no host 'host9' here"),
        (("group", "handover", "nobody", "host1"), "there is no group 'nobody'"),
        (("group", "history", "nobody"), "there is no group 'nobody'"),
        (("chaos", "kill-host", "host9"), "there is no host 'host9' here"),
        (("chaos", "kill-primary", "nobody"), "there is no group 'nobody'"),
        (("chaos", "pause-primary", "nobody"), "there is no group 'nobody'"),
        (("chaos", "pause-primary", "nobody", "--seconds", "0"), "a pause takes more than 0 s"),
        (("chaos", "cut", "host1", "host1"), "cannot be cut off from itself"),
        (("chaos", "cut", "host1", "host9"), "there is no host 'host9' here"),
        (("chaos", "heal", "host1"), "name two hosts, or none"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(whole: Domain, words: tuple[str, ...], said: str) -> None:
    assert said in refused(whole, *words)


def test_a_paused_primary_loses_its_group_and_comes_back_as_a_backup(whole: Domain) -> None:
    group_of_three(whole, "paused")
    said = done(whole, "chaos", "pause-primary", "paused", "--seconds", "2.5")
    paused = said_of(said, r"paused (\S+), the primary of paused")
    assert f"{paused} goes on" in said
    views_until(
        whole,
        "paused",
        lambda views: any(
            each.why == "silent" and each.host == paused and each.primary != paused for each in views
        ),
    )
    all_in_sync(whole, "paused")


def test_a_primary_cut_off_from_one_backup_goes_on_without_it(whole: Domain) -> None:
    """The cut shows in the status. Healed, all are in sync again and nothing acknowledged is lost."""
    group = group_of_three(whole, "parted")
    one, other = group.primary, a_backup(group)
    assert "hear nothing of each other" in done(whole, "chaos", "cut", one, other)
    try:
        whole.wait(
            "the status shows the cut",
            lambda status: deaf(status).get(one) == [other] and deaf(status).get(other) == [one],
        )
        assert f"{one} hears nothing of {other}" in done(whole, "status")
        # Whichever of the two then has the group, calls continue with the third.
        assert done(whole, "call", "parted", "deposit", '"alice"', "5", "--timeout", "60") == "5\n"
    finally:
        done(whole, "chaos", "heal")
    all_in_sync(whole, "parted")
    assert done(whole, "call", "parted", "balance", '"alice"', "--timeout", "60") == "5\n"


def test_a_cut_ends_with_the_process_that_was_told(whole: Domain) -> None:
    """The cut is one-way: only the second host ignores the other. Killed and restarted, it hears everyone."""
    done(whole, "chaos", "cut", "host1", "host2", "--one-way")
    cut_off = whole.wait("host2 is deaf", lambda status: deaf(status).get("host2") == ["host1"])
    assert deaf(cut_off)["host1"] == []
    assert "killed host2" in done(whole, "chaos", "kill-host", "host2")
    whole.wait(
        "the next process hears everybody", lambda status: is_whole(status) and deaf(status)["host2"] == []
    )
