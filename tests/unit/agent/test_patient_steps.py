"""Steps of restarts and upgrades are waited for while hosts come and go, and not for ever."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.agent.patient_steps import awaited, insist
from holdfast.model.errors import OutcomeUnknown, Unavailable


def answers(*given: object) -> Callable[[], Awaitable[object]]:
    """A host that gives these answers, and the last one for ever."""
    left = list(given)

    async def ask() -> object:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask


def test_who_does_not_answer_yet_is_asked_again() -> None:
    restarting = (Unavailable("restarts"), OutcomeUnknown("order", waited_s=1.0), 7)
    assert asyncio.run(insist(answers(*restarting))) == 7
    found = asyncio.run(awaited("it is 7", answers(1, *restarting), lambda found: found == 7, advice=""))
    assert found == 7


def test_what_never_answers_is_named_when_the_time_is_over() -> None:
    with pytest.raises(Unavailable, match="nobody lives"):
        asyncio.run(insist(answers(Unavailable("nobody lives")), step_s=0.3))


def test_what_never_comes_is_named_with_what_to_do() -> None:
    with pytest.raises(Unavailable, match=r"not within 0.3 s: it is 7; look at it. Nothing is lost"):
        asyncio.run(awaited("it is 7", answers(1), lambda found: found == 7, advice="look at it", step_s=0.3))
