"""What the requests of one group need of the world, and how they end."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from holdfast.execution.records import Call
from holdfast.model.errors import HoldfastError
from holdfast.model.ports import Clock, Network, Random, Timers, Trace
from holdfast.model.reference import Reference
from holdfast.styles.call_log import CallLog

Ended = bytes | HoldfastError
"""An encoded outcome of the group's, or the error by which the request ended here."""


@dataclass(frozen=True, slots=True)
class RequestPorts:
    """The ports of :class:`.requests.Invocations`; its network carries the messages of `model.calls`."""

    clock: Clock
    timers: Callable[[Callable[[Hashable], None]], Timers]
    network: Network
    random: Random
    trace: Trace
    on_ended: Callable[[Any, Ended, Call], None]
    """A request has ended: its handle, how, and the call as it was last sent, whose number and expiration
    name it. Must not call back."""
    later: Callable[[], None]
    """Ask that ``flush`` be called at the end of this turn."""
    on_reference: Callable[[Reference], None]
    """A newer reference was adopted: its hosts should be connected."""
    lines: CallLog | None = None
    """Where people read of calls that are sent again; None: nobody does."""
