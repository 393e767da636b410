"""Everything about a connection that has a bound."""

from typing import Final

from msgspec import Struct

from holdfast.model.errors import InvalidRequest
from holdfast.net.frame import FRAME_BYTES_LIMIT
from holdfast.net.handshake import HANDSHAKE_BYTES_MAX

KIB: Final = 1024
MIB: Final = 1024 * 1024


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds of one endpoint's connections. The defaults suit hosts of one domain."""

    frame_bytes_max: int = 16 * MIB
    """Longest payload taken. A peer can make this end hold one frame of that length per connection."""

    connections_max: int = 1024
    """Connections of one server, those still shaking hands included. One more is refused politely."""

    handshake_s: float = 5.0
    """From the accepted or established TCP connection to the Welcome, TLS included."""

    idle_s: float = 15.0
    """A peer that sends nothing for so long is given up. The peer sends ALIVE after a third of it, so
    silence means a dead peer or a cut network. Shorter notices sooner and chatters more. Each end learns
    the other's in the handshake."""

    unsent_bytes_high: int = 1 * MIB
    """Past this the connection says it is not writable; senders wait in ``drain``, and a server stops
    reading from a peer that does not read its answers."""

    unsent_bytes_low: int = 256 * KIB
    """Below this it is writable again. Too near the high mark means many short waits."""

    unsent_bytes_max: int = 64 * MIB
    """A sender that minds neither mark loses the connection here, as ``too_slow``: memory stays bounded."""

    linger_s: float = 0.5
    """How long a connection that ended waits for the peer to take the Goodbye and close. Closing at once
    would reset the connection under a peer still sending, and the Goodbye would be lost."""

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
