"""The outcome of a call, encoded as bytes that are sent, retained and replayed.

Only the reader of the value decodes it: the caller's proxy, or the method that made a nested call. Everywhere
else an outcome is opaque bytes.
"""

import re
from typing import Any, Final
from zlib import crc32

import msgspec

from holdfast.model.errors import EndsProcess, HoldfastError, InvalidRequest, Overloaded
from holdfast.model.set_order import CONTAINERS, in_order, in_words

TEXT_CHARACTERS_MAX: Final = 4096
"""How many characters of an exception's text a reply repeats; every member retains it until it expires."""

WORDS_MAX: Final = 100
"""How many characters of an outcome people are shown."""

INVALID_POLICY: Final = "invalid_policy"
"""The code of a refusal: the request expires later than a group keeps replies (FTC-95)."""


class Returned(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """The method returned this value."""

    value: Any


class Raised(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The method raised an exception; what it changed before stays changed."""

    type_name: str
    text: str


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The method was not run, and never will be for this request."""

    code: str
    text: str


class Poisoned(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The call ended several processes and is not tried again (E4)."""

    attempts: int
    call: str = ""
    """A description of the call, for people."""


class Unknown(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A nested call had no answer before it expired; it may have run (E3)."""

    text: str


Outcome = Returned | Raised | Refused | Poisoned | Unknown

_decoder: Final[msgspec.msgpack.Decoder[Outcome]] = msgspec.msgpack.Decoder(Outcome)
_encode: Final = msgspec.msgpack.Encoder().encode


class MethodRaised(HoldfastError):
    """Raised when a group's method raised an exception; carries its type, with module, and its text."""

    code = "method_raised"

    def __init__(self, type_name: str, text: str) -> None:
        super().__init__(raised_in_words(type_name, text))
        self.type_name = type_name
        self.text = text


class CallRefused(InvalidRequest):
    """Raised when a group refused a call without running it; ``reason`` has the code of the refusal."""

    code = "call_refused"

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class CallCycle(CallRefused):
    """Raised when a call would close a cycle of groups that wait for each other, or was part of one and was
    chosen to give way (E3, E10). It was not executed and never will be: undo what was done for it, and let
    the caller try again. The text names the groups."""

    code = "call_cycle"


class NestedNotExecuted(CallRefused):
    """Raised when a call to another group was not executed and never will be: no group took it before it
    timed out, or the called group has ruled it out for good (E3, X3). What was done for it can be undone."""

    code = "not_executed"


class CallPoisoned(HoldfastError):
    """Raised when a call ended several processes and was therefore given up (E4)."""

    code = "poisoned"


class NestedOutcomeUnknown(HoldfastError):
    """Raised when a nested call had no answer before it expired: it may have been executed (E3)."""

    code = "outcome_unknown"


_OF_ANOTHER: Final = f"holdfast.{MethodRaised.__qualname__}"
_REFUSALS: Final = {each.code: each for each in (CallCycle, NestedNotExecuted)}


def encode_outcome(outcome: Outcome) -> bytes:
    return _encode(outcome)


SCALARS: Final = frozenset({bool, bytes, float, int, str, type(None)})
"""Types whose values contain no set and run no code of their own when they are encoded."""
encode_scalar: Final = _encode
"""Encodes ``(0, value)`` of a returned value that is one of :data:`SCALARS`: the same bytes as
:func:`encode_returned`. Raises ``OverflowError`` or ``UnicodeEncodeError`` if it cannot be encoded."""


def encode_returned(value: object) -> bytes:
    """Encode a returned value: the same bytes as for :class:`Returned`, without creating one, since most
    calls return. For values whose annotation allows no sets inside (:mod:`.set_order`); if the value itself
    is a set, it is sorted all the same."""
    if type(value) is set or type(value) is frozenset:
        value = in_order(value)
    return _encode((0, value))


def encode_returned_in_order(value: object) -> bytes:
    """Encode a returned value that may contain sets; these are sorted into one order."""
    return _encode((0, in_order(value)))


def encode_raised(error: BaseException) -> bytes:
    return _encode(Raised(recorded_name(type(error)), text_of(error)[:TEXT_CHARACTERS_MAX]))


def recorded_name(kind: type[BaseException]) -> str:
    """The name of an error class in records and replies. For our own classes it contains no module, because
    later versions of Holdfast, in which the class may have moved, replay and compare the records."""
    package = kind.__module__.partition(".")[0]
    module = "" if package == "builtins" else f"{package if package == 'holdfast' else kind.__module__}."
    return module + kind.__qualname__


def has_returned(outcome: bytes) -> bool:
    """Whether an encoded outcome is that of a method that returned: all others have another tag."""
    return outcome[1] == 0


decode_outcome: Final = _decoder.decode
"""Decodes an outcome. Raises ``msgspec.DecodeError`` for anything else."""


def value_of(outcome: Outcome) -> Any:
    """The value that the method returned; raises the error that says why there is none."""
    match outcome:
        case Returned(value=value):
            return value
        case Raised(type_name=type_name, text=text):
            raise MethodRaised(type_name, text)
        case Refused(code=reason, text=text):
            raise _refusal(reason, text)
        case Poisoned(attempts=attempts, call=call):
            raise CallPoisoned(f"{call or 'the call'} ended {attempts} processes and is not tried again")
        case Unknown(text=text):
            raise NestedOutcomeUnknown(text)


def outcome_in_words(encoded: bytes) -> str:
    """Describe an outcome for people, cut to :data:`WORDS_MAX` characters. A checksum follows a cut text, so
    that two outcomes that differ only beyond the cut look different."""
    try:
        outcome = decode_outcome(encoded)
    except (msgspec.DecodeError, RecursionError):
        return f"{len(encoded)} bytes that are no outcome"
    if not isinstance(outcome, Returned):
        return _cut(error_in_words(_error_of(outcome)), encoded)
    try:
        said = repr(outcome.value)
    except RecursionError:
        said = f"{len(encoded)} bytes"
    return _cut(said, encoded)


def _cut(said: str, encoded: bytes) -> str:
    return said if len(said) <= WORDS_MAX else f"{said[:WORDS_MAX]}… (crc {crc32(encoded):08x})"


def _error_of(outcome: Outcome) -> HoldfastError:
    try:
        value_of(outcome)
    except HoldfastError as error:
        return error
    raise TypeError(f"{outcome} is no error")


def _refusal(reason: str, text: str) -> HoldfastError:
    if reason == Overloaded.code:
        return Overloaded(text)
    return _REFUSALS.get(reason, CallRefused)(reason, text)


def raised_in_words(type_name: str, text: str) -> str:
    """Describe for people what a method raised: the class and the text. If the method passed on what a method
    of another group raised, describe that."""
    if type_name == _OF_ANOTHER and text:
        return text
    name = type_name.rpartition(".")[2]
    return f"{name}: {text}" if text else name


def error_in_words(error: BaseException) -> str:
    """Describe an error for people: its type and its text."""
    text = text_of(error)
    if isinstance(error, MethodRaised):
        return text  # the text contains the type that was raised
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def text_of(error: BaseException) -> str:
    """The text of *error*, in a form that can be sent: half a surrogate pair is escaped. The text is
    recorded and compared, so sets among the error's arguments come in one order, and where an object lies in
    memory is left out. *Without that:* one ``raise ValueError(f"no such item: {item}")`` makes every replay
    differ, and no member has an object any more."""
    try:
        said = _said(error).encode(errors="backslashreplace").decode()
        return _ADDRESS.sub(" at 0x…", said) if " at 0x" in said else said
    except EndsProcess:
        raise
    except BaseException:
        # An exception's __str__ is the user's code, and may itself fail in any way.
        return ""


_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
"""As ``repr`` ends for an object of a class that does not define it."""


def _said(error: BaseException) -> str:
    own_words = type(error).__str__ not in (BaseException.__str__, KeyError.__str__)
    if own_words or not any(isinstance(each, CONTAINERS) for each in error.args):
        return str(error)
    return in_words(error.args if len(error.args) > 1 else error.args[0])
