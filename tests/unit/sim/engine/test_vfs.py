"""SQLite on the simulated disk: it survives what a disk survives, and never reaches a dead process's disk."""

import gc
import random
from typing import Final

import apsw
import pytest

from holdfast.authority.contract import Applied, Get, Got, Put, Txn
from holdfast.authority.sqlite import SqliteStore
from holdfast.authority.sqlite_file import StoreFailed
from holdfast.sim import Crash, NodePorts, Options, SimNode, World
from holdfast.sim.engine.vfs import SimVfs

FILE: Final = "authority.sqlite"


class Machine:
    """One simulated node with a store on its disk."""

    def __init__(self, seed: int) -> None:
        self.world = World(Options(scenario="authority", seed=seed))
        self.node: SimNode = self.world.add_node("authority", self._build)

    @property
    def store(self) -> SqliteStore:
        store: SqliteStore = self.node.core
        return store

    def put(self, value: int) -> None:
        (result,) = self.store.apply([Txn((), (Put("k", b"%d" % value),))], now_ns=0)
        assert isinstance(result, Applied)
        self.store.maintain()

    def read(self) -> int:
        (got,) = self.store.apply([Get("k")], now_ns=0)
        assert isinstance(got, Got)
        return -1 if got.item is None else int(got.item.value)

    def image(self) -> dict[str, bytes]:
        return {
            name: bytes(file.content) for name, file in self.node.disk.copy()["authority"].entries.items()
        }

    def _build(self, ports: NodePorts) -> SqliteStore:
        self.vfs = SimVfs(ports.disk("authority"), rng=ports.random.stream("sqlite"), wall=ports.clock.wall)
        return SqliteStore(FILE, now_ns=0, new_id="test", vfs=self.vfs.name, checkpoint_pages=20)


def put_until_crash(machine: Machine, first: int) -> int:
    """Put growing numbers until the process crashes; return the last number that was acknowledged."""
    number = first
    with pytest.raises(Crash):
        while True:
            machine.put(number)
            number += 1
    return number - 1


@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_what_was_committed_survives_a_crash_at_any_write(seed: int, power: bool) -> None:
    """Neither a kill nor a power cut inside a commit or checkpoint loses or tears what was acknowledged."""
    machine = Machine(seed)
    rng = random.Random(seed)
    last = -1
    for _ in range(40):
        machine.node.disk.crash_after(rng.randint(1, 60), power=power)
        acknowledged = put_until_crash(machine, last + 1)
        machine.node.start()
        last = machine.read()
        assert last in (acknowledged, acknowledged + 1)
    machine.store.close()
    assert not machine.world.violations


def test_what_was_read_after_a_kill_survives_a_power_cut() -> None:
    """A killed process may leave unsynced frames that its successor sees; the successor syncs them before it
    answers."""
    for seed in range(30):
        machine = Machine(seed)
        machine.put(0)
        machine.node.disk.crash_after(random.Random(seed).randint(1, 8), power=False)
        put_until_crash(machine, 1)
        machine.node.start()
        seen = machine.read()
        machine.node.power_cut()
        machine.node.start()
        assert machine.read() == seen


def test_what_was_read_after_a_failed_sync_survives_a_power_cut() -> None:
    """The next process may see what the failed sync has lost; it writes that again before it answers."""
    for seed in range(60):
        machine = Machine(seed)
        for number in range(5):
            machine.put(number)
        machine.node.disk.failing_syncs = 1
        with pytest.raises(StoreFailed):
            machine.put(5)
        machine.node.kill()
        machine.node.start()
        seen = machine.read()
        machine.node.power_cut()
        machine.node.start()
        assert machine.read() == seen


def test_a_wal_whose_maker_was_killed_keeps_its_commits() -> None:
    """The name of a WAL is durable before anything in it is acknowledged, whichever process made it (D3)."""
    for operations in range(1, 25):
        for seed in range(4):
            machine = Machine(seed)
            machine.store.close()
            machine.node.kill()
            machine.node.disk.crash_after(operations, power=False)
            machine.node.start()
            machine.node.start()
            machine.node.disk.heal()
            machine.put(7)
            machine.node.power_cut()
            machine.node.start()
            assert machine.read() == 7


def test_a_disk_that_lies_about_syncs_loses_commits() -> None:
    """This proves that the tests above can fail."""
    lost = 0
    for seed in range(30):
        machine = Machine(seed)
        machine.node.disk.lies = True
        for number in range(20):
            machine.put(number)
        machine.node.power_cut()
        try:
            machine.node.start()
            lost += machine.node.core is None or machine.read() != 19
        except StoreFailed:
            lost += 1
    assert lost > 5


def test_closing_a_dead_connection_does_not_touch_the_disk() -> None:
    """SQLite checkpoints and removes its WAL when a connection is closed; a dead process cannot."""
    machine = Machine(1)
    machine.put(1)
    store = machine.store
    machine.node.kill()
    before = machine.image()
    store.close()
    del store
    gc.collect()
    assert machine.image() == before
    assert f"{FILE}-wal" in before


@pytest.mark.parametrize("fault", ["failing_syncs", "failing_writes", "failing_reads", "bytes_max"])
def test_every_error_of_the_disk_ends_the_store(fault: str) -> None:
    """A6: the error is reported once, and nothing is answered after it."""
    machine = Machine(2)
    machine.put(1)
    machine.store.close()
    machine.node.kill()
    machine.node.start()
    disk = machine.node.disk
    setattr(disk, fault, disk.used() if fault == "bytes_max" else 1)
    store = machine.store
    with pytest.raises(StoreFailed):
        store.apply([Txn((), (Put(f"k{n}", bytes(5000)),)) for n in range(20)] + [Get("k")], now_ns=0)
        store.close()
    with pytest.raises(StoreFailed, match="out of use"):
        store.apply([Get("k")], now_ns=0)


def test_the_same_seed_writes_the_same_bytes() -> None:
    """SQLite's own randomness comes from the seed too, whatever ran before in this process."""

    def run(seed: int) -> dict[str, bytes]:
        machine = Machine(seed)
        for number in range(50):
            machine.put(number)
        return machine.image()

    first = run(3)
    apsw.randomness(100)
    assert run(3) == first
    assert run(4) != first


def test_sqlite_reads_the_worlds_clock() -> None:
    """Wall time inside SQLite is the node's, not the machine's."""
    machine = Machine(5)
    db = apsw.Connection("other", vfs=machine.vfs.name)
    rows = db.execute("SELECT strftime('%Y', 'now')").fetchall()
    assert rows == [("2024",)]
    db.close()
