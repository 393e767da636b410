"""What may be set about calling: policies of a call, and bounds of a client."""

from typing import Final

from msgspec import Struct, structs

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HOUR, MILLISECOND, SECOND

DURATION_NS_MAX: Final = 24 * HOUR
"""No request is kept longer by the members of a group."""


def rounded(duration: float) -> int:
    """The nearest whole number of whatever it counts. Raises ``InvalidRequest`` for what is none."""
    try:
        return round(duration)
    except (ValueError, OverflowError):  # nan, inf
        raise InvalidRequest(f"{duration} is no duration") from None


class CallPolicy(Struct, frozen=True, kw_only=True):
    """How one call is made: set for a domain, a group or a single call."""

    duration_ns: int = 30 * SECOND
    """The request duration (FTC-106): how long the call is sent again, to whoever may serve it, before it
    ends without an answer."""
    outcome_ns: int = 60 * SECOND
    """For how long after that its outcome can be asked for. Members keep the reply so much longer."""
    is_reinvoked: bool = True
    """Whether a call that may have been executed is sent again. Without it such a call ends at once, as
    ``OutcomeUnknown``."""
    waits_for_room: bool = True
    """With too many calls in flight: wait for one to end, or raise ``Overloaded``."""

    def lasting(self, duration_ns: int) -> "CallPolicy":
        """The same, for another duration."""
        return structs.replace(self, duration_ns=duration_ns)

    def validate(self) -> None:
        """Raises ``InvalidRequest`` naming the first problem."""
        if not 0 < self.duration_ns <= DURATION_NS_MAX:
            raise InvalidRequest("a request's duration must be above 0 and at most 24 hours")
        if not 0 <= self.outcome_ns <= DURATION_NS_MAX:
            raise InvalidRequest("outcomes can be kept from 0 to 24 hours")


class ClientConfig(Struct, frozen=True, kw_only=True):
    """One client. The defaults suit a network of one site."""

    window_calls: int = 16_384
    """Calls to one group without an answer; beyond it callers wait, or are told ``Overloaded``."""
    window_bytes: int = 32 << 20
    """Bytes of arguments in those calls; less than a connection holds unsent before it gives up."""
    frame_bytes: int = 256 << 10
    """A frame of calls is sent when it holds this much, so that the primary can begin."""
    patience_ns: int = 1 * SECOND
    """A frame without any answer for so long is sent to the next address too; doubled each time."""
    patience_most_ns: int = 8 * SECOND
    rest_ns: int = 20 * MILLISECOND
    """The pause after nobody could serve; doubled each time, and jittered. Whoever serves next says so at
    once: shorter only makes it later, when a host dies of whose groups a client calls a thousand."""
    rest_most_ns: int = 400 * MILLISECOND
    rest_deaths_ns: int = 150 * MILLISECOND
    """The pause after a call has lost its second host: hosts hear of a death in a tenth of that."""
    heartbeat_interval_ns: int = 500 * MILLISECOND
    """Between two heartbeats on a connection (FTC-116). Shorter notices a dead host sooner."""
    heartbeat_timeout_ns: int = 2 * SECOND
    """A connection without an answer for so long is closed (FTC-118)."""

    def validate(self) -> None:
        """Raises ``InvalidRequest`` naming every problem."""
        problems = [
            f"{name} must be at least 1" for name in self.__struct_fields__ if getattr(self, name) < 1
        ]
        if self.heartbeat_interval_ns * 2 > self.heartbeat_timeout_ns:
            problems.append("heartbeat_timeout_ns must be at least two intervals")
        if problems:
            raise InvalidRequest("; ".join(problems))
