"""Every request to the authority is answered, or the process that sent it ends."""

import asyncio
from typing import Any, cast

from holdfast.authority.contract import Get, Result
from holdfast.authority.driver import AuthorityDriver
from holdfast.model.errors import BrokenInvariant


class Broken:
    """An authority whose driver fails in a way no driver should."""

    async def ask(self, request: object) -> Result:
        raise AttributeError("'NoneType' object has no attribute 'getpeername'")


def test_a_question_that_is_never_answered_ends_the_process() -> None:
    """The loop receives a broken invariant, which ends the host's process. Otherwise the core would wait
    forever, and the host would look healthy while taking no part any more."""
    found: list[object] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: found.append(context["exception"]))
        questions = AuthorityDriver(cast(Any, Broken()))
        questions.request(Get("a"), "token")
        async with asyncio.timeout(30):
            while not found:
                await asyncio.sleep(0)
        await questions.close()

    asyncio.run(work())
    assert [type(each) for each in found] == [BrokenInvariant]


def test_a_question_that_is_given_up_ends_nothing() -> None:
    class Silent:
        async def ask(self, request: object) -> Result:
            await asyncio.Event().wait()
            raise AssertionError

    found: list[object] = []

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: found.append(context))
        questions = AuthorityDriver(cast(Any, Silent()))
        questions.request(Get("a"), "token")
        await asyncio.sleep(0)
        await questions.close()

    asyncio.run(work())
    assert found == []
