"""The processes of a domain that moves: two authorities, hosts that follow, and movers.

All of them run production code: the store and server of the embedded authority, the follower on one client
core for each place, the mover. A mover begins a move from wherever the domain is to the other place, takes
over a move that it finds under way, or, like a person who has left, does nothing about it: then hosts must.
"""

import itertools
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from holdfast.authority.client import AuthorityClient
from holdfast.authority.contract import Compacted, Events, Request, Result, WatchEvent
from holdfast.authority.move.finding import Serving, Undecided, find_serving
from holdfast.authority.move.follower import Follower, FollowerConfig
from holdfast.authority.move.mover import Moved, Mover, Progress, StaysHere
from holdfast.authority.move.place import Place, sqlite_at
from holdfast.authority.move.seat import At, SeatState, SeenSeat
from holdfast.authority.recipe import NoAnswer
from holdfast.authority.sqlite import SqliteStore
from holdfast.model.ids import MILLISECOND, SECOND, Nonce, Revision
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.scenarios.authority.activities import Claims, Mirror, Registers
from holdfast.sim.scenarios.authority.host import Actor, ActorClient, HostProcess, Stage
from holdfast.sim.scenarios.authority.server import (
    CHECKPOINT_PAGES,
    FILE,
    HISTORY,
    StoreNode,
    authority_client,
)
from holdfast.sim.scenarios.move.observer import MoveStore, MoveTruth

PLACES: Final = ("a", "b")
FIRST: Final = "a"
FOLLOWING: Final = FollowerConfig(give_up_ns=SECOND)
"""Impatient, so that moves are given up within a run."""
LEAVES: Final = 0.4
"""The probability that a mover which is started again leaves a move alone that it finds under way."""


class PlaceNode(StoreNode):
    """One of the two authorities."""

    store: MoveStore

    def __init__(self, ports: NodePorts, truth: MoveTruth) -> None:
        self._truth = truth
        super().__init__(ports)

    def open_store(self, vfs: str) -> SqliteStore:
        store = MoveStore(
            FILE,
            now_ns=self._ports.clock.now(),
            new_id=f"simulated {self._ports.name}",
            vfs=vfs,
            limits=HISTORY,
            checkpoint_pages=CHECKPOINT_PAGES,
        )
        store.truth, store.place = self._truth, self._ports.name
        self._truth.open_store(store)
        return store


class Connections:
    """The production clients of one process, one for each place."""

    def __init__(
        self,
        ports: NodePorts,
        on_result: Callable[[Hashable, Result], None],
        on_watch: Callable[[str, Hashable, WatchEvent], None],
    ) -> None:
        self.clients: dict[str, AuthorityClient] = {
            place: authority_client(
                ports,
                on_result,
                partial(on_watch, place),
                server=place,
            )
            for place in PLACES
        }

    def start(self) -> None:
        for client in self.clients.values():
            client.start()

    def ask(self, place: Place, request: Request, token: Hashable) -> None:
        self.clients[place.address].request(request, token)

    def on_message(self, peer: str, message: object) -> None:
        if peer in self.clients:
            self.clients[peer].on_message(peer, message)


