"""`holdfast soak`: every kind of fault on real processes, and every call counted."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from domain import HOLDFAST

pytestmark = pytest.mark.cluster


@pytest.mark.timeout(1200)
def test_nothing_is_lost_under_faults_of_every_kind(tmp_path: Path, rounds: Callable[..., int]) -> None:
    """The calls are counted from the files of the stopped members, in every style; and the report says what
    was tried."""
    seconds = rounds(short=5, long=600)
    command = [*HOLDFAST, "soak", "--minutes", str(seconds / 60), "--seed", "11", "--output", "json"]
    surroundings = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=1100, check=False, env=surroundings
    )
    assert done.returncode == 0, done.stderr
    found = msgspec.json.decode(done.stdout)
    assert found["calls_acknowledged"] > 0
    assert (found["calls_lost"], found["calls_duplicated"], found["not_recovered"]) == (0, 0, [])
    assert sum(found["tried"].values()) >= 1
    assert [each["style"] for each in found["groups"]] == ["cold_passive", "warm_passive", "active"]
    assert all(len(each["count"]["members"]) == 3 for each in found["groups"])
    assert list(tmp_path.iterdir()) == []
