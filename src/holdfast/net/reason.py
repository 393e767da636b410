"""Why a connection ended: one code to act on, one sentence to read."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from holdfast.model.errors import Unavailable

MESSAGE_CHARS_MAX: Final = 300
"""Longer messages are cut: a reason is a sentence, and the peer's words are not to be trusted in length."""


class Why(StrEnum):
    """The code of a reason; it travels in the Goodbye, so a value is never renamed."""

    DONE = "done"
    SHUTTING_DOWN = "shutting_down"
    LOST = "lost"
    """The connection broke without a Goodbye: nothing is known of the peer."""

    VERSION = "version"
    REFUSED = "refused"
    """The peer is not who it should be: domain, role, id or certificate."""
    TLS = "tls"
    TOO_MANY_CONNECTIONS = "too_many_connections"
    HANDSHAKE_TIMEOUT = "handshake_timeout"

    FRAME_TOO_LONG = "frame_too_long"
    TRUNCATED = "truncated"
    UNKNOWN_KIND = "unknown_kind"
    OUT_OF_ORDER = "out_of_order"
    MALFORMED = "malformed"

    IDLE = "idle"
    TOO_SLOW = "too_slow"
    """The peer does not read what is sent to it."""
    INTERNAL = "internal"
    """The receiver of the frames failed; its own log says how."""


ON_PURPOSE: Final = frozenset({Why.DONE, Why.SHUTTING_DOWN})


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a connection ended, and which side said so."""

    why: Why
    message: str
    by_peer: bool = False

    def __str__(self) -> str:
        return f"{'peer says ' if self.by_peer else ''}{self.why}: {self.message}"


class NotConnected(Unavailable):
    """Raised when a connection cannot be made or has ended; ``reason`` says why."""

    code = "not_connected"

    def __init__(self, where: str, reason: Reason) -> None:
        super().__init__(f"{where}: {reason}")
        self.where = where
        self.reason = reason


def plain_text(text: str) -> str:
    """*text* cut to a sentence's length, without characters that could disturb a terminal or a log."""
    return "".join(c if c.isprintable() else "?" for c in text[:MESSAGE_CHARS_MAX])
