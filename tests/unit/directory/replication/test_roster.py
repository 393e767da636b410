"""What follows from what replicas have said: how far may be trimmed and purged, which id may be retired."""

import pytest

from holdfast.clock.vector import Vector
from holdfast.directory.replication.roster import SELF, Own, Roster, decoded_own, own_row
from holdfast.directory.replication.statement import Statement, check_statement
from holdfast.model.csn import Csn
from holdfast.model.errors import Corruption, InvalidRequest
from holdfast.model.ids import ReplicaId

A, B, C = ReplicaId(1), ReplicaId(2), ReplicaId(3)


def csn(time: int, replica: ReplicaId) -> Csn:
    return Csn(time, 0, replica)


def vector(a: int = 0, b: int = 0, c: int = 0, retired: tuple[ReplicaId, ...] = ()) -> Vector:
    found = [csn(time, replica) for time, replica in ((a, A), (b, B), (c, C)) if time]
    return Vector.of("g", found, retired=retired)


def said(
    replica: ReplicaId, has: Vector, known: tuple[ReplicaId, ...] = (A, B, C), **more: object
) -> Statement:
    own = has.get(replica)
    assert own is not None
    return Statement(own, has.text(), known=known, **more)


def roster(*statements: Statement) -> Roster:
    found = Roster(Own(replica=A, is_ready=True, known=(A,)))
    for each in statements:
        found.state(each)
    return found


@pytest.mark.covers("CSN-92")
def test_purging_stops_at_what_everyone_had() -> None:
    known = roster(said(A, vector(9, 8, 7)), said(B, vector(5, 8, 4)), said(C, vector(6, 3, 7)))
    assert known.purge_bound(vector(9, 8, 7)) == vector(5, 3, 4)


def test_a_replica_that_said_nothing_has_nothing() -> None:
    """Neither for purging nor for trimming (G5)."""
    known = roster(said(A, vector(9, 8, 7)), said(B, vector(5, 8, 4)))
    assert known.purge_bound(vector(9, 8, 7)) is None
    assert len(known.trim_bound(vector(9, 8, 7))) == 0


def test_nothing_is_purged_below_a_replica_of_which_someone_has_nothing() -> None:
    known = roster(said(A, vector(9, 8, 7)), said(B, vector(5, 8)), said(C, vector(6, 3, 7)))
    assert known.purge_bound(vector(9, 8, 7)) is None


def test_a_replica_that_is_over_holds_up_purging_until_its_id_is_retired() -> None:
    """Changes of it may still be on their way, issued by someone who knew no more than it said last."""
    statements = (
        said(A, vector(9, 8, 7), (A, B), over=(C,)),
        said(B, vector(8, 8, 6), (A, B), over=(C,)),
        said(C, vector(1, 2, 6)),
    )
    known = roster(*statements)
    assert known.live == [A, B]
    assert known.over == [C]
    assert known.purge_bound(vector(9, 8, 7)) == vector(1, 2, 6)
    assert list(known.settled(vector(9, 8, 7))) == []
    known.state(said(B, vector(8, 9, 7), (A, B), over=(C,)))
    assert list(known.settled(vector(9, 9, 7))) == [C]
    known.retire(C, csn(7, C))
    bound = known.purge_bound(vector(9, 9, retired=(C,)))
    assert bound == vector(8, 8, retired=(C,))


def test_who_has_more_of_a_retired_replica_does_not_agree() -> None:
    known = roster(said(A, vector(9, 8, 7), (A, B), over=(C,)), said(B, vector(8, 8, 9), (A, B), over=(C,)))
    assert list(known.settled(vector(9, 8, 7))) == []


def test_a_retirement_elsewhere_is_followed_when_all_of_the_replica_is_here() -> None:
    gone = said(B, vector(8, 8, retired=(C,)), (A, B), final=(csn(7, C),))
    assert list(roster(gone).settled(vector(9, 8, 6))) == []
    assert list(roster(gone).settled(vector(9, 8, 7))) == [C]


def test_a_purge_is_followed_by_those_who_have_what_its_master_had() -> None:
    known = roster(said(B, vector(5, 8, 4), purged=vector(3, 3, 3).text()))
    assert list(known.followed_purges(vector(5, 8, 3))) == []
    assert list(known.followed_purges(vector(5, 8, 4))) == [vector(3, 3, 3)]


def test_trimming_stops_at_what_each_other_live_replica_has() -> None:
    known = roster(said(A, vector(9, 8, 7)), said(B, vector(5, 8, 7)), said(C, vector(6, 4, 7)))
    assert known.trim_bound(vector(9, 8, 7)) == vector(5, 4, 7)
    assert known.lacking(vector(6)) == [B]


def test_most_replicas_are_more_than_half_of_those_that_there_are() -> None:
    """Those that are live here, or all that stores have as the authority knows it: the more of them are
    silent, the less is known to be held by most."""
    known = roster(said(A, vector(9, 8, 7)), said(B, vector(5, 8, 4)), said(C, vector(6, 4, 7)))
    assert known.held_by_most(vector(9, 8, 7), ()) == vector(6, 8, 7)
    assert known.held_by_most(vector(9, 8, 7), (A, B, C, ReplicaId(4))) == vector(5, 4, 4)
    assert len(known.held_by_most(vector(9, 8, 7), (A, B, *map(ReplicaId, (4, 5, 6))))) == 0


def test_rows_bring_everything_back() -> None:
    known = roster(said(B, vector(5, 8, 4), base=vector(1).text()))
    rows = dict([own_row(known.own)])
    for each in (
        known.state(said(A, vector(9, 8, 7), over=(C,))),
        known.mark_lagging(B, "since"),
        known.purge(vector(3, 3, 3)),
        known.count(ReplicaId(9)),
        known.retire(C, None),
    ):
        for key, value in each:
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value
    again = Roster(decoded_own(rows[SELF]), rows.items())
    assert again.own == known.own
    assert again.lagging == {B: "since"}
    assert again.purged == vector(3, 3, 3)
    assert again.final == {C: None}
    assert A in again.statements
    assert ReplicaId(9) in again.live


def test_an_older_statement_changes_nothing() -> None:
    known = roster(said(B, vector(5, 8, 4)))
    assert known.state(said(B, vector(1, 2, 1))) == []
    assert known.vectors[B] == vector(5, 8, 4)


def test_what_no_replica_can_have_said_is_refused() -> None:
    check_statement(said(B, vector(5, 8, 4)), "g")
    wrong = (
        Statement(csn(9, B), vector(5, 8, 4).text(), known=(B,)),
        Statement(csn(8, B), vector(5, 8, 4).text(), known=(A,)),
        said(B, vector(5, 8, 4), over=(B,)),
    )
    for each in wrong:
        with pytest.raises(InvalidRequest):
            check_statement(each, "g")
    with pytest.raises(InvalidRequest, match="other data"):
        check_statement(said(B, vector(5, 8, 4)), "h")


def test_a_damaged_row_ends_the_replica() -> None:
    with pytest.raises(Corruption):
        decoded_own(b"\xc1")
