"""Lets revisions grow from stay to stay, whatever the backends count (A8).

An etcd counts its own revisions, for everybody on it, and nobody can set them. The processes of a domain
compare revisions that they have seen, so those of a later stay must be greater than all of an earlier one:
otherwise a change that was prepared before the move could find the very revision it compares. What a process
sees is therefore the backend's revision plus the offset that the seat names.

Leases are translated in the same way: a holder goes on using the id it was granted first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

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
    Plain,
    Put,
    Refused,
    Result,
    Txn,
    Unchanged,
)
from holdfast.model.ids import LeaseId, Revision


@dataclass(frozen=True, slots=True)
class Translation:
    """Between what a process of the domain sees and what the authority of one stay counts."""

    offset: int = 0
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

    def _compare(self, compare: Compare) -> Compare:
        if isinstance(compare, Unchanged):
            # A revision of an earlier stay becomes 0 or less, and no key was ever changed there.
            return Unchanged(compare.key, Revision(compare.modified - self.offset))
        return compare

    def _change(self, change: Change) -> Change:
        return replace(change, lease=self._there(change.lease)) if isinstance(change, Put) else change

    def _item(self, item: KeyValue | None) -> KeyValue | None:
        return None if item is None else self._known(item)

    def _known(self, item: KeyValue) -> KeyValue:
        return KeyValue(
            item.key, item.value, self._seen(item.created), self._seen(item.modified), self._here(item.lease)
        )

    def _seen(self, revision: Revision) -> Revision:
        return Revision(revision + self.offset)

    def _there(self, lease: LeaseId) -> LeaseId:
        return self.leases.get(lease, lease)

    def _here(self, lease: LeaseId) -> LeaseId:
        return next((known for known, there in self.leases.items() if there == lease), lease)
