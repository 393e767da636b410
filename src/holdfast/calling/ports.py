"""What the requests to one group need from their surroundings, and how they end."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from holdfast.execution.records import Call
from holdfast.model.errors import HoldfastError
from holdfast.model.ports import Clock, Network, Random, Timers, Trace
from holdfast.model.reference import Reference
from holdfast.styles.call_log import CallLog

Ended = bytes | HoldfastError
"""An encoded outcome from the group, or the error with which the request ended here."""


@dataclass(frozen=True, slots=True)
class RequestPorts:
    """The ports of :class:`.requests.Requests`; its network carries the messages of `model.calls`."""

    clock: Clock
    timers: Callable[[Callable[[Hashable], None]], Timers]
    network: Network
    random: Random
    trace: Trace
    on_ended: Callable[[Any, Ended, Call], None]
    """Called when a request has ended: with its handle, how it ended, and the call as last sent, whose number
    and expiration identify it. It must not call back."""
    later: Callable[[], object]
    """Asks for a call of ``flush`` at the end of this turn."""
    on_reference: Callable[[Reference], None]
    """Called when a newer reference was adopted, whose hosts should be connected."""
    lines: CallLog | None = None
    """Logs calls that are sent again, for people; None if nobody reads it."""
