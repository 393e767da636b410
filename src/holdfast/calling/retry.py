"""Decides when a request may be sent again: table 27-1 of FTC, as a function of values.

What may be done about a failure depends on what is known of the request. One that was turned away has
certainly not run (*no*); one whose connection broke may have (*maybe*). A request that may have run is
repeated only if it carries its id and expiration, because only then do the members recognise it.

:class:`RetryPause` is the pause after no host could serve. It grows each time and has jitter, so that callers
do not all come back at once.
"""

from collections.abc import Hashable
from enum import Enum, auto
from typing import Final

from holdfast.calling.config import ClientConfig
from holdfast.calling.deadline import DeadlineTimer
from holdfast.calling.ports import RequestPorts
from holdfast.model.backoff import Backoff
from holdfast.model.calls import RefusalCode
from holdfast.model.ports import Timers


class Completion(Enum):
    """Whether the request was executed, as far as the client can know."""

    NO = auto()
    MAYBE = auto()
    YES = auto()


class Failure(Enum):
    """What went wrong, in the words of Fault Tolerant CORBA."""

    COMM_FAILURE = auto()
    """The connection could not be made, or broke."""
    TRANSIENT = auto()
    """The member cannot serve now."""
    NO_RESPONSE = auto()
    """The member does not answer in time."""
    OBJ_ADAPTER = auto()
    """The host does not have the object."""
    OTHER = auto()
    """Any other failure is passed to the caller, because no other member would answer differently."""


FAILOVER_CONDITIONS: Final = (
    Failure.COMM_FAILURE,
    Failure.TRANSIENT,
    Failure.NO_RESPONSE,
    Failure.OBJ_ADAPTER,
)

FAILURE_OF_REFUSAL: Final = {
    RefusalCode.NOT_PRIMARY: Failure.TRANSIENT,
    RefusalCode.UNAVAILABLE: Failure.TRANSIENT,
    RefusalCode.OVERLOADED: Failure.TRANSIENT,
    RefusalCode.BEHIND: Failure.TRANSIENT,
    RefusalCode.NOT_HERE: Failure.OBJ_ADAPTER,
    RefusalCode.NO_SUCH_GROUP: Failure.OTHER,
    RefusalCode.BAD_REFERENCE: Failure.OTHER,
    RefusalCode.INVALID: Failure.OTHER,
}


def may_retry(failure: Failure, completion: Completion, *, is_reinvoked: bool) -> bool:
    """Whether the request may be sent again, to this or another member.

    *is_reinvoked* means that the request is under transparent reinvocation, so every copy carries its id.
    """
    if failure not in FAILOVER_CONDITIONS or completion is Completion.YES:
        return False
    return completion is Completion.NO or is_reinvoked


class RetryPause:
    """The pause of the requests to one group. Its timer fires with *tag*."""

    def __init__(self, timers: Timers, ports: RequestPorts, config: ClientConfig, tag: Hashable) -> None:
        self.is_on = False
        self._clock = ports.clock
        self._alarm = DeadlineTimer(timers, ports.clock, tag)
        self._rng = ports.random.stream("rest")
        self._backoff = Backoff(config.rest_ns, config.rest_most_ns)
        self._deaths_ns = config.rest_deaths_ns
        self._deaths_until_ns = 0
        self.taken = 0
        """How many pauses were taken since somebody served; each is longer than the last. Reset it with every
        answer."""

    @property
    def is_after_deaths(self) -> bool:
        return self.is_on and self._clock.now() < self._deaths_until_ns

    def begin_after_deaths(self) -> None:
        """Pause after two hosts that had a call are gone. The call may have ended them, and the next host
        that is asked must have heard of both deaths by then (E4). A new primary ends this pause like any
        other; a new connection does not."""
        self.is_on = True
        self._deaths_until_ns = self._clock.now() + self._deaths_ns
        self._alarm.cancel()
        self._alarm.by(self._deaths_until_ns)

    def begin(self) -> None:
        if self.is_after_deaths:
            return
        pause_ns = self._backoff.jittered_ns(self.taken, self._rng)
        self.taken += 1
        self.is_on = True
        self._alarm.by(self._clock.now() + pause_ns)

    def end(self) -> None:
        self.is_on = False
        self._alarm.cancel()

    def rang(self) -> None:
        """Note that the timer has fired and the pause is over; the owner must call this."""
        self.is_on = False
        self._alarm.rang()
