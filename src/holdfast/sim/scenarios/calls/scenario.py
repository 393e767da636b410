"""Clients on the production core call a group whose primary moves, whose members die and whose links break.

Rules: every call ends once, within its duration; an acknowledged call ran once, and a call reported as not
executed never runs; replies reach the calls they belong to; the floor never passes a request that is still
awaited; ordered calls run in order; reads are linearizable, or not older than requested; no call costs more
than a bounded number of frames.
"""

from functools import partial
from typing import ClassVar, Final

from holdfast.model.ids import HostId
from holdfast.sim.checkers import History, Violation, exactly_once, unique
from holdfast.sim.engine.clocks import ClockOptions
from holdfast.sim.engine.options import MILLISECOND, SECOND
from holdfast.sim.engine.world import World
from holdfast.sim.faults import NETWORK_KINDS, PROCESS_KINDS
from holdfast.sim.runner.scenario import Scenario
from holdfast.sim.scenarios.calls.caller import SLACK_NS, Caller
from holdfast.sim.scenarios.calls.group import Group, Member

WATCH_NS: Final = 50 * MILLISECOND
GRACE_NS: Final = 200 * MILLISECOND
MOVES: Final = 0.02
"""The probability, at each check, that the primary moves for no reason that a client can see."""
FRAMES_PER_CALL: Final = 3
FRAMES_PER_S: Final = 60
"""The most frames that a client may send: this many per request, and per second in which nobody serves."""
PROGRESS: Final = 50


class CallsScenario(Scenario):
    name = "calls"
    nodes = ("a", "b", "c")
    clients = ("client-1", "client-2")
    kinds = (*(kind for kind in PROCESS_KINDS if kind != "kill_inside"), *NETWORK_KINDS)
    fault_ns: ClassVar[int] = 4 * SECOND
    heal_ns: ClassVar[int] = 3 * SECOND

    def __init__(self) -> None:
        self._down_since: int | None = None
        self._answered: dict[str, int] = {}

    def build(self, world: World) -> None:
        self._group = group = Group(world, self.nodes)
        self._history = History(world.time)
        self._rng = world.rng("views")
        for name in self.nodes:
            world.add_node(name, partial(Member, group=group))
        for index, name in enumerate(self.clients):
            # The clocks are hours off, in both directions: a client's date must not matter (X4).
            clock = ClockOptions(wall_offset_ns=(2 * index - 1) * 7200 * SECOND, rate_ppm=60)
            world.add_node(name, partial(Caller, group=group, history=self._history), clock=clock)
        world.after(WATCH_NS, self._watch, world)

    def healed(self, world: World) -> None:
        self._answered = {name: world.nodes[name].core.answered for name in self.clients}

    def finish(self, world: World) -> None:
        group, operations = self._group, self._history.operations()
        found: list[Violation] = [
            *exactly_once.check(operations, {"group": group.tokens}),
            *unique.check_list(operations),
        ]
        for each in found[:3]:
            world.violation(each.rule, each.message)
        for name in self.clients:
            caller: Caller = world.nodes[name].core
            self._check_client(world, name, caller)

    def _watch(self, world: World) -> None:
        """Replace a primary that is gone, or replace it without cause, as the members would."""
        group = self._group
        able = [
            HostId(name) for name in self.nodes if world.nodes[name].alive and not world.nodes[name].paused
        ]
        if group.view.primary in able:
            self._down_since = None
        elif self._down_since is None:
            self._down_since = world.now
        is_gone = self._down_since is not None and world.now - self._down_since >= GRACE_NS
        if able and (is_gone or self._rng.random() < MOVES):
            group.take_over(self._rng.choice(able))
        world.after(WATCH_NS, self._watch, world)

    def _check_client(self, world: World, name: str, caller: Caller) -> None:
        now = world.nodes[name].clock.now()
        for work in caller.working:
            if now - work.began_ns > work.duration_ns + SLACK_NS:
                world.violation("ends", f"{work.token} has not ended")
        if caller.answered - self._answered[name] < PROGRESS:
            world.violation("progress", f"{name} got {caller.answered - self._answered[name]} answers")
        frames = caller.invocations.frames_sent if caller.invocations is not None else 0
        bound = FRAMES_PER_CALL * caller.started + FRAMES_PER_S * world.now // SECOND
        if frames > bound:
            world.violation("bounded", f"{name} sent {frames} frames for {caller.started} requests")
        lane = [
            int(token.rpartition("/")[2]) for token in self._group.tokens if token.startswith(f"{name}/lane/")
        ]
        if lane != sorted(lane):
            world.violation("X5", f"{name}'s ordered calls ran out of order")


SCENARIO = CallsScenario
