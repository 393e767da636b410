"""An object's state as bytes and back (checklist FTC, Checkpointable and Updateable).

A class may say how, by ``get_state`` and ``set_state`` (and ``get_update``, ``set_update`` for what changed
since); otherwise its attributes are taken as they are. An attribute must come back as it went: annotate it
on the class where its value alone does not tell (a set, a tuple, a struct of your own). One that cannot be
captured is refused by name when the group is created, not discovered at the first failover.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, Final, Protocol, get_type_hints, runtime_checkable

import msgspec

from holdfast.model.errors import InvalidRequest
from holdfast.styles.own_code import run_own
from holdfast.styles.pieces import Piece, is_cut, joined, parts

STATE_BYTES_MAX: Final = 1 << 31
OWN_PIECE_BYTES: Final = 1 << 20
"""Of a state that a class encodes itself: it is put together again before the class sees it."""

_digests: Final = msgspec.msgpack.Encoder(order="deterministic")


class NoStateAvailable(Exception):
    """Raised by a class's ``get_state`` when its state cannot be had now. No fault: the log is kept, and it
    is asked again after the next interval (FTC-311)."""


class InvalidState(Exception):
    """Raised by a class's ``set_state`` for a state it cannot take: the object counts as failed (FTC-310)."""


class NoUpdateAvailable(Exception):
    """Raised by a class's ``get_update`` when it cannot say now what changed. No fault: backups replay, and
    it is asked again (FTC-311)."""


class InvalidUpdate(Exception):
    """Raised by a class's ``set_update`` for an update it cannot take: the object counts as failed
    (FTC-310)."""


class NotCapturable(InvalidRequest):
    """Raised when an object's state cannot be captured; names the attribute and what would help."""

    code = "not_capturable"


@runtime_checkable
class Checkpointable(Protocol):
    """A class that says itself what its state is."""

    def get_state(self) -> bytes: ...

    def set_state(self, state: bytes) -> None: ...


@runtime_checkable
class Updateable(Checkpointable, Protocol):
    """A class that can also say what changed since its last ``get_state`` or ``get_update``."""

    def get_update(self) -> bytes: ...

    def set_update(self, update: bytes) -> None: ...


@cache
def _is_a(cls: type, protocol: type) -> bool:
    """Remembered, because looking takes so long that a host that takes over many groups would feel it."""
    return issubclass(cls, protocol)


