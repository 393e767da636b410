"""Credit: a source goes as far as the leader lets it, and one that goes further is told."""

from holdfast.model.ids import MILLISECOND
from holdfast.streams.datagram import Credit, From
from holdfast.streams.message import NUMBER_MAX
from holdfast.streams.pacing import CreditConfig, CreditGiver, Pacing

SENDER = From(0, 1, 1)
CONFIG = CreditConfig(window=80, interval_ns=10 * MILLISECOND)


def test_the_window_moves_with_what_is_delivered() -> None:
    giver = CreditGiver(CONFIG, SENDER)
    assert giver.admits(80)
    assert not giver.admits(81)
    giver.on_delivered(30)
    giver.on_delivered(20)
    assert (giver.limit, giver.beyond) == (110, 1)


def test_a_leader_tells_after_each_part_of_the_window() -> None:
    """Credit is told at once when it matters, else after a while, and never for nothing."""
    giver = CreditGiver(CONFIG, SENDER)
    assert giver.due(0, epoch=3, is_leader=True) == Credit(SENDER, 0, 80, 3, is_leader=True)
    giver.on_delivered(9)
    assert giver.due(1, epoch=3, is_leader=True) is None
    giver.on_delivered(10)
    assert giver.due(1, epoch=3, is_leader=True) == Credit(SENDER, 10, 90, 3, is_leader=True)
    giver.on_delivered(11)
    assert giver.due(11 * MILLISECOND, epoch=3, is_leader=False) == Credit(SENDER, 11, 91, 3)
    assert giver.due(900 * MILLISECOND, epoch=3, is_leader=True) is None


def test_only_the_latest_leader_counts() -> None:
    """A backup, a leader of old, and a datagram that comes again change nothing."""
    pacing = Pacing()
    assert (pacing.limit, pacing.is_heard) == (0, False)
    pacing.on_credit("b", Credit(SENDER, 50, 500, 9))
    assert pacing.limit == 0
    pacing.on_credit("a", Credit(SENDER, 10, 90, 3, is_leader=True))
    pacing.on_credit("a", Credit(SENDER, 5, 85, 3, is_leader=True))
    assert (pacing.limit, pacing.delivered, pacing.leader) == (90, 10, "a")
    pacing.on_credit("b", Credit(SENDER, 8, 60, 4, is_leader=True))
    assert (pacing.limit, pacing.delivered, pacing.leader) == (60, 10, "b")
    pacing.on_credit("a", Credit(SENDER, 40, 900, 3, is_leader=True))
    assert (pacing.limit, pacing.delivered) == (60, 10)


def test_a_source_that_does_not_wait() -> None:
    assert Pacing(is_paced=False).limit == NUMBER_MAX


def test_settings() -> None:
    assert CreditConfig().validate() == []
    assert len(CreditConfig(window=1, interval_ns=0).validate()) == 2
