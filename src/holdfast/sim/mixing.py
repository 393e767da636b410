"""A mix: planted bugs are looked for, then scenarios have their turns with fresh seeds, in some time.

The bugs are looked for however long that takes: what was not looked for is no evidence. What they leave of
the time is the seeds', and never less than ``SEEDS_SHARE`` of it. A turn ends after a few seeds, or earlier
when those that come after it in the round could not have as long; the first of each scenario has at least
``FIRST_TURN_S``, so that a mix has some seeds of every one.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.sim.planted import Planted
from holdfast.sim.report import Summary, merge
from holdfast.sim.runner import Run, Search, job_count, processes, run_seeds, search_planted

TURN_SEEDS: Final = 6
"""Of each process in one turn: so few that they are handed out one by one, and a turn can end at any."""
FIRST_TURN_S: Final = 1.0
"""What every scenario has at least, once, also when the time is over."""
SEEDS_SHARE: Final = 1 / 6
FIRST_SEEDS: Final = 2**40
"""The first seed is drawn from so many."""


class Mixed(Struct, frozen=True, kw_only=True):
    """What a mix found. An interface: scripts read it, so it changes only by adding."""

    runs: list[Summary]
    """One for each scenario."""
    bugs: list[Search]

    @property
    def is_clean(self) -> bool:
        """Whether every bug was found, and no rule was broken without one."""
        return all(bug.found for bug in self.bugs) and not any(run.violation_count for run in self.runs)


def run_mix(
    bugs: Sequence[Planted],
    scenarios: Sequence[str],
    *,
    within_s: float,
    keep: Path,
    jobs: int | None = None,
    on_search: Callable[[Search], None] = lambda search: None,
    say: Callable[[str], None] = lambda text: None,
) -> Mixed:
    """Failing runs are kept below *keep*."""
    until = time.monotonic() + within_s
    with processes(jobs) as run:
        searches = search_planted(bugs, run=run, progress=on_search)
        until = max(until, time.monotonic() + within_s * SEEDS_SHARE)
        runs = _take_turns(scenarios, TURN_SEEDS * job_count(jobs), until, run, keep, say)
    return Mixed(runs=runs, bugs=searches)


def _take_turns(
    scenarios: Sequence[str], count: int, until: float, run: Run, keep: Path, say: Callable[[str], None]
) -> list[Summary]:
    """Go round all scenarios, *count* seeds each, until the time is up."""
    least_s = FIRST_TURN_S
    turns: dict[str, list[Summary]] = {scenario: [] for scenario in scenarios}
    first = secrets.randbelow(FIRST_SEEDS)
    while True:
        for done, (scenario, summaries) in enumerate(turns.items()):
            say(f"{scenario}: seeds {first}:{first + count}")
            now = time.monotonic()
            ends = max(now + least_s, turn_ends(now, until, turns=len(turns) - done))
            seeds = range(first, first + count)
            summaries.append(run_seeds(scenario, seeds, run=run, keep=keep, say=say, until=ends))
        if time.monotonic() >= until:
            return [merge(summaries) for summaries in turns.values()]
        first, least_s = first + count, 0.0


def turn_ends(now: float, until: float, *, turns: int) -> float:
    """When the next of so many turns must end for each to have as long as the others."""
    return now + max(0.0, until - now) / turns
