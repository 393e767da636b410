"""What the domain knows of its directories, as this host has heard it: listed once, then watched."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from holdfast.authority import keys
from holdfast.authority.directories import (
    DirectoryRecord,
    Edit,
    NoDirectory,
    edit_directory,
)
from holdfast.authority.driver import followed, insist
from holdfast.authority.recipe import Authority, Seen, perform
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import Nonce


class DirectoryFollower:
    """Follows one directory's record, beginning with *seen*."""

    def __init__(
        self, authority: Authority, nonces: Callable[[], Nonce], seen: Seen[DirectoryRecord]
    ) -> None:
        self._authority = authority
        self._nonces = nonces
        self._seen = seen
        self._changed = asyncio.Event()

    @property
    def record(self) -> DirectoryRecord:
        return self._seen.value

    def known(self) -> DirectoryRecord:
        return self._seen.value

    def take(self, seen: Seen[DirectoryRecord]) -> bool:
        """Take in a state of the record, from the watch or from a change of this host's own; says whether it
        is a newer one."""
        if seen.modified <= self._seen.modified:
            return False
        self._seen = seen
        self._changed.set()
        self._changed = asyncio.Event()
        return True

    async def until(self, is_so: Callable[[DirectoryRecord], bool], within_s: float | None = None) -> None:
        """Wait until the record is so. Raises ``TimeoutError``."""
        async with asyncio.timeout(within_s):
            while not is_so(self._seen.value):
                changed = self._changed
                with suppress(TimeoutError):
                    async with asyncio.timeout(1.0):
                        await changed.wait()

    async def edited(self, edit: Edit) -> Seen[DirectoryRecord]:
        """Change the record, however long the authority takes; returns what it is then."""
        suffix, nonce = self.record.suffix, self._nonces()
        found: Seen[DirectoryRecord] | NoDirectory = await insist(
            lambda: perform(self._authority, edit_directory(suffix, edit, nonce=nonce)), Seen, NoDirectory
        )
        if isinstance(found, NoDirectory):
            raise InvalidRequest(f"the domain has no directory {found.suffix}")
        return found


class DomainDirectories:
    """Follows the records of all directories; *on_change* hears every new state of each."""

    def __init__(
        self,
        authority: Authority,
        nonces: Callable[[], Nonce],
        on_change: Callable[[DirectoryFollower], None],
    ) -> None:
        self._authority = authority
        self._nonces = nonces
        self._on_change = on_change
        self.followers: dict[str, DirectoryFollower] = {}
        """By suffix, in the order of their names."""
        self.is_listed = asyncio.Event()
        """Set once the authority has said which directories there are."""

    async def follow(self) -> None:
        """Follow the records until cancelled. While the authority is away, the last known states stay."""
        async for known in followed(self._authority, keys.DIRECTORIES, DirectoryRecord):
            for seen in known.values():
                self.take(seen)
            self.is_listed.set()

    def take(self, seen: Seen[DirectoryRecord]) -> None:
        """Take in a state of a record."""
        suffix = seen.value.suffix
        known = self.followers.get(suffix)
        if known is None:
            known = DirectoryFollower(self._authority, self._nonces, seen)
            self.followers = dict(sorted({**self.followers, suffix: known}.items()))
        elif not known.take(seen):
            return
        self._on_change(known)

    async def change(self, follower: DirectoryFollower, edit: Edit) -> DirectoryRecord:
        """Change a record, and take in what it is then."""
        seen = await follower.edited(edit)
        self.take(seen)
        return seen.value
