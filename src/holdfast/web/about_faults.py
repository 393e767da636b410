"""Endpoints that list faults, stream them, and accept reports from applications' own detectors.

Every event has a number, the same at every host; it is the id of the event in the stream. A listener that
reconnects with ``Last-Event-ID``, here or at another host, gets everything since; events that are gone by
then are reported as a `gap`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final

import msgspec
from msgspec import Struct
from starlette.responses import StreamingResponse

from holdfast.faults.events import Location, Simple
from holdfast.faults.filters import parse
from holdfast.faults.notifier import PAGE_EVENTS_MAX
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.faults.told_events import Gap, Page, Told, as_plain
from holdfast.model.errors import HoldfastError, InvalidRequest, OutcomeUnknown, Unavailable
from holdfast.model.ids import GroupId
from holdfast.web.context import WebContext
from holdfast.web.endpoint import ALWAYS, Asked, Endpoint, Parameter, Reply
from holdfast.web.keepalive import with_pauses
from holdfast.web.problems import busy
from holdfast.web.settings import ORDER_S, STREAM_S_MAX, STREAMS_MAX

NUMBER_DIGITS_MAX: Final = 18
WHERE: Final = Parameter(
    "where", "query", {"type": "string"}, "Only events that pass this filter (docs/filters.md)."
)
MEMBERS: Final = Parameter(
    "members", "query", {"type": "boolean"}, "Also what is part of an event that is told itself."
)
AFTER: Final = Parameter(
    "after", "query", {"type": "integer", "minimum": 0}, "Only events after this number; else all known."
)


class FaultPage(Struct, frozen=True, kw_only=True):
    """Some events, oldest first."""

    faults: tuple[dict[str, Any], ...]
    reached: int
    """Everything up to this number was examined: continue after it."""
    newest: int
    gap: dict[str, Any] | None = None
    """Numbers that were asked for but are gone."""


class NewFault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault that somebody has found."""

    kind: str
    """The event's type name, such as ``ObjectCrashFault``."""
    location: str
    """The location of the fault, the larger region first: ``rack1/host2``."""
    type_id: str | None = None
    """The class; without it everything at the location is meant."""
    group: int | None = None
    """The group's number, if it is about one member."""
    details: dict[str, Simple] = {}
    why: str = ""
    once: str = ""
    """A key: reports with the same key count as one."""


class FaultTold(Struct, frozen=True, kw_only=True):
    number: int


async def list_faults(site: WebContext, asked: Asked) -> Reply:
    where, after = asked.query.get("where", ""), _number(asked.query.get("after")) or 0
    parse(where)
    page = await _page(site, after, where, parts=_is_yes(asked.query.get("members")))
    return Reply(
        FaultPage(
            faults=tuple(as_plain(each) for each in page.events),
            reached=page.reached,
            newest=page.newest,
            gap=None if page.gap is None else as_plain(page.gap)["gap"],
        )
    )


async def push_fault(site: WebContext, asked: Asked) -> Reply:
    new: NewFault = asked.body
    kinds = {each.value: each for each in FaultKind}
    if new.kind not in kinds:
        raise InvalidRequest(f"no kind of fault {new.kind!r}; these are: {', '.join(kinds)}")
    report = FaultReport(
        kinds[new.kind],
        site.inside.host_context.domain,
        Location.parse(new.location),
        new.type_id,
        None if new.group is None else GroupId(new.group),
        new.details,
        new.why,
    )
    try:
        async with asyncio.timeout(ORDER_S):
            number = await site.inside.faults.push(report, once=new.once)
    except TimeoutError:
        raise OutcomeUnknown("the report", waited_s=ORDER_S) from None
    return Reply(FaultTold(number=number), 201)


async def follow_faults(site: WebContext, asked: Asked) -> StreamingResponse:
    where, members = asked.query.get("where", ""), _is_yes(asked.query.get("members"))
    parse(where)
    after = _number(asked.headers.get("last-event-id") or asked.query.get("after"))
    # Asked before the stream begins, so that a failure can be answered; a stream could only end and be
    # retried.
    page = await _page(site, after, where, parts=members)
    if site.streams >= STREAMS_MAX:
        raise busy(f"{site.streams} streams of events are open at this host", "overloaded")
    news = site.inside.faults.watch(where, after=page.reached if after is None else after, parts=members)
    events = _stream(site, news)
    return StreamingResponse(events, media_type="text/event-stream", headers=ALWAYS)


async def _page(site: WebContext, after: int | None, where: str, *, parts: bool) -> Page:
    """Read one page. Raises ``Unavailable`` if the notifier does not answer in time, since each waiting
    request occupies one of the limited places."""
    try:
        async with asyncio.timeout(ORDER_S):
            return await site.inside.faults.page(after, where, parts=parts)
    except TimeoutError:
        raise Unavailable(f"the fault notifier did not answer within {ORDER_S:g} s") from None


async def _stream(site: WebContext, news: AsyncGenerator[Told | Gap, None]) -> AsyncIterator[bytes]:
    site.streams += 1
    try:
        async with asyncio.timeout(STREAM_S_MAX), aclosing(news), aclosing(with_pauses(news)) as events:
            async for event in events:
                yield b": nothing new\n\n" if event is None else _event(event)
    except (TimeoutError, HoldfastError):
        return  # the listener reconnects with its last id
    finally:
        site.streams -= 1


def _event(news: Told | Gap) -> bytes:
    kind, number = ("fault", news.number) if isinstance(news, Told) else ("gap", news.last)
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, kind.encode(), msgspec.json.encode(as_plain(news)))


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX):
        raise InvalidRequest("after, and Last-Event-ID, must be the number of an event of this domain")
    return int(text)


def _is_yes(text: str | None) -> bool:
    return text is not None and text.lower() in ("1", "true", "yes")


ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/faults",
        "list_faults",
        "What went wrong",
        f"At most {PAGE_EVENTS_MAX} events, oldest first; ask on after `reached`.",
        list_faults,
        FaultPage,
        "reader",
        parameters=(WHERE, AFTER, MEMBERS),
    ),
    Endpoint(
        "POST",
        "/v1/faults",
        "push_fault",
        "Report a fault",
        "For detectors of applications: it is told to everybody who wants to hear of such a fault.",
        push_fault,
        FaultTold,
        "admin",
        body=NewFault,
        status=201,
    ),
    Endpoint(
        "GET",
        "/v1/faults/stream",
        "follow_faults",
        "What goes wrong, as it does",
        "Server-sent events: fault, and gap for what is gone; their ids are the numbers.",
        follow_faults,
        None,
        "reader",
        media="text/event-stream",
        parameters=(
            WHERE,
            AFTER,
            MEMBERS,
            Parameter(
                "Last-Event-ID",
                "header",
                {"type": "string", "pattern": f"^[0-9]{{1,{NUMBER_DIGITS_MAX}}}$"},
                "Go on after this event; without it, and without after, begin now.",
            ),
        ),
        is_stream=True,
    ),
)
