"""When a primary need not look at its members (M1): a value that is kept, so it must never be stale."""

from sequence_follower import E2, GROUP, B, Follower, Passing, start_primary

from holdfast.model.ids import Incarnation, Opening, Position, StoreId
from holdfast.sequence.messages import Accepted, Hello
from holdfast.sequence.submission import Submission


def start_calm() -> Submission:
    """A leads, and B follows and has everything."""
    submission = start_primary(Follower(20).on, Passing())
    assert submission._on.standing.seen is not None
    submission._on.standing.learn(submission._on.standing.seen)
    submission.meet_listed()
    submission.on_accepted(B, accepted(20))
    assert submission.exact is not None
    assert submission.is_calm
    return submission


def accepted(up_to: int, *, lacks_space: bool = False) -> Accepted:
    as_b = (GROUP, E2, StoreId("b"), Incarnation(1))
    return Accepted(*as_b, Position(up_to), 0, Incarnation(0), 0, lacks_space)


def test_nothing_is_calm_while_a_follower_lacks_space() -> None:
    """D5: the change of members that makes room is looked for at every acknowledgement."""
    submission = start_calm()
    submission.on_accepted(B, accepted(20, lacks_space=True))
    assert not submission.is_calm
    submission.on_accepted(B, accepted(20))
    assert submission.is_calm


def test_nothing_is_calm_once_a_follower_returned_with_less() -> None:
    """V5: it is dropped at the next acknowledgement, not at the next sweep."""
    submission = start_calm()
    held = Follower(5).store.points()
    submission.on_hello(B, Hello(GROUP, E2, StoreId("b"), Incarnation(8), Opening(2), held))
    assert not submission.is_calm


def test_nothing_is_calm_without_exactly_the_listed() -> None:
    submission = start_calm()
    submission.followers.remove(submission.followers.all[0])
    assert submission.exact is None
    assert not submission.is_calm
