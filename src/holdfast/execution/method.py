"""Running one method: to its end, or to where it waits for another group.

No task is made and no event loop is needed. An ``async def`` method is stepped by hand and may wait for one
thing only, a call to another group: whatever else it awaited would end at another moment in each replay.

Running what a class brings of its own besides its methods: its module, ``__init__``, ``get_state``.

Such code may fail in any way, and must not take a host with it. ``sys.exit`` in it is a failure like others.

Asking an object whether it is alive and ready (FTC-247): its own method ``is_alive``, if it has one.

*True* is yes. Anything else, and an exception, is no: the object has found itself inconsistent. An object
without the method is alive as long as its machinery answers in its place. It is asked between two operations
and changes nothing, as a query.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Final, ParamSpec, TypeVar

from holdfast.execution.context import NestedCall, Scope, scope_now
from holdfast.model.errors import EndsProcess, InvalidRequest
from holdfast.model.ids import ClientId
from holdfast.model.outcome import (
    TEXT_CHARACTERS_MAX,
    Outcome,
    Raised,
    encode_outcome,
    encode_raised,
    encode_returned,
    error_in_words,
    text_of,
)

Suspended = Coroutine[Any, Any, Any]
Encode = Callable[[object], bytes]

REFUSED_AWAITS_MAX: Final = 16
"""How often a method may catch :class:`CannotAwait` and await something wrong again."""
REPLY_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of a query, or of a stateless group: it must fit into a frame, with others."""
ORDERED_BYTES_MAX: Final = 1_000_000
"""Of an operation and its reply together: they are a record of the sequence, and every member keeps the reply
until its client has it."""
SHORT_BYTES: Final = 4096
"""A record takes a reply so long beside any operation."""
_RETURNED: Final = encode_returned(None)[:2]
"""So begins the outcome of every method that returned something."""


class CannotAwait(InvalidRequest):
    """Raised into a method that awaits anything but a call to another group."""

    code = "cannot_await"


class NotAwaited(InvalidRequest):
    """Raised in the place of what a method returns that made a call to another group and did not await it:
    the call was not made, and nobody would know."""

    code = "not_awaited"


def call(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], encode: Encode) -> bytes:
    """The outcome of an ordinary method; *encode* is its operation's. Whatever it raises is its reply:
    ``sys.exit`` ends the method, not a host, and nothing leaves in the middle of a record, with the object
    changed and nothing ordered. So is a ``KeyboardInterrupt``: a host takes SIGINT itself, and none is raised
    by that."""
    try:
        value = method(*args, **kwargs)
    except EndsProcess:
        raise  # the process ends, and the object with it
    except BaseException as error:
        return _raised(error, scope_now.get())
    return encoded(value, encode)


def step(coroutine: Suspended, scope: Scope, send: Outcome | None, encode: Encode) -> bytes | NestedCall[Any]:
    """Run on to the method's outcome, or to the call it waits for. *send* is the outcome of the last one."""
    token = scope_now.set(scope)
    try:
        awaited = coroutine.send(send)
        for _ in range(REFUSED_AWAITS_MAX):
            if isinstance(awaited, NestedCall):
                return awaited
            awaited = coroutine.throw(CannotAwait(_advice(awaited)))
        close(coroutine)
        return encode_raised(CannotAwait(_advice(awaited)))
    except StopIteration as finished:
        return encoded(finished.value, encode)
    except EndsProcess:
        raise
    except BaseException as error:
        return _raised(error, scope)  # as in :func:`call`
    finally:
        scope_now.reset(token)


def all_awaited(outcome: bytes, scope: Scope) -> bytes:
    """*outcome* of a method that has ended; of one that returned and has left calls unawaited, that."""
    left, scope.unawaited = scope.unawaited, None
    if not left or not outcome.startswith(_RETURNED):
        return outcome
    names = ", ".join(dict.fromkeys(f"{each.group}.{each.method}" for each in left))
    said = "so it was not made; write `await` before it, in an `async def` method"
    return _raised(NotAwaited(f"{names} was called but not awaited, {said}"), scope)


def close(coroutine: Suspended) -> None:
    """Give a suspended method up, with the object it works on."""
    try:
        coroutine.close()
    except EndsProcess:
        raise
    except BaseException:
        return  # it has nobody to tell


def encoded(value: object, encode: Encode) -> bytes:
    """What the caller gets for this value, which may be that it cannot travel. Encoding runs the value's own
    code, which may raise anything: a time zone is asked for its offset, a field may not be set."""
    try:
        outcome = encode(value)
    except EndsProcess:
        raise
    except BaseException as error:
        said = text_of(error)[:TEXT_CHARACTERS_MAX] or type(error).__name__
        return encode_outcome(Raised("holdfast.NotEncodable", f"the method's result cannot be sent: {said}"))
    if len(outcome) <= ORDERED_BYTES_MAX:
        return outcome
    scope = scope_now.get()
    return fitted(
        outcome, REPLY_BYTES_MAX if scope is not None and scope.timers is None else ORDERED_BYTES_MAX
    )


def fitted(outcome: bytes, most: int = ORDERED_BYTES_MAX) -> bytes:
    """What the caller gets for an outcome that may have so many bytes at most: it, or that it has more."""
    if len(outcome) <= most:
        return outcome
    text = f"the method's result has {len(outcome)} bytes; at most {most}"
    return encode_outcome(Raised("holdfast.NotEncodable", text))


def _raised(error: BaseException, scope: Scope | None) -> bytes:
    if scope is not None and scope.on_raised is not None:
        scope.on_raised(scope, error)
    return encode_raised(error)


def _advice(awaited: object) -> str:
    return (
        f"a method cannot await {type(awaited).__name__}: it may await calls to other groups, by "
        "holdfast.context.group(...), and use holdfast.context.call_later to go on at a later time"
    )


P = ParamSpec("P")
R = TypeVar("R")


class OwnCodeLeft(Exception):
    """Raised in place of what is no ``Exception``: ``SystemExit``, ``KeyboardInterrupt`` and their like."""


def run_own(work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """What *work* returns. Raises an ``Exception``, whatever *work* raises."""
    try:
        return work(*args, **kwargs)
    except (Exception, EndsProcess):
        raise
    except BaseException as error:
        raise OwnCodeLeft(f"{type(error).__name__}: {text_of(error)}") from error


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
