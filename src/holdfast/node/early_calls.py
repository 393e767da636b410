"""What others send while a host is starting, for they connect as soon as it listens: calls are kept, orders
refused."""

from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.model.admin.groups import STARTING, OrderRefused, encode_order
from holdfast.model.ids import HostId
from holdfast.net import Connection, Kind, Reason, Why, split_number, with_number

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

    def hand_to(self, on_frame: Callable[[Connection, Kind, bytes], None]) -> None:
        """Give everything to *on_frame* and forget it; a malformed frame ends its connection."""
        for connection, payload in self.take():
            try:
                on_frame(connection, Kind.CALL, payload)
            except msgspec.DecodeError as error:
                connection.close(Reason(Why.MALFORMED, str(error)))


def refuse_early(host: HostId, connection: Connection, payload: bytes) -> None:
    """Refuse an order while *host* is starting: the sender waits for an answer, and another host may give
    one."""
    number, _ = split_number(payload)
    refused = OrderRefused(code=STARTING, text=f"{host} is still starting", is_final=False)
    connection.send(Kind.GROUP_ANSWER, with_number(number, encode_order(refused)))
