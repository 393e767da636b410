"""A master's store and replica, with time passing and the observer told of what they do."""

from collections.abc import Callable, Sequence

from holdfast.clock.vector import Vector
from holdfast.directory.memory_store import MemoryStore
from holdfast.directory.replica.maps import UPDATES
from holdfast.directory.replica.replica import Replica
from holdfast.directory.replica.seam import ReplicaListener
from holdfast.directory.replica.update import Update
from holdfast.directory.replication.roster import Roster
from holdfast.directory.store import Batch
from holdfast.model.csn import Csn
from holdfast.model.ports import Token
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.scenarios.directory.recorder import Recorder
from holdfast.sim.scenarios.directory.site import AUDIT, Site


class TimedStore(MemoryStore):
    """The store in memory, whose transactions take time."""

    def __init__(self, ports: NodePorts, site: Site, on_committed: Callable[[Token, bool], None]) -> None:
        super().__init__(site.images[ports.name], on_committed)
        self._ports = ports
        self._rng = ports.random.stream("store")
        self.fails = False

    def write(self, batch: Batch, token: Token) -> None:
        for name, key, value in list(batch.changes):
            if name == UPDATES and value is not None:
                batch.put(AUDIT, key, b"")
        super().write(batch, token)
        node, options = self._ports.node, self._ports.node.world.options.disk
        delay_ns = options.sync_min_ns + int(self._rng.expovariate(1.0) * options.sync_mean_ns)
        node.world.after(delay_ns, node.run, self._ports.life, self._commit_next)

    def _commit_next(self) -> None:
        if self.fails:
            self.fail()
        elif self.on_its_way:
            self.commit(1)


class WatchedReplica(Replica):
    """The replica, with the observer told of what it does."""

    recorder: Recorder
    name: str
    roster: Roster

    def listen(self, listener: ReplicaListener) -> None:
        super().listen(_Told(listener, self.recorder))

    def trim(self, vector: Vector, token: Token) -> int:
        self.recorder.trims(self.name, vector, self.roster)
        return super().trim(vector, token)

    def purge(self, vector: Vector, token: Token) -> None:
        if hasattr(self, "roster"):
            self.recorder.purges(self.name, vector, self.accepted, self.roster)
        super().purge(vector, token)

    def heartbeat(self, token: Token) -> Csn:
        csn = super().heartbeat(token)
        self.recorder.stated(self.name, csn)
        return csn


class _Told:
    """The replica's listener, with the observer before it."""

    def __init__(self, listener: ReplicaListener, recorder: Recorder) -> None:
        self._recorder = recorder
        self._listener = listener
        self.on_applied = listener.on_applied
        self.on_failed = listener.on_failed

    def on_committed(self, updates: Sequence[Update], *, is_own: bool) -> None:
        self._recorder.committed(tuple(updates))
        self._listener.on_committed(updates, is_own=is_own)
