"""The bounds of the contract (A3), checked before a backend touches anything.

Every backend asks :func:`broken_bound` first, so that a request one of them would refuse never
succeeds at another.
"""

from collections.abc import Iterator

from holdfast.authority.contract import (
    KEY_BYTES_MAX,
    LEASE_SECONDS_MAX,
    LEASE_SECONDS_MIN,
    LIST_ITEMS_MAX,
    TXN_BYTES_MAX,
    TXN_OPERATIONS_MAX,
    Equals,
    Get,
    Invalid,
    LeaseGrant,
    List,
    Put,
    Request,
    Txn,
)


def broken_bound(request: Request) -> Invalid | None:
    """What is wrong with *request* for every backend and for ever; None when nothing is."""
    return next((Invalid(reason) for reason in _complaints(request)), None)


def granted_seconds(asked: int) -> int:
    """The lease time granted for the one asked: within the contract's bounds."""
    return min(max(asked, LEASE_SECONDS_MIN), LEASE_SECONDS_MAX)


def _complaints(request: Request) -> Iterator[str]:
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
