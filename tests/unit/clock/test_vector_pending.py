"""Pending lists: which changes may be sent, and which must wait."""

import random

import pytest

from holdfast.clock import PendingList
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId

OWN = ReplicaId(1)


def csns(count: int) -> list[Csn]:
    return [Csn(1, number, OWN) for number in range(count)]


def test_released_in_order_and_never_past_one_in_flight() -> None:
    """Under any order of commits and aborts, all committed CSNs are released, in order, and none too
    early."""
    rng = random.Random(54)
    for _ in range(300):
        pending, flying, out = PendingList(OWN), [], []
        committed = []
        for one in csns(12):
            pending.assigned(one)
            flying.append(one)
            while flying and rng.random() < 0.5:
                ending = flying.pop(rng.randrange(len(flying)))
                if rng.random() < 0.7:
                    pending.committed(ending)
                    committed.append(ending)
                else:
                    pending.aborted(ending)
                released = pending.take_sendable()
                assert all(released_one < flying_one for released_one in released for flying_one in flying)
                out += released
        for ending in flying:
            pending.aborted(ending)
        out += pending.take_sendable()
        assert out == sorted(committed)
        assert len(pending) == 0


def test_learns_of_csns_in_any_order() -> None:
    """Callbacks of two threads may overtake each other: a CSN that arrives late still takes its place."""
    a, b, c = csns(3)
    pending = PendingList(OWN)
    pending.assigned(b)
    pending.assigned(a)
    pending.assigned(c)
    pending.committed(b)
    assert pending.take_sendable() == []
    pending.committed(a)
    pending.committed(c)
    assert pending.take_sendable(below=c) == [a, b]
    assert pending.take_sendable() == [c]


def test_refuses_what_makes_no_sense() -> None:
    """It refuses another replica's CSN, one assigned twice, one ended twice, and one never assigned."""
    a, b, _ = csns(3)
    pending = PendingList(OWN)
    pending.assigned(a)
    with pytest.raises(InvalidRequest):
        pending.assigned(Csn(1, 0, ReplicaId(2)))
    with pytest.raises(InvalidRequest):
        pending.assigned(a)
    with pytest.raises(InvalidRequest):
        pending.committed(b)
    pending.committed(a)
    with pytest.raises(InvalidRequest):
        pending.aborted(a)
    assert pending.take_sendable() == [a]
    with pytest.raises(InvalidRequest):
        pending.committed(a)


def test_an_aborted_change_may_be_received_again() -> None:
    """A change that failed to be stored and is sent again is released once."""
    a, b, _ = csns(3)
    pending = PendingList(OWN)
    pending.assigned(a)
    pending.assigned(b)
    pending.aborted(a)
    pending.assigned(a)
    pending.committed(b)
    assert pending.take_sendable() == []
    pending.committed(a)
    assert pending.take_sendable() == [a, b]
    assert pending.take_sendable() == []
