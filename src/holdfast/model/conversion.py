"""A returned value made into the type that its reader's annotation says, or the error that it is not one.

Whoever reads a reply with a class in hand (typed proxies, outcomes that are asked for) makes its value here.
A value that does not fit is never handed on: the program that got it would fail elsewhere, and nobody would
know which call it came from.
"""

from typing import Any, Final

import msgspec

from holdfast.model.calls import RequestId
from holdfast.model.errors import EndsProcess, HoldfastError
from holdfast.model.outcome import text_of

VALUE_CHARACTERS_MAX: Final = 200
"""How much of a value the error's text repeats; the whole is in its ``value``."""


class ResultDoesNotFit(HoldfastError):
    """Raised when a call *was executed* and what it returned is not of the type that the caller's class says.

    Do not call again: the call has had its effect. ``value`` is what came, ``request_id`` names the call, and
    ``returns`` is the annotation. As a rule the caller and the hosts have different versions of the class,
    or its method does not return what it says; without a class (``domain.group(name)``) values come as they
    are.
    """

    code = "result_does_not_fit"

    def __init__(self, what: str, value: Any, returns: Any, why: str, request_id: RequestId) -> None:
        """*what*: the method, or whatever else the value was asked for with."""
        super().__init__(
            f"{what} was executed, but what it returned is not {_named(returns)} ({why}): {_shown(value)}; "
            f"request {request_id}: do not repeat the call, its result is in .value of this error"
        )
        self.value = value
        self.returns = returns
        self.request_id = request_id


def fitted(value: Any, returns: Any, what: str, request_id: RequestId) -> Any:
    """*value* as the annotation *returns* has it. Raises :class:`ResultDoesNotFit`."""
    if type(value) is returns:
        return value
    try:
        return msgspec.convert(value, returns)
    except EndsProcess:
        raise
    except BaseException as error:
        # Also what a type of the user's own raises (``__post_init__``), which may be anything.
        why = text_of(error) or type(error).__name__
        raise ResultDoesNotFit(what, value, returns, why, request_id) from error


def _named(returns: Any) -> str:
    return returns.__qualname__ if isinstance(returns, type) else str(returns)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= VALUE_CHARACTERS_MAX else f"{text[:VALUE_CHARACTERS_MAX]}..."
