"""`holdfast log inspect` on complete, damaged, foreign and running stores."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from storage_machine import FIRST, A, B, Machine, MemoryFiles

from holdfast.cli.log import inspect_log
from holdfast.model.errors import HoldfastError, InvalidRequest
from holdfast.model.ids import Position
from holdfast.storage.checkpoint import UNFINISHED, checkpoint_name
from holdfast.storage.inspect import inspect, records
from holdfast.storage.lock import LockHeld

HOLD = """
import os, pathlib, sys
from holdfast.storage.lock import DirectoryLock, Holder
lock = DirectoryLock.take(pathlib.Path(sys.argv[1]), Holder(pid=os.getpid(), what="host a"))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The directory of a stopped host with two groups; the store's own record is lost."""
    machine = Machine()
    machine.open()
    machine.log.append(A, FIRST, b"hello", count=2)
    machine.write(b"world")
    machine.write(b"there", group=B)
    machine.log.settle()
    machine.run()
    for name, data in machine.files().items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def test_a_whole_store(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report has groups, positions and the mark, finds no problem, and exits with 0."""
    assert inspect_log(store, output="json", records=True) == 0
    shown = msgspec.json.decode(capsys.readouterr().out)
    assert [(group["group"], group["first"], group["last"]) for group in shown["groups"]] == [
        (A, 1, 3),
        (B, 1, 1),
    ]
    assert shown["problems"] == []
    assert [(record["group"], record["first"], record["body"]) for record in shown["records"]] == [
        (A, 1, "hello"),
        (A, 3, "world"),
        (B, 1, "there"),
    ]
    assert inspect_log(store) == 0
    assert "groups" in capsys.readouterr().out


def test_one_group_only(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inspect_log(store, output="json", records=True, group=B)
    assert [record["body"] for record in msgspec.json.decode(capsys.readouterr().out)["records"]] == ["there"]


def test_damage_is_named_and_ends_with_1(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = store / "log-00000001"
    path.write_bytes(path.read_bytes().replace(b"world", b"w0rld"))
    assert inspect_log(store, output="json") == 1
    shown = msgspec.json.decode(capsys.readouterr().out)
    assert shown["is_damaged"]
    assert {problem["group"] for problem in shown["problems"]} == {A}
    assert inspect_log(store) == 1


def test_a_running_host_is_left_alone(store: Path) -> None:
    """Another process's lock is respected, and the error names its holder."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    with pytest.raises(LockHeld, match="host a"):
        inspect_log(store)
    child.communicate()
    assert inspect_log(store) == 0


@pytest.mark.parametrize("what", ["absent", "a file", "empty"])
def test_bad_input_gets_one_clear_error(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x"
    if what == "a file":
        path.write_bytes(b"")
    elif what == "empty":
        path.mkdir()
    with pytest.raises(InvalidRequest):
        inspect_log(path)


NAMES = st.sampled_from(
    ["log-00000001", "log-00000002", "store", "store.new", "checkpoint-" + "0" * 20 + "-" + "0" * 19 + "7"]
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(NAMES, st.binary(max_size=2000), min_size=1))
def test_any_files_at_all_are_survived(files: dict[str, bytes]) -> None:
    """Random bytes under our own file names give a report or a Holdfast error, never anything else."""
    try:
        report = inspect(MemoryFiles(files))
        list(records(MemoryFiles(files)))
    except HoldfastError:
        return
    assert report.groups == []


@pytest.mark.parametrize("end", UNFINISHED)
def test_a_checkpoint_that_was_never_finished_is_no_damage(
    store: Path, end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The host was killed while it, or a forked copy of its process, wrote a checkpoint."""
    (store / (checkpoint_name(A, Position(2)) + end)).write_bytes(b"torn")
    assert inspect_log(store, output="json") == 0
    assert msgspec.json.decode(capsys.readouterr().out)["checkpoints"] == []
