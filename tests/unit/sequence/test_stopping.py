"""Whom a member believes to be stopping (K5, K7)."""

from sequence_follower import Follower

from holdfast.authority.views import ViewMember
from holdfast.model.ids import HostId, Incarnation, StoreId


def process(incarnation: int) -> ViewMember:
    return ViewMember(host=HostId("b"), store=StoreId("s"), incarnation=Incarnation(incarnation), opening=1)


def test_the_last_word_of_a_host_counts_and_not_the_highest_number() -> None:
    """A number that was never issued would otherwise hide every true word of that host for good."""
    on = Follower(1).on
    on.note_stopping(HostId("b"), Incarnation(1_000_000), is_leaving=True)
    assert not on.is_stopping(process(3))
    on.note_stopping(HostId("b"), Incarnation(3), is_leaving=True)
    assert on.is_stopping(process(3))
    assert on.is_leaving(process(3))
    assert not on.is_stopping(process(4))
