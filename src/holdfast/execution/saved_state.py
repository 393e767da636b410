"""The format of a saved state: the object and everything that belongs to it, in one message or in pieces."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final

import msgspec

from holdfast.execution.capture import Capture, NotCapturable
from holdfast.execution.definition import Definition
from holdfast.execution.effects import Job
from holdfast.execution.interface import BadCall, Interface
from holdfast.execution.state_pieces import Restoring, Unframing, framed
from holdfast.execution.timers import Timers
from holdfast.model.code import Code
from holdfast.model.csn import Csn
from holdfast.model.errors import invariant
from holdfast.model.ids import ClientId, Position
from holdfast.sequence.retention import Retention

WHOLE: Final = 1
"""The version of a state in one message."""
IN_PIECES: Final = 2
"""The version of a large state in pieces: first everything except the object, then the pieces of the
object."""
OF_FILES: Final = 3
"""The version of a state in one message whose object is in files (W7)."""
_FIRST_OF_WHOLE: Final = (b"\x9a", b"\x9b", b"\x9c")
"""The first byte of a state in one message: an array of ten to twelve. A state in pieces starts with a
length, which is below two gigabytes and so never starts with these bytes."""


class Saved(msgspec.Struct, frozen=True, array_like=True):
    version: int
    code: Code
    """The code that made it. The records that follow are executed by the same code, up to an `Upgraded`
    (E7)."""
    position: Position
    time_ns: int
    csn: Csn
    state: bytes
    """The object's state; empty if it is in pieces."""
    retention: bytes
    timers: bytes
    queue: list[Job]
    poisoned: list[tuple[ClientId, int, bytes]]
    sends: bytes = b""
    annexes: dict[str, bytes] = {}
    """What annexes have of the state, by their names (W9)."""


def encoded(saved: Saved, interface: Interface) -> bytes:
    """Encode *saved* and check that it can be decoded again (E9). The object's own state is opaque bytes
    here; it is checked where it is captured. Raises ``NotCapturable``."""
    whole = msgspec.msgpack.encode(saved)
    try:
        back = msgspec.msgpack.decode(whole, type=Saved)
        retention, timers = Retention.load(back.retention), Timers.load(back.timers)
    except msgspec.DecodeError as error:
        raise NotCapturable(f"what belongs to the object cannot be read back: {error}") from None
    if back != saved or retention.save() != saved.retention or timers.save() != saved.timers:
        raise NotCapturable("requests, timers or calls in line would not come back as they are")
    for timer in timers.to_come():
        try:
            interface.operation(timer.method).decoded(timer.arguments)
        except BadCall as error:
            raise NotCapturable(f"timer {timer.number} calls what cannot be called: {error}") from None
    return whole


def pieces(saved: Saved, definition: Definition, instance: object) -> Iterator[bytes]:
    """Yield *saved* and the state of *instance* as consecutive pieces, each checked by decoding it."""
    yield framed(encoded(msgspec.structs.replace(saved, version=IN_PIECES), definition.interface))
    for piece in definition.capture.pieces_of(instance, definition.spare, saved.code.version):
        yield framed(piece)


def is_of_files(start: bytes) -> bool:
    """Whether the state that starts with these bytes is of an object in files: without them it is not
    whole."""
    return start[:1] in _FIRST_OF_WHOLE and start[1:2] == bytes([OF_FILES])


def head_of(chunks: Iterator[bytes]) -> Saved:
    """Read what was saved, without the object if it is in pieces. Raises ``msgspec.DecodeError``."""
    first = next(chunks, b"")
    if first[:1] in _FIRST_OF_WHOLE:
        return msgspec.msgpack.decode(b"".join([first, *chunks]), type=Saved)
    unframing = Unframing()
    for chunk in chain([first], chunks):
        for piece in unframing.pieces(chunk):
            return msgspec.msgpack.decode(piece, type=Saved)
    raise msgspec.DecodeError("a saved state ends in the middle")


def read(
    chunks: Iterator[bytes], capture: Capture, fresh: Callable[[], Any]
) -> Iterator[tuple[Saved, Any] | None]:
    """Read what was saved and its object, in small steps: yields None after each step, and finally the two.
    *fresh* is as in :meth:`.capture.Capture.restored`. Raises ``msgspec.DecodeError``, and what ``set_state``
    raises."""
    first = next(chunks, b"")
    if first[:1] in _FIRST_OF_WHOLE:
        found = msgspec.msgpack.decode(b"".join([first, *chunks]), type=Saved)
        is_known = found.version in (WHOLE, OF_FILES)
        invariant(is_known, f"a state of version {found.version} cannot be read")
        yield found, capture.restored(found.state, fresh, found.code.version)
    else:
        yield from _read_pieces(chain([first], chunks), capture, fresh)


def _read_pieces(
    chunks: Iterator[bytes], capture: Capture, fresh: Callable[[], Any]
) -> Iterator[tuple[Saved, Any] | None]:
    unframing = Unframing()
    found: Saved | None = None
    restoring: Restoring | None = None
    for chunk in chunks:
        for piece in unframing.pieces(chunk):
            if restoring is None:
                found = msgspec.msgpack.decode(piece, type=Saved)
                invariant(found.version == IN_PIECES, f"a state of version {found.version} cannot be read")
                restoring = capture.restoring(fresh, found.code.version)
            else:
                restoring.take(piece)
            yield None
    if found is None or restoring is None or not unframing.is_between_pieces:
        raise msgspec.DecodeError("a saved state ends in the middle")
    yield found, restoring.finish()
