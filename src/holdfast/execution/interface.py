"""Reads a class's operations, their arguments, and which of them change nothing.

Any class can be used. Its public methods are operations. A method marked with :func:`query` promises to
change nothing and is answered without being ordered. Arguments are checked against the method's signature and
annotations before a call is ordered: a bad call gets one clear error and changes nothing.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from types import GenericAlias
from typing import Any, Final, NamedTuple, TypeVar, get_type_hints, overload

import msgspec

from holdfast.model.errors import EndsProcess, InvalidRequest
from holdfast.model.outcome import encode_returned, encode_returned_in_order, text_of
from holdfast.model.set_order import may_hold_sets
from holdfast.net.frame import UNDECODABLE

Method = TypeVar("Method", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

CLASSES_KEPT_MAX: Final = 256
QUERY_MARK: Final = "__holdfast_query__"
ANYTIME_MARK: Final = "__holdfast_anytime__"
INTERLEAVED_MARK: Final = "__holdfast_interleaved__"
SLOW_MARK: Final = "__holdfast_slow__"
RESERVED: Final = ("get_state", "set_state", "get_update", "set_update", "is_alive", "upgraded")
"""Methods that only Holdfast calls on an object; clients cannot call them."""
SUGGESTIONS_MAX: Final = 12
POSITIONAL: Final = "*"
"""The key of the positional arguments in a map of named ones."""

_anything: Final = msgspec.msgpack.Decoder(list[Any] | dict[str, Any])


@overload
def query(method: Method) -> Method: ...


@overload
def query(*, anytime: bool = False) -> Callable[[Method], Method]: ...


def query(method: Method | None = None, *, anytime: bool = False) -> Method | Callable[[Method], Method]:
    """Mark a method that changes nothing: it is answered from the primary's state and not ordered.

    While an operation waits for another group, the query sees the state before that operation. If that state
    is too large to be copied, the query waits for a while and is then refused. With *anytime* the query sees
    the object as it is, even if an operation is half done.
    """

    def mark(method: Method) -> Method:
        if getattr(method, SLOW_MARK, False):
            raise TypeError(_SLOW_QUERY)
        setattr(method, QUERY_MARK, True)
        setattr(method, ANYTIME_MARK, anytime)
        return method

    return mark if method is None else mark(method)


def slow(method: Method) -> Method:
    """Mark a method that computes for long: it runs beside the host's loop, so that other groups are served
    meanwhile. Calls of the same group wait until it has ended (E15)."""
    if inspect.iscoroutinefunction(method):
        raise TypeError(
            "@slow marks a method that computes; an `async def` method waits, and holds up nobody"
        )
    if getattr(method, QUERY_MARK, False):
        raise TypeError(_SLOW_QUERY)
    setattr(method, SLOW_MARK, True)
    return method


_SLOW_QUERY: Final = (
    "a query cannot be slow: it is answered at once; let an operation compute it, and keep it"
)


def interleaved(cls: Class) -> Class:
    """Mark a class whose operations may run while others of them wait for another group. What a method read
    before an ``await`` may have changed after it (E11). Queries see the object as it is."""
    if not isinstance(cls, type):
        raise TypeError(f"@interleaved marks a class, not {cls!r}")
    setattr(cls, INTERLEAVED_MARK, True)
    return cls


class BadCall(InvalidRequest):
    """Raised when a call cannot be made as written: the method does not exist, or the arguments do not
    fit."""

    code = "bad_call"


@dataclass(frozen=True, slots=True)
class Operation:
    """One public method of a class."""

    name: str
    is_query: bool
    is_async: bool
    signature: inspect.Signature
    """The signature without ``self``."""
    types: dict[str, Any]
    """The annotations of its parameters, as far as they can be resolved."""
    is_anytime: bool = False
    """Whether it is a query that may see an operation half done."""
    is_slow: bool = False
    """Whether it runs beside the loop."""
    may_wait: bool = False
    """Whether its outcome may come later than it is ordered: it is asynchronous, or slow."""
    returns: Any = Any
    """The annotated return type; ``Any`` if a reply cannot be converted to it."""
    encode: Callable[[object], bytes] = encode_returned_in_order
    """Encodes the returned value as an outcome. A cheaper encoder is used if the value cannot contain a
    set."""
    whole: msgspec.msgpack.Decoder[Any] | None = field(init=False, compare=False, repr=False)
    """Decodes and checks all parameters at once if they are given by position, as in nearly every call."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", _decoder_of_all(self.signature, self.types))

    def decoded(
        self, arguments: msgspec.Raw | bytes | tuple[Any, ...]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Decode the arguments for the method; a tuple has them decoded (:mod:`.annex`), and a list among
        them stays as it is whatever the method does to its own. Raises :class:`BadCall`."""
        if isinstance(arguments, tuple):
            if type(arguments[0]) is list:
                arguments = (arguments[0].copy(), *arguments[1:])
            return arguments, {}
        if self.whole is not None:
            try:
                return self.whole.decode(arguments), {}
            except UNDECODABLE:
                pass  # defaults, names or a mistake: the slow path below handles each
            except EndsProcess:
                raise
            except BaseException as error:
                # One of the user's own types (``__post_init__``) may reject a value with any exception.
                raise BadCall(f"{self.name}: {text_of(error) or type(error).__name__}") from error
        try:
            found = _anything.decode(arguments)
        except UNDECODABLE as error:
            raise BadCall(f"{self.name}: arguments are neither an array nor a map: {error}") from None
        positional = found if isinstance(found, list) else found.pop(POSITIONAL, [])
        if not isinstance(positional, list):
            raise BadCall(f"{self.name}: the positional arguments are not an array")
        bound = self.arguments(positional, {} if isinstance(found, list) else found)
        return bound.args, bound.kwargs

    def arguments(self, args: list[Any], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """Bind and convert *args* and *kwargs* for the method. Raises :class:`BadCall`."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise BadCall(f"{self.name}{self.signature}: {error}") from None
        for name in bound.arguments:
            if name in self.types:
                bound.arguments[name] = self._converted(name, bound.arguments[name])
        return bound

    def _converted(self, name: str, value: Any) -> Any:
        # *args and **kwargs arrive as a tuple and a dictionary of values of the annotated type.
        kind = self.signature.parameters[name].kind
        wanted = self.types[name]
        if kind is inspect.Parameter.VAR_POSITIONAL:
            wanted = GenericAlias(tuple, (wanted, ...))
        elif kind is inspect.Parameter.VAR_KEYWORD:
            wanted = GenericAlias(dict, (str, wanted))
        try:
            return msgspec.convert(value, wanted)
        except msgspec.ValidationError as error:
            raise BadCall(f"{self.name}: argument {name}: {error}") from None
        except EndsProcess:
            raise
        except BaseException as error:
            # As in `decoded`: this is one of the user's own types.
            said = text_of(error) or type(error).__name__
            raise BadCall(f"{self.name}: argument {name}: {said}") from error


class PlainOperation(NamedTuple):
    """What it takes to execute a call of an ordinary method in a loop over many."""

    decode: Callable[[msgspec.Raw], tuple[Any, ...]]
    encode: Callable[[object], bytes]


class Interface:
    """The operations of one class."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.operations = {name: _operation(name, method) for name, method in _public_methods(cls)}
        self.plain = {
            name: PlainOperation(each.whole.decode, each.encode)
            for name, each in self.operations.items()
            if each.whole is not None and not each.may_wait
        }
        """The operations of which a call can be executed at once, with arguments by position."""
        self.queries = frozenset(name for name, each in self.operations.items() if each.is_query)
        self.is_interleaved = bool(getattr(cls, INTERLEAVED_MARK, False))
        """Whether operations may start while others wait."""
        self.may_wait = any(each.may_wait and not each.is_query for each in self.operations.values())
        """Whether the outcome of any operation may come later: it waits for another group, or is slow."""
        self.has_slow = any(each.is_slow for each in self.operations.values())
        self.has_strict_queries = any(
            each.is_query and not each.is_anytime for each in self.operations.values()
        )
        """Whether any query must not see an operation half done."""

    def operation(self, name: str) -> Operation:
        """Return the operation *name*. Raises :class:`BadCall`, which lists the operations that exist."""
        found = self.operations.get(name)
        if found is not None:
            return found
        if name in RESERVED:
            raise BadCall(f"{self.cls.__name__}.{name} is Holdfast's to call, not a caller's")
        if name.startswith("_"):
            raise BadCall(f"{self.cls.__name__}.{name} is private")
        offered = ", ".join(sorted(self.operations)[:SUGGESTIONS_MAX]) or "none"
        raise BadCall(f"{self.cls.__name__} has no method {name!r}; it has: {offered}")


@lru_cache(maxsize=CLASSES_KEPT_MAX)
def interface_of(cls: type) -> Interface:
    """Return the interface of *cls*, cached: a host may have ten thousand groups of one class."""
    return Interface(cls)


def _public_methods(cls: type) -> list[tuple[str, Callable[..., Any]]]:
    return [
        (name, method)
        for name, method in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_")
        and name not in RESERVED
        # A static or class method has no object to change, so it is not an operation.
        and not isinstance(inspect.getattr_static(cls, name), staticmethod | classmethod)
    ]


def _operation(name: str, method: Callable[..., Any]) -> Operation:
    signature = inspect.signature(method)
    parameters = list(signature.parameters.values())[1:]
    hints = _resolved(method)
    known = {name: hint for name, hint in hints.items() if _is_checkable(hint)}
    return Operation(
        name=name,
        is_query=getattr(method, QUERY_MARK, False),
        is_async=inspect.iscoroutinefunction(method),
        is_anytime=getattr(method, ANYTIME_MARK, False),
        is_slow=(is_slow := getattr(method, SLOW_MARK, False)),
        may_wait=is_slow or inspect.iscoroutinefunction(method),
        signature=signature.replace(parameters=parameters),
        types={each.name: known[each.name] for each in parameters if each.name in known},
        returns=known.get("return", Any),
        encode=encode_returned_in_order if may_hold_sets(hints.get("return", Any)) else encode_returned,
    )


def _resolved(method: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(method)
    except (NameError, TypeError):
        # Some names exist only for the type checker. What cannot be resolved is not checked.
        return {}


def _decoder_of_all(
    signature: inspect.Signature, types: dict[str, Any]
) -> msgspec.msgpack.Decoder[Any] | None:
    parameters = list(signature.parameters.values())
    if any(each.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD for each in parameters):
        return None
    kinds = tuple(types.get(each.name, Any) for each in parameters)
    return msgspec.msgpack.Decoder(GenericAlias(tuple, kinds if kinds else ((),)))


def _is_checkable(annotation: Any) -> bool:
    """Whether msgspec can check the annotation. Other annotations are left to the class."""
    try:
        msgspec.json.Decoder(annotation)
    except TypeError:
        return False
    return True
