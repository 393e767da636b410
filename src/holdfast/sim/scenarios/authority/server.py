"""The authority's process on a simulated machine: production core and store, real SQLite, simulated disk.

SQLite works synchronously, so the time its syncs take is spent afterwards. The process is busy for that time,
its messages leave at the end of it, and what arrives meanwhile waits, as it would in the sockets.

The functions at the end are how other processes reach the authority and how checkers read its content.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final, TypeVar

import msgspec

from holdfast.authority.client import AuthorityClient, ClientConfig
from holdfast.authority.contract import Result, WatchEvent
from holdfast.authority.server import AuthorityServer
from holdfast.authority.sqlite import HistoryLimits, SqliteStore
from holdfast.authority.sqlite_file import open_database, restore
from holdfast.model.ids import MILLISECOND, Epoch, Nonce
from holdfast.sim.engine.clocks import SimTimers
from holdfast.sim.engine.disk import Image
from holdfast.sim.engine.node import Life, NodePorts, SimNode
from holdfast.sim.engine.vfs import SimVfs
from holdfast.sim.engine.world import World
from holdfast.sim.scenarios.authority.observer import LeaseBook, ObservedStore, Truth

FILE: Final = "authority.sqlite"
DIRECTORY: Final = "authority"
HISTORY: Final = HistoryLimits(revisions_max=400)
"""Short, so that watches meet compaction."""
CHECKPOINT_PAGES: Final = 60
"""Few, so that crashes meet checkpoints."""
STEP_NS: Final = 250 * MILLISECOND
WAITING_MAX: Final = 20_000
"""The most messages in the sockets of a busy process."""


class StoreNode(ABC):
    """A process that serves one store; :meth:`open_store` says which."""

    store: SqliteStore

    def __init__(self, ports: NodePorts) -> None:
        self._ports = ports
        self._is_busy = False
        self._waiting: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._outbox: list[tuple[str, object]] = []
        self._vfs = SimVfs(ports.disk(DIRECTORY), rng=ports.random.stream("sqlite"), wall=ports.clock.wall)
        self.store = self.open_store(self._vfs.name)
        self._server = AuthorityServer(
            store=self.store,
            clock=ports.clock,
            timers=self._timers,
            network=self,
            random=ports.random,
            trace=ports.trace,
        )
        self._server.start()
        self._spend_time()

    @abstractmethod
    def open_store(self, vfs: str) -> SqliteStore:
        """Open the store on this file system, and tell the observers."""

    def on_message(self, peer: str, message: object) -> None:
        self._do(self._server.on_message, peer, message)

    def send(self, peer: str, message: object) -> None:
        """Send a message for the server: nothing leaves before the time of the commit has passed."""
        self._outbox.append((peer, message))

    def _timers(self, on_timer: Callable[[Hashable], None]) -> SimTimers:
        return self._ports.timers(lambda tag: self._do(on_timer, tag))

    def _do(self, handler: Callable[..., None], *args: object) -> None:
        if not self._is_busy:
            handler(*args)
            self._spend_time()
        elif len(self._waiting) < WAITING_MAX:
            self._waiting.append((handler, args))

    def _spend_time(self) -> None:
        ports = self._ports
        elapsed_ns = ports.node.disk.take_elapsed()
        if elapsed_ns:
            self._is_busy = True
            self._go_on_at(ports.node.world.now + elapsed_ns)
        else:
            self._flush()

    def _go_on_at(self, end_ns: int) -> None:
        """Wait in short steps, so that the process continues soon after a hung disk is healed."""
        ports = self._ports
        step_ns = min(end_ns - ports.node.world.now, STEP_NS)
        ports.node.world.after(step_ns, ports.node.run, ports.life, self._go_on, end_ns)

    def _go_on(self, end_ns: int) -> None:
        world = self._ports.node.world
        if world.now < end_ns and not world.is_healed:
            self._go_on_at(end_ns)
            return
        self._is_busy = False
        self._flush()
        while self._waiting and not self._is_busy:
            handler, args = self._waiting.popleft()
            self._do(handler, *args)

    def _flush(self) -> None:
        outbox, self._outbox = self._outbox, []
        for peer, message in outbox:
            self._ports.network.send(peer, message)


class AuthorityNode(StoreNode):
    """The core of the node `authority`."""

    store: ObservedStore

    def __init__(self, ports: NodePorts, truth: Truth, leases: LeaseBook) -> None:
        self._truth = truth
        self._leases = leases
        super().__init__(ports)

    def open_store(self, vfs: str) -> ObservedStore:
        store = ObservedStore(
            FILE,
            now_ns=self._ports.clock.now(),
            new_id="simulated",
            vfs=vfs,
            limits=HISTORY,
            checkpoint_pages=CHECKPOINT_PAGES,
        )
        store.truth = self._truth
        store.leases_ended = self._leases.expired
        self._truth.opened(store)
        self._leases.authority_started()
        return store


def restore_old_copy(node: SimNode, image: Image, truth: Truth) -> None:
    """Do what an operator does with a backup: put it in place, restore above all epochs, and start (A5)."""
    node.kill()
    node.disk.heal()
    node.disk.replace(image)
    world = node.world
    vfs = SimVfs(node.disk.open(DIRECTORY, Life(), None), rng=world.rng("restore"), wall=node.clock.wall)
    db = open_database(FILE, vfs=vfs.name)
    highest, nonce = Epoch(truth.rules.highest("epoch")), Nonce("operator/0/restore")
    restore(db, highest, nonce=nonce, wall_ns=node.clock.wall())
    db.close()
    store = ObservedStore(FILE, now_ns=0, vfs=vfs.name)
    truth.restored(store.contents(), store.history(store.revision, 1)[0])
    store.close()
    node.disk.take_elapsed()


AUTHORITY: Final = "authority"
"""The node that the authority runs on."""
IMPATIENT: Final = ClientConfig(deadline_ns=600 * MILLISECOND)

Kind = TypeVar("Kind")


def authority_client(
    ports: NodePorts,
    on_authority: Callable[[Hashable, Result], None],
    on_watch: Callable[[Hashable, WatchEvent], None],
    config: ClientConfig = IMPATIENT,
    server: str = AUTHORITY,
) -> AuthorityClient:
    """Return a production client on the ports of one process."""
    return AuthorityClient(
        server=server,
        clock=ports.clock,
        timers=ports.timers,
        network=ports.network,
        random=ports.random,
        trace=ports.trace,
        on_authority=on_authority,
        on_watch=on_watch,
        config=config,
    )


def values_at_authority(world: World, prefix: str, kind: type[Kind]) -> list[Kind]:
    """Return the values below *prefix* at the authority; nothing while it is down."""
    node = world.nodes[AUTHORITY].core
    if node is None:
        return []
    return [
        msgspec.json.decode(item.value, type=kind)
        for key, item in sorted(node.store.truth.items.items())
        if key.startswith(prefix)
    ]
