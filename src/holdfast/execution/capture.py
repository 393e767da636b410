"""Turns an object's state into bytes and back (checklist FTC, Checkpointable and Updateable).

A class may encode its own state with ``get_state`` and ``set_state``, and the changes since the last capture
with ``get_update`` and ``set_update``. Otherwise its attributes are encoded one by one. Each attribute must
come back as it was: annotate it on the class if its value alone does not determine the type (a set, a tuple,
your own struct). An attribute that cannot be captured is rejected by name when the group is created, rather
than discovered at the first failover.

Every captured state is decoded again at once and compared with the object, piece by piece (E9), because
encoding ignores annotations and decoding follows them. For a class with its own ``set_state``, a fresh object
takes the state and must then have the same attributes or return the same state.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from hashlib import blake2b
from typing import Any, Final, Protocol, get_type_hints, runtime_checkable

import msgspec

from holdfast.execution.method import run_own
from holdfast.execution.read_back import (
    UNENCODABLE,
    difference,
    in_short,
    is_same,
    is_state_same,
    misfit,
    named,
    placed,
    why_not_encoded,
    why_not_read,
    why_undecoded,
)
from holdfast.execution.shared_parts import HeldTwice, MetParts, in_words
from holdfast.execution.state_pieces import LONG, PIECE_BYTES, Piece, Restoring, is_cut, parts
from holdfast.model.errors import InvalidRequest
from holdfast.model.outcome import error_in_words, text_of

STATE_BYTES_MAX: Final = 1 << 31
OWN_PIECE_BYTES: Final = 1 << 20
"""The size of one piece of a state that a class encodes itself. All pieces are joined before
``set_state``."""

AT_ONCE_BYTES: Final = 4 * PIECE_BYTES
"""An encoded value longer than this is decoded and compared in parts."""

UNCAPTURED: Final = "_holdfast_database"
"""The attribute of a stored object that has its database: it is captured as a file, not as an attribute."""

_digests: Final = msgspec.msgpack.Encoder(order="deterministic")


class NoStateAvailable(Exception):
    """Raised by a class's ``get_state`` when its state is not available now. This is not a fault: the log is
    kept, and the class is asked again after the next interval (FTC-311)."""


class InvalidState(Exception):
    """Raised by a class's ``set_state`` for a state it cannot accept: the object counts as failed
    (FTC-310)."""


class NoUpdateAvailable(Exception):
    """Raised by a class's ``get_update`` when it cannot tell now what changed. This is not a fault: backups
    replay the log instead, and the class is asked again (FTC-311)."""


class InvalidUpdate(Exception):
    """Raised by a class's ``set_update`` for an update it cannot accept: the object counts as failed
    (FTC-310)."""


class NotCapturable(InvalidRequest):
    """Raised when an object's state cannot be captured. The message names the attribute and a remedy."""

    code = "not_capturable"


@runtime_checkable
class Checkpointable(Protocol):
    """A class that encodes and decodes its own state."""

    def get_state(self) -> bytes: ...

    def set_state(self, state: bytes) -> None: ...


@runtime_checkable
class Updateable(Checkpointable, Protocol):
    """A class that can also encode what changed since its last ``get_state`` or ``get_update``."""

    def get_update(self) -> bytes: ...

    def set_update(self, update: bytes) -> None: ...


@cache
def _is_a(cls: type, protocol: type) -> bool:
    """Whether *cls* implements *protocol*. Cached: the check is slow enough to delay a host that takes over
    many groups."""
    return issubclass(cls, protocol)


