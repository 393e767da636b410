"""One master's process: it opens its store, becomes the replica that the store is, and replicates.

This is what a driver does in production: identity first (V5, G3), then the clock, then a copy if one is
needed, then the replica with its links. An operator's habits are here too: a store that no peer can bring up
to date is initialised, but only when the others have what it alone has, or after a while.
"""

from collections.abc import Callable, Hashable
from typing import Final

from msgspec import structs

from holdfast.clock import ClockConfig, ClockPorts, Generator
from holdfast.clock.generator import Phase as ClockPhase
from holdfast.directory.replica.maps import KEPT
from holdfast.directory.replica.replica import ReplicaPorts
from holdfast.directory.replication.acknowledging import CommittedHereOnly
from holdfast.directory.replication.identity import Decision, Step, decide, emptied
from holdfast.directory.replication.messages import CopyAsk, Message, Reason, Refused
from holdfast.directory.replication.ports import ReplicationPorts
from holdfast.directory.replication.replicator import Replicator
from holdfast.directory.replication.roster import (
    CSNSTATE,
    SELF,
    TOLD_OVER,
    Roster,
    decoded_own,
    own_row,
)
from holdfast.directory.replication.taking import HALF_COPIED, Taker
from holdfast.directory.results import DirectoryError
from holdfast.directory.store import Batch
from holdfast.model.csn import Csn
from holdfast.model.errors import DiskFailed, HoldfastError, InvalidRequest
from holdfast.model.ids import HostId, Nonce
from holdfast.model.ports import Token
from holdfast.sim.engine.connections import Packet
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND
from holdfast.sim.scenarios.directory.operator import Operator
from holdfast.sim.scenarios.directory.recorder import Recorder
from holdfast.sim.scenarios.directory.site import ALL_MAPS, GENERATION, SUFFIX, HostIds, Site
from holdfast.sim.scenarios.directory.watched import TimedStore, WatchedReplica
from holdfast.sim.scenarios.directory.wires import Wires
from holdfast.sim.scenarios.directory.workload import WHO, drawn, founding
from holdfast.storage.identity import Ours, StoreIdentity, load, plan

WRITE_NS: Final = 60 * MILLISECOND
WATCH_NS: Final = 100 * MILLISECOND
SOURCE_PATIENCE_NS: Final = 800 * MILLISECOND
"""For how long the one is waited for from whom he wants it to be initialised."""


