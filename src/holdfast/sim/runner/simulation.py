"""One run, from its options to its outcome: faults, then healing, then the final checks.

A failing run can be shrunk to one with fewer faults. The schedule is a list, so the method is simple: the
shrinker removes a stretch of it, and leaves it out if the run still breaks the same rule. It halves the
stretches until they are single faults.
"""

from collections.abc import Callable
from contextlib import ExitStack
from contextvars import copy_context
from typing import Final

from msgspec import Struct, structs

from holdfast.model.errors import BrokenInvariant
from holdfast.sim.engine.options import FaultEvent, NetworkOptions, Options
from holdfast.sim.engine.sealed import SealBroken, sealed
from holdfast.sim.engine.world import Violation, World
from holdfast.sim.runner.planted import planted_bug
from holdfast.sim.runner.profiles import kinds_of
from holdfast.sim.runner.scenario import Scenario, scenario_class


class Outcome(Struct, frozen=True, kw_only=True):
    """The results of one run."""

    seed: int
    trace_hash: str
    events: int
    operations: int
    simulated_ns: int
    faults: dict[str, int]
    sometimes: dict[str, int]
    violations: tuple[Violation, ...] = ()
    unavailable: tuple[str, ...] = ()
    lines: tuple[str, ...] | None = None
    """The trace, when it was requested."""


def simulate(options: Options, *, keep_trace: bool = False, seal: bool = True) -> Outcome:
    """Run once. The outcome depends only on *options* and the code, never on earlier runs."""
    cls = scenario_class(options.scenario)
    world = World(options, keep_trace=keep_trace)
    with ExitStack() as stack:
        if options.planted is not None:
            stack.enter_context(planted_bug(options.planted).plant())
        if seal:
            stack.enter_context(sealed())
        try:
            copy_context().run(_run, world, cls())  # context variables set by the run end with it
        except SealBroken as broken:
            world.violation("sealed", f"reached for the real world: {broken}", broken)
        except (Exception, BrokenInvariant) as error:
            # From the scenario or the engine: a core's own exceptions end its node.
            world.violation("scenario", f"{type(error).__name__}: {error}", error)
    return _outcome(world)


def _run(world: World, scenario: Scenario) -> None:
    options = world.options
    world.expects = scenario.expects
    if type(scenario).each_step is not Scenario.each_step:
        world.each_step = lambda: scenario.each_step(world)
    scenario.build(world)
    kinds = kinds_of(type(scenario))

    def strike(event: FaultEvent) -> None:
        if event.target and event.target not in world.nodes:
            return  # a scenario may build fewer nodes than it names
        world.trace.add(f"{world.now} fault {event.kind} {event.target} {event.parameters}")
        if kinds[event.kind].apply(world, event):
            world.faults[event.kind] += 1

    for event in options.faults:
        world.at(event.at_ns, strike, event)
    world.run_until(options.fault_ns)
    if world.violations:
        return
    world.heal()
    scenario.healed(world)
    world.run_until(options.fault_ns + options.heal_ns)
    if not world.violations:
        scenario.finish(world)


def _outcome(world: World) -> Outcome:
    trace_hash = world.trace.hash()
    return Outcome(
        seed=world.options.seed,
        trace_hash=trace_hash,
        events=world.events,
        operations=world.operations,
        simulated_ns=world.now,
        faults=dict(sorted(world.faults.items())),
        sometimes=dict(sorted(world.reached.items())),
        violations=tuple(world.violations),
        unavailable=tuple(world.unavailabilities),
        lines=None if world.trace.kept is None else tuple(world.trace.kept),
    )


RUNS_MAX: Final = 100
"""The most runs spent on shrinking one failure."""


class Shrinker:
    """Shrinks one failure; *runs* counts the runs that this took."""

    def __init__(
        self, rule: str, simulate: Callable[[Options], Outcome], *, runs_max: int = RUNS_MAX
    ) -> None:
        self._rule = rule
        self._simulate = simulate
        self._runs_max = runs_max
        self.runs = 0

    def shrink(self, options: Options) -> Options:
        """Return the smallest options found that break the same rule."""
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
