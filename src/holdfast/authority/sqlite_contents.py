"""What the embedded authority's file holds, for people and their scripts to look at."""

from typing import Final, cast

import apsw
from msgspec import Struct

from holdfast.authority.contract import KeyValue
from holdfast.authority.identity import Identity
from holdfast.authority.sqlite_file import integers, read_identity

_ITEMS: Final = (
    "SELECT key, value, created, modified, lease FROM item WHERE substr(key, 1, ?) = ? ORDER BY key LIMIT ?"
)
_LEASES: Final = (
    "SELECT id, seconds, (SELECT count(*) FROM item WHERE item.lease = lease.id AND item.lease <> 0)"
    " FROM lease ORDER BY id"
)


class LeaseSummary(Struct, frozen=True):
    id: int
    seconds: int
    keys: int
    """How many keys stand under it."""


class Contents(Struct, frozen=True, kw_only=True):
    """One look at everything."""

    identity: Identity
    revision: int
    oldest_event: int
    """The first revision from which a watch can start."""
    leases: tuple[LeaseSummary, ...]
    items: tuple[KeyValue, ...]
    more: bool
    """There are more items than were asked for."""


def read_contents(db: apsw.Connection, *, prefix: str, limit: int) -> Contents:
    """Everything but the values' history; of the items at most *limit* that start with *prefix*."""
    oldest, newest = integers(db, "SELECT min(revision), max(revision) FROM event")
    items = [KeyValue(*row) for row in db.execute(_ITEMS, (len(prefix), prefix, limit + 1))]
    return Contents(
        identity=read_identity(db),
        revision=newest,
        oldest_event=oldest,
        leases=tuple(LeaseSummary(*cast(tuple[int, int, int], row)) for row in db.execute(_LEASES)),
        items=tuple(items[:limit]),
        more=len(items) > limit,
    )
