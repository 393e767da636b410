"""Lets revisions mean the same in every stay, whatever the backends count (A8).

The processes of a domain compare revisions that they have seen: of views, of the authority's identity, of
guards. A move must neither make such a comparison fail, as if the authority had been restored (A5), nor let
it hold by accident. But an etcd counts its own revisions, for everybody on it, and nobody can set them.

So a key that nobody has changed since the move shows the revisions that it had before: they are copied too,
as a table (:class:`MovedRevisions`). Every other revision is the backend's plus the offset that the seat
names, which is greater than all that was seen in earlier stays. Leases are translated as well: a holder goes
on using the id it was granted first.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.authority import keys
from holdfast.authority.contract import (
    Applied,
    Change,
    Changed,
    Compare,
    Events,
    Got,
    KeyValue,
    LeaseGone,
    LeaseGranted,
    LeaseKeep,
    LeaseRevoke,
    Listed,
    Older,
    Plain,
    Put,
    Refused,
    Result,
    Txn,
    Unchanged,
)
from holdfast.authority.recipe import decoded, put
from holdfast.model.ids import LeaseId, Revision

REVISIONS_IN_RECORD_MAX: Final = 500
"""How many keys one record of the table has, so that it fits into a part of the copy."""
NONE: Final = Revision(-1)
"""A revision that no key ever has."""


class MovedRevisions(msgspec.Struct, frozen=True, kw_only=True, tag="moved_revisions"):
    """The revisions at which keys were created and last changed, as the domain's processes know them."""

    revisions: dict[str, tuple[int, int]]


def table_of(items: Iterable[KeyValue]) -> dict[str, tuple[int, int]]:
    """The table that the records of revisions among *items* make up."""
    table: dict[str, tuple[int, int]] = {}
    for item in items:
        if item.key.startswith(keys.MOVED_REVISIONS):
            table |= decoded(item, MovedRevisions).value.revisions
    return table


def records_of(table: Mapping[str, tuple[int, int]]) -> Iterator[Put]:
    """The records that make up *table*."""
    entries = sorted(table.items())
    for start in range(0, len(entries), REVISIONS_IN_RECORD_MAX):
        record = MovedRevisions(revisions=dict(entries[start : start + REVISIONS_IN_RECORD_MAX]))
        yield put(keys.moved_revisions(start // REVISIONS_IN_RECORD_MAX), record)


@dataclass(frozen=True, slots=True)
class Translation:
    """Between what a process of the domain sees and what the authority of one stay counts."""

    offset: int = 0
    base: int = 0
    """The backend's revision up to which everything was copied."""
    table: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The revisions that copied keys had before."""
    leases: Mapping[LeaseId, LeaseId] = field(default_factory=dict)
    """The backend's id of each lease of this process, by the id under which the process knows it."""

    def request(self, request: Plain) -> Plain:
        match request:
            case Txn(compares=compares, changes=changes):
                return Txn(tuple(map(self._compare, compares)), tuple(map(self._change, changes)))
            case LeaseKeep(lease=lease):
                return LeaseKeep(self._there(lease))
            case LeaseRevoke(lease=lease):
                return LeaseRevoke(self._there(lease))
        return request

    def result(self, result: Result) -> Result:
        match result:
            case Got(item=item, revision=revision):
                return Got(self._item(item), self._seen(revision))
            case Listed(items=items, revision=revision, more=more):
                return Listed(tuple([self._known(each) for each in items]), self._seen(revision), more)
            case Applied(revision=revision):
                return Applied(self._seen(revision))
            case Refused(found=found, revision=revision):
                return Refused(tuple(map(self._item, found)), self._seen(revision))
            case LeaseGranted(lease=lease, seconds=seconds):
                return LeaseGranted(self._here(lease), seconds)
            case LeaseGone(lease=lease):
                return LeaseGone(self._here(lease))
        return result

    def events(self, events: Events) -> Events:
        changes = tuple([Changed(each.key, self._item(each.item)) for each in events.changes])
        return Events(self._seen(events.revision), changes)

    def revisions_of(self, item: KeyValue) -> tuple[int, int]:
        """The revisions of *item* as the domain's processes know them."""
        known = self._known(item)
        return known.created, known.modified

    def _compare(self, compare: Compare) -> Compare:
        if not isinstance(compare, Unchanged):
            return compare
        if compare.modified > self.offset:
            return Unchanged(compare.key, Revision(compare.modified - self.offset))
        _, before = self.table.get(compare.key, (0, NONE))
        if compare.modified == before:
            return Older(compare.key, Revision(self.base + 1))
        return Unchanged(compare.key, NONE)

    def _change(self, change: Change) -> Change:
        return replace(change, lease=self._there(change.lease)) if isinstance(change, Put) else change

    def _item(self, item: KeyValue | None) -> KeyValue | None:
        return None if item is None else self._known(item)

    def _known(self, item: KeyValue) -> KeyValue:
        created, modified = self._seen(item.created), self._seen(item.modified)
        if item.created <= self.base and item.key in self.table:
            created = Revision(self.table[item.key][0])
            if item.modified <= self.base:
                modified = Revision(self.table[item.key][1])
        return KeyValue(item.key, item.value, created, modified, self._here(item.lease))

    def _seen(self, revision: Revision) -> Revision:
        return Revision(revision + self.offset)

    def _there(self, lease: LeaseId) -> LeaseId:
        return self.leases.get(lease, lease)

    def _here(self, lease: LeaseId) -> LeaseId:
        return next((known for known, there in self.leases.items() if there == lease), lease)
