"""The bounds of connections."""

from typing import Final

from msgspec import Struct

from holdfast.model.errors import InvalidRequest
from holdfast.net.frame import FRAME_BYTES_LIMIT
from holdfast.net.handshake import HANDSHAKE_BYTES_MAX

KIB: Final = 1024
MIB: Final = 1024 * 1024


class Limits(Struct, frozen=True, kw_only=True):
    """The bounds of one endpoint's connections. The defaults suit hosts of one domain."""

    frame_bytes_max: int = 16 * MIB
    """The longest payload accepted. A peer can make this end hold one frame of that length per connection."""

    connections_max: int = 1024
    """The most connections of one server, handshakes included. One more is refused with a reason."""

    handshake_s: float = 5.0
    """The time from the TCP connection to the Welcome, including TLS."""

    idle_s: float = 15.0
    """A peer that sends nothing for this long is given up. The peer sends ALIVE after a third of it, so
    silence means a dead peer or a cut network. A shorter time notices sooner but sends more. Each end learns
    the other's value in the handshake."""

    unsent_bytes_high: int = 1 * MIB
    """Above this the connection is not writable: senders wait in ``drain``, and a server stops reading from a
    peer that does not read its answers."""

    unsent_bytes_low: int = 256 * KIB
    """Below this the connection is writable again. A value close to the high mark causes many short waits."""

    unsent_bytes_max: int = 64 * MIB
    """A sender that ignores both marks loses the connection here, as ``too_slow``: memory stays bounded."""

    linger_s: float = 0.5
    """How long a connection that ended waits for the peer to read the Goodbye and close. Closing at once
    would reset the connection while the peer is still sending, and the Goodbye would be lost."""

    def validate(self) -> None:
        """Raise ``InvalidRequest`` naming every problem."""
        problems = [
            text
            for is_wrong, text in (
                (not HANDSHAKE_BYTES_MAX <= self.frame_bytes_max <= FRAME_BYTES_LIMIT, "frame_bytes_max"),
                (self.connections_max < 1, "connections_max"),
                (min(self.handshake_s, self.idle_s, self.linger_s) <= 0, "handshake_s, idle_s, linger_s"),
                (
                    not 0 < self.unsent_bytes_low < self.unsent_bytes_high,
                    "unsent_bytes_low < unsent_bytes_high",
                ),
                (self.unsent_bytes_high + self.frame_bytes_max > self.unsent_bytes_max, "unsent_bytes_max"),
            )
            if is_wrong
        ]
        if problems:
            raise InvalidRequest(f"limits out of range: {'; '.join(problems)}")
