"""A mix: each scenario's planted bugs get a share of the time, every scenario gets its turn, and a verdict
follows."""

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from holdfast.sim.runner.planted import planted_bugs, replacing
from holdfast.sim.runner.report import Summary
from holdfast.sim.runner.runner import Mixed, Search, run_mix, search_planted, turn_ends
from holdfast.sim.scenarios.register import planted as planted_module

LONG_S = 3600.0


def test_each_turn_of_a_round_has_as_long_as_the_others() -> None:
    """The time that one turn leaves, or takes too much, is shared among those that follow."""
    assert turn_ends(100.0, 160.0, turns=10) == pytest.approx(106.0)
    assert turn_ends(101.0, 160.0, turns=2) == pytest.approx(130.5)
    assert turn_ends(150.0, 160.0, turns=1) == pytest.approx(160.0)
    assert turn_ends(170.0, 160.0, turns=3) == pytest.approx(170.0)


def test_without_any_time_bugs_of_each_scenario_are_looked_for(tmp_path: Path) -> None:
    """Each scenario still gets some seeds, and what there was no time for is named."""
    bugs = [*planted_bugs("register"), *planted_bugs("clock")]
    mixed = run_mix(bugs, ["clock", "register"], within_s=0.0, jobs=1, keep=tmp_path)
    assert {each.scenario for each in mixed.bugs} == {"register", "clock"}
    assert sorted([*mixed.not_begun, *(each.name for each in mixed.bugs)]) == sorted(bug.name for bug in bugs)
    assert [each.scenario for each in mixed.runs] == ["clock", "register"]
    assert all(each.seeds > 0 for each in mixed.runs)
    assert mixed.is_clean


def test_a_round_takes_all_scenarios_in_turn(tmp_path: Path) -> None:
    """A new round begins while there is time."""
    said: list[str] = []

    class Enough(Exception):
        """Ends the mix after one round, which is enough here."""

    def say(text: str) -> None:
        said.append(text)
        if len(said) > 2:
            raise Enough

    with pytest.raises(Enough):
        run_mix((), ["clock", "register"], within_s=LONG_S, jobs=1, keep=tmp_path, say=say)
    assert [each.partition(":")[0] for each in said] == ["clock", "register", "clock"]


def test_a_bug_that_is_not_found_fails_the_mix(tmp_path: Path) -> None:
    bugs = tuple(replace(bug, runs_max=0) for bug in planted_bugs("register"))
    with replacing(planted_module, "PLANTED", bugs):
        mixed = run_mix(bugs, ["register"], within_s=0.0, jobs=1, keep=tmp_path)
    assert [(each.found, each.is_cut) for each in mixed.bugs] == [(False, False)] * len(bugs)
    assert not mixed.is_clean


def test_a_search_that_the_time_cut_off_is_no_verdict(tmp_path: Path) -> None:
    """It is said to be cut, and neither passes for found nor fails the mix."""
    assert search_planted(planted_bugs("register"), jobs=1, until=0.0) == []
    search = Search(name="b", rule="R1", scenario="register", found=False, runs=3, is_cut=True)
    assert Mixed(runs=[], bugs=[search]).is_clean
    assert not Mixed(runs=[], bugs=[structs.replace(search, is_cut=False)]).is_clean


def test_a_broken_rule_fails_the_mix(tmp_path: Path) -> None:
    clean = run_mix((), ["register"], within_s=0.0, jobs=1, keep=tmp_path)
    assert clean.is_clean
    (run,) = clean.runs
    broken: Summary = structs.replace(run, violation_count=1)
    assert not Mixed(runs=[broken], bugs=[]).is_clean
