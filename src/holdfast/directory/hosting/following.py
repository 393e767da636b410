"""What the domain knows of its directory, as this host has heard it: listed once, then watched."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from holdfast.authority import keys
from holdfast.authority.contract import Compacted, Events
from holdfast.authority.directories import (
    DirectoryRecord,
    Edit,
    NoDirectory,
    edit_directory,
    list_directories,
)
from holdfast.authority.driver import insist
from holdfast.authority.recipe import Authority, Listing, Seen, decoded, perform
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import Nonce, Revision

Changed = Callable[[DirectoryRecord], None]


class DirectoryFollower:
    """Follows the record; *on_change* hears every new state."""

    def __init__(self, authority: Authority, nonces: Callable[[], Nonce], on_change: Changed) -> None:
        self._authority = authority
        self._nonces = nonces
        self._on_change = on_change
        self._seen: Seen[DirectoryRecord] | None = None
        self._changed = asyncio.Event()
        self.is_listed = asyncio.Event()
        """Set once the authority has said whether there is a directory."""

    @property
    def record(self) -> DirectoryRecord | None:
        return None if self._seen is None else self._seen.value

    def known(self) -> DirectoryRecord:
        """The record. Raises ``InvalidRequest`` if the domain has no directory."""
        if self._seen is None:
            raise InvalidRequest("this domain has no directory yet: `holdfast directory start` begins one")
        return self._seen.value

    async def follow(self) -> None:
        """Follow the record until cancelled. While the authority is away, the last known state stays."""
        while True:
            listing: Listing[DirectoryRecord] = await insist(
                lambda: perform(self._authority, list_directories()), Listing
            )
            for seen in listing.items:
                self.take(seen)
            self.is_listed.set()
            async for event in self._authority.watch(keys.DIRECTORIES, Revision(listing.revision + 1)):
                match event:
                    case Compacted():
                        break  # too far behind to catch up: list again
                    case Events(changes=changes):
                        for changed in changes:
                            if changed.item is not None:
                                self.take(decoded(changed.item, DirectoryRecord))

    def take(self, seen: Seen[DirectoryRecord]) -> None:
        """Take in a state of the record, from the watch or from a change of this host's own."""
        if self._seen is not None and seen.modified <= self._seen.modified:
            return
        self._seen = seen
        self._changed.set()
        self._changed = asyncio.Event()
        self._on_change(seen.value)

    async def change(self, edit: Edit) -> DirectoryRecord:
        """Change the record, however long the authority takes; returns what it is then."""
        suffix, nonce = self.known().suffix, self._nonces()
        found: Seen[DirectoryRecord] | NoDirectory = await insist(
            lambda: perform(self._authority, edit_directory(suffix, edit, nonce=nonce)), Seen, NoDirectory
        )
        if isinstance(found, NoDirectory):
            raise InvalidRequest(f"the domain has no directory {found.suffix}")
        self.take(found)
        return found.value

    async def until(self, is_so: Callable[[DirectoryRecord], bool], within_s: float | None = None) -> None:
        """Wait until the record is so. Raises ``TimeoutError``."""
        async with asyncio.timeout(within_s):
            while self._seen is None or not is_so(self._seen.value):
                changed = self._changed
                with suppress(TimeoutError):
                    async with asyncio.timeout(1.0):
                        await changed.wait()
