"""The runner and its command: counts, kept failures, replays, shrinking, planted bugs, exit codes."""

import gc
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from holdfast.cli.sim import app, parse_seeds
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import SECOND
from holdfast.sim import Scenario, World, expand, simulate
from holdfast.sim.runner.planted import planted_bugs, replacing
from holdfast.sim.runner.report import load_failure, merge
from holdfast.sim.runner.runner import run_seeds, search_planted, shrink_failure
from holdfast.sim.scenarios.register import planted as planted_module
from holdfast.sim.scenarios.register.scenario import Register

BUG = "register-acknowledges-early"
HOLDFAST = (sys.executable, "-c", "from holdfast.cli.main import main; main()")


def holdfast(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HOLDFAST, *arguments], cwd=cwd, check=False, capture_output=True, text=True, timeout=400
    )


def test_the_register_holds_under_all_faults(rounds: Any, jobs: int) -> None:
    """The simulator's own scenario is correct, so whatever shows up here is a bug of the simulator."""
    summary = run_seeds("register", range(rounds(short=60, long=5000)), jobs=jobs)
    assert summary.violations == []
    assert summary.operations > 100 * summary.seeds
    assert len(summary.faults) >= 20


def test_one_process_and_two_add_up_to_the_same() -> None:
    one = run_seeds("register", range(20), jobs=1)
    two = run_seeds("register", range(20), jobs=2)
    assert one.trace_hash == two.trace_hash
    assert (one.events, one.faults, one.operations) == (two.events, two.faults, two.operations)
    assert one.seeds == 20
    assert one.events_per_cpu_second > 0


