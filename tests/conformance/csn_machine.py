"""A machine with a generator on it, for the tests of this folder: the simulator's clock, timers and disk."""

from contextlib import AbstractContextManager

from holdfast.clock import ClockConfig, ClockPorts, Generator, Phase
from holdfast.model.csn import Csn
from holdfast.model.errors import Unavailable
from holdfast.model.ids import SECOND, ReplicaId
from holdfast.model.ports import Token
from holdfast.sim import ClockOptions, DiskHandle, NodePorts, Options, World
from holdfast.sim.engine.node import Life

START_S = 1_704_067_200
"""What an exact clock shows at the beginning."""


class BreakableClock:
    """A machine's wall clock that can be made unreadable."""

    def __init__(self, ports: NodePorts) -> None:
        self._clock = ports.clock
        self.is_broken = False
        self.fixed_ns: int | None = None

    def now(self) -> int:
        return self._clock.now()

    def wall(self) -> int:
        if self.is_broken:
            raise Unavailable("no such clock")
        return self._clock.wall() if self.fixed_ns is None else self.fixed_ns


class Machine:
    """One simulated machine; its generator lives and dies with its process, its disk stays."""

    def __init__(
        self,
        world: World | None = None,
        *,
        name: str = "a",
        replica: int = 1,
        config: ClockConfig | None = None,
        wall_offset_ns: int = 0,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        self.world = world or World(Options(scenario="", seed=0), keep_trace=True)
        self.stored = 0
        self.is_new = True
        self.csnstate: str | None = None
        self.failing_sync: str | None = None
        """Syncs whose token has this word fail; the simulated disk's own directory syncs never do."""
        self.config = config
        self._replica = ReplicaId(replica)
        self._lock = lock
        clock = ClockOptions(wall_offset_ns=wall_offset_ns)
        self.node = self.world.add_node(name, self._build, clock=clock, supervised=False)
        self.run(0.1)

    @property
    def generator(self) -> Generator:
        generator = self.node.core
        assert isinstance(generator, Generator), "the process is not running"
        return generator

    def run(self, seconds: float) -> None:
        self.world.run_until(self.world.now + int(seconds * SECOND))

    def take(self, count: int) -> list[Csn]:
        """So many CSNs, each committed."""
        taken = []
        for _ in range(count):
            csn = self.generator.take()
            self.generator.commit(csn)
            taken.append(csn)
        return taken

    def restart(self, *, power: bool = False, after_s: float = 0) -> None:
        """Crash, wait, start again."""
        (self.node.power_cut if power else self.node.kill)()
        self.run(after_s)
        self.node.start()
        self.run(0.1)

    def close(self) -> None:
        self.generator.close()
        self.run(0.1)
        assert self.generator.status().phase is Phase.CLOSED

    def set_back(self, seconds: int) -> None:
        self.node.clock.jump_wall(-seconds * SECOND)

    def notes(self, kind: str) -> list[str]:
        """The trace lines of that kind so far."""
        self.world.trace.hash()
        return [line for line in self.world.trace.kept or () if f" {kind} " in line]

    def file(self) -> bytes:
        """The clock file as it is on the disk."""
        return self._directory().read("clock", 0, 1000)

    def damage(self, offset: int) -> None:
        """Flip a bit of the clock file."""
        old = self._directory().read("clock", offset, 1)
        self._directory().write_at("clock", offset, bytes([old[0] ^ 1]))

    def remove_file(self) -> None:
        self._directory().remove("clock")

    def _fails(self, token: Token) -> bool:
        return isinstance(token, tuple) and self.failing_sync in token

    def _directory(self) -> DiskHandle:
        return self.node.disk.open("clock", Life(), None)

    def _build(self, ports: NodePorts) -> Generator:
        def on_stored() -> None:
            self.stored += 1
            self.is_new = False

        self.clock = BreakableClock(ports)
        timers = ports.timers(lambda tag: generator.on_timer(tag))
        disk = ports.disk(
            "clock", lambda token, ok: generator.on_synced(token, ok and not self._fails(token))
        )
        generator = Generator(
            ClockPorts(self.clock, timers, disk, ports.trace),
            self._replica,
            self.config,
            lock=self._lock,
            on_stored=on_stored,
        )
        generator.open(is_new=self.is_new, csnstate=self.csnstate)
        return generator
