"""A host's process: it opens its store and its session, keeps its lease alive, and runs its activities.

It runs the production recipes on the production client core. A host whose session is gone or replaced by a
successor ends itself, as in production, and is restarted.

:class:`Stage` is what the observers of one run share: the truth, the lease book, histories and counts.
:class:`StoreFile` is a host's store as far as the authority is concerned: its opening and its context.
"""

import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from holdfast.authority import sessions, stores
from holdfast.authority.client import ClientConfig
from holdfast.authority.contract import LeaseGone, LeaseGrant, LeaseGranted, LeaseKeep, Result, WatchEvent
from holdfast.authority.recipe import AuthorityPort, Recipe, Recipes, Seen
from holdfast.authority.sessions import Session
from holdfast.model.errors import DiskFailed
from holdfast.model.ids import SECOND, HostId, Incarnation, LeaseId, Nonce, Opening, Revision, StoreId
from holdfast.sim.checkers import History
from holdfast.sim.engine.disk import DiskHandle, SimDisk
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.world import World
from holdfast.sim.scenarios.authority.observer import LeaseBook, Truth
from holdfast.sim.scenarios.authority.server import authority_client


@dataclass(slots=True)
class Stage:
    """The observers of one run. Hosts report to it what they were told; no host bases a decision on it."""

    world: World
    truth: Truth
    leases: LeaseBook
    is_ending: bool = False
    """Whether hosts begin nothing new, so that the last answers and events can arrive."""
    progress: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How much each node has completed of each activity since the healing."""
    _histories: dict[int, History] = field(default_factory=dict)
    _held: dict[tuple[str, str, int], str] = field(default_factory=dict)

    @classmethod
    def of(cls, world: World) -> "Stage":
        return cls(world, Truth(world), LeaseBook(world))

    def history(self) -> History:
        """Return the history of the registers of this lineage.

        What a restoration removed is not counted against it.
        """
        return self._histories.setdefault(self.truth.lineage, History(self.world.time))

    def histories(self) -> list[History]:
        return list(self._histories.values())

    def done(self, node: str, activity: str) -> None:
        """Count a request that was answered."""
        self.world.operation()
        if self.world.is_healed:
            self.progress[node, activity] += 1

    def opened_session(self, host: HostId, incarnation: Incarnation, process: str) -> None:
        """Record that *process* was told that it is this incarnation of *host*."""
        self._hold("V2", "incarnation", host, incarnation, process)

    def opened_store(self, store: StoreId, opening: Opening, process: str) -> None:
        """Record that *process* has this opening of *store* on its disk and starts working."""
        self._hold("V5", "opening", store, opening, process)

    def _hold(self, rule: str, what: str, name: str, number: int, process: str) -> None:
        holder = self._held.setdefault((what, name, number), process)
        if holder != process:
            self.world.violation(rule, f"{what} {number} of {name} is held by {holder} and by {process}")


DIRECTORY: Final = "store"
_FILE: Final = "store"
_ASIDE: Final = "store.new"


class StoreRecord(Struct, frozen=True, kw_only=True):
    """What the host's disk says about its store (V5, decision 0002)."""

    store: StoreId
    opening: Opening = Opening(0)
    nonce: Nonce = Nonce("")
    intent: Nonce = Nonce("")
    """The nonce with which the next opening is being requested; empty when none is."""
    context_cas: int = 0


def is_opening(disk: SimDisk) -> bool:
    """Whether the store on this disk has recorded that it will be opened, and not yet that it is open."""
    directory = disk.copy().get(DIRECTORY)
    file = None if directory is None else directory.entries.get(_FILE)
    return file is not None and msgspec.json.decode(bytes(file.content), type=StoreRecord).intent != ""


class StoreFile:
    """The store's record on the host's disk.

    It is replaced as a whole, and durable when :meth:`write` returns.
    """

    def __init__(self, disk: DiskHandle, new_store: StoreId) -> None:
        self._disk = disk
        found = disk.read(_FILE, 0, disk.size(_FILE)) if disk.exists(_FILE) else b""
        self.record = msgspec.json.decode(found, type=StoreRecord) if found else StoreRecord(store=new_store)

    def begin_anew(self, store: StoreId) -> None:
        """Forget everything and become a new store."""
        self._replace(StoreRecord(store=store))

    def write(self, **changes: object) -> None:
        self._replace(msgspec.structs.replace(self.record, **changes))

    def _replace(self, record: StoreRecord) -> None:
        self.record = record
        if self._disk.exists(_ASIDE):
            self._disk.remove(_ASIDE)
        self._disk.write_at(_ASIDE, 0, msgspec.json.encode(self.record))
        if not self._disk.sync_now(_ASIDE):
            raise DiskFailed("the store's record could not be synced")
        self._disk.rename(_ASIDE, _FILE)
        self._disk.sync_dir_now()


LEASE_SECONDS: Final = 2
KEEP_NS: Final = LEASE_SECONDS * SECOND // 3
_KEEP: Final = "keep"


class Activity(Protocol):
    """Something that a host does repeatedly."""

    name: str
    think_ns: int
    """The mean pause between two rounds."""

    def round(self) -> Recipe[None]: ...


class ActorClient(AuthorityPort, Protocol):
    """What an actor needs of its client of the authority."""

    def start(self) -> None: ...

    def on_message(self, peer: str, message: object) -> None: ...

    def watch(self, prefix: str, revision: Revision, token: Hashable) -> None: ...

    def unwatch(self, token: Hashable) -> None: ...


class Actor:
    """A process with a client of the authority. It runs activities, one round of each at a time."""

    def __init__(self, ports: NodePorts, stage: Stage) -> None:
        self.ports = ports
        self.stage = stage
        self.name = HostId(ports.name)
        self.process = f"{ports.name}#{ports.incarnation}"
        self.owner = f"{ports.name}/p{ports.incarnation}"
        """The prefix of this process's nonces: host/incarnation, once it has a session."""
        self.rng = ports.random.stream("activities")
        self._nonces = itertools.count(1)
        self._activities: list[Activity] = []
        self._timers = ports.timers(self.on_timer)
        self.client = self.connect()
        self.recipes = Recipes(self.client)
        self.client.start()

    def connect(self) -> ActorClient:
        """Return a client of the authority, which is started afterwards."""
        return authority_client(self.ports, self.on_authority, self.on_watch, ClientConfig())

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
        """Handle an event of a watch; overridden by actors that watch."""

    def done(self, activity: str) -> None:
        self.stage.done(self.name, activity)

    def _rest(self, number: int) -> None:
        think_ns = self._activities[number].think_ns
        self._timers.set(int(self.rng.expovariate(1.0) * think_ns) + 1, number)

    def on_authority(self, token: Hashable, result: Result) -> None:
        self.recipes.on_authority(token, result)


class HostProcess(Actor, ABC):
    """An actor with a store and a session; its activities begin once both are open."""

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
        """Begin the activities, because the session is open."""

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
        """Number this opening, starting from exactly what the disk says.

        A store that the authority does not know becomes a new store (V5).
        """
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
