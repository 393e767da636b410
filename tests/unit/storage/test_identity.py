"""The store's identity: wiped, copied and rolled-back disks are strangers (V5)."""

import pytest

from holdfast.model.errors import BrokenInvariant, Corruption, HoldfastError
from holdfast.model.ids import HostId, Nonce, Opening, StoreId
from holdfast.model.ports import Token
from holdfast.sim import MILLISECOND, NodePorts, Options, World
from holdfast.storage.identity import Behind, Ours, Store, StoreIdentity, Stranger, load, plan

HOST = HostId("a")
STORE = Store(store=StoreId("s"), host=HOST, opening=Opening(4), nonce=Nonce("n4"))
OPENING = Store(store=StoreId("s"), host=HOST, opening=Opening(4), nonce=Nonce("n4"), intent=Nonce("n5"))


@pytest.mark.parametrize(
    ("store", "recorded", "verdict"),
    [
        (None, None, Stranger),  # wiped
        (STORE, (4, "n4"), Ours),
        (STORE, (4, "other"), Stranger),
        (STORE, (5, "n5"), Stranger),  # rolled back to before the intent
        (OPENING, (4, "n4"), Ours),  # the raise never reached the authority
        (OPENING, (5, "n5"), Ours),  # the crash came between the raise and the store's own write
        (OPENING, (5, "other"), Stranger),  # a copy was opened meanwhile
        (OPENING, (6, "n6"), Stranger),
        (STORE, (3, "n3"), Behind),  # the authority was restored
        (STORE, None, Behind),
        (Store(store=StoreId("s"), host=HOST), None, Ours),  # founded, never opened
        (Store(store=StoreId("s"), host=HostId("b")), None, Stranger),  # another host's disk
    ],
)
def test_the_verdict(store: Store | None, recorded: tuple[int, str] | None, verdict: type) -> None:
    pair = (Opening(recorded[0]), Nonce(recorded[1])) if recorded else None
    assert isinstance(plan(store, HOST, pair), verdict)


class Machine:
    def __init__(self) -> None:
        self.world = World(Options(scenario="log", seed=1))
        self.failed: list[HoldfastError] = []
        self.steps: list[str] = []
        self.node = self.world.add_node("a", self._build, supervised=False)

    def _build(self, ports: NodePorts) -> "Machine":
        def on_synced(token: Token, ok: bool) -> None:
            assert self.identity.on_synced(token, ok)

        self.disk = ports.disk("store", on_synced)
        self.identity = StoreIdentity(self.disk, load(self.disk), self.failed.append)
        return self

    def run(self) -> None:
        self.world.run_until(self.world.now + 50 * MILLISECOND)

    def restart(self) -> Store | None:
        self.node.power_cut()
        self.node.start()
        return self.identity.store

    def found(self) -> None:
        self.identity.found(StoreId("s"), HOST, lambda: self.steps.append("founded"))
        self.run()

    def begin(self, nonce: str) -> None:
        self.identity.begin_opening(Nonce(nonce), lambda: self.steps.append("begun"))
        self.run()

    def finish(self) -> None:
        self.identity.finish_opening(lambda: self.steps.append("finished"))
        self.run()


def test_each_step_is_durable_before_it_is_reported() -> None:
    machine = Machine()
    assert machine.identity.store is None
    machine.found()
    assert machine.restart() == Store(store=StoreId("s"), host=HOST)
    machine.begin("n1")
    assert machine.restart() == Store(store=StoreId("s"), host=HOST, intent=Nonce("n1"))
    machine.finish()
    assert machine.restart() == Store(store=StoreId("s"), host=HOST, opening=Opening(1), nonce=Nonce("n1"))
    assert machine.steps == ["founded", "begun", "finished"]


def test_an_intent_is_kept_over_crashes() -> None:
    """A1: a raise that seemed lost may still be applied, so its nonce must be kept."""
    machine = Machine()
    machine.found()
    machine.begin("n1")
    machine.restart()
    machine.begin("n2")
    assert machine.identity.store is not None
    assert machine.identity.store.intent == "n1"


def test_nothing_is_reported_when_the_sync_fails() -> None:
    """D1: a failed sync is final."""
    machine = Machine()
    machine.node.disk.failing_syncs = 1
    machine.found()
    assert machine.steps == []
    assert len(machine.failed) == 1
    assert machine.restart() is None


def test_founding_removes_what_an_earlier_store_left() -> None:
    machine = Machine()
    for name in ("log-00000003", "checkpoint-" + "0" * 20 + "-" + "0" * 20, "future"):
        machine.disk.append(name, b"old")
    machine.found()
    assert machine.disk.list() == ["future", "store"]


def test_a_rotted_record_is_corruption_not_a_guess() -> None:
    machine = Machine()
    machine.found()
    size = machine.disk.size("store")
    for offset in range(size):
        byte = machine.disk.read("store", offset, 1)
        machine.disk.write_at("store", offset, bytes([byte[0] ^ 4]))
        with pytest.raises(Corruption):
            load(machine.disk)
        machine.disk.write_at("store", offset, byte)
    assert load(machine.disk) is not None


def test_an_opening_is_begun_before_it_is_finished() -> None:
    machine = Machine()
    machine.found()
    with pytest.raises(BrokenInvariant):
        machine.identity.finish_opening(lambda: None)
