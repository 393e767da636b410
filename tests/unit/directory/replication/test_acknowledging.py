"""Waiting for a second store: one answer for each operation, and no more than may wait."""

from typing import Any

import pytest

from holdfast.clock.vector import Vector
from holdfast.directory.replication.acknowledging import Acknowledgements, CommittedHereOnly
from holdfast.model.csn import Csn
from holdfast.model.errors import Overloaded
from holdfast.model.ids import ReplicaId

A = ReplicaId(1)


def test_each_operation_is_answered_once() -> None:
    waiting = Acknowledgements(wait_ns=100, waiting_max=10)
    heard: list[tuple[int, Any]] = []
    for number in (1, 2, 3):
        waiting.wait(Csn(number, 0, A), number, lambda error, n=number: heard.append((n, error)))
    waiting.on_second_store(Vector.of("g", [Csn(2, 0, A)]))
    waiting.on_second_store(Vector.of("g", [Csn(2, 0, A)]))
    assert heard == [(1, None), (2, None)]
    waiting.on_time(102)
    assert len(heard) == 2
    waiting.on_time(103)
    assert isinstance(heard[2][1], CommittedHereOnly)
    assert heard[2][1].csn == Csn(3, 0, A)
    assert len(waiting) == 0


def test_a_store_that_has_retired_the_issuer_confirms_nothing() -> None:
    """Its vector covers all changes of that id, and it has none of the new ones (retirements, seed 3)."""
    waiting = Acknowledgements(wait_ns=100, waiting_max=10)
    heard: list[Any] = []
    waiting.wait(Csn(1, 0, A), 0, heard.append)
    waiting.on_second_store(Vector.of("g", retired=[A]))
    assert heard == []


def test_no_more_may_wait_than_the_bound() -> None:
    waiting = Acknowledgements(wait_ns=100, waiting_max=1)
    waiting.check_room()
    waiting.wait(Csn(1, 0, A), 0, lambda error: None)
    with pytest.raises(Overloaded):
        waiting.check_room()