class FollowingClient:
    """A follower with its connections, as the actors of the simulation use a client."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        numbers = itertools.count(1)
        self._connections = Connections(actor.ports, self._on_result, self._on_watch)
        self._watches: dict[Hashable, None] = {}
        self.follower = Follower(
            sqlite_at(FIRST),
            clock=actor.ports.clock,
            timers=actor.ports.timers,
            trace=actor.ports.trace,
            nonces=lambda: Nonce(f"{actor.process} gives up {next(numbers)}"),
            ask=self._connections.ask,
            on_authority=actor.on_authority,
            on_moved=self._on_moved,
            config=FOLLOWING,
        )

    def start(self) -> None:
        self._connections.start()

    def on_message(self, peer: str, message: object) -> None:
        self._connections.on_message(peer, message)

    def request(self, request: Request, token: Hashable) -> None:
        self.follower.request(request, token)

    def watch(self, prefix: str, revision: Revision, token: Hashable) -> None:
        self._watches[token] = None
        there = Revision(revision - self.follower.translation.offset)
        self._current.watch(prefix, there, token, self.follower.seen.revision)

    def unwatch(self, token: Hashable) -> None:
        self._watches.pop(token, None)
        self._current.unwatch(token)

    @property
    def _current(self) -> AuthorityClient:
        return self._connections.clients[self.follower.seen.place.address]

    def _on_result(self, token: Hashable, result: Result) -> None:
        self.follower.on_result(token, result)

    def _on_watch(self, place: str, token: Hashable, event: WatchEvent) -> None:
        if place != self.follower.seen.place.address or token not in self._watches:
            return
        if isinstance(event, Events):
            event = self.follower.translation.events(event)
        else:
            del self._watches[token]
        self._actor.on_watch(token, event)

    def _on_moved(self, seen: SeenSeat) -> None:
        watches, self._watches = self._watches, {}
        for token in watches:
            for client in self._connections.clients.values():
                client.unwatch(token)
            self._actor.on_watch(token, Compacted(Revision(0)))


class MovingHost(HostProcess):
    """A host that works on registers and views while the authority moves."""

    def __init__(self, ports: NodePorts, stage: Stage) -> None:
        self.mirror: Mirror | None = None
        super().__init__(ports, stage)

    def connect(self) -> ActorClient:
        self.following = FollowingClient(self)
        return self.following

    def begin(self) -> None:
        self.mirror = Mirror(self, "registers/")
        self.take_up(Registers(self), Claims(self), self.mirror)

    def on_watch(self, token: Hashable, event: WatchEvent) -> None:
        if self.mirror is not None:
            self.mirror.on_watch(token, event)


@dataclass(slots=True)
class Direction:
    """What the scenario has in store for its movers."""

    may_begin: bool = True
    """Whether movers begin moves; not when the run is about to end."""
    waiting: list[Callable[[str], object]] = field(default_factory=list)
    """Faults that happen at the next step of a move."""

    def on_step(self, mover: str) -> None:
        """Let happen what waits for a step, of which *mover* has just taken one."""
        waiting, self.waiting = self.waiting, []
        for happen in waiting:
            happen(mover)


class MoverNode:
    """A process that moves the domain again and again."""

    def __init__(self, ports: NodePorts, stage: Stage, direction: Direction) -> None:
        self._ports = ports
        self._stage = stage
        self._direction = direction
        self._rng = ports.random.stream("mover")
        self._name = f"{ports.name}#{ports.incarnation}"
        self._nonces = itertools.count(1)
        self._numbers = itertools.count(1)
        self._timers = ports.timers(self._on_timer)
        self._running: tuple[int, Generator[At, Result, Any], Callable[[Any], None]] | None = None
        self._connections = Connections(ports, self._on_result, lambda place, token, event: None)
        self._connections.start()
        self._rest(2 * SECOND)

    def on_message(self, peer: str, message: object) -> None:
        self._connections.on_message(peer, message)

    def _on_timer(self, tag: Hashable) -> None:
        if self._running is None and self._direction.may_begin:
            self._run(find_serving(sqlite_at(FIRST)), self._on_found)

    def _on_found(self, found: object) -> None:
        if isinstance(found, Serving):
            self._move(found.seen.place, _other(found.seen.place))
        elif isinstance(found, Undecided) and self._rng.random() > LEAVES:
            self._stage.world.sometimes("a mover takes over")
            self._move(found.source.place, found.target.place)
        else:
            self._rest(2 * SECOND)

    def _move(self, source: Place, target: Place) -> None:
        id = f"{self._name} {next(self._numbers)}"
        mover = Mover(
            source, target, id=id, nonce=self._nonce, now=self._ports.clock.now, tell=self._on_progress
        )
        self._run(mover.run(), lambda end: self._on_end(mover, end))

    def _on_end(self, mover: Mover, end: object) -> None:
        if isinstance(end, NoAnswer):
            if self._stage.world.is_healed or self._rng.random() > 0.1:
                self._run(mover.run(), lambda end: self._on_end(mover, end))
                return
            self._stage.world.sometimes("a mover loses patience")
        elif isinstance(end, Moved):
            self._stage.done(self._ports.name, "moves")
            if end.copied is not None and end.seen.seat.state is SeatState.SERVING:
                self._stage.world.sometimes("a mover saw its move released")
        elif isinstance(end, StaysHere):
            self._stage.world.sometimes("a mover saw its move given up")
        self._rest(1 * SECOND)

    def _on_progress(self, progress: Progress) -> None:
        self._ports.trace.note("mover", step=progress.step, done=progress.done)
        self._direction.on_step(self._ports.name)

    def _nonce(self) -> Nonce:
        return Nonce(f"{self._name}/{next(self._nonces)}")

    def _rest(self, mean_ns: int) -> None:
        self._timers.set(int(self._rng.expovariate(1.0) * mean_ns) + MILLISECOND, "begin")

    def _run(self, recipe: Generator[At, Result, Any], then: Callable[[Any], None]) -> None:
        self._running = (next(self._numbers), recipe, then)
        self._step(None)

    def _on_result(self, token: Hashable, result: Result) -> None:
        if self._running is not None and token == self._running[0]:
            self._step(result)

    def _step(self, result: Result | None) -> None:
        assert self._running is not None
        _, recipe, then = self._running
        try:
            asked = next(recipe) if result is None else recipe.send(result)
        except StopIteration as done:
            self._running = None
            then(done.value)
            return
        if self._ports.life.over:
            return
        number = next(self._numbers)
        self._running = (number, recipe, then)
        self._connections.ask(asked.place, asked.request, number)


def _other(place: Place) -> Place:
    return sqlite_at(next(each for each in PLACES if each != place.address))
