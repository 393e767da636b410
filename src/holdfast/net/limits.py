"""The bounds of connections."""

from typing import Final

from msgspec import Struct

from holdfast.model.validation import Problem, below
from holdfast.net.frame import FRAME_BYTES_LIMIT
from holdfast.net.handshake import HANDSHAKE_BYTES_MAX

KIB: Final = 1024
MIB: Final = 1024 * 1024


TICKS_PER_IDLE: Final = 3
"""How often within the shorter ``idle_s`` of both ends a connection sends something to show it is alive."""

TICK_S_MIN: Final = 0.02
"""The shortest tick that a peer can make us use."""


class Limits(Struct, frozen=True, kw_only=True):
    """The bounds of one endpoint's connections. The defaults suit hosts of one domain."""

    frame_bytes_max: int = 16 * MIB
    """The longest payload accepted."""

    unfinished_bytes_max: int = 64 * MIB
    """The memory of one server for unfinished frames of all clients together, and as much again for those of
    hosts, agents and admins (N3). Less makes clients with long frames wait for each other."""

    frame_s: float = 30.0
    """The time in which a long frame must be complete, so that nobody keeps that memory for ever."""

    connections_max: int = 1024
    """The most connections of clients of one server. One more is refused with a reason (N2)."""

    of_one_client_max: int = 256
    """The most connections of clients of the same name."""

    members_max: int = 512
    """The most connections of hosts, agents and admins: a few of each of the largest domain's hosts."""

    handshakes_max: int = 1024
    """The most connections whose peers have not yet proved who they are. One more takes the place of the
    oldest: a peer that means well is done within milliseconds."""

    first_frame_s: float = 30.0
    """A client that has sent nothing by then is let go; its place is for those that call."""

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

    def validate(self) -> list[Problem]:
        counts = ("connections_max", "of_one_client_max", "members_max", "handshakes_max")
        times = ("handshake_s", "idle_s", "linger_s", "frame_s", "first_frame_s")
        problems = [*below(self, 1, counts), *below(self, 0.001, times)]
        if not HANDSHAKE_BYTES_MAX <= self.frame_bytes_max <= FRAME_BYTES_LIMIT:
            said = f"must lie between {HANDSHAKE_BYTES_MAX} and {FRAME_BYTES_LIMIT}"
            problems.append(("frame_bytes_max", said))
        if self.unfinished_bytes_max <= self.frame_bytes_max:
            problems.append(("unfinished_bytes_max", "must be greater than frame_bytes_max"))
        if not 0 < self.unsent_bytes_low < self.unsent_bytes_high:
            problems.append(("unsent_bytes_low", "must be above 0 and below unsent_bytes_high"))
        if self.unsent_bytes_high + self.frame_bytes_max > self.unsent_bytes_max:
            said = "must be at least unsent_bytes_high and frame_bytes_max together"
            problems.append(("unsent_bytes_max", said))
        return problems
