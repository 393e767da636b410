"""What the streams of a group use of the world outside, besides their group.

A host binds these; ``DESIGN.md`` has the whole contract.
"""

from typing import Final, Protocol

from holdfast.streams.message import Origin

NOT_STORED: Final = "not_stored"
EXPIRED: Final = "expired"
PEER_GONE: Final = "peer_gone"
TIMEOUT: Final = "timeout"
REFUSED: Final = "refused"
REASONS: Final = (NOT_STORED, EXPIRED, PEER_GONE, TIMEOUT, REFUSED)
"""Why messages could not be recovered (LOSS-96)."""


class MessageStore(Protocol):
    """A place outside the group that may have lost messages: a message log (LOSS-14), or their source."""

    def request(self, origin: Origin, first: int, last: int) -> bool:
        """Ask for messages *first* to *last*. Whether it could be asked. What it has is handed to
        :meth:`.annex.Streams.on_messages` whenever it comes, and what it does not have is told to
        :meth:`.annex.Streams.on_unavailable`. Asking twice does no harm."""
        ...
