"""A host's process: opens its store and its session, keeps its lease, and goes about its activities.

It runs the production recipes on the production client core. A host that finds its session gone, or
replaced by a successor, ends itself, as hosts do, and is started again.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Final, Protocol

from holdfast.authority import sessions, stores
from holdfast.authority.client import ClientConfig
from holdfast.authority.contract import LeaseGone, LeaseGrant, LeaseGranted, LeaseKeep, Result, WatchEvent
from holdfast.authority.outcome import Seen
from holdfast.authority.recipe import Recipe, Recipes
from holdfast.authority.sessions import Session
from holdfast.model.ids import HostId, LeaseId, Nonce, StoreId
from holdfast.model.units import SECOND
from holdfast.sim.authority.asking import authority_client
from holdfast.sim.authority.stage import Stage
from holdfast.sim.authority.store_file import DIRECTORY, StoreFile
from holdfast.sim.node import NodePorts

LEASE_SECONDS: Final = 2
KEEP_NS: Final = LEASE_SECONDS * SECOND // 3
_KEEP: Final = "keep"


class Activity(Protocol):
    """One thing a host does over and over."""

    name: str
    think_ns: int
    """Mean pause between two rounds."""

    def round(self) -> Recipe[None]: ...


class Actor:
    """A process with a client of the authority: runs activities, one round of each at a time."""

    def __init__(self, ports: NodePorts, stage: Stage) -> None:
        self.ports = ports
        self.stage = stage
        self.name = HostId(ports.name)
        self.process = f"{ports.name}#{ports.incarnation}"
        self.owner = f"{ports.name}/p{ports.incarnation}"
        """Whose nonces this process makes: host/incarnation, once it has a session."""
        self.rng = ports.random.stream("activities")
        self._nonces = itertools.count(1)
        self._activities: list[Activity] = []
        self._timers = ports.timers(self.on_timer)
        self.client = authority_client(ports, self._on_authority, self.on_watch, ClientConfig())
        self.recipes = Recipes(self.client)
        self.client.start()

    def nonce(self) -> Nonce:
        return Nonce(f"{self.owner}/{self.ports.incarnation}.{next(self._nonces)}")

    def take_up(self, *activities: Activity) -> None:
        for activity in activities:
            self._activities.append(activity)
            self._rest(len(self._activities) - 1)

    def on_message(self, peer: str, message: object) -> None:
        self.client.on_message(peer, message)

    def on_timer(self, tag: Hashable) -> None:
        if isinstance(tag, int) and not self.stage.is_ending:
            self.recipes.start(self._activities[tag].round(), lambda _: self._rest(tag))

    def on_watch(self, token: Hashable, event: WatchEvent) -> None:
        """Overridden by those that watch."""

    def done(self, activity: str) -> None:
        self.stage.done(self.name, activity)

    def _rest(self, number: int) -> None:
        think_ns = self._activities[number].think_ns
        self._timers.set(int(self.rng.expovariate(1.0) * think_ns) + 1, number)

    def _on_authority(self, token: Hashable, result: Result) -> None:
        self.recipes.on_authority(token, result)


class HostProcess(Actor, ABC):
    """An actor with a store and a session; *activities* begin once both are open."""

    session: Session
    lease: LeaseId

    def __init__(self, ports: NodePorts, stage: Stage) -> None:
        super().__init__(ports, stage)
        self.file = StoreFile(ports.disk(DIRECTORY), self._new_store())
        self.recipes.start(self._open(), lambda _: self._opened())

    def on_timer(self, tag: Hashable) -> None:
        if tag == _KEEP:
            self.recipes.start(self._keep(), lambda _: None)
            self._timers.set(KEEP_NS, _KEEP)
        else:
            super().on_timer(tag)

    @abstractmethod
    def begin(self) -> None:
        """The session is open: take up activities."""

    def _opened(self) -> None:
        self._timers.set(KEEP_NS, _KEEP)
        self.begin()

    def _open(self) -> Recipe[None]:
        yield from self._open_store()
        while True:
            yield from self._grant()
            nonce = self.nonce()
            answer = yield from self._settled(nonce)
            if isinstance(answer, Seen):
                break
        self.session = answer.value
        self.owner = f"{self.name}/{self.session.incarnation}"
        self.stage.opened_session(self.name, self.session.incarnation, self.process)
        self.done("session")

    def _settled(self, nonce: Nonce) -> Recipe[Seen[Session] | LeaseGone]:
        """Ask until the outcome is definite, always with the same nonce."""
        while True:
            answer = yield from sessions.open_session(
                self.name, lease=self.lease, address=f"{self.name}:1", nonce=nonce
            )
            if isinstance(answer, Seen | LeaseGone):
                return answer

    def _grant(self) -> Recipe[None]:
        while True:
            sent_at = self.stage.world.now
            granted = yield LeaseGrant(LEASE_SECONDS)
            if isinstance(granted, LeaseGranted):
                self.lease = granted.lease
                self.stage.leases.granted(granted.lease, granted.seconds, sent_at)
                return

    def _keep(self) -> Recipe[None]:
        sent_at = self.stage.world.now
        self.stage.leases.tried(self.lease)
        kept = yield LeaseKeep(self.lease)
        if isinstance(kept, LeaseGranted):
            self.stage.leases.granted(kept.lease, kept.seconds, sent_at)
        elif isinstance(kept, LeaseGone):
            self.ports.stop("the session's lease is gone")

    def _open_store(self) -> Recipe[None]:
        """Number this opening, from exactly what the disk says; a stranger begins as a new store (V5)."""
        while True:
            if not self.file.record.intent:
                self.file.write(intent=self.nonce())
            record = self.file.record
            answer = yield from stores.raise_opening(
                record.store, expected=record.opening, expected_nonce=record.nonce, nonce=record.intent
            )
            if isinstance(answer, Seen):
                self.file.write(opening=answer.value.opening, nonce=record.intent, intent=Nonce(""))
                self.stage.opened_store(record.store, answer.value.opening, self.process)
                return
            if isinstance(answer, stores.Stranger | stores.Behind):
                self.stage.world.sometimes(f"store is {type(answer).__name__.lower()}")
                self.file.begin_anew(self._new_store())

    def _new_store(self) -> StoreId:
        return StoreId(f"{self.process}-{self.rng.getrandbits(32):08x}")
