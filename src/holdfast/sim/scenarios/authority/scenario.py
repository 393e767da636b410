"""The embedded authority under every fault it claims to survive, with hosts that depend on it.

There are one authority (production server, store and SQLite on the simulated disk), hosts that run the
production recipes on the production client in every activity, and two clients that only read, write and
watch. Checked: every committed revision against the rules of the protocol (A, V, T), registers for
linearizability, leases for early and late ends, watches for gaps and repetitions, restarts for lost or
invented revisions; after healing, that every node makes progress.
"""

import random
from collections.abc import Hashable
from functools import partial
from typing import ClassVar, Final

import msgspec

from holdfast.authority.contract import WatchEvent
from holdfast.authority.sessions import Session
from holdfast.authority.wire import ClientMessage, ServerMessage, encode
from holdfast.sim.engine.disk import Image
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.engine.world import World
from holdfast.sim.faults import (
    CLOCK_KINDS,
    DISK_KINDS,
    KINDS,
    NETWORK_KINDS,
    POWER_KINDS,
    PROCESS_KINDS,
    FaultKind,
    Field,
    Parameters,
)
from holdfast.sim.runner.scenario import Bound, Scenario
from holdfast.sim.scenarios.authority.activities import (
    Claims,
    Leasing,
    Mirror,
    Naming,
    Registers,
    check_registers,
)
from holdfast.sim.scenarios.authority.control_activity import Governing, can_govern
from holdfast.sim.scenarios.authority.host import Actor, HostProcess, Stage, is_opening
from holdfast.sim.scenarios.authority.server import AUTHORITY, AuthorityNode, restore_old_copy


class Host(HostProcess):
    """A host that runs every activity."""

    def __init__(self, ports: NodePorts, stage: Stage, former: list[Session]) -> None:
        self._former = former
        self.mirror: Mirror | None = None
        super().__init__(ports, stage)

    def begin(self) -> None:
        self.mirror = Mirror(self, "names/")
        self.take_up(
            Registers(self),
            Claims(self),
            Naming(self, self._former),
            Governing(self),
            Leasing(self),
            self.mirror,
        )

    def on_watch(self, token: Hashable, event: WatchEvent) -> None:
        if self.mirror is not None:
            self.mirror.on_watch(token, event)


class Client(Actor):
    """A client without a session: it uses registers and a mirror of them."""

    def __init__(self, ports: NodePorts, stage: Stage) -> None:
        super().__init__(ports, stage)
        self.mirror = Mirror(self, "registers/")
        self.take_up(Registers(self, think_ns=30 * MILLISECOND), self.mirror)

    def on_watch(self, token: Hashable, event: WatchEvent) -> None:
        self.mirror.on_watch(token, event)


HOSTS: Final = ("h1", "h2", "h3")
CLIENTS: Final = ("c1", "c2")
ENDING_NS: Final = 3 * SECOND
"""The time before the end of a run in which nothing new begins, so that all results can be compared."""
DEMANDED: Final = {"registers": 10, "claims": 3, "naming": 3, "leasing": 1}
"""How much each host must complete after healing; clients only use the registers."""
HOST_DAMAGE: Final = ("wipe", "copy", "roll_back")


def _hosts_only(name: str) -> FaultKind:
    """Restrict a kind of fault to hosts: the design relies on the authority's disk.

    It also spares stores between intent and opening: two copies of one intent are the limit that decision
    0002 states.
    """

    def apply(world: World, event: FaultEvent) -> bool:
        source = world.nodes[event.parameters.get("source", event.target)]
        if event.target == AUTHORITY or is_opening(source.disk) or _restores(world):
            return False
        return KINDS[name].apply(world, event)

    return FaultKind(name, KINDS[name].draw, apply)


def _restores(world: World) -> bool:
    """Whether the authority is restored in this run, so that no host's disk may be replaced.

    A store and an authority that both go back to the same past cannot notice it (the limit that V5 states).
    So a run has one or the other: whichever its schedule names first.
    """
    drastic = (event.kind for event in world.options.faults if event.kind in ("restore", *HOST_DAMAGE))
    return next(drastic, None) == "restore"


