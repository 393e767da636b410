"""Tests that a machine cannot run: where it may lack the means they say so, where it must not they fail."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
NEEDY = """
import sys
sys.path[:0] = [{tests!r}, {cluster!r}]
from faults import machine


def test_needs_a_device():
    machine.require_device("/dev/holdfast-has-no-such-device")


def test_needs_a_program():
    machine.require_program("holdfast-has-no-such-program")
"""


@pytest.mark.parametrize(("ci", "code", "said"), [("true", 1, "2 failed"), ("", 0, "2 skipped")])
def test_what_a_machine_lacks_fails_in_ci_and_is_skipped_loudly_elsewhere(
    tmp_path: Path, ci: str, code: int, said: str
) -> None:
    """A run of its own, as CI starts one: a lost device must not look like a pass."""
    needy = tmp_path / "test_needy.py"
    needy.write_text(NEEDY.format(tests=str(TESTS), cluster=str(TESTS / "cluster")))
    command = [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, str(needy)],
        env={"PATH": "/usr/bin:/bin", "CI": ci},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout
    assert ("CI must have" if ci else "SKIPPED LOUDLY: this machine has no") in done.stdout
