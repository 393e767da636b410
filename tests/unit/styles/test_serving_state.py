"""The office of primary: taken up with an object, laid down without one, passed on where none can be made."""

import pytest
from fake_group import FakeGroup
from group_classes import Spy, definition

from holdfast.execution.execution import Execution
from holdfast.model.errors import Corruption, Overloaded
from holdfast.styles.code_change import loading
from holdfast.styles.code_replay import WaitsForCode
from holdfast.styles.config import StyleConfig
from holdfast.styles.serving_state import LOOK_NS, ServingState

CONFIG = StyleConfig()


@pytest.fixture
def made() -> FakeGroup:
    return FakeGroup("warm", definition(Spy), CONFIG)


@pytest.fixture
def office(made: FakeGroup) -> ServingState:
    """It has fallen to the member b, which has no object yet."""
    made.woken.clear()
    office = ServingState(made.ports["b"], CONFIG)
    office.begin()
    return office


def more_to_load() -> Execution:
    raise Overloaded("more to load")


def fail() -> Execution:
    raise ValueError("no licence")


def test_work_that_is_not_done_yet_is_gone_on_with_and_is_no_failure(
    made: FakeGroup, office: ServingState
) -> None:
    """The member asks for another turn, and keeps the group."""
    assert office.attempt(more_to_load) is None
    office.maybe_pass_on()
    assert (made.woken, made.faults, made.passed_on) == (["b"], [], [])
    assert (office.why_not, office.look_again_ns) == ("", LOOK_NS)


def test_a_failure_is_reported_and_the_group_passed_on_once(made: FakeGroup, office: ServingState) -> None:
    """Until its next attempt the member makes none, and says why calls are not taken."""
    assert office.attempt(fail) is None
    office.maybe_pass_on()
    office.maybe_pass_on()
    assert [kind for _, kind, _ in made.faults] == ["object_failed"]
    assert made.passed_on == [("b", office.why_not)]
    assert "no licence" in office.why_not
    made_after = Execution(made.definition)
    assert office.attempt(lambda: made_after) is None, "it is not time yet"
    made.clock.time_ns += office.look_again_ns
    assert office.attempt(lambda: made_after) is made_after


def test_damage_of_the_disk_is_not_the_objects_failure(made: FakeGroup, office: ServingState) -> None:
    """It ends the host, loudly (D2), and no other attempt is made."""

    def damaged() -> Execution:
        raise Corruption("a record is damaged", file="log", offset=0, expected=1, found=0)

    with pytest.raises(Corruption):
        office.attempt(damaged)
    assert made.faults == []


def test_an_object_given_up_in_office_leaves_the_office_held(office: ServingState) -> None:
    """Calls are taken again when there is another; nothing else must happen for that."""
    office.take_up()
    assert not office.awaits_object
    office.lay_down()
    assert (office.is_held, office.is_taken_up, office.awaits_object) == (True, False, True)
    office.end()
    assert not office.awaits_object


def test_who_does_not_hold_the_office_has_no_reason_to_give(made: FakeGroup, office: ServingState) -> None:
    """A backup whose object was faulty lets nobody serve in its place: nobody has to."""
    office.attempt(fail)
    office.end()
    assert office.why_not == ""
    following = ServingState(made.ports["c"], CONFIG)
    following.failed_in("it hangs")
    following.maybe_pass_on()
    assert made.passed_on == []


def test_the_state_to_load_is_asked_for_when_the_work_begins(made: FakeGroup) -> None:
    """Checkpoints that come between the decision and the work take the place of older ones."""
    asked = []
    work = loading(made.definition, lambda: asked.append("asked"))
    assert asked == []
    assert isinstance(next(work), Execution)
    assert asked == ["asked"]


def wait_for_code() -> Execution:
    raise WaitsForCode("2 operations were made by code 1; here is 2")


def test_that_other_code_was_in_the_way_is_not_told_after_it_is_over(office: ServingState) -> None:
    """Also where nobody tries again: of a backup whose object is made when it is needed. Any other failure is
    believed until an attempt comes to something."""
    assert office.attempt(wait_for_code) is None
    assert "made by code 1" in office.why_unable
    office.end()
    office.code_is_there()
    assert (office.why_unable, office.unable_since_ns) == ("", 0)
    office.begin()
    assert office.attempt(fail) is None
    office.code_is_there()
    assert "no licence" in office.why_unable
