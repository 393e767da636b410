"""Records which code a group is asked to run, and which code serves it now (E7).

Both notes are for people and managers: the group's sequence alone says which code made which record. An
upgrade request stays in the group's record until the group is served by the requested code; the primary that
serves it removes the request. A request that was met long ago therefore cannot bring back code that has been
rolled back since.
"""

from collections.abc import Callable

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Applied
from holdfast.authority.groups import GroupRecord, UpgradeWish
from holdfast.authority.recipe import (
    ATTEMPTS_MAX,
    Contended,
    InDoubt,
    Recipe,
    Seen,
    answering,
    change,
    put,
    read,
)
from holdfast.authority.views import NoGroup
from holdfast.model.code import Code
from holdfast.model.ids import GroupId, Nonce

Noted = Seen[GroupRecord] | NoGroup | Contended | InDoubt


@answering
def wish_upgrade(group: GroupId, code: Code, *, replays: bool = False, nonce: Nonce) -> Recipe[Noted]:
    """Ask that the group continue with *code* as soon as a host that has it serves.

    *replays* is as in :class:`UpgradeWish`. This request replaces any earlier one.
    """
    wish = UpgradeWish(code=code, replays=replays, nonce=nonce)
    return (yield from _changed(group, lambda record: msgspec.structs.replace(record, upgrade=wish), nonce))


@answering
def withdraw_upgrade(group: GroupId, *, nonce: Nonce, only: UpgradeWish | None = None) -> Recipe[Noted]:
    """Remove the upgrade request. With *only*, remove it only if it is still that one."""

    def without(record: GroupRecord) -> GroupRecord:
        if only is not None and record.upgrade != only:
            return record
        return msgspec.structs.replace(record, upgrade=None)

    return (yield from _changed(group, without, nonce))


@answering
def note_served(group: GroupId, code: Code, *, nonce: Nonce) -> Recipe[Noted]:
    """Record that the group is served by *code*, and remove an upgrade request for that code."""
    return (yield from _changed(group, lambda record: served(record, code), nonce))


def served(record: GroupRecord, code: Code) -> GroupRecord:
    """The record changed to say that *code* serves the group; the same record if it says so already."""
    is_met = record.upgrade is not None and record.upgrade.code.is_same(code)
    if record.code == code and not is_met:
        return record
    return msgspec.structs.replace(record, code=code, upgrade=None if is_met else record.upgrade)


def _changed(group: GroupId, make: Callable[[GroupRecord], GroupRecord], nonce: Nonce) -> Recipe[Noted]:
    for _ in range(ATTEMPTS_MAX):
        found = yield from read(keys.group(group), GroupRecord)
        if found.value is None:
            return NoGroup(group)
        wanted = make(found.value)
        if wanted == found.value:
            return Seen(found.key, found.value, found.modified)
        result = yield from change([found.unchanged()], [put(found.key, wanted)], nonce=nonce)
        if isinstance(result, Applied):
            return Seen(found.key, wanted, result.revision)
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the code of group {group}")
