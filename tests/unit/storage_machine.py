"""A machine with a simulated disk and a host's log on it, driven step by step."""

from dataclasses import dataclass, field

from holdfast.model.errors import HoldfastError
from holdfast.model.ids import Epoch, GroupId, Opening, Position, StoreId
from holdfast.model.ports import Token
from holdfast.sim import MILLISECOND, NodePorts, Options, World
from holdfast.sim.engine.node import Life
from holdfast.storage.log import Log
from holdfast.storage.recovery import Recovered, scan
from holdfast.storage.segments import LogConfig, salt_of

STORE = StoreId("store")
SALT = salt_of(STORE)
SMALL = LogConfig(
    file_bytes=8192,
    batch_bytes_max=2048,
    gather_bytes_max=32 << 10,
    group_bytes_max=16 << 10,
    files_max=3,
)
A, B, C = GroupId(1), GroupId(2), GroupId(3)
FIRST = Epoch(1)


@dataclass
class Host:
    """One life of the log's owner, and what it was told."""

    log: Log
    recovered: Recovered
    durable: list[int] = field(default_factory=list)
    stopped: list[HoldfastError] = field(default_factory=list)
    is_open: bool = False


class Machine:
    def __init__(self, config: LogConfig = SMALL) -> None:
        self.world = World(Options(scenario="log", seed=1))
        self.config = config
        self._host: Host | None = None
        self.node = self.world.add_node("a", self._build, supervised=False)
        self.disk = self.node.disk

    @property
    def host(self) -> Host:
        assert self._host is not None
        return self._host

    @property
    def log(self) -> Log:
        return self.host.log

    def open(self) -> Log:
        """Begin, and run until the log is open."""
        self.log.open()
        self.run()
        assert self.host.is_open
        return self.log

    def run(self, milliseconds: int = 50) -> None:
        """Let the disk do what was asked of it."""
        self.world.run_until(self.world.now + milliseconds * MILLISECOND)
        assert not self.world.violations, self.world.violations

    def restart(self, *, power_cut: bool = False) -> Host:
        """End the process, or the machine, and scan what is left."""
        (self.node.power_cut if power_cut else self.node.kill)()
        self.node.start()
        return self.host

    def write(self, *bodies: bytes, group: GroupId = A) -> list[int]:
        """Append, flush, and run until all is durable."""
        numbers = [self.log.append(group, FIRST, body) for body in bodies]
        self.log.flush()
        self.run()
        return numbers

    def bodies(self, group: GroupId = A) -> list[bytes]:
        """All bodies the log holds of a group."""
        floor, tail = self.log.floor(group).position, self.log.tail(group).position
        if floor == tail:
            return []
        return [record.body for record in self.log.read(group, Position(floor + 1), tail)]

    def files(self) -> dict[str, bytes]:
        """What is on the disk."""
        handle = self.disk.open("store", Life(), None)
        return {name: handle.read(name, 0, handle.size(name)) for name in handle.list()}

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Damage: other bytes, behind the log's back, durable."""
        handle = self.disk.open("store", Life(), None)
        handle.write_at(name, offset, data)
        assert handle.sync_now(name)

    def truncate(self, name: str, size: int) -> None:
        """Cut off the end of a file, durably, behind the log's back."""
        handle = self.disk.open("store", Life(), None)
        handle.truncate(name, size)
        assert handle.sync_now(name)

    def _build(self, ports: NodePorts) -> Host:
        def on_synced(token: Token, ok: bool) -> None:
            assert host.log.on_synced(token, ok)

        def on_open() -> None:
            host.is_open = True

        disk = ports.disk("store", on_synced)
        recovered = scan(disk, salt=SALT, sector=self.config.sector_bytes)
        durable: list[int] = []
        stopped: list[HoldfastError] = []
        log = Log(
            disk,
            recovered,
            store=STORE,
            opening=Opening(ports.incarnation),
            config=self.config,
            on_open=on_open,
            on_durable=durable.append,
            on_stopped=stopped.append,
        )
        host = self._host = Host(log, recovered, durable, stopped)
        return host


class MemoryFiles:
    """Files to read, in memory."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def list(self) -> list[str]:
        return sorted(self.files)

    def size(self, name: str) -> int:
        return len(self.files[name])

    def read(self, name: str, offset: int, length: int) -> bytes:
        return self.files[name][offset : offset + length]
