"""Waits for syncs: joins several into one continuation, and treats the first failure as final (D1)."""

from collections.abc import Callable, Iterable

import msgspec

from holdfast.model.errors import DiskFailed, HoldfastError
from holdfast.model.ports import Disk, Token


class Syncs:
    """The syncs of one owner. Tokens begin with the owner's name, so that owners can share a disk."""

    def __init__(self, disk: Disk, owner: str, on_failed: Callable[[HoldfastError], None]) -> None:
        self._disk = disk
        self._owner = owner
        self._on_failed = on_failed
        self._waiting: dict[int, _Wait] = {}
        self._last = 0
        self.is_failed = False
        """A sync has failed. Nothing counts as durable any more."""

    def after(self, names: Iterable[str], then: Callable[[], None], *, directory: bool = False) -> None:
        """Sync the files *names* and, if asked, the directory; call *then* when all of it is durable."""
        wait = _Wait(then)
        for name in names:
            self._disk.sync(name, self._token(wait, name))
        if directory:
            self._disk.sync_dir(self._token(wait, "the directory"))
        if not wait.left:
            then()

    def on_synced(self, token: Token, ok: bool) -> bool:
        """Process the disk's answer; return False when *token* belongs to another owner."""
        if not isinstance(token, tuple) or token[0] != self._owner:
            return False
        wait = self._waiting.pop(token[1])
        if not ok:
            self.fail(token[2])
        elif not self.is_failed:
            wait.left -= 1
            if not wait.left:
                wait.then()
        return True

    def fail(self, name: str) -> None:
        """Handle a failed sync of *name*; only the first counts."""
        if not self.is_failed:
            self.is_failed = True
            self._on_failed(DiskFailed(f"{self._owner}: the sync of {name} failed"))

    def _token(self, wait: "_Wait", name: str) -> Token:
        wait.left += 1
        self._last += 1
        self._waiting[self._last] = wait
        return (self._owner, self._last, name)


class _Wait(msgspec.Struct):
    """A continuation, and the number of syncs it still waits for."""

    then: Callable[[], None]
    left: int = 0
