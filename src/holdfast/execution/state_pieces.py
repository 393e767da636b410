"""Cuts a large state into pieces, so that encoding and decoding it does not block other work.

A state in pieces is a series of pieces, each preceded by its length. The containers and the long byte strings
of an object are cut into parts of about ``PIECE_BYTES``, so that loading can pause between any two of them:
decoding 100 MB in one step takes seconds, during which not even the heartbeat thread gets the interpreter.
Nor is the whole ever in memory a second time, neither where it is captured nor where it is loaded.

:func:`weighs_over` estimates the size of an object's state without encoding it, in bounded time.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, is_typeddict

import msgspec

from holdfast.execution.read_back import placed

PIECE_BYTES: Final = 64 << 10
"""Decoding this much takes about a millisecond."""
CUT_ITEMS_MIN: Final = 64
"""A container with fewer items is never cut."""
LONG: Final = (bytes, bytearray)
"""The types of byte strings, which are cut where they are long. Long text is rare, and left whole."""
_LENGTH_BYTES: Final = 4
_FIRST_PART: Final = 16
_GROWTH_MAX: Final = 4


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """An attribute's value, or the next part of it."""

    name: str
    value: msgspec.Raw
    is_part: bool = False
    """Whether it continues the value that came earlier under the same name."""


def framed(piece: bytes) -> bytes:
    return len(piece).to_bytes(_LENGTH_BYTES, "big") + piece


class Unframing:
    """Finds the pieces in chunks of any size."""

    def __init__(self) -> None:
        self._held = bytearray()

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Add *chunk* and yield every piece that is now complete."""
        self._held += chunk
        start = 0
        while len(self._held) - start >= _LENGTH_BYTES:
            length = int.from_bytes(self._held[start : start + _LENGTH_BYTES], "big")
            end = start + _LENGTH_BYTES + length
            if len(self._held) < end:
                break
            yield bytes(self._held[start + _LENGTH_BYTES : end])
            start = end
        del self._held[:start]

    @property
    def is_between_pieces(self) -> bool:
        return not self._held


def is_cut(value: object, kind: Any) -> bool:
    """Whether a value annotated as *kind* is cut into parts that can be joined again."""
    if type(value) in LONG:
        return len(value) > PIECE_BYTES and kind in (type(value), Any)  # type: ignore[arg-type]  # these have a length
    return type(value) in (dict, list, set) and len(value) >= CUT_ITEMS_MIN and not is_typeddict(kind)  # type: ignore[arg-type]  # these have a length


def parts(value: Any, encode: Callable[[Any, int], msgspec.Raw]) -> Iterator[msgspec.Raw]:
    """Yield the encoded parts of a container, each about ``PIECE_BYTES``, in order. *encode* gets each part
    and the index of its first item."""
    if type(value) in LONG:
        for start in range(0, len(value), PIECE_BYTES):
            yield encode(value[start : start + PIECE_BYTES], start)
        return
    make: Callable[[Any], Any] = type(value)
    items = iter(value.items() if isinstance(value, dict) else value)
    count, first = _FIRST_PART, 0
    while part := list(islice(items, count)):
        encoded = encode(make(part), first)
        yield encoded
        first += len(part)
        count = max(1, min(count * PIECE_BYTES // max(len(bytes(encoded)), 1), count * _GROWTH_MAX))


def joined(value: Any, part: Any) -> Any:
    """Append the next part to a container and return the container. Bytes become a bytearray, which grows
    without being copied each time."""
    if isinstance(value, bytes):
        value = bytearray(value)
    if isinstance(value, list | bytearray):
        value.extend(part)
    else:
        value.update(part)
    return value


class Restoring:
    """Builds an object from the pieces of its state, given one after the other."""

    def __init__(
        self,
        cls: type,
        decoded: Callable[[str, msgspec.Raw], Any],
        restored: Callable[[bytes], Any] | None,
    ) -> None:
        """*decoded* decodes the attribute with the given name. *restored* makes an object from a whole state;
        it is given only for a class with its own ``set_state``."""
        self._cls = cls
        self._decoded = decoded
        self._restored = restored
        self._values: dict[str, Any] = {}
        self._state = bytearray()
        self._growing = ""
        """The attribute whose parts are being joined, if it is bytes."""

    def take(self, encoded: bytes) -> None:
        """Add the next piece. Raises ``msgspec.DecodeError``."""
        piece = msgspec.msgpack.decode(encoded, type=Piece)
        if self._restored is not None:
            self._state += msgspec.msgpack.decode(piece.value, type=bytes)
            return
        value = placed(self._cls, self._decoded, piece.name, piece.value)
        if not piece.is_part:
            self._complete()
            self._values[piece.name] = value
            return
        if isinstance(value, bytes):
            self._growing = piece.name
        self._values[piece.name] = joined(self._values[piece.name], value)

    def finish(self) -> Any:
        """Return the object. Raises what ``set_state`` raises."""
        if self._restored is not None:
            return self._restored(bytes(self._state))
        self._complete()
        instance: Any = object.__new__(self._cls)
        for name, value in self._values.items():
            object.__setattr__(instance, name, value)
        return instance

    def _complete(self) -> None:
        """Turn what has grown from parts of bytes into bytes."""
        if self._growing:
            self._values[self._growing] = bytes(self._values[self._growing])
            self._growing = ""


GLANCES_MAX: Final = 2_000
"""The number of values looked at, which takes some tenths of a millisecond."""
ITEM_BYTES: Final = 8
"""The least that one item of a container takes in a state."""


def weighs_over(instance: object, limit: int) -> bool:
    """Whether the attributes of *instance* certainly take more than *limit* bytes as a state.

    Containers are counted by their length, and some items of each are examined. False may be wrong for an
    object whose large values are nested deeply; its size is known once it is captured.
    """
    weight, glances = 0, 0
    waiting: deque[Any] = deque([getattr(instance, "__dict__", {})])
    waiting.extend(getattr(instance, name, None) for name in _slots(type(instance)))
    while waiting and glances < GLANCES_MAX:
        value = waiting.popleft()
        glances += 1
        if isinstance(value, str | bytes | bytearray):
            weight += len(value)
        elif isinstance(value, dict | list | tuple | set | frozenset | deque):
            weight += len(value) * ITEM_BYTES
            room = GLANCES_MAX - len(waiting)
            inner = value.values() if isinstance(value, dict) else value
            waiting.extend(each for each, _ in zip(inner, range(room), strict=False))
        elif hasattr(value, "__dict__"):
            waiting.append(vars(value))
        else:
            waiting.extend(getattr(value, name, None) for name in _slots(type(value)))
        if weight > limit:
            return True
    return False


def _slots(cls: type) -> list[str]:
    found: list[str] = []
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        found.extend((slots,) if isinstance(slots, str) else slots)
    return [name for name in found if name not in ("__dict__", "__weakref__")]