class Capture:
    """Captures and restores the objects of one class."""

    def __init__(self, cls: type) -> None:
        self._cls = cls
        self._types = _attribute_types(cls)
        self._decoders: dict[str, msgspec.msgpack.Decoder[Any]] = {}
        self.is_checkpointable = _is_a(cls, Checkpointable)
        self.is_updateable = _is_a(cls, Updateable)
        self._takes_version = self.is_checkpointable and _takes_version(cls)
        given = [name for name in ("get_state", "set_state") if callable(getattr(cls, name, None))]
        if len(given) == 1:
            raise NotCapturable(
                f"{cls.__name__} has {given[0]} without its counterpart; give both or neither"
            )

    def state_of(self, instance: object, fresh: Callable[[], Any] | None = None, version: str = "") -> bytes:
        """Return the whole state as bytes. If *fresh* is given, the state is also restored and compared.
        Raises :class:`NotCapturable`, or what ``get_state`` raises."""
        if isinstance(instance, Checkpointable):
            state = _as_bytes(run_own(instance.get_state), f"{self._cls.__name__}.get_state")
            if fresh is not None:
                self._read_back_own(instance, state, partial(self.restored, state, fresh, version))
            return state
        met, encoded = MetParts() if fresh is not None else None, {}
        for name, value in _attributes(instance):
            with self._naming(instance, name):
                encoded[name] = self._encoded(name, value, met)
        return msgspec.msgpack.encode(encoded)

    def restored(self, state: bytes, fresh: Callable[[], Any], version: str = "") -> Any:
        """Return a new object with that state, which was captured by *version* of the class. If the class has
        its own ``set_state``, *fresh* makes the object as at the group's creation; otherwise the object is
        built from its attributes and ``__init__`` does not run again."""
        if self.is_checkpointable:
            instance = fresh()
            self.set_state(instance, state, version)
            return instance
        instance = object.__new__(self._cls)
        for name, encoded in msgspec.msgpack.decode(state, type=dict[str, msgspec.Raw]).items():
            object.__setattr__(instance, name, placed(self._cls, self._decoded, name, encoded))
        return instance

    def set_state(self, instance: Any, state: bytes, version: str) -> None:
        """Pass the state to the object's ``set_state``. Raises what ``set_state`` raises."""
        if self._takes_version:
            run_own(instance.set_state, state, version)
        else:
            run_own(instance.set_state, state)

    def pieces_of(self, instance: object, fresh: Callable[[], Any], version: str = "") -> Iterator[bytes]:
        """Yield the whole state in pieces for :class:`Restoring`. Each piece is checked by decoding it.
        Raises what :meth:`state_of` raises."""
        if isinstance(instance, Checkpointable):
            state = self.state_of(instance, fresh, version)
            for start in range(0, max(len(state), 1), OWN_PIECE_BYTES):
                piece = msgspec.msgpack.encode(state[start : start + OWN_PIECE_BYTES])
                yield _piece("", msgspec.Raw(piece))
            return
        met = MetParts()
        for name, value in _attributes(instance):
            with self._naming(instance, name):
                if not is_cut(value, self._types.get(name, Any)):
                    yield _piece(name, self._encoded(name, value, met))
                    continue
                met.meet_attribute(value)
                for number, part in enumerate(parts(value, partial(self._encoded_part, name, met))):
                    yield _piece(name, part, is_part=number > 0)

    def restoring(self, fresh: Callable[[], Any], version: str = "") -> "Restoring":
        """Return a :class:`Restoring` that builds an object piece by piece; the arguments are those of
        :meth:`restored`."""

        def finish(state: bytes) -> Any:
            return self.restored(state, fresh, version)

        return Restoring(self._cls, self._decoded, finish if self.is_checkpointable else None)

    def digest_of(self, instance: object) -> bytes:
        """Return bytes that are equal for equal states. Unlike the state itself they do not depend on the
        iteration order of sets, which differs between processes."""
        if isinstance(instance, Checkpointable):
            return self.state_of(instance)
        attributes = {name: _in_brief(value) for name, value in _attributes(instance)}
        try:
            return _digests.encode(attributes)
        except TypeError:
            # msgspec cannot sort the keys of this dictionary, because they are not text.
            return _digests.encode(_ordered(attributes))
        except UNENCODABLE:
            return self.state_of(instance)  # which raises, and says what is wrong

    def update_of(self, instance: object) -> bytes:
        """Return what changed since the last state or update. The class must be updateable."""
        if not isinstance(instance, Updateable):
            raise NotCapturable(f"{self._cls.__name__} has no get_update and set_update")
        return _as_bytes(run_own(instance.get_update), f"{self._cls.__name__}.get_update")

    def apply_update(self, instance: object, update: bytes) -> None:
        """Pass an update to the object. Raises what ``set_update`` raises, for example
        :class:`InvalidUpdate`."""
        if not isinstance(instance, Updateable):
            raise NotCapturable(f"{self._cls.__name__} has no get_update and set_update")
        run_own(instance.set_update, update)

    def check(self, instance: object, fresh: Callable[[], Any], version: str = "") -> None:
        """Raise :class:`NotCapturable` for the first attribute that does not come back as it was."""
        if not isinstance(instance, Checkpointable):
            _check_bare(self._cls)
        self.state_of(instance, fresh, version)

    # --- checking that a captured state comes back

    @contextmanager
    def _naming(self, instance: object, name: str) -> Iterator[None]:
        """Turn a part of the attribute *name* that is held elsewhere too into an error that names the
        places."""
        try:
            yield
        except HeldTwice as twice:
            text = in_words(twice.part, self._cls.__name__, name, _attributes(instance))
            raise NotCapturable(text) from None

    def _encoded(self, name: str, value: object, met: MetParts | None) -> msgspec.Raw:
        """Encode an attribute's value. If *met* is given, it is read back as well."""
        if met is not None:
            met.meet_attribute(value)
        return self._encoded_part(name, met, value)

    def _encoded_part(self, name: str, met: MetParts | None, value: object, first: int = 0) -> msgspec.Raw:
        """Encode an attribute's value, or a part of it. *first* is the index of the part's first item."""
        try:
            encoded = msgspec.msgpack.encode(value)
        except UNENCODABLE as error:
            found = misfit(value, Any, why_not_encoded, text_of(error), first)
            raise NotCapturable(
                f"{self._cls.__name__}.{name}{found.path} cannot be captured ({found.why}): "
                "leave it out of the object, or write get_state and set_state"
            ) from None
        raw = msgspec.Raw(encoded)
        if met is None:
            return raw
        if len(encoded) > AT_ONCE_BYTES and is_cut(value, self._types.get(name, Any)):
            # Decoding it in one step would hold the interpreter so long that no other thread could run.
            for _ in parts(value, lambda part, at: self._encoded_part(name, met, part, first + at)):
                pass
        else:
            self._read_back(name, value, raw, first, met)
        return raw

    def _decoded(self, name: str, encoded: msgspec.Raw) -> Any:
        """Decode the attribute *name*. Raises ``msgspec.DecodeError``, and what the user's own types
        raise."""
        decoder = self._decoders.get(name)
        if decoder is None:
            decoder = self._decoders[name] = msgspec.msgpack.Decoder(self._types.get(name, Any))
        return decoder.decode(encoded)

    def _read_back(self, name: str, value: object, encoded: msgspec.Raw, first: int, met: MetParts) -> None:
        path = f"{self._cls.__name__}.{name}"
        try:
            back = run_own(self._decoded, name, encoded)
        except Exception as error:
            # The annotation does not fit the value, or one of the user's own types rejects it with any
            # exception.
            kind = self._types.get(name, Any)
            found = misfit(value, kind, why_not_read, why_undecoded(error), first)
            raise NotCapturable(
                f"{path}{found.path}: annotated {named(found.kind)}, "
                f"holds {_holds(found.value)}, which cannot be read back ({found.why})"
            ) from None
        if not run_own(is_same, value, back, met):
            differs = difference(value, back, first)
            raise NotCapturable(
                f"{path}{differs.path} holds {_holds(differs.went)} and would come back as "
                f"{_holds(differs.came)}: annotate it on the class ({name}: ...), "
                "or write get_state and set_state"
            )

    def _read_back_own(self, instance: object, state: bytes, restored: Callable[[], Any]) -> None:
        """Check that *state*, which *instance* returned from ``get_state``, restores to an equal object.
        *restored* makes an object from it."""
        cls = self._cls.__name__
        try:
            back = restored()
        except Exception as error:
            raise NotCapturable(
                f"{cls}.set_state does not take what {cls}.get_state gave: {error_in_words(error)}"
            ) from None
        if _is_bare(self._cls) and _have_same_attributes(instance, back):
            return
        try:
            again = _as_bytes(run_own(back.get_state), f"{cls}.get_state")
            if is_state_same(state, again) or again != run_own(restored().get_state):
                return  # equal, or different at every call and so not comparable
        except NoStateAvailable:
            return
        except Exception as error:
            raise NotCapturable(
                f"{cls}.get_state fails on an object with the state that it gave: {error_in_words(error)}"
            ) from None
        at = next((at for at, pair in enumerate(zip(state, again, strict=False)) if pair[0] != pair[1]), None)
        where = min(len(state), len(again)) if at is None else at
        raise NotCapturable(
            f"{cls}.set_state does not bring back what {cls}.get_state gave: of {len(state)} bytes come "
            f"{len(again)}, other ones from byte {where} on"
        )


