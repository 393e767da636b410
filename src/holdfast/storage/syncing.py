"""Waiting for syncs: several are joined into one continuation, and the first failure is final (D1)."""

from collections.abc import Callable, Iterable

from holdfast.model.errors import DiskFailed, HoldfastError
from holdfast.model.ports import Disk, Token


class Syncs:
    """The syncs that one owner waits for. Tokens are (owner's name, number), so owners can share a disk."""

    def __init__(self, disk: Disk, owner: str, on_failed: Callable[[HoldfastError], None]) -> None:
        self._disk = disk
        self._owner = owner
        self._on_failed = on_failed
        self._waiting: dict[int, tuple[list[int], Callable[[], None]]] = {}
        self._last = 0
        self._is_failed = False

    def after(self, names: Iterable[str], then: Callable[[], None], *, directory: bool = False) -> None:
        """Sync the files *names* and, when asked, the directory; call *then* when all of it is durable."""
        left = [0]
        for name in names:
            self._disk.sync(name, self._token(left, then))
        if directory:
            self._disk.sync_dir(self._token(left, then))
        if not left[0]:
            then()

    def on_synced(self, token: Token, ok: bool) -> bool:
        """Take the disk's answer; False when *token* is another owner's."""
        if not isinstance(token, tuple) or token[0] != self._owner:
            return False
        left, then = self._waiting.pop(token[1])
        if self._is_failed:
            return True
        if not ok:
            self._is_failed = True
            self._on_failed(DiskFailed(f"{self._owner}: a sync failed"))
            return True
        left[0] -= 1
        if not left[0]:
            then()
        return True

    def _token(self, left: list[int], then: Callable[[], None]) -> Token:
        left[0] += 1
        self._last += 1
        self._waiting[self._last] = (left, then)
        return (self._owner, self._last)
