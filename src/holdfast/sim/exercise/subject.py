"""The object under trial, executed as a member executes its own, and the values for its arguments.

Argument values are mostly a few small ones that repeat, so that operations affect each other, and sometimes
extreme ones.
"""

import dataclasses
import datetime
import enum
import types
import uuid  # fence: only its type and fixed values
from collections import abc
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NewType,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec

from holdfast.execution.definition import Definition
from holdfast.execution.effects import Effects
from holdfast.execution.execution import Execution
from holdfast.execution.read_back import in_short, named
from holdfast.execution.records import (
    Call,
    Calls,
    NestedReply,
    Ran,
    Record,
    Sent,
    Stamp,
    TimerFired,
    encode_arguments,
    encode_calls,
)
from holdfast.model.calls import Request
from holdfast.model.csn import Csn
from holdfast.model.ids import SECOND, ClientId, Position, ReplicaId
from holdfast.model.outcome import Refused, Returned, encode_outcome

CLIENT: Final = ClientId("check")
BEGUN_S: Final = 1_767_225_600
STEP_S: Final = 7
"""Seconds of group time between two operations."""
NESTED_MAX: Final = 16
"""The most calls to other groups that one operation makes; after that it is left waiting."""
TIMERS_MAX: Final = 4
"""The most timers that fire after one operation."""
LATER_S: Final = 3600
ANSWERS: Final = (
    encode_outcome(Refused("unavailable", "there are no other groups in a check")),
    encode_outcome(Returned(1)),
    encode_outcome(Returned("a")),
    encode_outcome(Returned(None)),
)
"""The outcomes of calls to other groups, used in turn."""


@dataclass(frozen=True, slots=True)
class Done:
    """One operation or query that was made."""

    method: str
    arguments: dict[str, Any]
    is_query: bool = False

    def __str__(self) -> str:
        given = ", ".join(f"{name}={in_short(value)}" for name, value in self.arguments.items())
        return f"{self.method}({given})"


