"""The heartbeat thread: it keeps leases while the host's loop stands still, but not for ever (R4, K3)."""

import asyncio
import time
from collections.abc import Callable, Iterator

import msgspec
import pytest
from net_world import secret_of

from holdfast.admin.fault_injection import PartitionFilter
from holdfast.authority.sessions import Session
from holdfast.machine import MachineClock
from holdfast.model.ids import MILLISECOND, SECOND, HostId, Incarnation
from holdfast.net import (
    Address,
    Connection,
    ConnectionSettings,
    Kind,
    PeerIdentity,
    Reason,
    Role,
    Why,
    connect,
)
from holdfast.node.heartbeat_thread import HeartbeatThread, LoopPulse
from holdfast.node.heartbeats import Heartbeat, HeartbeatConfig, Vitals
from holdfast.sequence.config import LeaseConfig
from holdfast.sequence.lease_heartbeats import LeaseHeartbeats

A, B = HostId("a"), HostId("b")
LIMIT_NS = 600 * SECOND
"""Longer than any test: these threads do not end their process."""
LEASES = LeaseConfig(lease_ns=60 * SECOND, interval_ns=10 * MILLISECOND)
ONE = Incarnation(1)
WAIT_S = 60.0
SETTLED_S = 0.5
"""Many intervals."""


def test_a_handler_that_fails_does_not_let_the_loop_look_as_if_it_stood() -> None:
    """The host would end itself, though its loop turns (K3)."""
    complaints: list[object] = []

    def fail(late_ns: int) -> None:
        raise RuntimeError("this door is broken")

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context["exception"]))
        pulse = LoopPulse(fail)
        async with asyncio.timeout(WAIT_S):
            while len(complaints) < 3:
                await asyncio.sleep(0.01)
            stood = pulse.age_ns()
            while pulse.age_ns() >= stood:
                await asyncio.sleep(0.001)

    asyncio.run(story())
    assert len(complaints) >= 3


class Host:
    """A heartbeat thread, and the age of a loop that does not exist."""

    def __init__(self, name: HostId) -> None:
        self.name = name
        self.loop_age_ns = 0
        self.partition = PartitionFilter()
        self.heartbeat_thread = HeartbeatThread(
            name,
            ConnectionSettings(PeerIdentity("main", Role.HOST, name), credentials=secret_of("main")),
            listen=Address("127.0.0.1", 0),
            config=HeartbeatConfig(hang_limit_ns=LIMIT_NS),
            partition=self.partition,
        )
        self.beats = LeaseHeartbeats(
            incarnation=ONE, clock=MachineClock(), network=self.heartbeat_thread, config=LEASES
        )
        self.address = self.heartbeat_thread.listen()

    def start(self, others: list["Host"]) -> None:
        self.heartbeat_thread.start(ONE, lambda: Vitals(loop_age_ns=self.loop_age_ns, sync_age_ns=0))
        self.beats.start([each.name for each in others])
        self.heartbeat_thread.carry(self.beats)
        self.meet(others)

    def meet(self, others: list["Host"]) -> None:
        self.heartbeat_thread.set_peers({each.name: each.session for each in others})

    @property
    def session(self) -> Session:
        return Session(
            host=self.name,
            incarnation=ONE,
            address="127.0.0.1:1",
            heartbeat_address=str(self.address),
            agent_address="",
            nonce="",
        )

    def answered(self, other: HostId) -> int:
        """The newest heartbeat of *other* that was answered here."""
        return self.beats.peers[other].promised.beat


@pytest.fixture
def pair() -> Iterator[tuple[Host, Host]]:
    a, b = Host(A), Host(B)
    try:
        a.start([b])
        b.start([a])
        yield a, b
    finally:
        a.heartbeat_thread.stop()
        b.heartbeat_thread.stop()


def until(holds: Callable[[], bool]) -> None:
    """The test's own thread, on which a host's loop would run, only sleeps."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_quiet(host: Host, other: HostId) -> bool:
    before = host.answered(other)
    time.sleep(SETTLED_S)
    return host.answered(other) == before


def test_leases_are_kept_while_no_loop_turns(pair: tuple[Host, Host]) -> None:
    """In both directions, promises are made and answers are taken in."""
    a, b = pair
    until(lambda: b.answered(A) >= 5 and a.answered(B) >= 5)
    lease = a.beats.peers[B].lease
    assert lease.incarnation == ONE
    assert lease.until > MachineClock().now()


def test_nobody_vouches_for_a_loop_that_has_stood_for_too_long(pair: tuple[Host, Host]) -> None:
    """The heartbeats resume when the loop turns again: the whole process may have been paused."""
    a, b = pair
    until(lambda: b.answered(A) >= 1)
    a.loop_age_ns = LIMIT_NS + 1
    until(lambda: is_quiet(b, A))
    last = b.answered(A)
    a.loop_age_ns = 0
    until(lambda: b.answered(A) > last)


def test_a_host_that_is_gone_from_the_authority_keeps_its_leases(pair: tuple[Host, Host]) -> None:
    """The host may be cut off from the authority and from nobody else."""
    a, b = pair
    until(lambda: b.answered(A) >= 1)
    a.meet([])
    last = b.answered(A)
    until(lambda: b.answered(A) >= last + 5)


def test_the_deaf_hear_no_heartbeats_of_leases(pair: tuple[Host, Host]) -> None:
    _, b = pair
    until(lambda: b.answered(A) >= 1)
    b.partition.begin([A])
    until(lambda: is_quiet(b, A))


def test_a_host_cannot_send_heartbeats_of_another(pair: tuple[Host, Host]) -> None:
    """Whoever could would keep a dead host's leases, or let a living one seem to be heard."""
    _, b = pair

    async def forged() -> Reason:
        over: asyncio.Future[Reason] = asyncio.get_running_loop().create_future()
        identity = PeerIdentity("main", Role.HOST, "c", 1)
        endpoint = ConnectionSettings(identity, credentials=secret_of("main"))
        connection = await connect(b.address, lambda _: Waits(over), endpoint)
        beat = Heartbeat(A, ONE, 10_000, 0, 0, 0, 0)
        connection.send(Kind.HEARTBEAT, msgspec.msgpack.encode(beat))
        reason = await asyncio.wait_for(over, WAIT_S)
        await connection.wait_gone()
        return reason

    reason = asyncio.run(forged())
    assert reason.why is Why.MALFORMED
    assert "host c sends heartbeats as a" in reason.message


class Waits:
    """Waits for the end of a connection."""

    def __init__(self, over: "asyncio.Future[Reason]") -> None:
        self._over = over

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        return None

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self._over.set_result(reason)
