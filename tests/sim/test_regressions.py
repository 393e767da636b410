"""Failures that were found once, kept with their complete schedules, stay fixed."""

from pathlib import Path

import pytest

from holdfast.sim.runner.report import load_failure
from holdfast.sim.runner.simulation import simulate

KEPT = sorted((Path(__file__).parent / "regressions").glob("*.json"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_kept_failure_does_not_come_back(path: Path) -> None:
    """Each file is what `holdfast sim run` kept when the seed failed; one of a planted bug must still
    fail."""
    failure = load_failure(path)
    outcome = simulate(failure.options)
    if failure.options.planted is None:
        assert outcome.violations == ()
    else:
        assert outcome.violations[0].rule == failure.violation.rule
