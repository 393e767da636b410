"""Moves between two authorities under faults: nothing is lost, nothing is issued twice, one authority serves.

Two movers compete. Every process and every authority may be killed, paused, cut off and lose its power; some
falls wait for the next step of a move. After healing, a move under way ends, one way or the other, and every
host makes progress at the authority that serves.
"""

import random
from functools import partial
from typing import ClassVar, Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.move.seat import SeatState
from holdfast.sim.engine.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.engine.world import World
from holdfast.sim.faults import (
    CLOCK_KINDS,
    NETWORK_KINDS,
    POWER_KINDS,
    PROCESS_KINDS,
    FaultKind,
    Field,
    Parameters,
)
from holdfast.sim.faults.kind import later
from holdfast.sim.runner.scenario import Scenario
from holdfast.sim.scenarios.authority.activities import check_registers
from holdfast.sim.scenarios.authority.host import Stage
from holdfast.sim.scenarios.authority.observer import LeaseBook
from holdfast.sim.scenarios.authority.scenario import Codec
from holdfast.sim.scenarios.move.observer import MoveTruth
from holdfast.sim.scenarios.move.processes import (
    FIRST,
    PLACES,
    Direction,
    MoverNode,
    MovingHost,
    PlaceNode,
)

HOSTS: Final = ("h1", "h2", "h3")
MOVERS: Final = ("m1", "m2")
ENDING_NS: Final = 6 * SECOND
"""The time before the end of a run in which no move begins, longer than it takes to give one up."""
QUIET_NS: Final = 2 * SECOND
"""The time before the end of a run in which nothing new begins, so that all results can be compared."""
AT_STEPS: Final = ("falls_at_step", "parted_at_step", "mover_pauses")
DEMANDED: Final = {"registers": 10, "claims": 3}
"""How much each host must complete after healing."""


def _draw_fall(rng: random.Random, _: Field) -> Parameters:
    return {
        "power": rng.randrange(2),
        "down_ns": rng.randrange(10 * MILLISECOND, 3 * SECOND),
        "after_ns": rng.randrange(3) * rng.randrange(20 * MILLISECOND),
    }


def _draw_parting(rng: random.Random, _: Field) -> Parameters:
    return {"for_ns": rng.randrange(500 * MILLISECOND, 4 * SECOND), "place": rng.randrange(len(PLACES))}


def _draw_pause(rng: random.Random, _: Field) -> Parameters:
    """Mostly long enough for the hosts to give the move up meanwhile."""
    return {"for_ns": rng.randrange(800 * MILLISECOND, 2500 * MILLISECOND), "steps": rng.randrange(8)}


def _later(world: World, event: FaultEvent) -> bool:
    """The scenario itself applies its own faults, because it knows the steps of moves."""
    return False


class Move(Scenario):
    name = "move"
    nodes = (*PLACES, *HOSTS, *MOVERS)
    kinds = (*PROCESS_KINDS, *POWER_KINDS, *NETWORK_KINDS, *CLOCK_KINDS)
    own_kinds = (
        FaultKind("falls_at_step", _draw_fall, _later),
        FaultKind("parted_at_step", _draw_parting, _later),
        FaultKind("mover_pauses", _draw_pause, _later, needs_target=False),
    )
    fault_ns: ClassVar[int] = 10 * SECOND
    heal_ns: ClassVar[int] = 12 * SECOND

    def __init__(self) -> None:
        self._stage: Stage
        self._truth: MoveTruth
        self._direction = Direction()

    def build(self, world: World) -> None:
        self._truth = MoveTruth(world, PLACES, FIRST)
        self._stage = stage = Stage(world, self._truth, LeaseBook(world))
        world.network.codec = Codec()
        for name in PLACES:
            world.add_node(name, partial(PlaceNode, truth=self._truth))
        for name in HOSTS:
            world.add_node(name, partial(MovingHost, stage=stage))
        for name in MOVERS:
            world.add_node(name, partial(MoverNode, stage=stage, direction=self._direction))
        for event in world.options.faults:
            if event.kind in AT_STEPS:
                world.at(event.at_ns, self._await_step, world, event)

    def healed(self, world: World) -> None:
        world.network.weather(msgspec.structs.replace(world.options.network, loss=0.0))
        world.after(self.heal_ns - ENDING_NS, self._end_moves)
        world.after(self.heal_ns - QUIET_NS, self._be_quiet)

    def finish(self, world: World) -> None:
        for violation in check_registers(self._stage.histories()):
            world.violation(violation.rule, violation.message)
        serving = self._truth.serving()
        if len(serving) != 1:
            seats = {place: seat.state for place, seat in self._truth.seats.items()}
            world.violation("A8", f"one authority must serve at the end; found {seats}")
            return
        self._check_end(world, serving[0])
        for name in HOSTS:
            for activity, least in DEMANDED.items():
                done = self._stage.progress[name, activity]
                if done < least:
                    world.violation("progress", f"{name} got {done} of {activity} done after healing")

    def _check_end(self, world: World, serving: str) -> None:
        core = world.nodes[serving].core
        if core is None:
            world.violation("progress", f"{serving} does not run: {world.nodes[serving].stops[-1:]}")
            return
        found = {key: item.value for key, item in core.store.contents().items() if not keys.is_of_moves(key)}
        if found != {key: item.value for key, item in self._truth.items.items()}:
            world.violation("A6", f"{serving} does not hold what was committed")
        for name in HOSTS:
            host = world.nodes[name].core
            if host is None:
                continue
            seen = host.following.follower.seen
            if seen.place.address != serving or seen.seat.state is not SeatState.SERVING:
                world.violation("A8", f"{name} is at {seen}, the domain at {serving}")
            if host.mirror is not None:
                host.mirror.check_caught_up()
        if self._truth.moves:
            world.sometimes("the domain has moved")

    def _await_step(self, world: World, event: FaultEvent) -> None:
        happens = {"falls_at_step": self._fall, "parted_at_step": self._part, "mover_pauses": self._pause}
        self._direction.waiting.append(partial(happens[event.kind], world, event))

    def _pause(self, world: World, event: FaultEvent, mover: str, steps: int = 0) -> None:
        """Pause whichever mover takes the next steps, in the middle of its move."""
        if steps < event.parameters["steps"]:
            self._direction.waiting.append(partial(self._pause, world, event, steps=steps + 1))
        elif not world.is_healed and world.nodes[mover].pause():
            world.faults[event.kind] += 1
            later(world, event.parameters["for_ns"], world.nodes[mover].resume)

    def _fall(self, world: World, event: FaultEvent, mover: str) -> None:
        world.after(event.parameters["after_ns"], self._fall_now, world, event)

    def _fall_now(self, world: World, event: FaultEvent) -> None:
        node = world.nodes[event.target]
        if not world.is_healed and (node.power_cut() if event.parameters["power"] else node.kill()):
            world.faults[event.kind] += 1
            node.restart(event.parameters["down_ns"])

    def _part(self, world: World, event: FaultEvent, mover: str) -> None:
        """Cut the target off from one of the authorities."""
        place = PLACES[event.parameters["place"]]
        if not world.is_healed and event.target != place:
            links = [(event.target, place), (place, event.target)]
            world.network.cut(links)
            world.faults[event.kind] += 1
            later(world, event.parameters["for_ns"], world.network.mend, links)

    def _end_moves(self) -> None:
        self._direction.may_begin = False

    def _be_quiet(self) -> None:
        self._stage.is_ending = True


SCENARIO = Move
