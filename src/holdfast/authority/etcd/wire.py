"""Translates the contract into etcd's v3 JSON gateway messages and back, without socket or clock.

The gateway uses protobuf's JSON: bytes in base64 and 64-bit integers as strings, which msgspec reads into
bytes and int. Every key stands below the domain's prefix, so that several domains can share an etcd.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from holdfast.authority import keys
from holdfast.authority.contract import (
    Absent,
    Applied,
    Change,
    Changed,
    Compare,
    Elsewhere,
    Events,
    Got,
    KeyValue,
    List,
    Listed,
    Older,
    Put,
    Refused,
    Txn,
    Unchanged,
)
from holdfast.model.ids import LeaseId, Revision

COMPARISONS_MAX: Final = 128
"""How many an etcd takes in one transaction, unless it was told otherwise (``--max-txn-ops``)."""
_NEVER: Final = -1
"""A revision no key can have."""


class Header(Struct):
    revision: int = 0


class StoredKey(Struct):
    key: bytes
    value: bytes = b""
    create_revision: int = 0
    mod_revision: int = 0
    lease: int = 0


class RangeRequest(Struct, omit_defaults=True):
    """A linearizable read of a range; *revision* reads the past."""

    key: bytes
    range_end: bytes = b""
    limit: int = 0
    revision: int = 0
    count_only: bool = False


class RangeResponse(Struct):
    header: Header
    kvs: list[StoredKey] = field(default_factory=list)
    more: bool = False


class PutRequest(Struct, omit_defaults=True):
    key: bytes
    value: bytes = b""
    lease: int = 0


class KeyRequest(Struct):
    key: bytes


class Comparison(Struct, omit_defaults=True):
    key: bytes
    target: str
    result: str = "EQUAL"
    create_revision: int | None = None
    mod_revision: int | None = None
    value: bytes | None = None


class Operation(Struct, omit_defaults=True):
    request_put: PutRequest | None = None
    request_delete_range: KeyRequest | None = None
    request_range: RangeRequest | None = None


class TxnRequest(Struct):
    compare: list[Comparison]
    success: list[Operation]
    failure: list[Operation]


class OperationResponse(Struct):
    response_range: RangeResponse | None = None


class TxnResponse(Struct):
    header: Header
    succeeded: bool = False
    responses: list[OperationResponse] = field(default_factory=list)


class LeaseRequest(Struct, omit_defaults=True):
    """A grant (with a TTL), a keep-alive or a revocation (with an ID)."""

    ID: int = 0
    TTL: int = 0


class LeaseResponse(Struct):
    """The answer about a lease. TTL 0 in the answer to a keep-alive means that there is no such lease."""

    header: Header = field(default_factory=Header)
    ID: int = 0
    TTL: int = 0


class KeepAliveResponse(Struct):
    result: LeaseResponse


class WatchCreate(Struct, omit_defaults=True):
    key: bytes
    range_end: bytes
    start_revision: int
    progress_notify: bool = False


class WatchRequest(Struct):
    create_request: WatchCreate


class WatchedEvent(Struct):
    kv: StoredKey
    type: str = "PUT"


class WatchResponse(Struct):
    header: Header = field(default_factory=Header)
    created: bool = False
    canceled: bool = False
    compact_revision: int = 0
    cancel_reason: str = ""
    fragment: bool = False
    """The next response continues this one."""
    events: list[WatchedEvent] = field(default_factory=list)


class GatewayError(Struct):
    """An error answer of the gateway; *code* is gRPC's."""

    message: str = ""
    code: int = 0


class AuthRequest(Struct):
    name: str
    password: str


class AuthResponse(Struct):
    token: str


class StreamError(Struct):
    """An error inside a stream. Older gateways use another name for the code."""

    message: str = ""


class WatchLine(Struct):
    result: WatchResponse | None = None
    error: StreamError | None = None


