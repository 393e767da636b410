"""The same seed gives the same run: in another process, with another hash seed, after other runs."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from holdfast.sim import Outcome, expand, simulate
from holdfast.sim.runner.scenario import scenario_names

SCENARIOS = scenario_names(hidden=True)
PROGRAM = """
import gc
import sys
from holdfast.sim import expand, simulate
from holdfast.sim.engine.world import World
for seed in range(int(sys.argv[2])):
    outcome = simulate(expand(sys.argv[1], seed), keep_trace=True)
    print(*outcome.lines, sep="\\n")
    print(seed, outcome.trace_hash)
gc.collect()
print("worlds still held:", sum(isinstance(each, World) for each in gc.get_objects()))
"""


def lines_of_another_process(scenario: str, seeds: int, hash_seed: str) -> list[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", PROGRAM, scenario, str(seeds)]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True, timeout=400
    ).stdout.splitlines()


def first_difference(one: list[str], other: list[str]) -> str:
    for number, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return f"line {number}:\n  {left}\n  {right}"
    return f"{len(one)} lines and {len(other)}" if len(one) != len(other) else ""


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_two_processes_with_different_hash_seeds_agree(scenario: str, rounds: Callable[..., int]) -> None:
    """Otherwise a failing seed could not be replayed. The first differing line shows where order leaked
    in."""
    seeds = rounds(short=2, long=50)
    one = lines_of_another_process(scenario, seeds, "1")
    other = lines_of_another_process(scenario, seeds, "2")
    assert first_difference(one, other) == ""
    assert len(one) > 100
    # A finished run must not stay in memory either: thousands of seeds would need all the memory there is.
    assert one[-1] == "worlds still held: 0"


def test_a_run_does_not_depend_on_runs_before_it() -> None:
    alone = simulate(expand("register", 5))
    for seed in range(3):
        simulate(expand("register", seed, planted="register-acknowledges-early"))
    assert simulate(expand("register", 5)) == alone


def test_keeping_the_trace_or_breaking_the_seal_changes_nothing() -> None:
    def without_lines(outcome: Outcome) -> tuple[object, ...]:
        return outcome.trace_hash, outcome.events, outcome.faults, outcome.operations

    options = expand("register", 11)
    assert without_lines(simulate(options, keep_trace=True)) == without_lines(simulate(options))
    assert without_lines(simulate(options, seal=False)) == without_lines(simulate(options))


def test_different_seeds_differ() -> None:
    assert len({simulate(expand("register", seed)).trace_hash for seed in range(10)}) == 10
