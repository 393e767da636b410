"""Masters that assign CSNs and exchange vectors while their clocks, disks, links and processes fail.

Rules, with the rows of the CSN checklist they stand for:

* a CSN is greater than every CSN that its replica ever assigned (CSN-19), than every one that its process has
  received (CSN-20), and than every one that it certainly knew before it crashed (CSN-21); none is assigned
  twice (CSN-8);
* peers pull a clock forward by ``csn_max_skew`` in total (CSN-34); a CSN that is further ahead is refused,
  nothing changes, and local writes continue (CSN-33);
* a vector never includes a CSN that is in flight (CSN-54);
* a clock file that nothing has damaged can be read (CSN-25), and a damaged one is refused (CSN-25);
* after healing every master assigns CSNs again.
"""

import random
from collections.abc import Hashable
from functools import partial
from typing import ClassVar, Final

from msgspec import Struct

from holdfast.clock import ClockPorts, Generator, PendingList, Vector
from holdfast.clock.errors import SkewTooLarge
from holdfast.model.csn import SEQUENCE_MAX, ZERO, Csn
from holdfast.model.errors import Corruption, DiskFailed, Unavailable
from holdfast.model.ids import ReplicaId
from holdfast.model.ports import Token
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.engine.world import World
from holdfast.sim.faults import (
    CLOCK_KINDS,
    DISK_KINDS,
    NETWORK_KINDS,
    POWER_KINDS,
    PROCESS_KINDS,
    FaultKind,
    Field,
    Parameters,
)
from holdfast.sim.runner.scenario import Bound, Scenario

REPLICAS: Final = {"a": ReplicaId(1), "b": ReplicaId(2), "c": ReplicaId(3)}
STRANGER: Final = ReplicaId(9)
"""The replica of CSNs that come from outside the simulated masters."""
GENERATION: Final = "g1"
WRITE_NS: Final = 40 * MILLISECOND
GOSSIP_NS: Final = 150 * MILLISECOND
BURST_MAX: Final = 6
DAMAGE: Final = ("bit_rot", "zero_sector")


class Hello(Struct, frozen=True):
    """The first message of a session: the sender's replica and its vector."""

    replica: ReplicaId
    vector: str


