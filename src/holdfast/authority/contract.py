"""The authority's contract: what every backend offers, and everything that Holdfast asks of one (A).

Keys are text, values are bytes. Every applied transaction that changes a key raises the revision by one, and
so does the end of a lease that held keys. A key remembers the revision that created it and the one that
changed it last.

A request ends in exactly one result. For a change that result may be :class:`Unknown`: the change may have
been applied, or may still be applied later (A1), and "not there when I looked" does not mean "will never be
there". Each change that matters therefore carries a nonce in its value.

The contract has bounds (A3). Every backend calls :func:`broken_bound` before it touches anything, so that a
request which one backend would refuse never succeeds at another. The backends are :mod:`.sqlite` (embedded)
and :mod:`.etcd.backend`; the other modules of this package build *recipes* (:mod:`.recipe`) on the contract.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from holdfast.model.ids import LeaseId, Revision

# These bounds hold for both backends (A3). etcd's own limits are 128 operations and 1.5 MB.
TXN_OPERATIONS_MAX: Final = 120
TXN_BYTES_MAX: Final = 1_000_000
KEY_BYTES_MAX: Final = 512
LIST_ITEMS_MAX: Final = 10_000
LEASE_SECONDS_MIN: Final = 1
LEASE_SECONDS_MAX: Final = 3600


class KeyValue(Struct, frozen=True, array_like=True):
    """One key and its value at some revision."""

    key: str
    value: bytes
    created: Revision
    modified: Revision
    lease: LeaseId


# --- the compares and changes of a transaction


class Absent(Struct, frozen=True, tag="absent", array_like=True):
    """Holds when the key does not exist."""

    key: str


class Unchanged(Struct, frozen=True, tag="unchanged", array_like=True):
    """Holds when the key was last changed at exactly *modified*."""

    key: str
    modified: Revision


class Equals(Struct, frozen=True, tag="equals", array_like=True):
    """Holds when the key exists with exactly *value*."""

    key: str
    value: bytes


class Older(Struct, frozen=True, tag="older", array_like=True):
    """Holds when the key exists and was last changed before *revision*."""

    key: str
    revision: Revision


Compare = Absent | Unchanged | Equals | Older


class Put(Struct, frozen=True, tag="put", array_like=True):
    """Set the key. It is removed when *lease* ends; without a lease it is detached from any it had."""

    key: str
    value: bytes
    lease: LeaseId = LeaseId(0)


class Delete(Struct, frozen=True, tag="delete", array_like=True):
    """Remove the key. Removing a key that does not exist is no error and makes no event."""

    key: str


Change = Put | Delete


# --- requests


class Get(Struct, frozen=True, tag="get", array_like=True):
    """Linearizable read of one key -> Got."""

    key: str


class List(Struct, frozen=True, tag="list", array_like=True):
    """Linearizable read of all keys that start with *prefix*, in key order, at most *limit* -> Listed."""

    prefix: str
    limit: int = LIST_ITEMS_MAX
    after: str = ""
    """Return only keys greater than this one. The last key of one page gives the next page."""


class Txn(Struct, frozen=True, tag="txn", array_like=True):
    """Apply every change atomically if every compare holds -> Applied | Refused | LeaseGone | Unknown.

    No key may be changed twice in one transaction. LeaseGone means that every compare held but a put names a
    lease that has ended; nothing changed.
    """

    compares: tuple[Compare, ...]
    changes: tuple[Change, ...]


class LeaseGrant(Struct, frozen=True, tag="lease_grant", array_like=True):
    """Grant a new lease of whole seconds -> LeaseGranted (with the time actually granted) | Unknown."""

    seconds: int


class LeaseKeep(Struct, frozen=True, tag="lease_keep", array_like=True):
    """Restart the lease's time -> LeaseGranted | LeaseGone | Unknown."""

    lease: LeaseId


class LeaseRevoke(Struct, frozen=True, tag="lease_revoke", array_like=True):
    """End the lease and remove its keys now -> Applied | LeaseGone | Unknown."""

    lease: LeaseId


Plain = Get | List | Txn | LeaseGrant | LeaseKeep | LeaseRevoke


class Under(Struct, frozen=True, tag="under", array_like=True):
    """Carry out *request* while the seat was last changed at *seat* -> its result | Elsewhere (A8).

    0 stands for an authority that has no such key, because nothing was ever moved. A request that comes
    alone counts as one under 0.
    """

    seat: Revision
    request: Plain


Request = Plain | Under


# --- results


class Got(Struct, frozen=True, tag="got", array_like=True):
    item: KeyValue | None
    revision: Revision


