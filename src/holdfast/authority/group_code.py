"""Which code a group shall go on with, by a person's wish, and by which it is served (E7).

Both are beside the sequence, which alone says what made which record. A wish stands until the group is served
by what it names: the primary that does ends it. So one that was met long ago does not bring code back that
was rolled back since.
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
    """Let the group go on with *code* as soon as a host that has it serves; *replays* as in
    :class:`UpgradeWish`. A wish that stands is replaced."""
    wish = UpgradeWish(code=code, replays=replays, nonce=nonce)
    return (yield from _changed(group, lambda record: msgspec.structs.replace(record, upgrade=wish), nonce))


@answering
def withdraw_upgrade(group: GroupId, *, nonce: Nonce, only: UpgradeWish | None = None) -> Recipe[Noted]:
    """Wish nothing any more; *only*: unless something else is wished by now."""

    def without(record: GroupRecord) -> GroupRecord:
        if only is not None and record.upgrade != only:
            return record
        return msgspec.structs.replace(record, upgrade=None)

    return (yield from _changed(group, without, nonce))


@answering
def note_served(group: GroupId, code: Code, *, nonce: Nonce) -> Recipe[Noted]:
    """The group is served by that code: whoever wished it has it."""
    return (yield from _changed(group, lambda record: served(record, code), nonce))


def served(record: GroupRecord, code: Code) -> GroupRecord:
    """The record of a group that is served by that code; itself, if it says so already."""
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
