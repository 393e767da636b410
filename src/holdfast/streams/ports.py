"""What the streams of a group use of the world outside, besides their group.

A host binds these; ``DESIGN.md`` has the whole contract.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from holdfast.streams.information import LossInfo
from holdfast.streams.message import Message, Origin

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


class DeciderGroup(Protocol):
    """The group that decides about the losses of another one's streams, as a member of that one asks it
    (LOSS-10)."""

    def ask(self, number: int, info: LossInfo, within_ms: int) -> bool:
        """Ask what shall become of a loss. Whether it could be asked. What it answers is handed to
        :meth:`.annex.Streams.on_decided`, with *number*; whether it ever does is not promised."""
        ...


class MessageLog(Protocol):
    """Where hosts record what they receive, for later (LOSS-14): a plug-in. It may be shared, so that a host
    finds there what others have recorded. Its methods are called in a thread of their own, one after the
    other, and may block; what they raise is noted, and costs the messages at hand."""

    def record(self, origin: Origin, messages: Sequence[Message]) -> None:
        """Keep messages with consecutive numbers, for as long as there is room."""
        ...

    def read(self, origin: Origin, first: int, last: int) -> Sequence[Message]:
        """What there is of *first* to *last*, in any order."""
        ...

    def close(self) -> None: ...
