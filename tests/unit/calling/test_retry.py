"""Tests table 27-1, when a request may be sent again, and what a host does with a reference's version."""

import pytest

from holdfast.calling.retry import FAILURE_OF_REFUSAL, Completion, Failure, may_retry
from holdfast.model.calls import RefusalCode
from holdfast.model.ids import Epoch
from holdfast.model.reference import Routing, route

CONDITIONS = [Failure.COMM_FAILURE, Failure.TRANSIENT, Failure.NO_RESPONSE, Failure.OBJ_ADAPTER]


@pytest.mark.covers("FTC-60", "FTC-61", "FTC-62", "FTC-63", "FTC-111")
@pytest.mark.parametrize("failure", CONDITIONS)
def test_without_reinvocation_only_what_was_not_executed_is_repeated(failure: Failure) -> None:
    assert may_retry(failure, Completion.NO, is_reinvoked=False)
    assert not may_retry(failure, Completion.MAYBE, is_reinvoked=False)


@pytest.mark.covers("FTC-59", "FTC-64", "FTC-65", "FTC-66", "FTC-67", "FTC-110")
@pytest.mark.parametrize("failure", CONDITIONS)
def test_with_reinvocation_also_what_may_have_been(failure: Failure) -> None:
    assert may_retry(failure, Completion.NO, is_reinvoked=True)
    assert may_retry(failure, Completion.MAYBE, is_reinvoked=True)


@pytest.mark.covers("FTC-68")
@pytest.mark.parametrize("is_reinvoked", [True, False])
def test_nothing_that_was_executed_is_repeated_and_nothing_for_another_reason(is_reinvoked: bool) -> None:
    for failure in Failure:
        assert not may_retry(failure, Completion.YES, is_reinvoked=is_reinvoked)
    for completion in Completion:
        assert not may_retry(Failure.OTHER, completion, is_reinvoked=is_reinvoked)


def test_every_refusal_has_its_place_in_the_table() -> None:
    assert set(FAILURE_OF_REFUSAL) == set(RefusalCode)


@pytest.mark.covers("FTC-78", "FTC-79", "FTC-80")
def test_a_host_serves_only_the_newest_version_and_only_as_primary() -> None:
    assert route(Epoch(3), Epoch(4), is_primary=True) is Routing.FORWARD
    assert route(Epoch(3), Epoch(4), is_primary=False) is Routing.FORWARD
    assert route(Epoch(4), Epoch(4), is_primary=True) is Routing.SERVE
    assert route(Epoch(4), Epoch(4), is_primary=False) is Routing.NOT_PRIMARY


@pytest.mark.covers("FTC-81", "FTC-82", "FTC-83", "FTC-84")
def test_a_host_that_knows_less_than_the_request_asks_first() -> None:
    assert route(Epoch(5), Epoch(4), is_primary=True) is Routing.LOOK_UP
    for found, verdict in ((6, Routing.FORWARD), (4, Routing.BAD_REFERENCE), (5, Routing.SERVE)):
        assert route(Epoch(5), Epoch(found), is_primary=True, is_looked_up=True) is verdict
    assert route(Epoch(5), Epoch(5), is_primary=False, is_looked_up=True) is Routing.NOT_PRIMARY