class Capture:
    """How the objects of one class are captured and restored."""

    def __init__(self, cls: type) -> None:
        self._cls = cls
        self._types = _attribute_types(cls)
        self.is_checkpointable = _is_a(cls, Checkpointable)
        self.is_updateable = _is_a(cls, Updateable)
        self._takes_version = self.is_checkpointable and _takes_version(cls)
        given = [name for name in ("get_state", "set_state") if callable(getattr(cls, name, None))]
        if len(given) == 1:
            raise NotCapturable(
                f"{cls.__name__} has {given[0]} without its counterpart; give both or neither"
            )

    def state_of(self, instance: object) -> bytes:
        """The whole state. Raises :class:`NotCapturable`, or what ``get_state`` raises."""
        if isinstance(instance, Checkpointable):
            return _as_bytes(run_own(instance.get_state), f"{self._cls.__name__}.get_state")
        return msgspec.msgpack.encode(
            {name: self._encoded(name, value) for name, value in _attributes(instance)}
        )

    def restored(self, state: bytes, fresh: Callable[[], Any], version: str = "") -> Any:
        """An object with that state, which the class of that *version* gave. *fresh* makes one as the group's
        creation did, for a class that sets its state itself; any other is built bare, and its ``__init__`` is
        not run again."""
        if self.is_checkpointable:
            instance = fresh()
            self.set_state(instance, state, version)
            return instance
        instance = object.__new__(self._cls)
        for name, encoded in msgspec.msgpack.decode(state, type=dict[str, msgspec.Raw]).items():
            object.__setattr__(
                instance, name, msgspec.msgpack.decode(encoded, type=self._types.get(name, Any))
            )
        return instance

    def set_state(self, instance: Any, state: bytes, version: str) -> None:
        """Raises what ``set_state`` raises."""
        if self._takes_version:
            run_own(instance.set_state, state, version)
        else:
            run_own(instance.set_state, state)

    def pieces_of(self, instance: object) -> Iterator[bytes]:
        """The whole state, in pieces for :class:`Restoring`. Raises as :meth:`state_of`."""
        if isinstance(instance, Checkpointable):
            state = self.state_of(instance)
            for start in range(0, max(len(state), 1), OWN_PIECE_BYTES):
                piece = msgspec.msgpack.encode(state[start : start + OWN_PIECE_BYTES])
                yield _piece("", msgspec.Raw(piece))
            return
        for name, value in _attributes(instance):
            if not is_cut(value, self._types.get(name, Any)):
                yield _piece(name, self._encoded(name, value))
                continue
            encode = partial(self._encoded, name)
            for number, part in enumerate(parts(value, encode)):
                yield _piece(name, part, is_part=number > 0)

    def restoring(self, fresh: Callable[[], Any], version: str = "") -> "Restoring":
        """See :meth:`restored`."""

        def finish(state: bytes) -> Any:
            return self.restored(state, fresh, version)

        return Restoring(self._cls, self._types, finish if self.is_checkpointable else None)

    def digest_of(self, instance: object) -> bytes:
        """Bytes that are equal for equal states. Unlike the state they do not follow the order of sets,
        which is another in each process."""
        if isinstance(instance, Checkpointable):
            return self.state_of(instance)
        attributes = dict(_attributes(instance))
        try:
            return _digests.encode(attributes)
        except TypeError:
            # A dictionary with keys other than text: msgspec cannot order those.
            return _digests.encode(_ordered(attributes))

    def update_of(self, instance: object) -> bytes:
        """What changed since the last state or update; the class must be updateable."""
        if not isinstance(instance, Updateable):
            raise NotCapturable(f"{self._cls.__name__} has no get_update and set_update")
        return _as_bytes(run_own(instance.get_update), f"{self._cls.__name__}.get_update")

    def apply_update(self, instance: object, update: bytes) -> None:
        """Raises what ``set_update`` raises, as :class:`InvalidUpdate`."""
        if not isinstance(instance, Updateable):
            raise NotCapturable(f"{self._cls.__name__} has no get_update and set_update")
        run_own(instance.set_update, update)

    def check(self, instance: object) -> None:
        """Raise :class:`NotCapturable` for the first attribute that does not come back as it went."""
        if isinstance(instance, Checkpointable):
            self.state_of(instance)
            return
        _check_bare(self._cls)
        for name, value in _attributes(instance):
            kind = self._types.get(name, Any)
            try:
                back = msgspec.msgpack.decode(self._encoded(name, value), type=kind)
            except msgspec.DecodeError as error:
                raise NotCapturable(
                    f"{self._cls.__name__}.{name} is annotated {kind} but holds: {error}"
                ) from None
            if not _same(value, back):
                raise NotCapturable(
                    f"{self._cls.__name__}.{name} holds a {type(value).__name__} that would not come back "
                    f"as it is: annotate it on the class ({name}: ...), or write get_state and set_state"
                )

    def _encoded(self, name: str, value: object) -> msgspec.Raw:
        try:
            return msgspec.Raw(msgspec.msgpack.encode(value))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise NotCapturable(
                f"{self._cls.__name__}.{name} cannot be captured ({error}): "
                "leave it out of the object, or write get_state and set_state"
            ) from None


