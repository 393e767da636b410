"""Following one request from the call to its end, whichever hosts its copies reach."""

from dataclasses import dataclass
from typing import Protocol

from holdfast.model.ids import HostId


class Story(Protocol):
    """Follows one request."""

    @property
    def traceparent(self) -> bytes:
        """What the call carries (:class:`.operation.Call`); may be empty."""
        ...

    def attempt(self, host: HostId, address: str, came_to: str) -> None:
        """A copy of it was sent to *host*, and this is what came of it. *address*: where that listens, as
        ``host:port``, if it is known."""
        ...


@dataclass(frozen=True, slots=True)
class Unfollowed:
    """The story of a request that only carries a trace."""

    traceparent: bytes

    def attempt(self, host: HostId, address: str, came_to: str) -> None:
        return None