class Host:
    """One process of one master."""

    def __init__(self, ports: NodePorts, site: Site, recorder: Recorder) -> None:
        self.name = ports.name
        self._ports = ports
        self._site = site
        self._recorder = recorder
        self._rng = ports.random.stream("host")
        self._timers = ports.timers(self._on_timer)
        self._ids = HostIds(site.registry, HostId(ports.name))
        image = site.images[self.name]
        image.cut(ports.random.stream("cut").randint(0, len(image.on_their_way)))
        recorder.restarted(self.name, image)
        self.store = TimedStore(ports, site, self._on_committed)
        self.generator: Generator | None = None
        self.replica: WatchedReplica | None = None
        self.replicator: Replicator | None = None
        self.taker: Taker | None = None
        self._wires: Wires | None = None
        self._heard_ns = 0
        self._source: str | None = None
        self._up: dict[str, None] = {}
        self._began_ns = ports.clock.now()
        self._waiting: Callable[[], None] | None = None
        self._operator = Operator(ports, site)
        self._is_ending = False
        disk = ports.disk("identity", self._on_identity_synced)
        self._identity = StoreIdentity(disk, load(disk), self._stop)
        self._open()

    # --- who this store is

    def _open(self) -> None:
        store = self._identity.store
        verdict = plan(store, HostId(self.name), self._site.registry.recorded(store))
        with self.store.read() as reader:
            own = reader.get(KEPT, SELF)
            is_half = reader.get(KEPT, HALF_COPIED) is not None
            is_told = reader.get(KEPT, TOLD_OVER) is not None
        decision = decide(
            None if own is None else decoded_own(own),
            self._ids,
            is_continued=isinstance(verdict, Ours),
            is_half_copied=is_half,
            is_told_over=is_told,
            is_read_only=self.name == self._site.read_only,
        )
        if isinstance(verdict, Ours):
            self._write_own(decision, lambda: self._number_opening(decision))
        else:
            self._site.world.sometimes("a store was taken for a new one")
            self._write_own(decision, lambda: self._found(decision))

    def _write_own(self, decision: Decision, then: Callable[[], None]) -> None:
        if not decision.is_changed or decision.step is Step.INITIALISE:
            then()  # a copy begins with writing it
            return
        batch = Batch()
        batch.put(KEPT, *own_row(decision.own))
        batch.erase(KEPT, TOLD_OVER)
        self._waiting = then
        self.store.write(batch, "own")

    def _found(self, decision: Decision) -> None:
        new = self._site.registry.new_store()
        self._identity.found(new, HostId(self.name), lambda: self._number_opening(decision))

    def _number_opening(self, decision: Decision) -> None:
        nonce = Nonce(f"{self.name}#{self._ports.incarnation}")

        def begun() -> None:
            assert self._identity.store is not None
            self._site.registry.raise_opening(self._identity.store)
            self._identity.finish_opening(lambda: self._start_clock(decision))

        self._identity.begin_opening(nonce, begun)

    # --- the clock

    def _start_clock(self, decision: Decision) -> None:
        with self.store.read() as reader:
            csnstate = reader.get(KEPT, CSNSTATE)
        clock = ClockPorts(
            self._ports.clock,
            self._timers,
            self._ports.disk("clock", self._on_clock_synced),
            self._ports.trace,
        )
        skew_s = 10**8 if self._site.world.is_healed else 3600
        generator = Generator(
            clock,
            decision.own.replica,
            ClockConfig(csn_max_skew_s=skew_s),
            on_stored=lambda: self._clock_stored(decision),
        )
        self.generator = generator
        generator.open(
            is_new=not decision.own.is_ready, csnstate=None if csnstate is None else csnstate.decode()
        )

    def _clock_stored(self, decision: Decision) -> None:
        assert self.generator is not None
        is_running = self.generator.status().phase is ClockPhase.RUNNING
        if self.replica is None and self.taker is None and is_running:
            if decision.step is not Step.INITIALISE:
                self._serve()
            elif self.name == self._site.names[0] and not self._site.is_founded:
                self._begin_data(decision)
            else:
                self._take_copy(decision)

    def _begin_data(self, decision: Decision) -> None:
        """The first master of all: its store is new, and there is nobody to ask."""
        own = structs.replace(decision.own, is_ready=True, known=(decision.own.replica,))
        batch = Batch()
        batch.put(KEPT, *own_row(own))

        def begun() -> None:
            self._site.is_founded = True
            self._serve()

        self._waiting = begun
        self.store.write(batch, "own")

    # --- a copy

    def _take_copy(self, decision: Decision) -> None:
        self._site.world.sometimes("a copy was asked for")
        self.taker = Taker(
            self.store,
            decision.own,
            suffix=SUFFIX,
            maps=ALL_MAPS,
            kept=KEPT,
            window=self._site.config.copy_window,
            on_done=self._copied,
            on_refused=lambda refused: self._drop_source(),
        )
        self._heard_ns = self._ports.clock.now()
        self._wire()
        self._timers.set(WATCH_NS, "watch")

    def _drop_source(self) -> None:
        """Ask somebody else."""
        source, self._source = self._source, None
        if source is not None and self._wires is not None:
            self._up.pop(source, None)
            self._wires.close(source)
            self._next_source()

    def _next_source(self) -> None:
        """Ask whom the operator has named, if he can be reached, or anybody."""
        assert self.taker is not None
        if self._source is None and self._up:
            named = self._site.sources.get(self.name)
            if named is not None and named not in self._up:
                if self._ports.clock.now() - self._began_ns < SOURCE_PATIENCE_NS:
                    return
                named = None
            self._source = named or next(iter(self._up))
            self._heard_ns = self._ports.clock.now()
            self.taker.ask(_To(self._wires, self._source))

    def _watch_copy(self) -> None:
        self._next_source()
        silent_ns = self._ports.clock.now() - self._heard_ns
        if self._source is not None and silent_ns > self._site.config.silence_ns:
            self._drop_source()

    def _copied(self) -> None:
        self._site.world.sometimes("a copy was taken")
        self._begin_again("initialised")

    # --- the replica

    def _serve(self) -> None:
        assert self.generator is not None
        replica = WatchedReplica(
            ReplicaPorts(self.store, self.generator, self._ports.random, self._ports.trace),
            self._site.schema,
            SUFFIX,
            purge_slice=self._ports.random.stream("purge").choice((1, 12, 100)),
        )
        replica.recorder, replica.name = self._recorder, self.name
        replica.open(generation=GENERATION if self.name == self._site.names[0] else None)
        self.replica = replica
        rows = replica.kept()
        roster = replica.roster = Roster(decoded_own(dict(rows)[SELF]), rows)
        self._wire()
        assert self._wires is not None
        self.replicator = Replicator(
            ReplicationPorts(
                replica,
                self.generator,
                self._wires,
                self._ports.clock,
                self._timers,
                self._ports.trace,
            ),
            roster,
            self._site.config,
            maps=ALL_MAPS,
            peers=self._site.peers[self.name],
            masters=lambda: self._site.names,
            allotted=self._site.registry.present,
            on_told_over=lambda: self._begin_again("told that its id is over"),
            on_failed=lambda why: self._stop(DiskFailed(why)),
        )
        if roster.purged is not None:
            replica.ensure_purged(roster.purged)
        if replica.sight.top() is None:
            for request in founding():
                known = replica.accepted
                csn = replica.execute(request, WHO, lambda csn: self._recorder.acknowledged(self.name, csn))
                self._recorder.issued(self.name, csn, known)
        # Some clients have been waiting for this process.
        self._timers.set(self._rng.choice((MILLISECOND, self._rng.randrange(WRITE_NS))), "write")
        self._timers.set(WATCH_NS, "watch")

    def _wire(self) -> None:
        self._wires = Wires(
            self._ports,
            self._site.peers[self.name],
            on_up=self._on_up,
            on_down=self._on_down,
            on_message=self._on_words,
        )

    # --- events

    def on_message(self, peer: str, packet: Packet) -> None:
        if self._wires is not None:
            self._wires.on_packet(peer, packet)

    def _on_up(self, peer: str) -> None:
        if self.replicator is not None:
            self.replicator.on_up(peer)
        elif self.taker is not None:
            self._up.pop(peer, None)
            self._up[peer] = None
            if self._source == peer:
                self._source = None  # its copy is over
            self._next_source()

    def _on_down(self, peer: str) -> None:
        if self.replicator is not None:
            self.replicator.on_down(peer)
        elif self.taker is not None:
            self._up.pop(peer, None)
            if self._source == peer:
                self._source = None
                self._next_source()

    def _on_words(self, peer: str, message: Message) -> None:
        if self.replicator is not None:
            self.replicator.on_message(peer, message)
        elif isinstance(message, CopyAsk) and self._wires is not None:
            self._wires.send(peer, Refused(Reason.NOT_READY, "this store is being filled itself"))
        elif self.taker is not None and peer == self._source:
            self._heard_ns = self._ports.clock.now()
            try:
                self.taker.on_message(message)
            except InvalidRequest:
                self._drop_source()

    def _on_committed(self, token: Token, ok: bool) -> None:
        if not ok:
            self._stop(DiskFailed("the store cannot commit"))
        elif token == "own":
            waiting, self._waiting = self._waiting, None
            assert waiting is not None
            waiting()
        elif self.taker is not None:
            self.taker.on_committed(token, ok)
        elif self.replica is not None:
            self.replica.on_committed(token, ok)

    def _on_identity_synced(self, token: Token, ok: bool) -> None:
        self._identity.on_synced(token, ok)

    def _on_clock_synced(self, token: Token, ok: bool) -> None:
        assert self.generator is not None
        self.generator.on_synced(token, ok)
        self._check_clock()

    def _on_timer(self, tag: Hashable) -> None:
        if tag == "write":
            self._timers.set(self._rng.randrange(2 * WRITE_NS), tag)
            self._write()
        elif tag == "watch":
            self._timers.set(WATCH_NS, tag)
            if self.taker is not None:
                self._watch_copy()
            elif self.replicator is not None and self._operator.wants_initialisation(self.replicator):
                self._initialise(self.replicator)
        elif self.generator is not None and isinstance(tag, str) and tag.startswith("clock"):
            self.generator.on_timer(tag)
            self._check_clock()
        elif self.replicator is not None:
            self.replicator.on_timer(tag)

    def _check_clock(self) -> None:
        if self.generator is not None and self.generator.failure is not None:
            self._stop(DiskFailed(self.generator.failure))

    def _stop(self, error: HoldfastError) -> None:
        self._ports.stop(f"{error.code}: {error}")

    def _begin_again(self, why: str) -> None:
        """End this process, in order, and start the next."""
        self._ports.trace.note("begins_again", why=why)
        node = self._ports.node
        node.kill()
        node.restart(MILLISECOND)

    def _initialise(self, replicator: Replicator) -> None:
        """Mark the store as one that is to be filled anew, and begin again."""
        if self._is_ending:
            return
        self._is_ending = True
        own = emptied(replicator.roster.own, self._ids)
        self._recorder.loses(self.name, None)
        replicator.keep(
            [(HALF_COPIED, b"1"), own_row(structs.replace(own, is_ready=False))],
            lambda: self._begin_again("to be initialised"),
        )

    # --- a client

    def _write(self) -> None:
        if self.replica is None or self.replicator is None or self._site.is_quiet or self._is_ending:
            return
        try:
            self.replicator.check_write()
        except HoldfastError as reason:
            self._site.world.sometimes(f"write: {reason.code}")
            return
        known = self.replica.accepted
        wants_two = self._rng.random() < 0.3

        def done(csn: Csn) -> None:
            self._recorder.acknowledged(self.name, csn)
            if wants_two and self.replicator is not None:
                self.replicator.acknowledge(csn, lambda error: self._answered(csn, error))

        try:
            if wants_two:
                self.replicator.acknowledgements.check_room()
            if self._rng.random() < 0.1 and (found := self.replica.conflicts()):
                csn = self.replica.settle(self._rng.choice(found), done, keep=self._rng.random() < 0.5)
            else:
                csn = self.replica.execute(drawn(self._rng, self.replica), WHO, done)
        except DirectoryError as reason:
            self._site.world.sometimes(f"client: {reason.result.name.lower()}")
            return
        self._recorder.issued(self.name, csn, known)

    def _answered(self, csn: Csn, error: CommittedHereOnly | None) -> None:
        if error is None:
            self._recorder.second_store(self.name, csn)
        else:
            self._site.world.sometimes("a change was committed here only")


class _To:
    """One peer as a taker sees it."""

    def __init__(self, wires: Wires | None, peer: str) -> None:
        self._wires = wires
        self._peer = peer

    def send(self, message: Message) -> None:
        assert self._wires is not None
        self._wires.send(self._peer, message)
