"""A primary's knowledge of a follower: how much is in flight to it."""

from holdfast.authority.views import ViewMember
from holdfast.model.ids import Epoch, HostId, Incarnation, Opening, Position, StoreId
from holdfast.sequence.progress import Progress


def test_bytes_in_flight_end_with_their_acknowledgement() -> None:
    """Acknowledgements are cumulative and may be old; records that are sent again are counted again."""
    member = ViewMember(host=HostId("b"), store=StoreId("b"), incarnation=Incarnation(1), opening=Opening(1))
    follower = Progress(member, next=Position(0), agreed=Position(0))
    for last, size in ((3, 100), (5, 200), (9, 400)):
        follower.sent(Position(last), size)
    assert follower.in_flight_bytes == 700
    follower.accepted(Position(4), member.incarnation, Epoch(1), 1)
    assert (follower.acknowledged, follower.in_flight_bytes) == (4, 600)
    follower.accepted(Position(9), member.incarnation, Epoch(1), 1)
    follower.accepted(Position(5), member.incarnation, Epoch(1), 1)
    assert (follower.acknowledged, follower.in_flight_bytes) == (9, 0)
    follower.sent(Position(12), 50)
    follower.resend_all()
    assert follower.in_flight_bytes == 0