class Listed(Struct, frozen=True, tag="listed", array_like=True):
    items: tuple[KeyValue, ...]
    revision: Revision
    more: bool = False
    """There are more keys than *limit* or one answer allows: ask again with ``after`` set to the last key."""


class Applied(Struct, frozen=True, tag="applied", array_like=True):
    revision: Revision


class Refused(Struct, frozen=True, tag="refused", array_like=True):
    """A compare did not hold and nothing changed. *found* has the item at each compared key, in order."""

    found: tuple[KeyValue | None, ...]
    revision: Revision


class LeaseGranted(Struct, frozen=True, tag="lease_granted", array_like=True):
    lease: LeaseId
    seconds: int


class LeaseGone(Struct, frozen=True, tag="lease_gone", array_like=True):
    lease: LeaseId


class Unknown(Struct, frozen=True, tag="unknown", array_like=True):
    """No answer came in time. A read may be repeated; a change may have been or may yet be applied (A1)."""

    reason: str


class Invalid(Struct, frozen=True, tag="invalid", array_like=True):
    """The request breaks a bound of the contract (A3): nothing changed, and it will never succeed."""

    reason: str


class Elsewhere(Struct, frozen=True, tag="elsewhere", array_like=True):
    """The request came under another seat than this authority has now: nothing was read or changed (A8)."""

    seat: KeyValue | None


Result = Got | Listed | Applied | Refused | LeaseGranted | LeaseGone | Unknown | Invalid | Elsewhere


def plain(request: Request) -> tuple[Revision, Plain]:
    """The seat that *request* was made under, and what it asks for."""
    return (request.seat, request.request) if isinstance(request, Under) else (Revision(0), request)


# --- watching


class Changed(Struct, frozen=True, tag="changed", array_like=True):
    """One key after one revision. *item* is None when a delete or the end of a lease removed the key."""

    key: str
    item: KeyValue | None


class Events(Struct, frozen=True, tag="events", array_like=True):
    """All changes below the watched prefix that one revision made. Revisions arrive in order, each once."""

    revision: Revision
    changes: tuple[Changed, ...]


class Compacted(Struct, frozen=True, tag="compacted", array_like=True):
    """The history since the requested revision is gone: list again, then watch from the revision after it."""

    oldest: Revision


WatchEvent = Events | Compacted


def broken_bound(request: Request) -> Invalid | None:
    """Return what makes *request* invalid for every backend, or None."""
    return next((Invalid(reason) for reason in _complaints(plain(request)[1])), None)


def granted_seconds(asked: int) -> int:
    """The lease time granted for a request of *asked* seconds, within the contract's bounds."""
    return min(max(asked, LEASE_SECONDS_MIN), LEASE_SECONDS_MAX)


def _complaints(request: Plain) -> Iterator[str]:
    if isinstance(request, Get):
        yield from _about_key(request.key)
    elif isinstance(request, List):
        yield from _about_text(request.prefix)
        yield from _about_text(request.after)
        if not 1 <= request.limit <= LIST_ITEMS_MAX:
            yield f"a list is of 1 to {LIST_ITEMS_MAX} items, not {request.limit}"
    elif isinstance(request, Txn):
        yield from _about_txn(request)
    elif isinstance(request, LeaseGrant) and request.seconds < LEASE_SECONDS_MIN:
        yield f"a lease lasts at least {LEASE_SECONDS_MIN} s, not {request.seconds}"


def _about_txn(txn: Txn) -> Iterator[str]:
    operations = len(txn.compares) + len(txn.changes)
    if operations > TXN_OPERATIONS_MAX:
        yield f"{operations} operations in one transaction; at most {TXN_OPERATIONS_MAX}"
        return
    size = 0
    for operation in (*txn.compares, *txn.changes):
        yield from _about_key(operation.key)
        size += len(operation.key) + len(operation.value if isinstance(operation, (Put, Equals)) else b"")
    if size > TXN_BYTES_MAX:
        yield f"{size} bytes in one transaction; at most {TXN_BYTES_MAX}"
    if len({change.key for change in txn.changes}) < len(txn.changes):
        yield "a key is changed twice in one transaction"


def _about_key(key: str) -> Iterator[str]:
    if not key:
        yield "a key is empty"
    yield from _about_text(key)


def _about_text(text: str) -> Iterator[str]:
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        yield "a key is not valid Unicode"
        return
    if length > KEY_BYTES_MAX:
        yield f"a key of {length} bytes; at most {KEY_BYTES_MAX}"
    if "\0" in text:
        yield "a key holds a zero character"
