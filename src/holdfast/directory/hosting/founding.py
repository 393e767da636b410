"""Noting a new directory at the authority. A domain may have several, each of a suffix of its own."""

from typing import Final

from holdfast.authority import keys
from holdfast.authority.contract import Applied
from holdfast.authority.directories import DirectoryRecord
from holdfast.authority.recipe import (
    ATTEMPTS_MAX,
    Contended,
    Guard,
    InDoubt,
    Recipe,
    Seen,
    answering,
    change,
    put,
    read,
    read_all,
)
from holdfast.model.errors import Overloaded
from holdfast.model.ids import HostId, Nonce

SUFFIXES_MAX: Final = 16
"""How many directories a domain may have: each costs every host of them a store, three threads, and a
connection to each other host."""


@answering
def begin_directory(
    suffix: str, *, generation: str, founder: HostId, nonce: Nonce, read_only: tuple[HostId, ...] = ()
) -> Recipe[Seen[DirectoryRecord] | Contended | InDoubt]:
    """Note a new directory; one of the same suffix stays as it is. Raises ``Overloaded`` if there are too
    many."""
    for _ in range(ATTEMPTS_MAX):
        guard = yield from read(keys.DIRECTORY_GUARD, Guard)
        listing = yield from read_all(keys.DIRECTORIES, DirectoryRecord)
        found = yield from read(keys.directory(suffix), DirectoryRecord)
        if found.value is not None:
            return Seen(found.key, found.value, found.modified)
        if len(listing.items) >= SUFFIXES_MAX:
            raise Overloaded(f"a domain has at most {SUFFIXES_MAX} suffixes")
        record = DirectoryRecord(
            suffix=suffix, generation=generation, founder=founder, nonce=nonce, read_only=read_only
        )
        # The guard keeps two that are begun at once from both being the last one.
        result = yield from change(
            [found.unchanged(), guard.unchanged()],
            [put(found.key, record), put(guard.key, Guard(nonce=nonce))],
            nonce=nonce,
        )
        if isinstance(result, Applied):
            return Seen(found.key, record, result.revision)
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the directory {suffix}")