def _draw_restore(rng: random.Random, _: Field) -> Parameters:
    return {
        "after_ns": rng.randrange(200 * MILLISECOND, 4 * SECOND),
        "down_ns": rng.randrange(10 * MILLISECOND, SECOND),
    }


class Codec:
    """The production codec; messages of the two directions have different tags."""

    def encode(self, message: object) -> bytes:
        return encode(message)  # type: ignore[arg-type]  # the cores send nothing else

    def decode(self, data: bytes) -> object:
        return _decoder.decode(data)


_decoder: Final = msgspec.msgpack.Decoder(ClientMessage | ServerMessage)


class Authority(Scenario):
    name = "authority"
    nodes = (AUTHORITY, *HOSTS)
    clients = CLIENTS
    kinds = (*PROCESS_KINDS, *POWER_KINDS, *NETWORK_KINDS, *CLOCK_KINDS, *DISK_KINDS)
    own_kinds = (
        *map(_hosts_only, HOST_DAMAGE),
        # The scenario itself applies this fault, because it knows what was committed.
        FaultKind("restore", _draw_restore, lambda world, event: False, needs_target=False),
    )
    bounds = (Bound(kinds=("restore",), per_run=1),)
    fault_ns: ClassVar[int] = 10 * SECOND
    heal_ns: ClassVar[int] = 12 * SECOND

    def __init__(self) -> None:
        self._stage: Stage

    def build(self, world: World) -> None:
        self._stage = stage = Stage.of(world)
        world.network.codec = Codec()
        world.add_node(AUTHORITY, partial(AuthorityNode, truth=stage.truth, leases=stage.leases))
        for name in HOSTS:
            former: list[Session] = []
            world.add_node(name, partial(Host, stage=stage, former=former))
        for name in CLIENTS:
            world.add_node(name, partial(Client, stage=stage))
        for event in world.options.faults:
            if event.kind == "restore" and _restores(world):
                world.at(event.at_ns, self._keep_copy, world, event)

    def healed(self, world: World) -> None:
        # Connections hide loss in production; here each lost message costs its sender the whole deadline.
        world.network.weather(msgspec.structs.replace(world.options.network, loss=0.0))
        world.after(self.heal_ns - ENDING_NS, self._begin_ending)

    def finish(self, world: World) -> None:
        authority = world.nodes[AUTHORITY].core
        if authority is None:
            world.violation("progress", f"the authority does not run: {world.nodes[AUTHORITY].stops[-1:]}")
            return
        for violation in check_registers(self._stage.histories()):
            world.violation(violation.rule, violation.message)
        self._check_end(world, authority)
        self._check_progress(world)

    def _check_end(self, world: World, authority: AuthorityNode) -> None:
        stage = self._stage
        if authority.store.contents() != stage.truth.items:
            world.violation("A6", "the file does not hold what was committed")
        stage.leases.check_silent([lease for lease, _, _ in authority.store.leases(0)])
        for name in (*HOSTS, *CLIENTS):
            core = world.nodes[name].core
            if core is not None and core.mirror is not None:
                core.mirror.check_caught_up()

    def _check_progress(self, world: World) -> None:
        progress = self._stage.progress
        for name in (*HOSTS, *CLIENTS):
            for activity, least in DEMANDED.items() if name in HOSTS else (("registers", 10),):
                if progress[name, activity] < least:
                    said = f"{name} got {progress[name, activity]} of {activity} done after healing"
                    world.violation("progress", said)
        if not any(progress[name, "governing"] for name in HOSTS):
            if can_govern(self._stage.truth.items):
                world.violation("progress", "no transaction was decided after healing")
            else:
                world.unavailable("no living host holds the last committed context (IM-35)")

    def _keep_copy(self, world: World, event: FaultEvent) -> None:
        image = world.nodes[AUTHORITY].disk.copy()
        if image:
            world.after(event.parameters["after_ns"], self._restore, world, event, image)

    def _restore(self, world: World, event: FaultEvent, image: Image) -> None:
        if world.is_healed:
            return
        node = world.nodes[AUTHORITY]
        restore_old_copy(node, image, self._stage.truth)
        self._stage.leases.restored()
        world.faults["restore"] += 1
        node.restart(event.parameters["down_ns"])

    def _begin_ending(self) -> None:
        self._stage.is_ending = True


SCENARIO = Authority
