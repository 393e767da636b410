"""The authority on an etcd v3 cluster, over its JSON gateway (A3).

:class:`EtcdAuthority` fails over between several endpoints, and every call ends within its own deadline. A
change with an unknown outcome is never sent again and ends as :class:`~.contract.Unknown` (A1). Reads are
linearizable.

:func:`watch` watches a prefix across the death of endpoints, without gap or repetition. A watch is one
streamed POST. It is opened again at the last delivered revision + 1 whenever the stream ends, loses its
leader, or has been silent for too long: a peer that vanishes does not end a stream.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Final

import httpx
import msgspec

from holdfast.authority import keys
from holdfast.authority.client import NEVER_SEATED
from holdfast.authority.contract import (
    Applied,
    Compacted,
    Elsewhere,
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
    Plain,
    Put,
    Request,
    Result,
    Txn,
    Unknown,
    WatchEvent,
    broken_bound,
    granted_seconds,
    plain,
)
from holdfast.authority.etcd.gateway import (
    TRANSPORT_ERRORS,
    Deadlines,
    Declined,
    EtcdGateway,
    EtcdUser,
    NoReply,
)
from holdfast.authority.etcd.wire import (
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
"""The pause before a failed watch is opened again, so that an etcd without a leader is not flooded."""
COMPACTED: Final = "etcdserver: mvcc: required revision has been compacted"
YET_TO_COME: Final = "etcdserver: mvcc: required revision is a future revision"


class StreamEnded(Exception):
    """Raised when a stream is over; the next one continues where it stopped."""


class Assembler:
    """Makes one Events of each revision, however etcd splits its responses."""

    def __init__(self, domain: KeyDomain) -> None:
        self._domain = domain
        self._held: list[WatchedEvent] = []

    def feed(self, response: WatchResponse) -> list[Events]:
        """Return the complete revisions. The last one of a fragment waits for the next response."""
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
                        # This is a progress notice: everything up to this revision has been delivered.
                        first = max(first, response.header.revision + 1)
        except (StreamEnded, NoReply, *TRANSPORT_ERRORS, msgspec.DecodeError):
            # Only the watch changes its endpoint: a quiet prefix is no reason to move the calls as well.
            endpoint = gateway.after(endpoint)
        await asyncio.sleep(REOPEN_PAUSE_S)


async def _compacted(gateway: EtcdGateway, key: bytes, first: int) -> Compacted | None:
    """Return Compacted when the history from *first* on may be incomplete.

    etcd accepts a watch from exactly the compacted revision, but many releases no longer know what that
    revision removed. Reading the revision before *first* fails in exactly the cases that matter. When that
    revision is in the future, this etcd was restored and has lost it (A5): a watch would be silent until etcd
    has counted up to it again.
    """
    if first == 1:
        return None
    try:
        request = RangeRequest(key, revision=first - 1, count_only=True)
        await gateway.post("/v3/kv/range", request, RangeResponse, is_repeatable=True)
    except Declined as declined:
        if declined.message == YET_TO_COME:
            return Compacted(Revision(1))
        # etcd does not say how far it compacted, but it compacted at least up to *first*.
        return Compacted(Revision(first + 1)) if declined.message == COMPACTED else None
    return None


async def _stream(
    gateway: EtcdGateway, endpoint: str, request: WatchRequest
) -> AsyncGenerator[WatchResponse, None]:
    """Yield the responses of one stream; raise ``StreamEnded`` or a transport error when it is over."""
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
    """An :class:`~.recipe.Authority` on etcd. Use it within one event loop, and close it when done."""

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        prefix: str = DEFAULT_PREFIX,
        tls: ssl.SSLContext | None = None,
        user: EtcdUser | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        """*endpoints* are client URLs; *prefix* separates the keys of this domain from those of others."""
        self._gateway = EtcdGateway(endpoints, tls=tls, user=user, deadlines=deadlines or Deadlines())
        self._domain = KeyDomain(prefix)

    async def check(self) -> None:
        """Raise ``InvalidRequest`` with the reason if this etcd cannot serve. Call it once, at start."""
        await self._gateway.check(self._domain.key(""))

    async def ask(self, request: Request) -> Result:
        broken = broken_bound(request)
        if broken is not None:
            return broken
        seat, asked = plain(request)
        try:
            return await self._ask(seat, asked)
        except NoReply as silence:
            return Unknown(str(silence))
        except Declined as declined:
            return _declined(asked, declined)

    def watch(
        self, prefix: str, revision: Revision, seat: Revision = NEVER_SEATED
    ) -> AsyncIterator[WatchEvent]:
        """See :meth:`.recipe.Authority.watch`. Every stay at an etcd has its own prefix, so *seat* adds
        nothing here (A8)."""
        return watch(self._gateway, self._domain, prefix, revision)

    async def close(self) -> None:
        await self._gateway.close()

    async def _ask(self, seat: Revision, request: Plain) -> Result:
        match request:
            case Get(key=key):
                found = await self._read(seat, RangeRequest(self._domain.key(key)))
                return found if isinstance(found, Elsewhere) else self._domain.got(found)
            case List():
                return await self._list(seat, request)
            case Txn():
                asked = self._domain.txn_request(seat, request)
                response = await self._gateway.post("/v3/kv/txn", asked, TxnResponse, is_repeatable=False)
                return self._domain.decided(seat, response)
            case LeaseKeep(lease=lease):
                # A transaction cannot renew a lease. It is renewed first, so that a move which is given up
                # costs nobody their session; a sealed etcd still answers that the domain is elsewhere.
                kept = await self._keep(lease)
                return await self._elsewhere(seat, is_urgent=True) or kept
        elsewhere = await self._elsewhere(seat)
        if elsewhere is not None:
            return elsewhere
        match request:
            case LeaseGrant(seconds=seconds):
                return await self._grant(granted_seconds(seconds))
            case LeaseRevoke(lease=lease):
                revoked = await self._lease("revoke", LeaseRequest(ID=lease))
                return Applied(Revision(revoked.header.revision))
        raise BrokenInvariant(f"the contract has no request {request}")

    async def _list(self, seat: Revision, request: List) -> Listed | Elsewhere:
        asked = self._domain.list_request(request)
        if asked is None:
            now = await self._read(seat, RangeRequest(self._domain.key(request.prefix), count_only=True))
            return now if isinstance(now, Elsewhere) else Listed((), Revision(now.header.revision))
        found = await self._read(seat, asked)
        return found if isinstance(found, Elsewhere) else self._domain.listed(found)

    async def _elsewhere(self, seat: Revision, *, is_urgent: bool = False) -> Elsewhere | None:
        found = await self._read(seat, RangeRequest(self._domain.key(keys.SEAT)), is_urgent=is_urgent)
        return found if isinstance(found, Elsewhere) else None

    async def _read(
        self, seat: Revision, request: RangeRequest, *, is_urgent: bool = False
    ) -> RangeResponse | Elsewhere:
        response = await self._gateway.post(
            "/v3/kv/txn",
            self._domain.read_request(seat, request),
            TxnResponse,
            is_repeatable=True,
            is_urgent=is_urgent,
        )
        return self._domain.was_read(response)

    async def _grant(self, seconds: int) -> LeaseGranted:
        granted = await self._lease("grant", LeaseRequest(TTL=seconds))
        return LeaseGranted(LeaseId(granted.ID), granted.TTL)

    async def _keep(self, lease: LeaseId) -> LeaseGranted | LeaseGone:
        # Keeping a lease alive twice does no harm, so every endpoint may be asked in turn.
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


def _declined(request: Plain, declined: Declined) -> Result:
    """Translate etcd's refusal into a result of the contract."""
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
        # This etcd is configured with lower bounds than the contract's (A3).
        return Invalid(declined.message)
    return Unknown(declined.message)
