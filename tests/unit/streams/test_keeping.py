"""What members keep while one of them takes a state, and when a member asks for one (LOSS-3, LOSS-99, O3)."""

from dataclasses import dataclass, field

import pytest
from fake_group import FakeClock
from stream_group import ORIGIN, message

from holdfast.model.ids import MILLISECOND, Epoch, HostId
from holdfast.model.ports import NoTrace, Trace
from holdfast.sequence.peer_messages import Peer
from holdfast.streams.config import StreamSettings
from holdfast.streams.holding import HeldStream, Holding
from holdfast.streams.keeping import Keeping
from holdfast.streams.ledger import Ledger
from holdfast.streams.peers import Peers, Status
from holdfast.streams.records import Began, Deliver
from holdfast.streams.recovering import Places
from holdfast.streams.runs import MESSAGE_BYTES
from holdfast.streams.suspending import AGAIN_MS, IN_TURN_MS, Suspending

B, C = HostId("b"), HostId("c")
HELD = MESSAGE_BYTES + 2
"""What one message counts."""


@dataclass
class Ports:
    """The member on a host of three."""

    clock: FakeClock = field(default_factory=FakeClock)
    trace: Trace = field(default_factory=NoTrace)
    listed: tuple[HostId, ...] = (B, C)
    faults: list[str] = field(default_factory=list)
    renewed_ms: list[int] = field(default_factory=list)
    now_ns: int = 0

    def peers(self) -> tuple[Peer, ...]:
        return tuple(Peer(host, True, True) for host in self.listed)

    def epoch(self) -> Epoch:
        return Epoch(1)

    def tell(self, host: HostId, body: bytes) -> bool:
        return True

    def fault(self, kind: str, what: str) -> None:
        self.faults.append(kind)

    def renew(self, why: str) -> None:
        self.renewed_ms.append(self.now_ns // MILLISECOND)

    def ready(self) -> None:
        return None

    def wake(self) -> None:
        return None


class Member:
    """One member whose order has only numbers, and what it has to do with others."""

    def __init__(self, *, hold_messages: int = 10, suspended_bytes: int = 30 * HELD) -> None:
        self.ports = Ports()
        settings = StreamSettings(
            retain="none",
            grace_ms=0,
            recover_ms=20,
            attempts=1,
            hold_messages=hold_messages,
            hold_bytes=60_000,
            suspended_bytes=suspended_bytes,
        )
        self.holding = Holding(settings.hold_messages, settings.hold_bytes)
        self.peers = Peers(self.ports)  # type: ignore[arg-type]
        self.keeping = Keeping(settings, self.holding, self.peers)
        places = Places(settings, self.holding, self.peers)
        self.suspending = Suspending(self.ports, settings, places, self.keeping)  # type: ignore[arg-type]
        self.ledger = Ledger()
        self.ledger.apply_one(Began(ORIGIN, 0))

    @property
    def held(self) -> HeldStream:
        found = self.holding.held(ORIGIN)
        assert found is not None
        return found

    def take(self, first: int, last: int) -> None:
        """Get these messages, and deliver them."""
        for number in range(first, last + 1):
            self.holding.take(self.held, message(number), 1)
        self.ledger.apply_one(Deliver(ORIGIN, first, last - first + 1))

    def hear(self, host: HostId, mark: int, *, has_object: bool = True, leads: bool = False) -> None:
        self.peers.on_status(host, Status(has_object, {"gold": (1, mark)}, leads))

    def without_object(self) -> None:
        self.keeping.look(None)

    def owe_until(self, ms: int, *, from_ms: int = 0) -> None:
        """Lack what the next record orders, and do what is due."""
        for at in range(from_ms, ms, 5):
            self.ports.now_ns = at * MILLISECOND
            self.ports.clock.time_ns = self.ports.now_ns
            self.suspending.owe(b"record", [(ORIGIN, 90, 99)])
            self.suspending.pursue(self.ports.now_ns, lambda: True)
            if self.ports.renewed_ms:
                self.suspending.settled()
                return


@pytest.mark.covers("LOSS-99", "LOSS-100")
def test_what_comes_after_a_state_is_kept_until_its_member_has_it() -> None:
    """B takes a state; this one has room for ten messages, of which it needs none."""
    member = Member()
    member.take(1, 8)
    for host in (B, C):
        member.hear(host, 8)
    member.keeping.release(member.ledger)
    assert member.held.numbers == []
    member.hear(B, 8, has_object=False)
    member.keeping.look(member.ledger)
    member.take(9, 28)
    member.hear(C, 28)
    member.keeping.release(member.ledger)
    assert member.held.numbers == list(range(9, 29))
    member.hear(B, 20)  # it has its object, and has delivered a part of what came meanwhile
    member.keeping.release(member.ledger)
    assert member.held.numbers == list(range(21, 29))
    assert member.holding.is_wide
    member.hear(B, 28)
    member.keeping.release(member.ledger)
    assert (member.held.numbers, member.holding.is_wide) == ([], False)


@pytest.mark.covers("LOSS-100")
def test_what_is_kept_for_one_that_takes_a_state_is_bounded() -> None:
    """The newer half stays: the next state is newer. One that is not listed any more is kept nothing for."""
    member = Member(suspended_bytes=1)
    member.hear(C, 10_000)
    member.hear(B, 0, has_object=False)
    member.keeping.look(member.ledger)
    fitting = 290
    member.take(1, fitting)
    assert (member.held.count, member.held.figures.refused) == (fitting, 0)
    member.keeping.release(member.ledger)
    assert fitting // 2 - 1 <= member.held.count <= fitting // 2 + 1
    assert member.held.highest == fitting
    member.ports.listed = (C,)
    member.keeping.release(member.ledger)
    assert (member.held.numbers, member.holding.is_wide) == ([], False)


@pytest.mark.covers("LOSS-99")
def test_one_that_takes_a_state_holds_what_comes_meanwhile_and_until_it_has_caught_up() -> None:
    member = Member()
    member.hear(C, 40)
    member.without_object()
    assert member.holding.is_wide
    member.ledger.apply_one(Deliver(ORIGIN, 1, 20))
    member.keeping.look(member.ledger)
    assert (member.holding.is_wide, member.keeping.is_behind) == (True, True)
    member.ledger.apply_one(Deliver(ORIGIN, 21, 20))
    for number in range(41, 61):
        member.holding.take(member.held, message(number), 1)
    member.keeping.release(member.ledger)
    assert (member.holding.is_wide, member.keeping.is_behind) == (True, False)  # what came has no room yet
    member.ledger.apply_one(Deliver(ORIGIN, 41, 20))
    member.hear(B, 60)
    member.hear(C, 60)
    member.keeping.release(member.ledger)
    assert (member.holding.is_wide, member.held.numbers) == (False, [])


@pytest.mark.covers("LOSS-99")
def test_one_that_gave_up_its_object_tells_how_far_it_was() -> None:
    """The state that it takes is no older. One that lost it in another way may need anything."""
    member = Member()
    member.take(1, 7)
    assert member.keeping.status(member.ledger, leads=True) == Status(True, {"gold": (1, 7)}, True)
    assert member.keeping.status(None, leads=False) == Status(False, {}, False)
    member.keeping.give_up()
    assert member.keeping.status(None, leads=False) == Status(False, {"gold": (1, 7)}, False)
    member.keeping.status(member.ledger, leads=False)
    assert member.keeping.status(None, leads=False).marks == {}


@pytest.mark.covers("LOSS-90")
def test_one_that_lacks_what_came_after_its_state_waits_before_it_takes_another_and_says_so() -> None:
    member = Member()
    member.hear(B, 100, leads=True)
    member.owe_until(200)
    assert len(member.ports.renewed_ms) == 1
    assert member.ports.faults == []
    for times in (1, 2):
        before = member.ports.renewed_ms.pop()
        member.without_object()
        member.owe_until(before + 20_000, from_ms=before + 5)
        (after,) = member.ports.renewed_ms
        assert times * AGAIN_MS <= after - before <= times * AGAIN_MS + 200
        assert member.ports.faults == ["message_loss"] * times
    before = member.ports.renewed_ms.pop()
    member.without_object()
    member.ledger.apply_one(Deliver(ORIGIN, 1, 100))
    member.keeping.look(member.ledger)  # it has caught up: what it lacks next is another loss
    member.owe_until(before + 20_000, from_ms=before + 5)
    assert member.ports.renewed_ms[0] - before <= 200


@pytest.mark.covers("LOSS-3")
def test_two_members_do_not_give_up_their_objects_for_the_same_loss_at_once() -> None:
    member = Member()
    member.hear(B, 100, leads=True)
    member.hear(C, 50, has_object=False)
    member.owe_until(1_000)
    assert member.ports.renewed_ms == []
    member.hear(C, 100)
    member.owe_until(1_500, from_ms=1_000)
    assert 1_000 <= member.ports.renewed_ms[0] <= 1_200
    other = Member()
    other.hear(B, 100, leads=True)
    other.hear(C, 50, has_object=False)
    other.owe_until(20_000)
    assert IN_TURN_MS <= other.ports.renewed_ms[0] <= IN_TURN_MS + 300


@pytest.mark.covers("LOSS-3")
def test_one_that_may_be_the_leader_does_not_wait() -> None:
    """Nobody has said in this epoch that he leads."""
    member = Member()
    member.hear(B, 100)
    member.hear(C, 50, has_object=False)
    member.owe_until(1_000)
    assert member.ports.renewed_ms[0] <= 100
