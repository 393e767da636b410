"""Every request to the authority is answered, or the process that sent it ends."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import msgspec
import pytest

from holdfast.authority.contract import (
    Changed,
    Compacted,
    Events,
    Get,
    KeyValue,
    Listed,
    Request,
    Result,
    Unknown,
    WatchEvent,
)
from holdfast.authority.driver import AuthorityDriver, followed
from holdfast.authority.recipe import Guard
from holdfast.model.errors import BrokenInvariant
from holdfast.model.ids import LeaseId, Nonce, Revision


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


class Direct:
    """An authority that calls back, as the embedded one does when a frame brings the answer."""

    def __init__(self) -> None:
        self.asked: list[Callable[[Result], None]] = []

    def request(self, request: Request, then: Callable[[Result], None]) -> None:
        self.asked.append(then)


def test_an_answer_reaches_the_core_in_the_turn_that_brings_it() -> None:
    """A failover waits for each question: no task and no later turn of the loop lies between."""

    async def work() -> None:
        authority, told = Direct(), []
        questions = AuthorityDriver(cast(Any, authority))
        questions.on_authority = lambda token, result: told.append((token, result))
        before = asyncio.all_tasks()
        questions.request(Get("a"), "token")
        assert asyncio.all_tasks() == before
        authority.asked.pop()(Unknown("silence"))
        assert told == [("token", Unknown("silence"))]
        questions.request(Get("a"), "late")
        await questions.close()
        authority.asked.pop()(Unknown("closed"))
        assert len(told) == 1

    asyncio.run(work())


@pytest.mark.parametrize("error", [BrokenInvariant("it cannot go on"), ValueError("a bug")])
def test_what_a_core_raises_ends_the_process_and_not_the_connection(error: BaseException) -> None:
    """The connection that brought the answer would log it and go on, and the core would be half done."""
    found: list[object] = []

    def fail(token: object, result: Result) -> None:
        raise error

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: found.append(context["exception"]))
        authority = Direct()
        questions = AuthorityDriver(cast(Any, authority))
        questions.on_authority = fail
        questions.request(Get("a"), "token")
        authority.asked.pop()(Unknown("silence"))
        async with asyncio.timeout(30):
            while not found:
                await asyncio.sleep(0)

    asyncio.run(work())
    assert found == [error]


class Told:
    """An authority with one record, whose watches tell what they are given and then wait."""

    def __init__(self, *watches: list[WatchEvent]) -> None:
        self.records = {"sessions/a": 1}
        self.watches = list(watches)
        self.begun: list[int] = []

    async def ask(self, request: object) -> Result:
        found = [item(key, revision) for key, revision in self.records.items()]
        return Listed(tuple(found), Revision(max(self.records.values())))

    async def watch(self, prefix: str, revision: Revision) -> AsyncIterator[WatchEvent]:
        self.begun.append(revision)
        for event in self.watches.pop(0):
            yield event
        await asyncio.Event().wait()


def item(key: str, revision: int) -> KeyValue:
    value = msgspec.json.encode(Guard(nonce=Nonce(f"n{revision}")))
    return KeyValue(key, value, Revision(revision), Revision(revision), LeaseId(0))


def test_what_is_followed_is_listed_once_then_watched_and_listed_again_when_too_far_behind() -> None:
    changed = Events(Revision(2), (Changed("sessions/b", item("sessions/b", 2)),))
    gone = Events(Revision(3), (Changed("sessions/a", None),))
    authority = Told([changed, gone, Compacted(Revision(9))], [])
    seen: list[dict[str, Revision]] = []

    async def work() -> None:
        async with asyncio.timeout(30):
            async for known in followed(cast(Any, authority), "sessions/", Guard):
                seen.append({key: each.modified for key, each in known.items()})
                if len(seen) == 3:
                    authority.records = {"sessions/c": 8}
                if len(seen) == 4:
                    return

    asyncio.run(work())
    assert seen == [
        {"sessions/a": 1},
        {"sessions/a": 1, "sessions/b": 2},
        {"sessions/b": 2},
        {"sessions/c": 8},
    ]
    assert authority.begun == [2]
