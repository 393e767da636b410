"""The authority on an etcd v3 cluster, over its JSON gateway (A3).

Several endpoints, failing over between them; every call ends within its own deadline; a change whose outcome
is not known is never re-sent and ends as :class:`~.contract.Unknown` (A1). Reads are linearizable.
"""

import ssl
from collections.abc import AsyncIterator, Sequence

from holdfast.authority.bounds import broken_bound, granted_seconds
from holdfast.authority.contract import (
    Applied,
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
)
from holdfast.authority.etcd_gateway import Deadlines, Declined, EtcdGateway, NoReply
from holdfast.authority.etcd_watch import watch
from holdfast.authority.etcd_wire import (
    Domain,
    KeepAliveResponse,
    LeaseRequest,
    LeaseResponse,
    RangeRequest,
    RangeResponse,
    TxnResponse,
)
from holdfast.model.errors import BrokenInvariant
from holdfast.model.ids import LeaseId, Revision

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
        self._domain = Domain(prefix)

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
