"""Removes a group and tells the hosts that may still hold some of its data.

A removal leaves a note for each host that the record names. The host durably deletes what it holds and then
removes its note, so that a host that was away learns of the removal when it returns. A list that merely lacks
the group proves nothing: a restored authority lacks the newest groups, and their data must survive that (A5).
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import TXN_OPERATIONS_MAX, Applied, Delete, Put
from holdfast.authority.groups import GroupRecord, Placement
from holdfast.authority.recipe import (
    ATTEMPTS_MAX,
    Contended,
    Guard,
    InDoubt,
    Recipe,
    Removed,
    answering,
    change,
    put,
    read,
)
from holdfast.authority.views import View
from holdfast.model.ids import GroupId, HostId, Nonce

FORGOTTEN_MAX: Final = TXN_OPERATIONS_MAX
"""The most notes removed in one transaction."""


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """The note to one host that a group was removed."""

    host: HostId
    record: GroupRecord
    """The part of the group's record that the host needs to find what it holds."""


@answering
def remove_group(group: GroupId, *, nonce: Nonce) -> Recipe[Removed | Contended | InDoubt]:
    """Remove the record, view, history and name, and leave the notes. The id is not issued again."""
    for _ in range(ATTEMPTS_MAX):
        found = yield from read(keys.view(group), View)
        record = yield from read(keys.group(group), GroupRecord)
        if found.value is None and record.value is None:
            return Removed()
        name = record.value.name if record.value is not None else ""
        result = yield from change(
            # Meanwhile a group without a view may begin, or a host may be placed: both change the record.
            [found.unchanged(), record.unchanged()],
            [
                Delete(keys.group(group)),
                Delete(keys.view(group)),
                Delete(keys.history(group)),
                *([Delete(keys.group_name(name))] if name else []),
                *(_notes(record.value) if record.value is not None else []),
                put(keys.GROUP_GUARD, Guard(nonce=nonce)),
            ],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Removed()
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the removal of group {group}")


@answering
def have_forgotten(host: HostId, groups: Sequence[GroupId], *, nonce: Nonce) -> Recipe[Removed | InDoubt]:
    """Remove the notes for *host*, which holds nothing of these groups now. In doubt, run it again."""
    result = yield from change([], [Delete(keys.ended(host, group)) for group in groups], nonce=nonce)
    return result if isinstance(result, InDoubt) else Removed()


def _notes(record: GroupRecord) -> list[Put]:
    return [put(keys.ended(each.host, record.group), _note(record, each)) for each in record.members]


def _note(record: GroupRecord, entry: Placement) -> Ended:
    entry = msgspec.structs.replace(entry, criteria="{}")
    bare = msgspec.structs.replace(record, members=(entry,), arguments="[]", properties="{}", tuned="{}")
    return Ended(host=entry.host, record=bare)