class Restoring:
    """An object that is made of its pieces, one after the other."""

    def __init__(self, cls: type, types: dict[str, Any], restored: Callable[[bytes], Any] | None) -> None:
        """*restored*: the object with a state, for a class that sets its state itself."""
        self._cls = cls
        self._types = types
        self._restored = restored
        self._values: dict[str, Any] = {}
        self._state = bytearray()

    def take(self, encoded: bytes) -> None:
        """The next piece. Raises ``msgspec.DecodeError``."""
        piece = msgspec.msgpack.decode(encoded, type=Piece)
        if self._restored is not None:
            self._state += msgspec.msgpack.decode(piece.value, type=bytes)
            return
        value = msgspec.msgpack.decode(piece.value, type=self._types.get(piece.name, Any))
        self._values[piece.name] = joined(self._values[piece.name], value) if piece.is_part else value

    def finish(self) -> Any:
        """The object. Raises what ``set_state`` raises."""
        if self._restored is not None:
            return self._restored(bytes(self._state))
        instance: Any = object.__new__(self._cls)
        for name, value in self._values.items():
            object.__setattr__(instance, name, value)
        return instance


def _takes_version(cls: type) -> bool:
    """Whether its ``set_state`` wants to know by which version the state was given (E7)."""
    try:
        inspect.signature(cls.set_state).bind(None, b"", "")  # type: ignore[attr-defined]  # it has one
    except (TypeError, ValueError):
        return False
    return True


def _piece(name: str, value: msgspec.Raw, *, is_part: bool = False) -> bytes:
    return msgspec.msgpack.encode(Piece(name, value, is_part))


def _ordered(value: Any) -> Any:
    """*value* with its dictionaries and sets as lists in an order of their own encoding."""
    if isinstance(value, dict):
        pairs = [(_digests.encode(_ordered(key)), _ordered(each)) for key, each in value.items()]
        return sorted(pairs, key=lambda pair: pair[0])
    if isinstance(value, set | frozenset):
        return sorted(_digests.encode(_ordered(each)) for each in value)
    if isinstance(value, list | tuple):
        return [_ordered(each) for each in value]
    if isinstance(value, msgspec.Struct):
        return [_ordered(getattr(value, name)) for name in value.__struct_fields__]
    if dataclasses.is_dataclass(value):
        return [_ordered(getattr(value, each.name)) for each in dataclasses.fields(value)]
    return value


def attribute_names(instance: object) -> list[str]:
    """Of every attribute that is set."""
    return [name for name, _ in _attributes(instance)]


def _attributes(instance: object) -> list[tuple[str, Any]]:
    """Every attribute that is set, from ``__dict__`` and ``__slots__``, by name."""
    found = dict(getattr(instance, "__dict__", {}))
    for cls in type(instance).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(instance, name):
                found[name] = getattr(instance, name)
    return sorted(found.items())


def _check_bare(cls: type) -> None:
    """An object is built of its attributes: of a dictionary or a list the contents would be missing."""
    try:
        object.__new__(cls)
    except TypeError as error:
        raise NotCapturable(
            f"{cls.__name__} is more than its attributes ({error}): "
            "hold as an attribute what it inherits from, or write get_state and set_state"
        ) from None


def _attribute_types(cls: type) -> dict[str, Any]:
    try:
        return get_type_hints(cls)
    except (NameError, TypeError):
        return {}


def _as_bytes(state: object, what: str) -> bytes:
    if not isinstance(state, bytes | bytearray | memoryview):
        raise NotCapturable(f"{what} returned a {type(state).__name__}; a state is bytes")
    if len(state) > STATE_BYTES_MAX:
        raise NotCapturable(f"{what} returned {len(state)} bytes; at most {STATE_BYTES_MAX}")
    return bytes(state)


def _same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down: ``True`` is not 1 and a tuple is not a list."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return len(one) == len(other) and all(
            key in other and _same(value, other[key]) for key, value in one.items()
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, msgspec.Struct):
        return all(_same(getattr(one, name), getattr(other, name)) for name in one.__struct_fields__)
    if dataclasses.is_dataclass(one):
        fields = [field.name for field in dataclasses.fields(one)]
        return all(_same(getattr(one, name), getattr(other, name)) for name in fields)
    return bool(one == other) or (one != one and other != other)  # a NaN came back as a NaN
