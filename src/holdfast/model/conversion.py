"""Converts a returned value to the type in the caller's annotation, or raises an error if it does not fit.

Everything that reads a reply with a class at hand (typed proxies, requested outcomes) converts the value
here. A value that does not fit is never passed on: the program would fail elsewhere, and nobody would know
which call the value came from.
"""

from typing import Any, Final

import msgspec

from holdfast.model.calls import RequestId
from holdfast.model.errors import EndsProcess, HoldfastError
from holdfast.model.outcome import text_of

VALUE_CHARACTERS_MAX: Final = 200
"""How much of a value the error's text repeats; ``value`` has all of it."""


class ResultDoesNotFit(HoldfastError):
    """Raised when a call *was executed* but returned a value that is not of the type in the caller's class.

    Do not call again: the call has had its effect. ``value`` is the returned value, ``request_id`` identifies
    the call, and ``returns`` is the annotation. Usually the caller and the hosts have different versions of
    the class, or the method does not return what its annotation says. Without a class
    (``domain.group(name)``) values are not converted.
    """

    code = "result_does_not_fit"

    def __init__(self, what: str, value: Any, returns: Any, why: str, request_id: RequestId) -> None:
        """*what*: the method, or another description of what returned the value."""
        super().__init__(
            f"{what} was executed, but what it returned is not {_named(returns)} ({why}): {_shown(value)}; "
            f"request {request_id}: do not repeat the call, its result is in .value of this error"
        )
        self.value = value
        self.returns = returns
        self.request_id = request_id


def fitted(value: Any, returns: Any, what: str, request_id: RequestId) -> Any:
    """Convert *value* to the annotation *returns*. Raises :class:`ResultDoesNotFit`."""
    if type(value) is returns:
        return value
    try:
        return msgspec.convert(value, returns)
    except EndsProcess:
        raise
    except BaseException as error:
        # This includes whatever a user's own type raises (``__post_init__``).
        why = text_of(error) or type(error).__name__
        raise ResultDoesNotFit(what, value, returns, why, request_id) from error


def _named(returns: Any) -> str:
    return returns.__qualname__ if isinstance(returns, type) else str(returns)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= VALUE_CHARACTERS_MAX else f"{text[:VALUE_CHARACTERS_MAX]}..."
