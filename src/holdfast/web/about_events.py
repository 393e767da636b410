"""Endpoint that streams changes of the domain as server-sent events.

Each change at the authority has a revision; it is the id of the event, the same at every host. A listener
that reconnects with ``Last-Event-ID``, here or at another host, gets everything since, without gap or
repetition, as far back as the authority remembers; otherwise a `gap` tells it to read everything again.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from holdfast.authority import keys
from holdfast.authority.contract import Changed, Compacted, Events
from holdfast.authority.recipe import Authority, Listing, decoded, perform
from holdfast.authority.sessions import Session, list_sessions
from holdfast.authority.views import View
from holdfast.groups.catalog import GroupCatalog
from holdfast.model.errors import InvalidRequest, Unavailable
from holdfast.model.ids import GroupId, Revision
from holdfast.web.context import WebContext
from holdfast.web.endpoint import ALWAYS, Asked, Endpoint, Parameter
from holdfast.web.keepalive import with_pauses
from holdfast.web.problems import busy
from holdfast.web.settings import STREAM_S_MAX, STREAMS_MAX

EVERYTHING = ""
"""One watch covers both prefixes: two watches would each have their own order, and ids would go back."""
REVISION_DIGITS_MAX = 18


async def follow_events(site: WebContext, asked: Asked) -> StreamingResponse:
    host_context = site.inside.host_context
    since = _since(asked.headers.get("last-event-id"))
    if since is None:
        since = await _revision(host_context.authority)
    if site.streams >= STREAMS_MAX:
        raise busy(f"{site.streams} streams of events are open at this host", "overloaded")
    events = _stream(site, host_context.authority, host_context.groups.catalog, since)
    return StreamingResponse(events, media_type="text/event-stream", headers=ALWAYS)


async def _stream(
    site: WebContext, authority: Authority, catalog: GroupCatalog, since: Revision
) -> AsyncIterator[bytes]:
    site.streams += 1
    try:
        yield _event("begin", since, {"revision": since})
        async with asyncio.timeout(STREAM_S_MAX):
            while True:
                async for said in _watched(authority, catalog, since):
                    yield said
                # The authority has forgotten older changes: continue from the current state.
                since = await _revision(authority)
                yield _event(
                    "gap", since, {"revision": since, "advice": "read /v1/hosts and /v1/groups anew"}
                )
    except (TimeoutError, Unavailable):
        return  # the listener reconnects with its last id
    finally:
        site.streams -= 1


async def _watched(authority: Authority, catalog: GroupCatalog, since: Revision) -> AsyncIterator[bytes]:
    """Events for what follows *since*, until the authority says that it has forgotten that."""
    async with aclosing(with_pauses(authority.watch(EVERYTHING, Revision(since + 1)))) as events:
        async for event in events:
            match event:
                case None:
                    yield b": nothing new\n\n"
                case Compacted():
                    return
                case Events(revision=revision, changes=changes):
                    told = [said for each in changes if (said := _told(each, catalog)) is not None]
                    for kind, data in told[:-1]:
                        yield _event(kind, None, data)
                    # The id comes with the last event of a revision: a listener that got only some of them
                    # gets all again.
                    for kind, data in told[-1:]:
                        yield _event(kind, revision, data)


def _told(changed: Changed, catalog: GroupCatalog) -> tuple[str, dict[str, Any]] | None:
    """The event for a change; None if it does not concern listeners."""
    key = changed.key
    if key.startswith(keys.SESSIONS):
        if changed.item is None:
            return "host_gone", {"host": key.removeprefix(keys.SESSIONS)}
        session = decoded(changed.item, Session).value
        return "host", {
            "host": session.host,
            "incarnation": session.incarnation,
            "address": session.address,
            "http": session.details.get("http"),
        }
    if key.startswith(keys.VIEWS):
        group = GroupId(int(key.removeprefix(keys.VIEWS)))
        record = catalog.records.get(group)
        named = {"group": group, "name": record.name if record is not None else None}
        if changed.item is None:
            return "group_gone", named
        view = decoded(changed.item, View).value
        return "view", {
            **named,
            "epoch": view.epoch,
            "primary": view.primary,
            "in_sync": [member.host for member in view.members],
            "why": view.cause.why.value,
            "about": view.cause.host,
        }
    return None


def _event(kind: str, revision: Revision | None, data: dict[str, Any]) -> bytes:
    id_line = b"" if revision is None else b"id: %d\n" % revision
    return id_line + b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(data))


async def _revision(authority: Authority) -> Revision:
    listing = await perform(authority, list_sessions())
    if not isinstance(listing, Listing):
        raise Unavailable("the authority does not answer")
    return listing.revision


def _since(text: str | None) -> Revision | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= REVISION_DIGITS_MAX):
        raise InvalidRequest("Last-Event-ID must be the id of an event of this domain")
    return Revision(int(text))


ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/events",
        "follow_events",
        "What changes, as it changes",
        "Server-sent events: host, host_gone, view, group_gone; begin and gap say where one stands.",
        follow_events,
        None,
        "reader",
        media="text/event-stream",
        parameters=(
            Parameter(
                "Last-Event-ID",
                "header",
                {"type": "string", "pattern": f"^[0-9]{{1,{REVISION_DIGITS_MAX}}}$"},
                "Go on after this event; without it, begin now.",
            ),
        ),
        is_stream=True,
    ),
)