class Subject:
    """An object that is tried out, and its execution."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.answered = 0
        """How many of its calls to other groups have been answered."""

    @classmethod
    def made(cls, definition: Definition) -> "Subject":
        return cls(Execution(definition))

    def restored(self, state: bytes) -> "Subject":
        """Return another subject, restored from a state that this one gave."""
        execution = Execution.load(self.execution.definition, state)
        execution.go_on()
        made = Subject(execution)
        made.answered = self.answered
        return made

    @property
    def is_at_rest(self) -> bool:
        return self.execution.is_at_rest

    def do(self, number: int, done: Done) -> list[bytes]:
        """Execute *done*, and return the outcomes of it, of work it started, and of timers that were due."""
        arguments = encode_arguments((), done.arguments)
        request = Request(CLIENT, number)
        if done.is_query:
            return [self.execution.query(done.method, arguments, request)] if self.is_at_rest else []
        expiration_s = BEGUN_S + number * STEP_S + LATER_S
        call = Call(number, done.method, arguments, expiration_s)
        sent = Sent(CLIENT, number, expiration_s, encode_calls([call]))
        outcomes = self._apply(Calls(_stamp(number), sent))
        return outcomes + self._answer(number) + self._fire(number)

    def _answer(self, number: int) -> list[bytes]:
        outcomes: list[bytes] = []
        for _ in range(NESTED_MAX):
            slow, waits = self.execution.line.slow, self.execution.outgoing()
            if slow is not None:
                outcomes += self._apply(Ran(_stamp(number), *slow.request))
                continue
            if waits is None:
                break
            outcome = ANSWERS[self.answered % len(ANSWERS)]
            self.answered += 1
            outcomes += self._apply(NestedReply(_stamp(number), *waits.caller, waits.call, outcome))
        return outcomes

    def _fire(self, number: int) -> list[bytes]:
        time_ns = _stamp(number).time_ns
        outcomes: list[bytes] = []
        for timer in self.execution.timers.due(time_ns, TIMERS_MAX):
            outcomes += self._apply(TimerFired(_stamp(number), timer.number, timer.due_ns))
            outcomes += self._answer(number)
        return outcomes

    def _apply(self, record: Record) -> list[bytes]:
        effects: Effects = self.execution.apply(Position(self.execution.position + 1), record)
        ended = [outcome for outcome in effects.outcomes if outcome is not None]
        return ended + [reply.outcome for reply in effects.later]


def _stamp(number: int) -> Stamp:
    time_s = BEGUN_S + number * STEP_S
    return Stamp(Csn(time_s, 0, ReplicaId(1)), number % SECOND)


DEPTH: Final = 4
"""From this depth on, every value that may be empty or missing is."""
DEPTH_MAX: Final = 12
ITEMS_MAX: Final = 3
ATTEMPTS_MAX: Final = 20
"""The most attempts to meet a constraint given with ``Annotated``."""
EDGE: Final = 0.1
"""The probability that a value is an extreme one."""
SEEN: Final = 0.3
"""The probability that a value is one that the object has returned, such as a key or a number it issued."""
SEEN_MAX: Final = 32

_USUAL: Final[dict[type, tuple[Any, ...]]] = {
    int: (0, 1, 2, 3, 5, 10, -1, -7),
    float: (0.0, 0.5, 1.0, 2.5, -1.5),
    str: ("a", "b", "c", "d"),
    bytes: (b"a", b"b", b"raw"),
    bytearray: (bytearray(b"a"),),
    bool: (True, False),
    type(None): (None,),
    datetime.datetime: (
        datetime.datetime(2026, 1, 2, 3, 4, 5),
        datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC),
    ),
    datetime.date: (datetime.date(2026, 1, 2), datetime.date(2027, 12, 31)),
    datetime.time: (datetime.time(1, 2, 3),),
    datetime.timedelta: (datetime.timedelta(0), datetime.timedelta(days=1, seconds=5)),
    Decimal: (Decimal("0"), Decimal("1.10"), Decimal("-3")),
    uuid.UUID: (uuid.UUID(int=1), uuid.UUID(int=2)),
}  # fmt: skip
_AT_THE_EDGE: Final[dict[type, tuple[Any, ...]]] = {
    int: (1000, 2**31, 2**53 + 1, -(2**53)),
    float: (float("nan"), float("inf"), 1e300, -0.0),
    str: ("", "é\u2028\U0001f600", "x" * 200, "0"),
    bytes: (b"", b"\x00\xff" * 100),
}
_LISTS: Final = (list, abc.Sequence, abc.Iterable, abc.Collection, abc.MutableSequence)
_SETS: Final = (set, frozenset, abc.Set, abc.MutableSet)
_DICTS: Final = (dict, abc.Mapping, abc.MutableMapping)


class CannotMake(Exception):
    """Raised for a type of which no values are known."""


class Values:
    """Makes values of a type, drawn by *random*."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._seen: dict[type, list[Any]] = {}

    def saw(self, value: Any) -> None:
        """Remember a value that an operation returned."""
        seen = self._seen.setdefault(type(value), [])
        if type(value) in (int, str) and value not in seen and len(seen) < SEEN_MAX:
            seen.append(value)

    def of(self, kind: Any, depth: int = 0) -> Any:
        """Draw a value of type *kind*. Raises :class:`CannotMake`."""
        if depth > DEPTH_MAX:
            raise CannotMake(f"{named(kind)} within itself")
        if kind is Any or kind is object:
            kind = self._random.choice((int, str))
        if isinstance(kind, NewType):
            return self.of(kind.__supertype__, depth)
        if type(kind).__name__ == "TypeAliasType":
            return self.of(kind.__value__, depth)
        origin, args = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self._within(kind, args[0], depth)
        if origin in (Union, types.UnionType):
            return self._any_of(args, depth)
        if origin is Literal:
            return self._random.choice(args)
        if isinstance(kind, type) and kind in _USUAL:
            return self._plain(kind)
        return self._made(kind, origin or kind, args, depth)

    def _plain(self, kind: type) -> Any:
        seen = self._seen.get(kind)
        if seen and self._random.random() < SEEN:
            return self._random.choice(seen)
        edge = _AT_THE_EDGE.get(kind)
        if edge and self._random.random() < EDGE:
            return self._random.choice(edge)
        return self._random.choice(_USUAL[kind])

    def _any_of(self, kinds: tuple[Any, ...], depth: int) -> Any:
        """Draw a value of any arm of a union for which values can be made."""
        if depth >= DEPTH and type(None) in kinds:
            return None
        arms = list(kinds)
        self._random.shuffle(arms)
        for number, each in enumerate(arms, start=1):
            try:
                return self.of(each, depth + 1)
            except CannotMake:
                if number == len(arms):
                    raise
        raise CannotMake(" | ".join(map(named, kinds)))

    def _within(self, kind: Any, base: Any, depth: int) -> Any:
        for _ in range(ATTEMPTS_MAX):
            value = self.of(base, depth)
            try:
                return msgspec.convert(msgspec.to_builtins(value, builtin_types=(bytes,)), kind)
            except (msgspec.ValidationError, TypeError):
                continue
        raise CannotMake(f"{named(kind)} with its limits")

    def _some(self, kind: Any, depth: int) -> list[Any]:
        most = ITEMS_MAX if depth < DEPTH else 0
        return [self.of(kind, depth + 1) for _ in range(self._random.randint(0, most))]

    def _made(self, kind: Any, plain: Any, args: tuple[Any, ...], depth: int) -> Any:
        inner = args[0] if args else Any
        if plain in _LISTS:
            return self._some(inner, depth)
        if plain in _SETS:
            made = set(self._some(inner, depth))
            return frozenset(made) if plain is frozenset else made
        if plain in _DICTS:
            of_key, of_value = args if len(args) == 2 else (str, Any)
            return {key: self.of(of_value, depth + 1) for key in self._some(of_key, depth)}
        if plain is tuple:
            if not args or args[-1] is ...:
                return tuple(self._some(inner, depth))
            return tuple(self.of(each, depth + 1) for each in args)
        if isinstance(plain, type) and issubclass(plain, enum.Enum):
            return self._random.choice(list(plain))
        return self._of_fields(plain, depth)

    def _of_fields(self, kind: Any, depth: int) -> Any:
        """Draw a value of a type made of fields, sometimes without its optional fields."""
        try:
            hints = get_type_hints(kind, include_extras=True)
        except Exception:
            raise CannotMake(named(kind)) from None
        names = self._names(kind, depth)
        make: Callable[..., Any] = dict if is_typeddict(kind) else kind
        given = {name: self.of(hints.get(name, Any), depth + 1) for name in names}
        try:
            return make(**given)
        except Exception as error:
            raise CannotMake(f"{named(kind)} ({type(error).__name__}: {error})") from None

    def _names(self, kind: Any, depth: int) -> list[str]:
        if is_typeddict(kind):
            needed, all_names = kind.__required_keys__, sorted(kind.__annotations__)
        elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            fields = msgspec.structs.fields(kind)
            needed = {each.name for each in fields if each.required}
            all_names = [each.name for each in fields]
        elif dataclasses.is_dataclass(kind):
            found = [each for each in dataclasses.fields(kind) if each.init]
            missing = dataclasses.MISSING
            needed = {e.name for e in found if e.default is missing and e.default_factory is missing}
            all_names = [each.name for each in found]
        elif hasattr(kind, "_fields") and hasattr(kind, "_field_defaults"):
            needed = set(kind._fields) - kind._field_defaults.keys()
            all_names = list(kind._fields)
        else:
            raise CannotMake(named(kind))
        share = 1 / 2 if depth < DEPTH else 0
        return [name for name in all_names if name in needed or self._random.random() < share]
