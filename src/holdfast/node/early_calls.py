"""The calls that clients send while a host is starting: clients connect as soon as it listens."""

from typing import Final

from holdfast.net import Connection

EARLY_MAX: Final = 1_000
"""How many frames are kept."""
EARLY_BYTES_MAX: Final = 16 * 1024 * 1024
"""How much of them is kept: more is sent again by its clients."""


class EarlyCalls:
    """Frames of calls, in the order of their arrival, within bounds."""

    def __init__(self) -> None:
        self._kept: list[tuple[Connection, bytes]] = []
        self._bytes = 0

    def keep(self, connection: Connection, payload: bytes) -> bool:
        """Keep a frame if there is room for it; return whether there is."""
        if len(self._kept) >= EARLY_MAX or self._bytes + len(payload) > EARLY_BYTES_MAX:
            return False
        self._kept.append((connection, payload))
        self._bytes += len(payload)
        return True

    def on_closed(self, connection: Connection) -> None:
        """Drop what came on a connection that has ended."""
        self._kept = [each for each in self._kept if each[0] is not connection]
        self._bytes = sum(len(payload) for _, payload in self._kept)

    def take(self) -> list[tuple[Connection, bytes]]:
        """Return and forget everything."""
        kept, self._kept, self._bytes = self._kept, [], 0
        return kept
