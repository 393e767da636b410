"""Watching a prefix of etcd across the death of endpoints, without gap or repetition.

A watch is one streamed POST. It is opened again at the last delivered revision + 1 whenever it ends, loses
its leader, or has been silent for too long: a peer that vanished without a word does not end a stream.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing
from typing import Final

import httpx
import msgspec

from holdfast.authority.contract import Compacted, Events, WatchEvent
from holdfast.authority.etcd_gateway import TRANSPORT_ERRORS, Declined, EtcdGateway, NoReply
from holdfast.authority.etcd_wire import (
    Domain,
    RangeRequest,
    RangeResponse,
    WatchCreate,
    WatchedEvent,
    WatchLine,
    WatchRequest,
    WatchResponse,
)
from holdfast.model.ids import Revision

REOPEN_PAUSE_S: Final = 0.1
"""Before a failed watch is opened again, so that an etcd without a leader is not pestered."""
COMPACTED: Final = "etcdserver: mvcc: required revision has been compacted"
YET_TO_COME: Final = "etcdserver: mvcc: required revision is a future revision"


class StreamEnded(Exception):
    """This stream is over; the next one goes on where it stopped."""


class Assembler:
    """Makes one Events of each revision, however etcd cuts its responses."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._held: list[WatchedEvent] = []

    def feed(self, response: WatchResponse) -> list[Events]:
        """The revisions that are complete. A fragment's last revision waits for what follows."""
        self._held += response.events
        complete = []
        while self._held:
            revision = self._held[0].kv.mod_revision
            ours = [each for each in self._held if each.kv.mod_revision == revision]
            if response.fragment and len(ours) == len(self._held):
                break
            complete.append(self._domain.events(revision, ours))
            self._held = self._held[len(ours) :]
        return complete


async def watch(
    gateway: EtcdGateway, domain: Domain, prefix: str, revision: Revision
) -> AsyncIterator[WatchEvent]:
    """See :meth:`holdfast.authority.recipe.Authority.watch`."""
    first = max(revision, 1)
    key, end = domain.range(prefix)
    endpoint = gateway.endpoint
    while True:
        request = WatchRequest(WatchCreate(key, end, first, progress_notify=True))
        assembler = Assembler(domain)
        try:
            compacted = await _compacted(gateway, key, first)
            if compacted is not None:
                yield compacted
                return
            async with aclosing(_stream(gateway, endpoint, request)) as responses:
                async for response in responses:
                    if response.compact_revision:
                        yield Compacted(Revision(response.compact_revision + 1))
                        return
                    for events in assembler.feed(response):
                        yield events
                        first = events.revision + 1
                    if not (response.events or response.created or response.canceled):
                        # A progress notice: everything up to this revision has been delivered.
                        first = max(first, response.header.revision + 1)
        except (StreamEnded, NoReply, *TRANSPORT_ERRORS, msgspec.DecodeError):
            # The watch alone moves on: a quiet prefix is no reason for calls to change their endpoint.
            endpoint = gateway.after(endpoint)
        await asyncio.sleep(REOPEN_PAUSE_S)


async def _compacted(gateway: EtcdGateway, key: bytes, first: int) -> Compacted | None:
    """Whether the history from *first* on may be incomplete.

    A watch from exactly the compacted revision is accepted, but many releases of etcd no longer know what
    that revision removed. Reading the revision before *first* fails in just the cases that matter. One yet to
    come is of a history that this etcd has lost: it was put back (A5), and a watch would be silent until it
    has counted up to there again.
    """
    if first == 1:
        return None
    try:
        request = RangeRequest(key, revision=first - 1, count_only=True)
        await gateway.post("/v3/kv/range", request, RangeResponse, is_repeatable=True)
    except Declined as declined:
        if declined.message == YET_TO_COME:
            return Compacted(Revision(1))
        # etcd does not say how far it compacted; it was at least up to *first*.
        return Compacted(Revision(first + 1)) if declined.message == COMPACTED else None
    return None


async def _stream(
    gateway: EtcdGateway, endpoint: str, request: WatchRequest
) -> AsyncGenerator[WatchResponse, None]:
    """One stream's responses; raises ``StreamEnded`` or a transport error when it is over."""
    body = msgspec.json.encode(request)
    opening = gateway.client.stream("POST", endpoint + "/v3/watch", content=body)
    async with AsyncExitStack() as stack:
        async with asyncio.timeout(gateway.deadlines.attempt_s):
            response = await stack.enter_async_context(opening)
        if response.status_code != httpx.codes.OK:
            raise StreamEnded(f"HTTP {response.status_code}")
        lines = response.aiter_lines()
        while True:
            async with asyncio.timeout(gateway.deadlines.silence_s):
                line = await anext(lines, None)
            if line is None:
                raise StreamEnded("closed by etcd")
            decoded = msgspec.json.decode(line, type=WatchLine, strict=False)
            if decoded.result is None:
                raise StreamEnded(decoded.error.message if decoded.error else "an empty line")
            yield decoded.result
            if decoded.result.canceled:
                raise StreamEnded(decoded.result.cancel_reason)
