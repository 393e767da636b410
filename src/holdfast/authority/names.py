"""Binds names to targets: a live entry is protected, a dead one is replaced, and only the owner unbinds (A7).

An entry belongs to one incarnation of one host and is alive while that session is. Binding compares exactly
what it checked: the entry and its owner's session. Unbinding changes a guard that every binding of a free
name compares, so that a delayed binding cannot come back after its own unbinding.
"""

from collections.abc import Sequence

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Applied, Compare, Delete
from holdfast.authority.recipe import (
    ATTEMPTS_MAX,
    Contended,
    Guard,
    InDoubt,
    Listing,
    Recipe,
    Removed,
    Seen,
    answering,
    change,
    put,
    read,
    read_all,
)
from holdfast.authority.sessions import NoSession, Session, find_session
from holdfast.model.ids import HostId, Incarnation, Nonce


class Entry(msgspec.Struct, frozen=True, kw_only=True, tag="name"):
    """A name, its target, and its owner."""

    name: str
    target: str
    host: HostId
    incarnation: Incarnation
    nonce: Nonce

    def belongs_to(self, owner: Session) -> bool:
        return (self.host, self.incarnation) == (owner.host, owner.incarnation)


class Taken(msgspec.Struct, frozen=True, tag="taken"):
    """A live session holds the name."""

    entry: Entry


class NotYours(msgspec.Struct, frozen=True, tag="not_yours"):
    """The entry belongs to another process (perhaps this one's successor) and stays."""

    entry: Entry


class NotBound(msgspec.Struct, frozen=True, tag="not_bound"):
    """No live session holds the name."""

    name: str


@answering
def bind(
    name: str, target: str, *, owner: Session, nonce: Nonce
) -> Recipe[Seen[Entry] | Taken | NoSession | Contended | InDoubt]:
    """Bind *name* to *target* while *owner* lives; this replaces the owner's own entry or a dead one."""
    for _ in range(ATTEMPTS_MAX):
        found = yield from read(keys.name(name), Entry)
        if found.value is not None and found.value.nonce == nonce:
            return Seen(found.key, found.value, found.modified)
        session = yield from find_session(owner.host, owner.incarnation)
        if isinstance(session, NoSession):
            return session
        free = yield from _compares_if_free(found, owner)
        if isinstance(free, Taken):
            return free
        entry = Entry(name=name, target=target, host=owner.host, incarnation=owner.incarnation, nonce=nonce)
        result = yield from change(
            [found.unchanged(), session.unchanged(), *free], [put(found.key, entry)], nonce=nonce
        )
        if isinstance(result, Applied):
            return Seen(found.key, entry, result.revision)
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the name {name}")


@answering
def resolve(name: str) -> Recipe[Seen[Entry] | NotBound]:
    """Return the entry of *name* if its owner lives."""
    found = yield from read(keys.name(name), Entry)
    if found.value is None:
        return NotBound(name)
    owner = yield from find_session(found.value.host, found.value.incarnation)
    return NotBound(name) if isinstance(owner, NoSession) else Seen(found.key, found.value, found.modified)


@answering
def unbind(name: str, *, owner: Session, nonce: Nonce) -> Recipe[Removed | NotYours | InDoubt]:
    """Remove the entry if it belongs to *owner*. A late request never removes a successor's entry."""
    found = yield from read(keys.name(name), Entry)
    if found.value is None:
        return Removed()
    if not found.value.belongs_to(owner):
        return NotYours(found.value)
    result = yield from change(
        [found.unchanged()], [Delete(found.key), put(keys.NAME_GUARD, Guard(nonce=nonce))], nonce=nonce
    )
    # Refused means that the entry is gone: only its owner, or a successor after its end, changes it.
    return result if isinstance(result, InDoubt) else Removed()


@answering
def list_names() -> Recipe[Listing[Entry]]:
    """List every entry, including dead ones."""
    return (yield from read_all(keys.NAMES, Entry))


def _compares_if_free(found: Seen[Entry | None], owner: Session) -> Recipe[Sequence[Compare] | Taken]:
    """The compares, besides the entry itself, that must still hold for *owner* to take this name."""
    if found.value is None:
        guard = yield from read(keys.NAME_GUARD, Guard)
        return [guard.unchanged()]
    if found.value.belongs_to(owner):
        return []
    holder = yield from read(keys.session(found.value.host), Session)
    if holder.value is not None and holder.value.incarnation == found.value.incarnation:
        return Taken(found.value)
    return [holder.unchanged()]
