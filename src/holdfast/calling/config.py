"""The settings for calls: the policy of a call, and the bounds of a client."""

from typing import Final

from msgspec import Struct, structs

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HOUR, MILLISECOND, SECOND
from holdfast.model.validation import Problem, below

DURATION_NS_MAX: Final = 24 * HOUR
"""The members of a group keep no request longer than this."""


def rounded(duration: float) -> int:
    """Return the nearest whole number. Raises ``InvalidRequest`` if *duration* is not a finite number."""
    try:
        return round(duration)
    except (ValueError, OverflowError):  # nan, inf
        raise InvalidRequest(f"{duration} is no duration") from None


class CallPolicy(Struct, frozen=True, kw_only=True):
    """How one call is made. It can be set for a domain, a group or a single call."""

    duration_ns: int = 30 * SECOND
    """The request duration (FTC-106): how long the call is sent again, to whoever may serve it, before it
    ends without an answer."""
    outcome_ns: int = 60 * SECOND
    """How long after the request duration its outcome can be asked for. Members keep the reply that much
    longer."""
    is_reinvoked: bool = True
    """Whether a call that may have been executed is sent again. If not, such a call ends at once as
    ``OutcomeUnknown``."""
    waits_for_room: bool = True
    """Whether a call waits when too many are in flight. If not, it raises ``Overloaded``."""

    def lasting(self, duration_ns: int) -> "CallPolicy":
        """Return the same policy with another duration."""
        return structs.replace(self, duration_ns=duration_ns)

    def validate(self) -> list[Problem]:
        problems: list[Problem] = []
        if not 0 < self.duration_ns <= DURATION_NS_MAX:
            problems.append(("duration_ns", "must be above 0 and at most 24 hours"))
        if not 0 <= self.outcome_ns <= DURATION_NS_MAX:
            problems.append(("outcome_ns", "must lie between 0 and 24 hours"))
        return problems


class ClientConfig(Struct, frozen=True, kw_only=True):
    """The settings of one client. The defaults suit a network of one site."""

    window_calls: int = 16_384
    """The most unanswered calls to one group. Further callers wait, or get ``Overloaded``."""
    window_bytes: int = 32 << 20
    """The most bytes of arguments in those calls. It is less than a connection buffers before it gives up."""
    frame_bytes: int = 256 << 10
    """A frame of calls is sent when it holds this many bytes, so that the primary can start."""
    patience_ns: int = 1 * SECOND
    """How long a frame may go unanswered before it is also sent to the next address; doubled each time."""
    patience_most_ns: int = 8 * SECOND
    """The longest that this becomes."""
    rest_ns: int = 20 * MILLISECOND
    """The pause after a round in which no host could serve; doubled each time, with jitter. The next primary
    announces itself at once, so a shorter pause gains nothing. It even delays the failover when a host dies
    and a client calls a thousand of its groups."""
    rest_most_ns: int = 400 * MILLISECOND
    """The longest that this pause becomes."""
    rest_deaths_ns: int = 150 * MILLISECOND
    """The pause after a call has lost its second host. Hosts hear of a death in a tenth of that."""
    heartbeat_interval_ns: int = 500 * MILLISECOND
    """The time between two heartbeats on a connection (FTC-116). A shorter one notices a dead host sooner."""
    heartbeat_timeout_ns: int = 2 * SECOND
    """A connection without an answer for this long is closed (FTC-118)."""

    def validate(self) -> list[Problem]:
        problems = below(self, 1, self.__struct_fields__)
        if self.heartbeat_interval_ns * 2 > self.heartbeat_timeout_ns:
            problems.append(("heartbeat_timeout_ns", "must be at least twice heartbeat_interval_ns"))
        return problems