class KeyDomain:
    """Translates between the contract and etcd for the keys below one prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix.encode()

    def key(self, key: str) -> bytes:
        return self._prefix + key.encode()

    def range(self, prefix: str, after: str = "") -> tuple[bytes, bytes]:
        """The first key and the end of the range of all keys with *prefix* that are greater than *after*."""
        start, end = self.key(prefix), range_end(self.key(prefix))
        beyond = self.key(after) + b"\0" if after else b""
        return max(start, beyond) or b"\0", end

    def list_request(self, request: List) -> RangeRequest | None:
        """The range request for *request*, or None when *after* lies beyond every key of the prefix."""
        start, end = self.range(request.prefix, request.after)
        return None if end != b"\0" and start >= end else RangeRequest(start, end, limit=request.limit)

    def txn_request(self, seat: Revision, txn: Txn) -> TxnRequest:
        """The etcd request for *txn* under *seat*. Its else branch reads the seat, and every compared key for
        ``Refused.found``."""
        compared = [RangeRequest(self.key(each.key)) for each in (Absent(keys.SEAT), *txn.compares)]
        return TxnRequest(
            compare=[
                self._seat_comparison(seat),
                *(self._comparison(each) for each in txn.compares),
                *self._presences(txn),
            ],
            success=[self._operation(each) for each in txn.changes],
            failure=[Operation(request_range=each) for each in compared],
        )

    def read_request(self, seat: Revision, read: RangeRequest) -> TxnRequest:
        """The etcd request that reads only under *seat*; its else branch reads the seat (A8)."""
        return TxnRequest(
            compare=[self._seat_comparison(seat)],
            success=[Operation(request_range=read)],
            failure=[Operation(request_range=RangeRequest(self.key(keys.SEAT)))],
        )

    def was_read(self, response: TxnResponse) -> RangeResponse | Elsewhere:
        """What a request of :meth:`read_request` found."""
        (found,) = response.responses
        read = found.response_range or RangeResponse(response.header)
        return read if response.succeeded else Elsewhere(self._first(read))

    def got(self, response: RangeResponse) -> Got:
        return Got(self._first(response), Revision(response.header.revision))

    def listed(self, response: RangeResponse) -> Listed:
        items = tuple(self._item(each) for each in response.kvs)
        return Listed(items, Revision(response.header.revision), response.more)

    def decided(self, seat: Revision, response: TxnResponse) -> Applied | Refused | Elsewhere:
        revision = Revision(response.header.revision)
        if response.succeeded:
            return Applied(revision)
        ranges = [each.response_range for each in response.responses]
        current, *found = [None if each is None else self._first(each) for each in ranges]
        if seat != (0 if current is None else current.modified):
            return Elsewhere(current)
        return Refused(tuple(found), revision)

    def events(self, revision: int, events: Sequence[WatchedEvent]) -> Events:
        return Events(Revision(revision), tuple(self._changed(each) for each in events))

    def _seat_comparison(self, seat: Revision) -> Comparison:
        return self._comparison(Unchanged(keys.SEAT, seat) if seat else Absent(keys.SEAT))

    def _presences(self, txn: Txn) -> list[Comparison]:
        """That keys which must be older are there at all: for etcd an absent key is older than any revision.
        *Without it:* a group that was removed is put back by a change that was decided before.

        An etcd takes a limited number of comparisons. Where all would be too many, only keys that the
        transaction changes are asked for; what it only compares is removed together with those.
        """
        older = [each.key for each in txn.compares if isinstance(each, Older)]
        if 1 + len(txn.compares) + len(older) > COMPARISONS_MAX:
            changed = {each.key for each in txn.changes}
            older = [key for key in older if key in changed]
        return [Comparison(self.key(key), "CREATE", result="GREATER", create_revision=0) for key in older]

    def _comparison(self, compare: Compare) -> Comparison:
        key = self.key(compare.key)
        if isinstance(compare, Absent):
            return Comparison(key, "CREATE", create_revision=0)
        if isinstance(compare, Unchanged):
            # For etcd an absent key was last changed at revision 0; for the contract it was never changed.
            return Comparison(key, "MOD", mod_revision=compare.modified or _NEVER)
        if isinstance(compare, Older):
            return Comparison(key, "MOD", result="LESS", mod_revision=compare.revision)
        return Comparison(key, "VALUE", value=compare.value)

    def _operation(self, change: Change) -> Operation:
        key = self.key(change.key)
        if isinstance(change, Put):
            return Operation(request_put=PutRequest(key, change.value, change.lease))
        return Operation(request_delete_range=KeyRequest(key))

    def _first(self, response: RangeResponse) -> KeyValue | None:
        return self._item(response.kvs[0]) if response.kvs else None

    def _item(self, stored: StoredKey) -> KeyValue:
        return KeyValue(
            self._own(stored.key),
            stored.value,
            Revision(stored.create_revision),
            Revision(stored.mod_revision),
            LeaseId(stored.lease),
        )

    def _changed(self, event: WatchedEvent) -> Changed:
        item = None if event.type == "DELETE" else self._item(event.kv)
        return Changed(self._own(event.kv.key), item)

    def _own(self, key: bytes) -> str:
        return key[len(self._prefix) :].decode()


def range_end(prefix: bytes) -> bytes:
    """The first key after all keys that start with *prefix*. A zero byte means the end of all keys."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else b"\0"
