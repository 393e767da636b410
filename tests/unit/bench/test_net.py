"""The form of every benchmark's result, and the command that shows it."""

import json
import subprocess
import sys

import pytest

from holdfast import bench
from holdfast.bench.net import SHAPES, TARGET


def test_ratios_are_taken_round_by_round() -> None:
    """The result is the median of the rounds' ratios, not the ratio of the medians: noise affects both sides
    in waves."""
    result = bench.compare("x", [60, 6, 90], [100, 10, 100], unit="calls/s", other_name="echo", target=0.6)
    assert (result.ratio, result.ratio_low, result.ratio_high) == (0.6, 0.6, 0.9)
    assert (result.ours, result.other, result.rounds) == (60, 100, 3)
    assert result.met


def test_a_missed_target_is_said_to_be_missed() -> None:
    result = bench.compare("x", [59, 59], [100, 100], unit="/s", other_name="echo", target=0.6)
    assert not result.met
    assert bench.row(result)[-1] == "MISSED"
    without = bench.compare("x", [1], [100], unit="/s", other_name="echo", target=None)
    assert bench.row(without)[-2:] == ("-", "")


def test_times_are_held_against_a_limit() -> None:
    """The median is judged; the spread shows the worst."""
    result = bench.within("x", [10, 15, 50], unit="ms", limit=20)
    assert (result.met, result.ratio, result.ratio_high) == (True, 0.75, 2.5)
    assert not bench.within("x", [21], unit="ms", limit=20).met


@pytest.mark.cluster
def test_the_command_measures_every_shape() -> None:
    """The command prints one JSON object with a row per shape on stdout and nothing else, and progress on
    stderr; it exits with 0 whatever the figures are."""
    program = "from holdfast.cli.main import main; main()"
    words = ["bench", "net", "--rounds", "2", "--seconds", "0.05", "--output", "json"]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    rows = json.loads(done.stdout)["results"]
    assert [row["name"] for row in rows] == [f"net: {shape.name}" for shape in SHAPES]
    for row in rows:
        assert row["target"] == TARGET
        assert row["ours"] > 0
        assert row["met"] is (row["ratio"] >= TARGET)
    assert "round 2 of 2" in done.stderr
