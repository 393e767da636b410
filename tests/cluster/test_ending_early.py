"""`holdfast soak` and `holdfast demo`, interrupted: the calls made until then are counted."""

import os
import signal
import subprocess
from pathlib import Path

import msgspec
import pytest
from domain import HOLDFAST, WAIT_S

pytestmark = pytest.mark.cluster

COMMANDS = {
    "soak": (("--minutes", "60", "--seed", "11"), "faults"),
    "demo": (("--seconds", "3600", "--every", "2", "--callers", "4"), "was killed"),
}
"""The arguments of each command, and the text of a line that reports a fault: by then it is under load."""


@pytest.mark.parametrize("name", COMMANDS)
def test_the_calls_of_an_interrupted_run_are_counted(name: str, tmp_path: Path) -> None:
    """The report is the usual one and says that the run ended early; nothing else is left."""
    options, broken = COMMANDS[name]
    running = subprocess.Popen(
        [*HOLDFAST, name, *options, "--output", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        assert running.stderr is not None
        said = []
        for line in running.stderr:
            said.append(line)
            if broken in line:
                break
        running.send_signal(signal.SIGINT)
        printed, rest = running.communicate(timeout=4 * WAIT_S)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 0, "".join(said) + rest
    found = msgspec.json.decode(printed)
    assert found["ended_early"]
    assert found["calls_acknowledged"] > 0
    assert (found["calls_lost"], found["calls_duplicated"]) == (0, 0)
    assert list(tmp_path.iterdir()) == []
