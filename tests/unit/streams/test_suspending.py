"""A member that cannot go on by itself: when its object may go, and who leads instead (O1, O3)."""

from dataclasses import dataclass, field

import pytest
from fake_group import FakeClock
from stream_group import ORIGIN

from holdfast.model.ids import MILLISECOND, Epoch, HostId
from holdfast.model.ports import NoTrace, Trace
from holdfast.sequence.peer_messages import Peer
from holdfast.streams.config import StreamSettings
from holdfast.streams.holding import Holding
from holdfast.streams.keeping import Keeping
from holdfast.streams.ledger import Ledger
from holdfast.streams.peers import Peers, Status
from holdfast.streams.records import Began, Deliver
from holdfast.streams.recovering import Places
from holdfast.streams.suspending import Suspending


@dataclass
class Ports:
    """One member of three."""

    clock: FakeClock = field(default_factory=FakeClock)
    trace: Trace = field(default_factory=NoTrace)
    is_leader: bool = True
    number: int = 1
    done: list[str] = field(default_factory=list)

    def peers(self) -> tuple[Peer, ...]:
        return tuple(Peer(HostId(name), True, True) for name in "bc")

    def epoch(self) -> Epoch:
        return Epoch(self.number)

    def leads(self) -> bool:
        return self.is_leader

    def tell(self, host: HostId, body: bytes) -> bool:
        return True

    def hand_over(self, to: HostId, why: str) -> None:
        self.done.append(f"hand over to {to}")

    def renew(self, why: str) -> None:
        self.done.append("renew")

    def ready(self) -> None:
        self.done.append("ready")

    def wake(self) -> None:
        return None


def made(retain: str) -> tuple[Suspending, Ports]:
    ports, settings = Ports(), StreamSettings(retain=retain, grace_ms=0, recover_ms=20, attempts=1)  # type: ignore[arg-type]
    holding = Holding(100, 1 << 20)
    places = Places(settings, holding, Peers(ports))  # type: ignore[arg-type]
    keeping = Keeping(settings, holding, places.peers)
    return Suspending(ports, settings, places, keeping), ports  # type: ignore[arg-type]


def delivered(number: int) -> Ledger:
    ledger = Ledger()
    for entry in (Began(ORIGIN, 0), Deliver(ORIGIN, 1, number)):
        ledger.apply_one(entry)
    return ledger


def status(number: int, *, has_object: bool = True) -> Status:
    return Status(has_object, {"gold": (1, number)})


@pytest.mark.covers("LOSS-58", "LOSS-97")
@pytest.mark.parametrize("retain", ["memory", "none"])
def test_a_suspended_server_keeps_its_object_until_the_next_leader_has_as_much(retain: str) -> None:
    """With numbers alone in the order, its object may be the only one that has a message."""
    suspending, ports = made(retain)
    suspending.hand_over(HostId("c"), "lost")
    ports.number, ports.is_leader = 2, False
    suspending.places.peers.status[HostId("c")] = status(6)
    suspending.look(delivered(7), 0)
    assert ports.done == ["hand over to c"] + (["renew"] if retain == "memory" else [])
    assert suspending.due_ns() is None
    suspending.places.peers.status[HostId("c")] = status(7)
    suspending.look(delivered(7), 0)
    assert ports.done == ["hand over to c", "renew"]


@pytest.mark.covers("LOSS-85")
@pytest.mark.parametrize(("told", "comes"), [(status(9), "hand over to b"), (status(8), "ready")])
def test_what_only_an_object_has_is_not_given_up_but_led_by_its_server(told: Status, comes: str) -> None:
    """A leader lacks ordered messages that nobody keeps any more. Where a server has delivered them, that one
    leads on; only where none has, the leader goes on without them."""
    suspending, ports = made("none")
    suspending.places.peers.status[HostId("b")] = told
    suspending.places.peers.status[HostId("c")] = status(99, has_object=False)
    suspending.owe(b"record", [(ORIGIN, 4, 9)])
    for ms in range(0, 90, 5):
        suspending.pursue(ports.clock.time_ns + ms * MILLISECOND, lambda: True)
    assert ports.done[:2] == ["renew", comes]  # on a leader, to renew does nothing
    assert suspending.has_given_up(b"record") == (comes == "ready")
