"""Runs one method of a user's class: to its end, or to the point where it waits for another group.

No task is created and no event loop is needed: :func:`step` advances an ``async def`` method by hand. The
method may wait only for calls to other groups, because anything else would finish at a different moment in
each replay.

:func:`run_own` runs the class's other code: its module, ``__init__``, ``get_state`` and so on. That code may
fail in any way and must not take the host down; ``sys.exit`` in it is a failure like any other.

:func:`why_not_alive` asks the object whether it is alive (FTC-247) by its method ``is_alive``, if it has one.
*True* means yes. Any other answer, or an exception, means no: the object has found itself inconsistent. An
object without the method counts as alive as long as Holdfast answers for it. The object is asked between two
operations, and the method must change nothing, like a query.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Final, ParamSpec, TypeVar

from holdfast.execution.context import NestedCall, Scope, scope_now
from holdfast.execution.records import Call
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
"""How often a method may catch :class:`CannotAwait` and await something not allowed again."""
REPLY_BYTES_MAX: Final = 8 * 1024 * 1024
"""The limit for the reply of a query or a stateless group: it must fit into a frame, with others."""
ORDERED_BYTES_MAX: Final = 1_000_000
"""The limit for an operation and its reply together: they are one record of the sequence, and every member
keeps the reply until the client has it."""
SHORT_BYTES: Final = 4096
"""A reply up to this length fits into a record together with any operation."""
_RETURNED: Final = encode_returned(None)[:2]
"""The first bytes of the outcome of every method that returned."""


class CannotAwait(InvalidRequest):
    """Raised into a method that awaits anything but a call to another group."""

    code = "cannot_await"


class NotAwaited(InvalidRequest):
    """Raised in place of a method's result if it made a call to another group without awaiting it. The call
    was not made, and otherwise nobody would know."""

    code = "not_awaited"


def call(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], encode: Encode) -> bytes:
    """Run an ordinary method and return its encoded outcome; *encode* belongs to its operation.

    Whatever the method raises is its reply. ``sys.exit`` ends the method, not the host, because nothing may
    escape in the middle of a record, with the object changed and nothing ordered. The same holds for
    ``KeyboardInterrupt``: the host handles SIGINT itself, so no signal raises it here.
    """
    try:
        value = method(*args, **kwargs)
    except EndsProcess:
        raise  # the process ends, and the object with it
    except BaseException as error:
        return raised(error, scope_now.get())
    return encoded(value, encode)


def step(coroutine: Suspended, scope: Scope, send: Outcome | None, encode: Encode) -> bytes | NestedCall[Any]:
    """Run a coroutine to its outcome or to the next call it waits for. *send* is the outcome of the last
    call."""
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
        return raised(error, scope)  # as in :func:`call`
    finally:
        scope_now.reset(token)


def all_awaited(outcome: bytes, scope: Scope) -> bytes:
    """Return *outcome* of a finished method; if it returned but left calls unawaited, return that error
    instead."""
    left, scope.unawaited = scope.unawaited, None
    if not left or not outcome.startswith(_RETURNED):
        return outcome
    names = ", ".join(dict.fromkeys(f"{each.group}.{each.method}" for each in left))
    said = "so it was not made; write `await` before it, in an `async def` method"
    return raised(NotAwaited(f"{names} was called but not awaited, {said}"), scope)


def close(coroutine: Suspended) -> None:
    """Give up a suspended method, together with its object."""
    try:
        coroutine.close()
    except EndsProcess:
        raise
    except BaseException:
        return  # nobody is left to be told


def encoded(value: object, encode: Encode) -> bytes:
    """Encode a method's result for its caller, or an error if it cannot be encoded. Encoding runs the value's
    own code, which may raise anything: a time zone is asked for its offset, a field may be missing."""
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
    """Return *outcome* if it has at most *most* bytes, otherwise an outcome that says it is too long."""
    if len(outcome) <= most:
        return outcome
    text = f"the method's result has {len(outcome)} bytes; at most {most}"
    return encode_outcome(Raised("holdfast.NotEncodable", text))


def ordered(outcome: bytes, call: Call) -> bytes:
    """Return *outcome* if it fits into one record with its call, otherwise one that says it is too long."""
    if len(outcome) <= SHORT_BYTES:
        return outcome
    return fitted(outcome, ORDERED_BYTES_MAX - len(call.arguments) - len(call.method))


def raised(error: BaseException, scope: Scope | None) -> bytes:
    """Encode what a method raised, and tell whoever observes the scope."""
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
    """Raised in place of a ``BaseException`` that is not an ``Exception``, such as ``SystemExit``."""


def run_own(work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Run *work* and return its result. Whatever *work* raises arrives as an ``Exception``."""
    try:
        return work(*args, **kwargs)
    except (Exception, EndsProcess):
        raise
    except BaseException as error:
        raise OwnCodeLeft(f"{type(error).__name__}: {text_of(error)}") from error


ASKED_BY: Final = ClientId("is_alive")
"""The client under which ``is_alive`` is noted while it runs (E4): one that never returns ends its
process."""
IS_ALIVE: Final = "is_alive"


def why_not_alive(instance: object, scope: Scope) -> str:
    """Ask the object why it is not alive; empty if it is."""
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
    """Return the result of an ``async def is_alive``, provided that it waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as finished:
        return finished.value
    close(coroutine)
    return "after waiting for something, which it may not"
