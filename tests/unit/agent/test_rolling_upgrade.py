"""In which order the hosts of a group get new code (E7)."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from holdfast.agent.rolling_upgrade import (
    FAILING_S,
    NotUpgraded,
    Returned,
    Takeover,
    is_served_by,
    probe,
    to_restart,
)
from holdfast.app_code.finder import BadClass
from holdfast.app_code.known_code import code_says
from holdfast.model.admin.groups import GroupExplained, GroupInfo, WithoutObject
from holdfast.model.admin.upgrades import CodeInfo
from holdfast.model.code import Code
from holdfast.model.ids import Epoch, GroupId, HostId
from holdfast.styles.code_replay import TRIED

A, B, C = map(HostId, "abc")
OLD, NEW = Code("1", "aaaaaaaaaa"), Code("2", "bbbbbbbbbb")


def group(
    primary: HostId, served: Code | None = None, upgrade: Code | None = None, **codes: Code
) -> GroupInfo:
    return GroupInfo(
        name="g",
        group=GroupId(1),
        class_name="app:Counter",
        style="active",
        epoch=Epoch(1),
        primary=primary,
        in_sync=(A, B, C),
        placed_on=(A, B, C),
        min_in_sync=2,
        code=CodeInfo.of(served) if served is not None else None,
        codes={HostId(host): CodeInfo.of(code) for host, code in codes.items()},
        upgrade=CodeInfo.of(upgrade) if upgrade is not None else None,
    )


def test_backups_come_before_the_primary_and_who_has_it_not_at_all() -> None:
    """An interrupted upgrade continues with the remaining hosts, including those with unreported code."""
    assert to_restart(group(B, OLD, a=OLD, b=OLD, c=OLD), NEW) == [A, C, B]
    assert to_restart(group(B, OLD, a=NEW, b=OLD, c=OLD), NEW) == [C, B]
    assert to_restart(group(A, NEW, a=NEW, b=OLD), NEW) == [B, C]
    assert to_restart(group(A, NEW, a=NEW, b=NEW, c=NEW), NEW) == []


def test_code_is_the_same_by_its_digest() -> None:
    assert is_served_by(group(A, Code("another name", NEW.digest)), NEW)
    assert not is_served_by(group(A), NEW)


def test_who_has_other_code_and_what_is_wished_is_said() -> None:
    assert list(code_says(group(A, OLD, a=OLD, b=OLD, c=OLD))) == []
    assert list(code_says(group(A, OLD, NEW, a=OLD, b=NEW))) == [
        "2 (bbbbbbbb) is wished for; the group's code is 1 (aaaaaaaa)",
        "b has code 2 (bbbbbbbb); the group's is 1 (aaaaaaaa)",
    ]
    (said,) = code_says(group(A, OLD, b=Code("1", "cccc")))
    assert said.endswith("(both call themselves '1')")


def told(info: GroupInfo, *, is_served: bool, why: str = "") -> GroupExplained:
    """What `explain` answers; *why* is the reason that b, which has the new code, has no object."""
    lacking = (WithoutObject(host=B, why=why, since_ns=0, never_leads=False),) if why else ()
    return GroupExplained(
        group=msgspec.structs.replace(info, without_object=lacking),
        is_served=is_served,
        members=(),
        group_says=(),
        manager_says=(),
    )


CODES = {"a": OLD, "b": NEW, "c": NEW}
FAILED = f"2 operations: {TRIED} Scheduler.jobs['x'].due cannot be read back"


def test_a_takeover_is_over_when_the_new_code_serves() -> None:
    takeover = Takeover(NEW, OLD)
    assert not takeover.is_over(told(group(B, OLD, **CODES), is_served=False), 0.0)
    assert takeover.is_over(told(group(B, NEW, **CODES), is_served=True), 100.0)


def test_one_that_failed_ends_with_the_reason_when_the_old_code_serves_again() -> None:
    takeover, back = Takeover(NEW, OLD), told(group(A, OLD, **CODES), is_served=True, why=FAILED)
    assert not takeover.is_over(back, 0.0)  # perhaps it has not been handed over yet
    with pytest.raises(NotUpgraded, match=r"g is served by 1 .* again: b: .*jobs\['x'\].due"):
        takeover.is_over(back, 3.0)


def test_old_code_that_is_back_because_somebody_died_is_no_failure() -> None:
    takeover, back = Takeover(NEW, OLD), told(group(A, OLD, **CODES), is_served=True, why="can execute them")
    away = told(group(B, OLD, **CODES), is_served=False)
    assert not takeover.is_over(back, 0.0)
    assert not takeover.is_over(away, 2.0)
    assert not takeover.is_over(back, 3.0)
    with pytest.raises(Returned):
        takeover.is_over(back, 6.0)


def test_one_that_goes_on_failing_while_nobody_serves_ends_with_the_reason_too() -> None:
    """A failure may be the machine's; old code that is still replaying is not a failure."""
    takeover, codes = Takeover(NEW, OLD), {"a": NEW, "b": NEW, "c": NEW}
    working = told(group(B, OLD, **codes), is_served=False, why="a kept copy executes them now")
    assert not takeover.is_over(working, 0.0)
    assert not takeover.is_over(working, 10 * FAILING_S)
    failing = told(group(B, OLD, **codes), is_served=False, why=FAILED)
    assert not takeover.is_over(failing, 10 * FAILING_S + 1)
    with pytest.raises(NotUpgraded, match=r"put 1 \(aaaaaaaa\) back and order this again"):
        takeover.is_over(failing, 11 * FAILING_S + 2)


def test_a_class_is_looked_at_in_a_process_of_its_own(tmp_path: Path) -> None:
    """The process sees what a newly started host would; what the module prints or raises does no harm."""
    (tmp_path / "probed.py").write_text(
        "print('hello')\nclass Counter:\n    version = '7'\n    def add(self): ...\n"
    )
    found = asyncio.run(probe(tmp_path, (), "probed:Counter"))
    assert found.version == "7"
    assert len(found.digest) == 32
    (tmp_path / "probed.py").write_text("class Counter:\n    def add(self): ...\nraise SystemExit('no')\n")
    with pytest.raises(BadClass, match="no"):
        asyncio.run(probe(tmp_path, (), "probed:Counter"))
