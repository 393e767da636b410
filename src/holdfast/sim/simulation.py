"""One run, from its options to its outcome: faults, then healing, then the final checks."""

from contextlib import ExitStack
from contextvars import copy_context

from msgspec import Struct

from holdfast.model.errors import BrokenInvariant
from holdfast.sim.options import FaultEvent, Options
from holdfast.sim.planted import planted_bug
from holdfast.sim.profiles import kinds_of
from holdfast.sim.scenario import Scenario, scenario_class
from holdfast.sim.sealed import SealBroken, sealed
from holdfast.sim.world import Violation, World


class Outcome(Struct, frozen=True, kw_only=True):
    """What one run showed."""

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
    """The trace, when it was asked for."""


def simulate(options: Options, *, keep_trace: bool = False, seal: bool = True) -> Outcome:
    """Run once. The outcome depends on *options* and the code alone, never on runs before it."""
    cls = scenario_class(options.scenario)
    world = World(options, keep_trace=keep_trace)
    with ExitStack() as stack:
        if options.planted is not None:
            stack.enter_context(planted_bug(options.planted).plant())
        if seal:
            stack.enter_context(sealed())
        try:
            copy_context().run(_run, world, cls())  # what it sets ends with it
        except SealBroken as broken:
            world.violation("sealed", f"reached for the real world: {broken}", broken)
        except (Exception, BrokenInvariant) as error:
            # Of the scenario or the engine: cores' own exceptions end in their nodes.
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
