"""Faults over HTTP, on a notifier without a domain: nobody waits without end, and streams end properly."""

import asyncio
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any, cast

import pytest
from local_notifier import LocalNotifier

from holdfast.client import faults as faults_module
from holdfast.faults.notifier import NoSuchNumber
from holdfast.model.errors import NoSuchGroup, OutcomeUnknown, Unavailable
from holdfast.web import about_faults, keepalive
from holdfast.web.about_faults import NewFault, follow_faults, list_faults, push_fault
from holdfast.web.access import HttpCaller
from holdfast.web.context import WebContext
from holdfast.web.endpoint import Asked
from holdfast.web.problems import Refusal
from holdfast.web.settings import STREAMS_MAX

CRASH = NewFault(kind="ObjectCrashFault", location="rack1/host2")


class Silent(LocalNotifier):
    """A notifier that has no primary and gets none, or whose group does not exist."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def call(self, *_: Any, **__: Any) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.set_exception(self._error)
        return answer


def site_of(local: LocalNotifier) -> WebContext:
    inside = SimpleNamespace(faults=local.faults(), host_context=SimpleNamespace(domain="main"))
    return cast(WebContext, SimpleNamespace(inside=inside, streams=0))


def asked(body: Any = None, **query: str) -> Asked:
    return Asked(HttpCaller("ops", "admin", {}), {}, query, {}, body)


@pytest.mark.parametrize("error", [Unavailable("no primary"), NoSuchGroup("no such group")])
def test_a_notifier_that_does_not_answer_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The caller gets 503 in time: each waiting request occupies one of the door's few places."""
    monkeypatch.setattr(about_faults, "ORDER_S", 0.05)
    monkeypatch.setattr(faults_module, "RETRY_S", 0.01)

    async def work() -> None:
        site = site_of(Silent(error))
        async with asyncio.timeout(30):
            for handler in (list_faults, follow_faults):
                with pytest.raises(Unavailable):
                    await handler(site, asked())
            with pytest.raises((Unavailable, OutcomeUnknown)):
                await push_fault(site, asked(CRASH))
        assert site.streams == 0

    asyncio.run(work())


def test_a_stream_after_a_number_never_given_is_refused() -> None:
    """The number may be from an earlier notifier: a stream that only ends would be requested again."""

    async def work() -> None:
        with pytest.raises(NoSuchNumber):
            await follow_faults(site_of(LocalNotifier()), asked(after="7"))

    asyncio.run(work())


def test_a_listener_that_leaves_between_two_events_ends_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it gets a sign of life or waits, the stream ends without a failure and no longer counts."""
    monkeypatch.setattr(keepalive, "QUIET_S", 0.01)

    async def work() -> None:
        local = LocalNotifier()
        site = site_of(local)
        await push_fault(site, asked(CRASH))
        events = cast(Any, (await follow_faults(site, asked(after="0"))).body_iterator)
        async with aclosing(events):
            assert (await anext(events)).startswith(b"id: 1\nevent: fault\n")
            assert await anext(events) == b": nothing new\n\n"
            assert site.streams == 1
        assert site.streams == 0

        waits = cast(Any, (await follow_faults(site, asked())).body_iterator)
        listening = asyncio.create_task(_listen(waits))
        while site.streams == 0:
            await asyncio.sleep(0)
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening
        assert site.streams == 0

    asyncio.run(work())


def test_streams_that_begin_while_another_waits_for_the_notifier_count() -> None:
    """The limit holds also when many are requested at the same time."""

    class Slow(LocalNotifier):
        async def _open(self, name: str, cls: type) -> LocalNotifier:
            site.streams = STREAMS_MAX
            return await super()._open(name, cls)

    site = site_of(Slow())

    async def work() -> None:
        with pytest.raises(Refusal) as refused:
            await follow_faults(site, asked())
        assert (refused.value.status, refused.value.problem.code) == (503, "overloaded")

    asyncio.run(work())


def test_a_stream_ends_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream ends without a failure: the listener reconnects with the last id."""
    monkeypatch.setattr(about_faults, "STREAM_S_MAX", 0.05)

    async def work() -> None:
        site = site_of(LocalNotifier())
        async with asyncio.timeout(30):
            await _listen(cast(Any, (await follow_faults(site, asked())).body_iterator))
        assert site.streams == 0

    asyncio.run(work())


async def _listen(events: Any) -> None:
    async for _ in events:
        pass