def test_a_run_leaves_nothing_behind() -> None:
    """A database that is never closed must not keep its world in memory, since a dead process closes none."""
    options = structs.replace(expand("sequence", 3, "calm"), fault_ns=SECOND // 5, heal_ns=SECOND)
    before = sum(isinstance(each, World) for each in gc.get_objects())
    simulate(options)
    gc.collect()
    assert sum(isinstance(each, World) for each in gc.get_objects()) <= before


def test_ranges_merge_into_their_sums() -> None:
    halves = [run_seeds("register", seeds, jobs=1) for seeds in (range(5), range(5, 10))]
    whole = run_seeds("register", range(10), jobs=1)
    merged = merge(halves)
    for field in ("seeds", "events", "operations", "faults", "violation_count", "sometimes"):
        assert getattr(merged, field) == getattr(whole, field)
    assert merged.simulated_seconds == pytest.approx(whole.simulated_seconds)


def test_a_failure_is_kept_shrunk_and_can_be_replayed(tmp_path: Path) -> None:
    """Of many faults only those that matter remain, and the file alone reproduces the failure."""
    said: list[str] = []
    summary = run_seeds("register", range(3), planted=BUG, jobs=1, keep=tmp_path, say=said.append)
    assert summary.violation_count >= 1
    found = summary.violations[0]
    assert said[0].startswith(f"register, seed {found.seed}: {found.rule}: ")
    path = Path(found.replay.removeprefix("holdfast sim replay "))
    failure = load_failure(path)
    assert failure.original == expand("register", found.seed, planted=BUG)
    assert 1 <= len(failure.options.faults) < len(failure.original.faults)
    again = simulate(failure.options)
    assert again.violations[0].rule == found.rule == failure.violation.rule


def test_every_fault_of_a_shrunk_failure_is_needed() -> None:
    options = expand("register", 1, planted=BUG)
    shrunk = shrink_failure(options, simulate(options)).options
    for index in range(len(shrunk.faults)):
        fewer = structs.replace(shrunk, faults=shrunk.faults[:index] + shrunk.faults[index + 1 :])
        assert simulate(fewer).violations == ()


def test_planted_bugs_are_found_and_the_count_of_runs_is_the_same_each_time() -> None:
    bugs = planted_bugs("register")
    searches = search_planted(bugs, jobs=2)
    assert [(search.name, search.found) for search in searches] == [(bug.name, True) for bug in bugs]
    again = search_planted(bugs, jobs=1)
    assert [search.runs for search in again] == [search.runs for search in searches]


def test_a_bug_is_not_found_by_a_run_that_fails_without_it() -> None:
    """Otherwise a real bug of the core would make every planted bug count as found."""

    def finish(scenario: Scenario, world: World) -> None:
        world.violation("always", "fails with and without the bug")

    bugs = tuple(replace(bug, runs_max=3) for bug in planted_bugs("register"))
    with replacing(Register, "finish", finish), replacing(planted_module, "PLANTED", bugs):
        searches = search_planted(bugs, jobs=1)
    assert [(search.found, search.runs) for search in searches] == [(False, 3), (False, 3)]


def test_the_json_of_a_run(tmp_path: Path) -> None:
    ended = holdfast(
        "sim", "run", "--scenario", "register", "--seeds", "0:4", "--output", "json", cwd=tmp_path
    )
    assert ended.returncode == 0
    shown = json.loads(ended.stdout.splitlines()[-1])
    assert shown["seeds"] == 4
    assert shown["violations"] == []
    assert shown["violation_count"] == 0
    assert shown["unavailable"] == 0
    assert shown["faults"]["kill"] >= 1
    assert shown["operations"] > 100
    assert shown["events_per_cpu_second"] > 1000
    assert shown["trace_hash"] == run_seeds("register", range(4), jobs=1).trace_hash
    assert "4/4 seeds" in ended.stderr
    assert not (tmp_path / ".holdfast-sim").exists()


def test_a_failing_range_exits_1_and_prints_one_line_that_replays_it(tmp_path: Path) -> None:
    arguments = ("sim", "run", "--scenario", "register", "--seeds", "1:2", "--planted", BUG)
    ended = holdfast(*arguments, "--output", "json", cwd=tmp_path)
    assert ended.returncode == 1
    found = json.loads(ended.stdout.splitlines()[-1])["violations"][0]
    assert (found["seed"], found["rule"]) == (1, "durable")
    replay = found["replay"]
    assert replay.startswith("holdfast sim replay .holdfast-sim")
    assert replay in ended.stderr
    again = holdfast(*replay.split()[1:], "--output", "json", cwd=tmp_path)
    assert again.returncode == 1
    assert json.loads(again.stdout)["violations"][0]["rule"] == "durable"


def test_the_trace_of_a_run(tmp_path: Path) -> None:
    arguments = ("sim", "run", "--scenario", "register", "--seeds", "3", "--trace", "--output", "json")
    lines = holdfast(*arguments, cwd=tmp_path).stdout.splitlines()
    assert tuple(lines[:-1]) == simulate(expand("register", 3), keep_trace=True).lines
    assert json.loads(lines[-1])["seeds"] == 1


def test_the_json_of_planted(tmp_path: Path) -> None:
    ended = holdfast("sim", "planted", "--name", BUG, "--output", "json", cwd=tmp_path)
    assert ended.returncode == 0
    bug = json.loads(ended.stdout.splitlines()[-1])["bugs"][0]
    assert (bug["name"], bug["rule"], bug["found"], bug["scenario"]) == (BUG, "S3", True, "register")
    assert bug["runs"] >= 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--scenario", "absent"),
        ("run", "--scenario", "register", "--seeds", "5:5"),
        ("run", "--scenario", "register", "--profile", "absent"),
        ("run", "--scenario", "register", "--jobs", "0"),
        ("run", "--scenario", "register", "--seeds", "0:2", "--trace"),
        ("run", "--scenario", "register", "--planted", "absent"),
        ("planted", "--name", "absent"),
        ("planted", "--scenario", "absent"),
        ("replay", "absent.json"),
        ("mix", "--minutes", "0"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(arguments: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequest):
        app(arguments, exit_on_error=False)


def test_bad_input_gets_one_clear_error_and_exit_2(tmp_path: Path) -> None:
    ended = holdfast("sim", "run", "--scenario", "absent", cwd=tmp_path)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("text", ["", ":", "1:", ":2", "a:b", "-1:2", "2:1", "1:2:3", "0:99999999999", "1.5"])
def test_malformed_ranges_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_seeds(text)


def test_ranges() -> None:
    assert parse_seeds("3:7") == range(3, 7)
    assert parse_seeds("17") == range(17, 18)
