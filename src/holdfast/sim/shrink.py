"""Shrinking: the same failure with fewer faults.

The schedule is a list, so the method is plain: drop a stretch of it and keep the rest if the run still
breaks the same rule; halve the stretches until single faults remain.
"""

from collections.abc import Callable
from typing import Final

from msgspec import structs

from holdfast.sim.options import FaultEvent, NetworkOptions, Options
from holdfast.sim.simulation import Outcome

RUNS_MAX: Final = 100
"""Runs spent on shrinking one failure."""


class Shrinker:
    """Shrinks one failure; *runs* says how many runs that took."""

    def __init__(
        self, rule: str, simulate: Callable[[Options], Outcome], *, runs_max: int = RUNS_MAX
    ) -> None:
        self._rule = rule
        self._simulate = simulate
        self._runs_max = runs_max
        self.runs = 0

    def shrink(self, options: Options) -> Options:
        """The smallest options found that break the same rule."""
        options = self._without_faults(options)
        for change in ({"points": 0.0}, {"timers_early_ns": 0}, {"network": NetworkOptions()}):
            simpler = structs.replace(options, **change)
            if simpler != options and self._still_fails(simpler):
                options = simpler
        return options

    def _without_faults(self, options: Options) -> Options:
        faults = options.faults
        stretch = len(faults)
        while stretch >= 1:
            at = 0
            while at < len(faults):
                fewer: tuple[FaultEvent, ...] = faults[:at] + faults[at + stretch :]
                if self._still_fails(structs.replace(options, faults=fewer)):
                    faults = fewer
                else:
                    at += stretch
            stretch //= 2
        return structs.replace(options, faults=faults)

    def _still_fails(self, options: Options) -> bool:
        if self.runs >= self._runs_max:
            return False
        self.runs += 1
        return any(violation.rule == self._rule for violation in self._simulate(options).violations)
