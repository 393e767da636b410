"""Which replica a store is: a store that the authority does not know gets a new id, always (G3)."""

from msgspec import structs

from holdfast.directory.replication.identity import Step, decide, emptied
from holdfast.directory.replication.roster import Own
from holdfast.model.ids import ReplicaId


class Ids:
    def __init__(self, *former: int) -> None:
        self._former = [ReplicaId(each) for each in former]

    def allot(self) -> ReplicaId:
        new = ReplicaId(max(self._former, default=0) + 10)
        self._former.append(new)
        return new

    def former(self) -> list[ReplicaId]:
        return list(self._former)


OWN = Own(replica=ReplicaId(3), is_ready=True, known=(ReplicaId(1), ReplicaId(3)), base="g")


def test_a_store_that_left_and_came_back_goes_on() -> None:
    decision = decide(OWN, Ids(3), is_continued=True, is_half_copied=False)
    assert (decision.own, decision.step, decision.is_changed) == (OWN, Step.SERVE, False)


def test_a_store_that_was_put_back_gets_a_new_id_and_joins() -> None:
    decision = decide(OWN, Ids(3), is_continued=False, is_half_copied=False)
    assert decision.step is Step.JOIN
    assert decision.is_changed
    assert decision.own.replica == 13
    assert decision.own.over == (3,)
    assert decision.own.known == (1,)
    assert not decision.own.is_ready


def test_a_copy_of_another_hosts_store_does_not_end_that_hosts_replica() -> None:
    """Over are the ids of this host's own stores; the other goes on."""
    decision = decide(OWN, Ids(2), is_continued=False, is_half_copied=False)
    assert decision.own.over == (2,)
    assert decision.own.known == (1, 3)


def test_an_empty_store_needs_a_copy() -> None:
    decision = decide(None, Ids(1), is_continued=False, is_half_copied=False, is_read_only=True)
    assert decision.step is Step.INITIALISE
    assert decision.own.over == (1,)
    assert decision.own.is_read_only


def test_half_a_copy_begins_anew_under_the_same_id() -> None:
    """It has issued nothing, and is counted already."""
    half = Own(replica=ReplicaId(13), is_ready=False, over=(ReplicaId(3),))
    decision = decide(half, Ids(3, 13), is_continued=True, is_half_copied=True)
    assert (decision.own, decision.step) == (half, Step.INITIALISE)
    other = decide(half, Ids(3, 13), is_continued=False, is_half_copied=True)
    assert other.own.replica == 23


def test_a_replica_that_others_have_retired_takes_a_new_id() -> None:
    decision = decide(OWN, Ids(3), is_continued=True, is_half_copied=False, is_told_over=True)
    assert (decision.own.replica, decision.step) == (13, Step.JOIN)


def test_a_store_that_is_filled_anew_is_another_replica() -> None:
    assert emptied(OWN, Ids(3)).replica == 13
    assert emptied(OWN, Ids(3)).over == (3,)


def test_a_replica_that_was_retired_and_comes_back_takes_writes_again() -> None:
    """Its last word was of the id that it had."""
    left = structs.replace(OWN, is_leaving=True)
    assert decide(left, Ids(3), is_continued=True, is_half_copied=False).own.is_leaving
    back = decide(left, Ids(3), is_continued=True, is_half_copied=False, is_told_over=True)
    assert (back.own.replica, back.own.is_leaving) == (13, False)
    assert not emptied(left, Ids(3)).is_leaving


def test_a_replica_that_comes_back_takes_writes_if_its_host_does() -> None:
    """The store says what was so when it left."""
    for is_read_only in (False, True):
        left = structs.replace(OWN, is_read_only=not is_read_only)
        back = decide(
            left,
            Ids(3),
            is_continued=True,
            is_half_copied=False,
            is_told_over=True,
            is_read_only=is_read_only,
        )
        assert back.own.is_read_only == is_read_only
