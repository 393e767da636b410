"""Masters that replicate over connections made of lists: for tests of what links say and do."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable

from directory_replica import Master

from holdfast.directory.replica.maps import MAPS
from holdfast.directory.replication.messages import Message, decode_message, encode_message
from holdfast.directory.replication.ports import MILLISECOND, ReplicationConfig, ReplicationPorts
from holdfast.directory.replication.replicator import RELAY, TELL, TICK, Replicator
from holdfast.directory.replication.roster import Own, Roster, own_row
from holdfast.model.ids import ReplicaId
from holdfast.model.ports import NoTrace, TimerId
from holdfast.sim import Options, World

CONFIG = ReplicationConfig(
    tick_ns=100 * MILLISECOND,
    silence_ns=1_000 * MILLISECOND,
    statement_ns=100 * MILLISECOND,
    purge_ns=1 << 60,
    hear_first_ns=1,
)


class Sent(list[tuple[str, Message]]):
    """What one master has said to whom. A cut link takes nothing."""


class Wires:
    """The Links port of one master."""

    def __init__(self) -> None:
        self.queue: deque[tuple[str, bytes]] = deque()
        self.sent = Sent()
        self.closed: list[str] = []

    def send(self, peer: str, message: Message) -> None:
        self.sent.append((peer, message))
        self.queue.append((peer, encode_message(message)))

    def close(self, peer: str) -> None:
        self.closed.append(peer)

    def of(self, kind: type) -> list:
        return [message for _, message in self.sent if isinstance(message, kind)]


class Tags:
    """The Timers port: tags wait until the test fires them."""

    def __init__(self) -> None:
        self.waiting: list[Hashable] = []

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        self.waiting.append(tag)
        return TimerId(len(self.waiting))

    def cancel(self, timer: TimerId) -> None:
        raise AssertionError("replication cancels no timer")


class Linked:
    """One master with replication."""

    def __init__(self, number: int, world: World, config: ReplicationConfig = CONFIG, **own: object) -> None:
        self.master = Master(number, world)
        self.name = self.master.node.name
        row = Own(replica=ReplicaId(number), **{"is_ready": True, "known": (ReplicaId(number),), **own})
        self.master.replica.keep([own_row(row)], "own")
        self.master.store.commit()
        self.wires, self.tags = Wires(), Tags()
        self.told_over = 0
        self.begin(config)

    def begin(
        self,
        config: ReplicationConfig = CONFIG,
        peers: Iterable[str] = (),
        allotted: Callable[[], Iterable[ReplicaId]] = tuple,
    ) -> None:
        from holdfast.directory.replication.roster import SELF, decoded_own

        rows = self.master.replica.kept()
        self.roster = Roster(decoded_own(dict(rows)[SELF]), rows)
        ports = ReplicationPorts(
            self.master.replica,
            self.master.generator,
            self.wires,
            self.master.node.clock,
            self.tags,
            NoTrace(),
        )
        self.replicator = Replicator(
            ports,
            self.roster,
            config,
            maps=MAPS,
            peers=tuple(peers),
            masters=lambda: ("m1", "m2"),
            allotted=allotted,
            on_told_over=self._over,
        )

    def _over(self) -> None:
        self.told_over += 1

    @property
    def replica(self):
        return self.master.replica

    def fire(self, *tags: str) -> None:
        """The timers of these tags, or all that wait, fire now."""
        waiting, self.tags.waiting = self.tags.waiting, []
        for tag in waiting:
            if not tags or tag in tags:
                self.replicator.on_timer(tag)
            else:
                self.tags.waiting.append(tag)

    def dump(self) -> bytes:
        return self.replica.dump()


class Mesh:
    """Masters that are linked as a test says."""

    def __init__(self, count: int, links: Iterable[tuple[int, int]], **settings: object) -> None:
        self.world = World(Options(scenario="", seed=0))
        known = tuple(ReplicaId(n) for n in range(1, count + 1))
        settings = {"known": known, **settings}
        self.masters = {f"m{n}": Linked(n, self.world, **settings) for n in range(1, count + 1)}
        self.links = {frozenset((f"m{a}", f"m{b}")) for a, b in links}
        self.delivered = 0

    def __getitem__(self, number: int) -> Linked:
        return self.masters[f"m{number}"]

    def connect(self) -> None:
        for name, each in self.masters.items():
            for other in self.masters:
                if frozenset((name, other)) in self.links:
                    each.replicator.on_up(other)

    def cut(self, a: int, b: int) -> None:
        self.links.discard(frozenset((f"m{a}", f"m{b}")))
        self[a].replicator.on_down(f"m{b}")
        self[b].replicator.on_down(f"m{a}")

    def join(self, a: int, b: int) -> None:
        self.links.add(frozenset((f"m{a}", f"m{b}")))
        self[a].replicator.on_up(f"m{b}")
        self[b].replicator.on_up(f"m{a}")

    def settle(self, rounds: int = 6, seconds: float = 0.2) -> None:
        """Deliver what was said, let timers fire and disks commit, until all is quiet."""
        for _ in range(rounds):
            self.world.run_until(self.world.now + int(seconds * 10**9))
            for tag in (TELL, RELAY, TICK):  # the shortest first
                for each in self.masters.values():
                    each.fire(tag)
                self.deliver()

    def deliver(self) -> None:
        while any(each.wires.queue or each.master.store.on_its_way for each in self.masters.values()):
            for name, each in self.masters.items():
                each.master.store.commit()
                while each.wires.queue:
                    peer, data = each.wires.queue.popleft()
                    if peer in self.masters and frozenset((name, peer)) in self.links:
                        self.delivered += 1
                        self.masters[peer].replicator.on_message(name, decode_message(data))
