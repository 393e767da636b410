"""Running one method: to its end, or to where it waits for another group.

No task is made and no event loop is needed. An ``async def`` method is stepped by hand and may wait for one
thing only, a call to another group: whatever else it awaited would end at another moment in each replay.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Final

from holdfast.model.errors import EndsProcess, InvalidRequest
from holdfast.model.outcome import (
    TEXT_CHARACTERS_MAX,
    Outcome,
    Raised,
    encode_outcome,
    encode_raised,
    encode_returned,
    text_of,
)
from holdfast.styles.context import NestedCall, Scope, scope_now

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
