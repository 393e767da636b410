"""Asking an object whether it is alive and ready (FTC-247): its own method ``is_alive``, if it has one.

*True* is yes. Anything else, and an exception, is no: the object has found itself inconsistent. An object
without the method is alive as long as its machinery answers in its place. It is asked between two operations
and changes nothing, as a query.
"""

from collections.abc import Coroutine
from typing import Final

from holdfast.model.errors import EndsProcess
from holdfast.model.ids import ClientId
from holdfast.model.outcome import error_in_words
from holdfast.styles.context import Scope, scope_now
from holdfast.styles.stepping import close

ASKED_BY: Final = ClientId("is_alive")
"""In whose name it is noted what runs (E4): an ``is_alive`` that never returns ends its process."""
IS_ALIVE: Final = "is_alive"


def why_not_alive(instance: object, scope: Scope) -> str:
    """Why the object is not alive, by its own word; empty when it is."""
    method = getattr(instance, IS_ALIVE, None)
    if not callable(method):
        return ""
    token = scope_now.set(scope)
    try:
        answer = method()
        if isinstance(answer, Coroutine):
            answer = _finished(answer)
    except EndsProcess:
        raise
    except BaseException as error:
        return f"is_alive raised {error_in_words(error)}"
    finally:
        scope_now.reset(token)
    return "" if answer is True else f"is_alive answered {answer!r}"


def _finished(coroutine: Coroutine[object, None, object]) -> object:
    """What an ``async def is_alive`` returns, if it waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as finished:
        return finished.value
    close(coroutine)
    return "after waiting for something, which it may not"