def _takes_version(cls: type) -> bool:
    """Whether ``set_state`` has a second parameter for the version of the code that captured the state
    (E7)."""
    try:
        inspect.signature(cls.set_state).bind(None, b"", "")  # type: ignore[attr-defined]  # it has one
    except (TypeError, ValueError):
        return False
    return True


def _piece(name: str, value: msgspec.Raw, *, is_part: bool = False) -> bytes:
    return msgspec.msgpack.encode(Piece(name, value, is_part))


def _in_brief(value: Any) -> Any:
    """Return *value*, or the hash of a long byte string: its digest need not be made of another copy."""
    if type(value) not in LONG or len(value) <= PIECE_BYTES:
        return value
    return [len(value), blake2b(value, digest_size=32).digest()]


def _ordered(value: Any) -> Any:
    """Return *value* with its dictionaries and sets replaced by lists, sorted by the encoding of their
    items."""
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
    """The names of all attributes that are set on *instance*."""
    return [name for name, _ in _attributes(instance)]


def _attributes(instance: object) -> list[tuple[str, Any]]:
    """All attributes that are set on *instance*, from ``__dict__`` and ``__slots__``, sorted by name."""
    found = {name: each for name, each in getattr(instance, "__dict__", {}).items() if name != UNCAPTURED}
    for cls in type(instance).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            name = _mangled(cls, name)
            if name not in ("__dict__", "__weakref__") and hasattr(instance, name):
                found[name] = getattr(instance, name)
    return sorted(found.items())


def _mangled(cls: type, name: str) -> str:
    """The attribute name on the object for a name in the class's ``__slots__``, which Python mangles if
    private."""
    owner = cls.__name__.lstrip("_")
    return f"_{owner}{name}" if owner and name.startswith("__") and not name.endswith("__") else name


def _is_bare(cls: type) -> bool:
    try:
        _check_bare(cls)
    except NotCapturable:
        return False
    return True


def _have_same_attributes(one: object, other: object) -> bool:
    """Whether the attributes of both objects are certainly equal. False if they cannot be compared, for
    example because each object holds its own handle."""
    try:
        return run_own(is_same, dict(_attributes(one)), dict(_attributes(other)))
    except Exception:
        return False


def _holds(value: object) -> str:
    return f"{type(value).__name__} {in_short(value)}" if value is not None else "None"


def _check_bare(cls: type) -> None:
    """Raise :class:`NotCapturable` unless an object of *cls* can be rebuilt from its attributes alone. A
    subclass of ``dict`` or ``list`` cannot: its contents would be missing."""
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
