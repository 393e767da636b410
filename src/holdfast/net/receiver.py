"""Who receives the frames of a connection."""

from typing import TYPE_CHECKING, Protocol

from holdfast.net.frame import Kind, Reason

if TYPE_CHECKING:
    from holdfast.net.connection import Connection


class Receiver(Protocol):
    """Receives the frames of a connection. It is called in the loop's thread and must not block."""

    def on_frame(self, connection: "Connection", kind: Kind, payload: bytes) -> None:
        """Take one frame; frames come in the order sent.

        When msgspec rejects the payload (``UNDECODABLE``), the connection ends as ``malformed``; any other
        exception ends it as ``internal``.
        """
        ...

    def on_closed(self, connection: "Connection", reason: Reason) -> None:
        """Called exactly once at the connection's end, possibly inside ``close``; no frame follows."""
        ...
