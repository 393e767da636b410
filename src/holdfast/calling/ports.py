"""What the requests of one group need of the world, and how they end."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.model.errors import HoldfastError
from holdfast.model.ids import HostId
from holdfast.model.ports import Clock, Network, Random, Timers, Trace
from holdfast.model.reference import Reference
from holdfast.styles.lines import CallLines

Ended = bytes | HoldfastError
"""An encoded outcome of the group's, or the error by which the request ended here."""


class Story(Protocol):
    """Follows one request, from the call to its end."""

    @property
    def traceparent(self) -> bytes:
        """What the call carries (:class:`holdfast.styles.operation.Call`); may be empty."""
        ...

    def attempt(self, host: HostId, came_to: str) -> None:
        """A copy of it was sent to *host*, and this is what came of it."""
        ...


@dataclass(frozen=True, slots=True)
class Unfollowed:
    """The story of a request that only carries a trace."""

    traceparent: bytes

    def attempt(self, host: HostId, came_to: str) -> None:
        return None


@dataclass(frozen=True, slots=True)
class InvocationPorts:
    """The ports of :class:`.invocation.Invocations`; its network carries the messages of `model.calls`."""

    clock: Clock
    timers: Callable[[Callable[[Hashable], None]], Timers]
    network: Network
    random: Random
    trace: Trace
    on_ended: Callable[[Any, Ended], None]
    """A request has ended: its handle, and how. Must not call back."""
    later: Callable[[], None]
    """Ask that ``flush`` be called at the end of this turn."""
    on_reference: Callable[[Reference], None]
    """A newer reference was adopted: its hosts should be connected."""
    lines: CallLines | None = None
    """Where people read of calls that are sent again; None: nobody does."""
