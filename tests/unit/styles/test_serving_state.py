"""Whether a primary takes calls: only with an object, and it hands over if none can be made."""

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
def serving(made: FakeGroup) -> ServingState:
    """The state of the member b, which has become primary and has no object yet."""
    made.woken.clear()
    serving = ServingState(made.ports["b"], CONFIG)
    serving.begin()
    return serving


def more_to_load() -> Execution:
    raise Overloaded("more to load")


def fail() -> Execution:
    raise ValueError("no licence")


def test_work_that_is_not_done_yet_is_gone_on_with_and_is_no_failure(
    made: FakeGroup, serving: ServingState
) -> None:
    """The member asks for another turn, and keeps the group."""
    assert serving.attempt(more_to_load) is None
    serving.maybe_pass_on()
    assert (made.woken, made.faults, made.passed_on) == (["b"], [], [])
    assert (serving.why_not, serving.look_again_ns) == ("", LOOK_NS)


def test_a_failure_is_reported_and_the_group_passed_on_once(made: FakeGroup, serving: ServingState) -> None:
    """Until its next attempt is due the member makes none, and reports why calls are not taken."""
    assert serving.attempt(fail) is None
    serving.maybe_pass_on()
    serving.maybe_pass_on()
    assert [kind for _, kind, _ in made.faults] == ["object_failed"]
    assert made.passed_on == [("b", serving.why_not)]
    assert "no licence" in serving.why_not
    made_after = Execution(made.definition)
    assert serving.attempt(lambda: made_after) is None, "it is not time yet"
    made.clock.time_ns += serving.look_again_ns
    assert serving.attempt(lambda: made_after) is made_after


def test_damage_of_the_disk_is_not_the_objects_failure(made: FakeGroup, serving: ServingState) -> None:
    """It ends the host, loudly (D2), and no other attempt is made."""

    def damaged() -> Execution:
        raise Corruption("a record is damaged", file="log", offset=0, expected=1, found=0)

    with pytest.raises(Corruption):
        serving.attempt(damaged)
    assert made.faults == []


def test_an_object_given_up_in_office_leaves_the_office_held(serving: ServingState) -> None:
    """Calls are taken again when there is another object; nothing else is needed for that."""
    serving.start_calls()
    assert not serving.awaits_object
    serving.stop_calls()
    assert (serving.is_primary, serving.takes_calls, serving.awaits_object) == (True, False, True)
    serving.end()
    assert not serving.awaits_object


def test_who_does_not_hold_the_office_has_no_reason_to_give(made: FakeGroup, serving: ServingState) -> None:
    """A backup whose object was faulty hands over to nobody: it does not serve."""
    serving.attempt(fail)
    serving.end()
    assert serving.why_not == ""
    following = ServingState(made.ports["c"], CONFIG)
    following.failed_as_primary("it hangs")
    following.maybe_pass_on()
    assert made.passed_on == []


def test_the_state_to_load_is_asked_for_when_the_work_begins(made: FakeGroup) -> None:
    """Checkpoints made between the decision and the work replace older ones."""
    asked = []
    work = loading(made.definition, lambda: asked.append("asked"))
    assert asked == []
    assert isinstance(next(work), Execution)
    assert asked == ["asked"]


def wait_for_code() -> Execution:
    raise WaitsForCode("2 operations were made by code 1; here is 2")


def test_that_other_code_was_in_the_way_is_not_told_after_it_is_over(serving: ServingState) -> None:
    """This holds even if nobody tries again, as on a backup whose object is made only when it is needed. Any
    other failure is believed until an attempt succeeds."""
    assert serving.attempt(wait_for_code) is None
    assert "made by code 1" in serving.why_unable
    serving.end()
    serving.code_is_there()
    assert (serving.why_unable, serving.unable_since_ns) == ("", 0)
    serving.begin()
    assert serving.attempt(fail) is None
    serving.code_is_there()
    assert "no licence" in serving.why_unable
