"""When a request may be sent again: table 27-1 of FTC, as a function of values.

What may be done about a failure depends on what is known of the request. One that was turned away has
certainly not run (*no*); one whose connection broke may have (*maybe*). Only a request that carries its id
and expiration may be repeated when it may have run, because only then do the members recognise it.
"""

from enum import Enum, auto
from typing import Final

from holdfast.model.calls import RefusalCode


class Completion(Enum):
    """Whether the request was executed, as far as the client can know."""

    NO = auto()
    MAYBE = auto()
    YES = auto()


class Failure(Enum):
    """What went wrong, in the words of the source."""

    COMM_FAILURE = auto()
    """The connection could not be made, or broke."""
    TRANSIENT = auto()
    """The member cannot serve now."""
    NO_RESPONSE = auto()
    """The member does not answer in time."""
    OBJ_ADAPTER = auto()
    """The host does not house the object."""
    OTHER = auto()
    """Anything else is the caller's to hear, and no other member would say otherwise."""


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

    *is_reinvoked*: the request is under transparent reinvocation, so every copy carries its id.
    """
    if failure not in FAILOVER_CONDITIONS or completion is Completion.YES:
        return False
    return completion is Completion.NO or is_reinvoked