class Master:
    """One process: a generator, its CSNs in flight, its vector, and what it sends to its peers."""

    def __init__(self, ports: NodePorts, records: "Records") -> None:
        self._ports = ports
        self._records = records
        self._rng = ports.random.stream("master")
        self._timers = ports.timers(self.on_timer)
        self._is_closing = False
        self._in_flight: list[Csn] = []
        self._unsure: list[Csn] = []
        """CSNs that were observed, but may not survive a crash yet."""
        self.replica = REPLICAS[ports.name]
        self.vector = Vector.of(GENERATION)
        self.pending = PendingList(self.replica)
        self.generator = Generator(
            ClockPorts(ports.clock, self._timers, ports.disk("clock", self.on_synced), ports.trace),
            self.replica,
            on_stored=self._stored,
        )
        self.generator.assignments.register(
            self.pending.assigned, self.pending.committed, self.pending.aborted
        )
        records.opening(ports.name, self.generator)
        self._timers.set(WRITE_NS, "write")
        self._timers.set(GOSSIP_NS, "gossip")

    def on_timer(self, tag: Hashable) -> None:
        if tag == "write":
            self._timers.set(self._rng.randrange(2 * WRITE_NS), tag)
            self._end_some()
            self.write(self._rng.randint(1, BURST_MAX))
        elif tag == "gossip":
            self._timers.set(self._rng.randrange(2 * GOSSIP_NS), tag)
            self._gossip()
        else:
            self.generator.on_timer(tag)
            self._stop_if_failed()

    def on_synced(self, token: Token, ok: bool) -> None:
        self.generator.on_synced(token, ok)
        self._stop_if_failed()

    def on_message(self, peer: str, message: Hello) -> None:
        vector = Vector.parse(message.vector)
        newest = vector.newest()
        if newest is None or self._is_closing:
            return
        before = self.generator.csnstate()
        try:
            is_sure = self.generator.begin_session(peer, message.replica, vector)
        except SkewTooLarge:
            self._records.refused(self._ports.name, before, self.generator.csnstate())
        else:
            self.vector = self.vector.merged(vector)
            self._heard(newest, is_sure=is_sure)
        self._stop_if_failed()

    def hear(self, csn: Csn) -> None:
        """Receive *csn* from a replica outside the scenario."""
        self.on_message("stranger", Hello(STRANGER, Vector.of(GENERATION, [csn]).text()))

    def close(self) -> None:
        """Stop cleanly; the process ends once its state is stored."""
        self._is_closing = True
        self.generator.close()
        self._stop_if_failed()

    def write(self, count: int) -> None:
        for _ in range(count):
            try:
                csn = self.generator.take()
            except Unavailable as reason:
                self._ports.node.world.sometimes(f"take: {reason.code}")
                return
            self._in_flight.append(csn)
            self._records.assigned(self._ports.name, csn)

    def _end_some(self) -> None:
        """Commit or abort some of the CSNs in flight, in any order."""
        for _ in range(self._rng.randint(0, len(self._in_flight))):
            csn = self._in_flight.pop(self._rng.randrange(len(self._in_flight)))
            if self._rng.random() < 0.8:
                self.generator.commit(csn)
            else:
                self.generator.abort(csn)
        for csn in self.pending.take_sendable():
            self.vector = self.vector.advanced(csn)

    def _gossip(self) -> None:
        self._records.claims(self._ports.name, self.vector, self._in_flight)
        for peer in REPLICAS:
            if peer != self._ports.name:
                self._ports.network.send(peer, Hello(self.replica, self.vector.text()))

    def _stored(self) -> None:
        self._records.stored(self._ports.name)
        if self._is_closing:
            if self.generator.is_closed:
                self._ports.stop("closed")
            return
        unsure, self._unsure = self._unsure, []
        for csn in unsure:
            self._heard(csn, is_sure=self.generator.observe("again", csn))

    def _heard(self, csn: Csn, *, is_sure: bool) -> None:
        self._records.heard(self._ports.name, csn, is_sure=is_sure)
        self._records.offsets(self._ports.name, self.generator)
        if not is_sure:
            self._unsure.append(csn)

    def _stop_if_failed(self) -> None:
        if self.generator.failure is not None:
            raise DiskFailed(self.generator.failure)


