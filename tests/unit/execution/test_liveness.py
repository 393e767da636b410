"""An object is asked whether it is alive; if not, it is rebuilt from what is committed."""

import asyncio
from typing import ClassVar

import pytest
from fake_group import FakeGroup
from group_classes import Spy, call, definition, sent
from style_groups import ALL, group, lines, told, write

import holdfast as hf
from holdfast.execution.context import Scope
from holdfast.execution.crash_attempts import CrashSuspicions
from holdfast.execution.execution import Execution
from holdfast.execution.interface import interface_of
from holdfast.execution.method import ASKED_BY, why_not_alive
from holdfast.model.errors import Unavailable
from holdfast.model.ids import ClientId, Epoch, GroupId
from holdfast.model.outcome import Returned
from holdfast.model.ports import Clock
from holdfast.styles.config import StyleConfig
from holdfast.styles.stateless import Stateless


class Patient(Spy):
    """Answers ``is_alive`` as it was told to, and false if its data is inconsistent."""

    answer: ClassVar[object] = True

    def is_alive(self) -> object:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer is True and "broken" not in self.lines if self.answer is True else self.answer

    def spoil(self) -> None:
        """A change that no record describes, like a flipped bit."""
        self.lines.append("broken")


class Waits(Spy):
    async def is_alive(self) -> bool:
        return True


class WaitsForAnother(Spy):
    async def is_alive(self) -> bool:
        await hf.context.group("other").get("x")
        return True


class Naps(Spy):
    async def is_alive(self) -> bool:
        await asyncio.sleep(0)
        return True


@pytest.fixture(autouse=True)
def _well() -> None:
    Patient.answer = True


def asked(instance: object) -> str:
    scope = Scope("g", interface_of(type(instance)), None)
    scope.begin(ASKED_BY, 0, 0)
    return why_not_alive(instance, scope)


@pytest.mark.covers("FTC-247")
def test_true_is_alive_and_all_else_is_not() -> None:
    """An exception or an answer that is merely truthy means not alive."""
    assert asked(Patient()) == ""
    assert asked(Spy()) == ""  # without the method, Holdfast answers for the object
    for answer in (False, None, 1, "yes", ValueError("lost"), SystemExit()):
        Patient.answer = answer
        assert asked(Patient())


def test_one_written_async_may_answer_and_may_not_wait() -> None:
    assert asked(Waits()) == ""
    assert asked(WaitsForAnother())
    assert "waiting" in asked(Naps())


def spoil(made: FakeGroup, name: str) -> None:
    execution = made.replicas[name].execution
    assert execution is not None
    instance = execution.line.instance
    assert isinstance(instance, Patient)
    instance.spoil()


@pytest.mark.covers("FTC-247")
def test_no_caller_reaches_it() -> None:
    """Only Holdfast may call ``is_alive``."""
    made = group("warm", Patient)
    made.replicas["a"].on_calls("t", sent(call(1, "is_alive")))
    made.settle()
    ((_, _, (outcome,)),) = told(made)
    assert not isinstance(outcome, Returned)


@pytest.mark.parametrize("style", ALL)
def test_a_primary_that_is_not_alive_lets_another_serve(style: str) -> None:
    """It takes no calls meanwhile, and its group reports why."""
    made = group(style, Patient)
    write(made, 1, 2)
    made.settle()
    spoil(made, "a")
    why = made.replicas["a"].why_not_alive()
    made.replicas["a"].make_anew(why)
    made.wake()
    assert made.passed_on == [("a", "is_alive answered False")]
    with pytest.raises(Unavailable, match="is_alive answered False"):
        write(made, 3)
    made.fail_over("b", is_crash=False)
    made.settle()
    write(made, 3)
    made.settle()
    assert lines(made, "b") == ["line 1", "line 2", "line 3"]


@pytest.mark.parametrize("style", ALL)
def test_one_without_another_is_made_anew_of_what_is_committed(style: str) -> None:
    """The rebuilt object contains, once, also what was ordered but not yet committed, and a retry gets its
    reply."""
    made = group(style, Patient)
    write(made, 1, 2)
    made.settle()
    spoil(made, "a")
    write(made, 3, token="early")
    made.replicas["a"].make_anew("is_alive answered False")
    made.settle()
    made.clock.time_ns += made.config.object_retry_ns * 2
    made.settle()
    told(made)
    write(made, 3, token="again")
    made.settle()
    assert [(token, numbers) for token, numbers, _ in told(made)] == [("again", [3])]
    assert lines(made, "a") == ["line 1", "line 2", "line 3"]
    assert made.replicas["a"].why_not_alive() == ""


@pytest.mark.parametrize("style", ["warm", "active"])
def test_a_backup_that_is_not_alive_is_whole_again_when_it_must_serve(style: str) -> None:
    made = group(style, Patient)
    write(made, 1, 2)
    made.settle()
    made.replicas["b"].keep_up()
    made.settle()
    spoil(made, "b")
    assert made.replicas["b"].why_not_alive()
    made.replicas["b"].make_anew("is_alive answered False")
    made.settle()
    assert not made.passed_on
    made.fail_over("b", is_crash=True)
    made.settle()
    assert lines(made, "b") == ["line 1", "line 2"]


def test_an_object_in_the_middle_of_a_call_is_not_asked() -> None:
    """The object waits for another group, and a half-done operation must not be judged."""
    made = group("warm", Patient)
    Patient.answer = False
    made.replicas["a"].on_calls("t", sent(call(1, "ask", "x")))
    made.settle()
    assert made.outgoing
    assert made.replicas["a"].why_not_alive() == ""


def test_an_object_without_state_is_had_anew() -> None:
    clock: Clock = FakeGroup("warm", definition(Patient), StyleConfig()).clock
    member = Stateless(definition(Patient), clock)
    member.on_serving(Epoch(1))
    Patient.answer = False
    assert member.why_not_alive()
    member.make_anew("is_alive answered False")
    Patient.answer = True
    assert member.why_not_alive() == ""


def test_what_asks_is_noted_for_those_who_see_the_process_die() -> None:
    """An ``is_alive`` that never returns ends its host, and the others must know whose it was (E4)."""
    noted: list[tuple[GroupId, ClientId]] = []

    class Slot:
        def note(self, group: GroupId, client: ClientId, first: int, last: int, attempts: int) -> None:
            noted.append((group, client))

        def clear(self) -> None:
            noted.append((GroupId(0), ClientId("")))

    attempts = CrashSuspicions(GroupId(7), slot=Slot())
    made = definition(Patient)
    object.__setattr__(made, "attempts", attempts)
    Execution(made).why_not_alive()
    assert noted == [(7, ASKED_BY), (0, "")]
