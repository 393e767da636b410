"""The authority on an etcd v3 cluster, over its JSON gateway (A3).

Several endpoints, failing over between them; every call ends within its own deadline; a change whose outcome
is not known is never re-sent and ends as :class:`~.contract.Unknown` (A1). Reads are linearizable.

Watching a prefix of etcd across the death of endpoints, without gap or repetition.

A watch is one streamed POST. It is opened again at the last delivered revision + 1 whenever it ends, loses
its leader, or has been silent for too long: a peer that vanished without a word does not end a stream.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Final

import httpx
import msgspec

from holdfast.authority.contract import (
    Applied,
    Compacted,
    Events,
    Get,
    Invalid,
    LeaseGone,
    LeaseGrant,
    LeaseGranted,
    LeaseKeep,
    LeaseRevoke,
    List,
    Listed,
    Put,
    Request,
    Result,
    Txn,
    Unknown,
    WatchEvent,
    broken_bound,
    granted_seconds,
)
from holdfast.authority.etcd_gateway import TRANSPORT_ERRORS, Deadlines, Declined, EtcdGateway, NoReply
from holdfast.authority.etcd_wire import (
    KeepAliveResponse,
    KeyDomain,
    LeaseRequest,
    LeaseResponse,
    RangeRequest,
    RangeResponse,
    TxnResponse,
    WatchCreate,
    WatchedEvent,
    WatchLine,
    WatchRequest,
    WatchResponse,
)
from holdfast.model.errors import BrokenInvariant
from holdfast.model.ids import LeaseId, Revision

REOPEN_PAUSE_S: Final = 0.1
"""Before a failed watch is opened again, so that an etcd without a leader is not pestered."""
COMPACTED: Final = "etcdserver: mvcc: required revision has been compacted"
YET_TO_COME: Final = "etcdserver: mvcc: required revision is a future revision"


class StreamEnded(Exception):
    """This stream is over; the next one goes on where it stopped."""


class Assembler:
    """Makes one Events of each revision, however etcd cuts its responses."""

    def __init__(self, domain: KeyDomain) -> None:
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
    gateway: EtcdGateway, domain: KeyDomain, prefix: str, revision: Revision
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


LEASE_NOT_FOUND = "etcdserver: requested lease not found"
DEFAULT_PREFIX = "holdfast/"


class EtcdAuthority:
    """An :class:`~.recipe.Authority`. Use within one event loop; close it when done."""

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        prefix: str = DEFAULT_PREFIX,
        tls: ssl.SSLContext | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        """*endpoints* are client URLs; *prefix* keeps the keys of one domain apart from others'."""
        self._gateway = EtcdGateway(endpoints, tls=tls, deadlines=deadlines or Deadlines())
        self._domain = KeyDomain(prefix)

    async def check(self) -> None:
        """Raise ``InvalidRequest``, saying why, if this etcd cannot serve; ask it once at start."""
        await self._gateway.check()

    async def ask(self, request: Request) -> Result:
        broken = broken_bound(request)
        if broken is not None:
            return broken
        try:
            return await self._ask(request)
        except NoReply as silence:
            return Unknown(str(silence))
        except Declined as declined:
            return _declined(request, declined)

    def watch(self, prefix: str, revision: Revision) -> AsyncIterator[WatchEvent]:
        return watch(self._gateway, self._domain, prefix, revision)

    async def close(self) -> None:
        await self._gateway.close()

    async def _ask(self, request: Request) -> Result:
        match request:
            case Get(key=key):
                return self._domain.got(await self._range(RangeRequest(self._domain.key(key))))
            case List():
                return await self._list(request)
            case Txn():
                asked = self._domain.txn_request(request)
                response = await self._gateway.post("/v3/kv/txn", asked, TxnResponse, is_repeatable=False)
                return self._domain.decided(response)
            case LeaseGrant(seconds=seconds):
                return await self._grant(granted_seconds(seconds))
            case LeaseKeep(lease=lease):
                return await self._keep(lease)
            case LeaseRevoke(lease=lease):
                revoked = await self._lease("revoke", LeaseRequest(ID=lease))
                return Applied(Revision(revoked.header.revision))
        raise BrokenInvariant(f"the contract has no request {request}")

    async def _list(self, request: List) -> Listed:
        asked = self._domain.list_request(request)
        if asked is None:
            now = await self._range(RangeRequest(self._domain.key(request.prefix), count_only=True))
            return Listed((), Revision(now.header.revision))
        return self._domain.listed(await self._range(asked))

    async def _range(self, request: RangeRequest) -> RangeResponse:
        return await self._gateway.post("/v3/kv/range", request, RangeResponse, is_repeatable=True)

    async def _grant(self, seconds: int) -> LeaseGranted:
        granted = await self._lease("grant", LeaseRequest(TTL=seconds))
        return LeaseGranted(LeaseId(granted.ID), granted.TTL)

    async def _keep(self, lease: LeaseId) -> LeaseGranted | LeaseGone:
        # Keeping a lease alive twice is keeping it alive: it may be asked of every endpoint in turn.
        kept = await self._gateway.post(
            "/v3/lease/keepalive",
            LeaseRequest(ID=lease),
            KeepAliveResponse,
            is_repeatable=True,
            is_urgent=True,
        )
        return LeaseGranted(lease, kept.result.TTL) if kept.result.TTL > 0 else LeaseGone(lease)

    async def _lease(self, verb: str, request: LeaseRequest) -> LeaseResponse:
        return await self._gateway.post(f"/v3/lease/{verb}", request, LeaseResponse, is_repeatable=False)


def _declined(request: Request, declined: Declined) -> Result:
    """etcd's refusal as a result of the contract."""
    if declined.message == LEASE_NOT_FOUND:
        match request:
            case LeaseKeep(lease=lease) | LeaseRevoke(lease=lease):
                return LeaseGone(lease)
            case Txn(changes=changes):
                leases = (change.lease for change in changes if isinstance(change, Put) and change.lease)
                return LeaseGone(next(leases))
            case _:
                pass
    if "request is too large" in declined.message or "too many operations" in declined.message:
        # Its own bounds were set below the contract's (A3).
        return Invalid(declined.message)
    return Unknown(declined.message)
