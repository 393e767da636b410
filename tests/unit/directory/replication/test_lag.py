"""The lag of a peer is measured from a commit here to its word that it has the change."""

from holdfast.directory.replication.lag import WAITING_MAX, LagMeter
from holdfast.model.csn import Csn
from holdfast.model.ids import ReplicaId


def csn(number: int) -> Csn:
    return Csn(100, number, ReplicaId(1))


def test_what_is_confirmed_is_measured_and_what_is_not_tells_how_far_behind() -> None:
    meter = LagMeter()
    meter.follow("b")
    for number in range(4):
        meter.issued(csn(number), 10 * number)
    meter.confirmed("b", csn(2), 50)
    lag = meter.of("b", 90)
    assert (lag.p50_ns, lag.p99_ns, lag.behind_ns) == (40, 50, 60)
    meter.confirmed("b", csn(3), 100)
    assert meter.of("b", 1_000).behind_ns == 0


def test_a_peer_that_is_away_keeps_its_oldest_changes() -> None:
    """What is waiting is bounded, and the age of the oldest is still told."""
    meter = LagMeter()
    meter.follow("b")
    for number in range(2 * WAITING_MAX):
        meter.issued(csn(number), number)
    assert meter.of("b", 5_000).behind_ns == 5_000
    meter.confirmed("b", csn(2 * WAITING_MAX), 5_000)
    assert meter.of("b", 6_000).behind_ns == 0


def test_nothing_is_known_of_a_peer_without_a_link() -> None:
    meter = LagMeter()
    meter.issued(csn(1), 1)
    meter.confirmed("b", csn(1), 2)
    lag = meter.of("b", 3)
    assert (lag.p50_ns, lag.p99_ns, lag.behind_ns) == (None, None, 0)
    meter.follow("b")
    meter.issued(csn(2), 4)
    meter.forget("b")
    assert meter.of("b", 9).behind_ns == 0
