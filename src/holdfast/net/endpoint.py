"""What all connections of one server or client have in common."""

from dataclasses import dataclass, field

from holdfast.net.handshake import Expected, Identity
from holdfast.net.limits import Limits
from holdfast.net.tls import Tls


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Who this end is, whom it talks to, how and within which bounds."""

    identity: Identity
    limits: Limits = field(default_factory=Limits)
    tls: Tls | None = None
    """None speaks plain TCP, which only loopback allows unless asked for by name."""
    expected: Expected = field(default_factory=Expected)