class Records:
    """The record of an observer who sees everything, and the rules that the observer checks."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._handed_out = dict.fromkeys(REPLICAS, ZERO)
        self._heard = dict.fromkeys(REPLICAS, ZERO)
        self._known = dict.fromkeys(REPLICAS, ZERO)
        self._has_stored = dict.fromkeys(REPLICAS, False)
        self._owners: dict[Csn, str] = {}
        self.damaged = dict.fromkeys(REPLICAS, False)
        self.counts = dict.fromkeys(REPLICAS, 0)

    def opening(self, name: str, generator: Generator) -> None:
        """Record that a process starts.

        It forgets what it only received, but not what it was certain to know.
        """
        self._heard[name] = ZERO
        try:
            generator.open(is_new=not self._has_stored[name])
        except Corruption as error:
            if not self._was_damaged(name):
                self._world.violation("CSN-25", f"{name}: {error}")
            self._world.sometimes("a damaged clock file is refused")
            self.damaged[name] = True
            raise

    def _was_damaged(self, name: str) -> bool:
        now, faults = self._world.now, self._world.options.faults
        return any(f.kind in DAMAGE and f.target == name and f.at_ns <= now for f in faults)

    def stored(self, name: str) -> None:
        self._has_stored[name] = True

    def assigned(self, name: str, csn: Csn) -> None:
        world = self._world
        if csn <= self._handed_out[name]:
            world.violation("CSN-19", f"{name} hands out {csn} after {self._handed_out[name]}")
        elif csn <= self._heard[name]:
            world.violation("CSN-20", f"{name} hands out {csn} having heard of {self._heard[name]}")
        elif csn <= self._known[name]:
            world.violation("CSN-21", f"{name} hands out {csn}, and knew {self._known[name]}")
        elif csn in self._owners:
            world.violation("CSN-8", f"{name} hands out {csn}, as {self._owners[csn]} did")
        self._handed_out[name] = csn
        self._owners[csn] = name
        self.counts[name] += 1
        world.operation()

    def heard(self, name: str, csn: Csn, *, is_sure: bool) -> None:
        self._heard[name] = max(self._heard[name], csn)
        if is_sure:
            self._known[name] = max(self._known[name], csn)

    def offsets(self, name: str, generator: Generator) -> None:
        status = generator.status()
        if status.state.network_ns > status.max_skew_s * SECOND:
            world = self._world
            world.violation("CSN-34", f"{name} was pulled {status.state.network_ns / SECOND:.1f} s ahead")

    def refused(self, name: str, before: str, after: str) -> None:
        self._world.sometimes("a peer too far ahead is refused")
        if before != after:
            self._world.violation("CSN-33", f"{name}: a refused peer changed {before} to {after}")

    def claims(self, name: str, vector: Vector, in_flight: list[Csn]) -> None:
        for csn in in_flight:
            if vector.covers(csn):
                self._world.violation("CSN-54", f"{name} claims {csn}, which is in flight")


# --- this scenario's own faults: CSNs far ahead from outside, and clean stops


def _draw_pull(rng: random.Random, _: Field) -> Parameters:
    return {"ahead_s": rng.choice((1, 3, 10, 60, 600, 1500, 3500)), "sequence": rng.choice((0, 5, 60_000))}


def _draw_far(rng: random.Random, _: Field) -> Parameters:
    return {"ahead_s": rng.choice((3602, 4000, 100_000)), "sequence": 0}


def _draw_brink(rng: random.Random, _: Field) -> Parameters:
    return {"ahead_s": 0, "sequence": SEQUENCE_MAX - rng.randrange(3 * BURST_MAX)}


def _stranger(world: World, event: FaultEvent) -> bool:
    """Send a master a CSN from outside that is that far ahead of the master's own time."""
    node = world.nodes[event.target]
    if not node.alive or node.core is None:
        return False
    master: Master = node.core
    timestamp = master.generator.status().state.position[0] + event.parameters["ahead_s"]
    node.run(node.life, master.hear, Csn(timestamp, event.parameters["sequence"], STRANGER))
    return True


def _draw_close(rng: random.Random, _: Field) -> Parameters:
    return {}


def _close(world: World, event: FaultEvent) -> bool:
    node = world.nodes[event.target]
    if not node.alive or node.core is None:
        return False
    node.run(node.life, node.core.close)
    return True


class Clock(Scenario):
    name = "clock"
    nodes = tuple(REPLICAS)
    kinds = (*PROCESS_KINDS, *POWER_KINDS, *NETWORK_KINDS, *CLOCK_KINDS, *DISK_KINDS, *DAMAGE)
    own_kinds = (
        FaultKind("pulled_ahead", _draw_pull, _stranger),
        FaultKind("far_ahead", _draw_far, _stranger),
        FaultKind("sequence_brink", _draw_brink, _stranger),
        FaultKind("clean_stop", _draw_close, _close),
    )
    bounds = (Bound(kinds=DAMAGE, per_run=1),)
    fault_ns: ClassVar[int] = 15 * SECOND
    heal_ns: ClassVar[int] = 12 * SECOND

    _records: Records
    _counts_at_heal: dict[str, int]

    def build(self, world: World) -> None:
        self._records = Records(world)
        for name in self.nodes:
            world.add_node(name, partial(Master, records=self._records))

    def healed(self, world: World) -> None:
        self._counts_at_heal = dict(self._records.counts)

    def finish(self, world: World) -> None:
        for name in self.nodes:
            if self._records.counts[name] > self._counts_at_heal[name]:
                continue
            if self._records.damaged[name]:
                world.unavailable("a damaged clock file keeps its master from starting")
            else:
                world.violation("progress", f"{name} assigned nothing after healing")


SCENARIO = Clock
