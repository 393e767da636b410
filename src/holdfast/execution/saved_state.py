"""A saved state: the object and all that belongs to it, in one message or, when it is large, in pieces."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final

import msgspec

from holdfast.execution.capture import Capture, NotCapturable, Restoring
from holdfast.execution.definition import Definition
from holdfast.execution.effects import Job
from holdfast.execution.interface import BadCall, Interface
from holdfast.execution.state_pieces import Unframing, framed
from holdfast.execution.timers import Timers
from holdfast.model.code import Code
from holdfast.model.csn import Csn
from holdfast.model.errors import invariant
from holdfast.model.ids import ClientId, Position
from holdfast.sequence.retention import Retention

WHOLE: Final = 1
"""The version of a state in one message."""
IN_PIECES: Final = 2
"""The same without the object is the first of its pieces; those of the object follow."""
_FIRST_OF_WHOLE: Final = (b"\x9a", b"\x9b")
"""An array of ten, or eleven. In pieces, a state begins with a length, which is below two gigabytes."""


class Saved(msgspec.Struct, frozen=True, array_like=True):
    version: int
    code: Code
    """That made it: what follows in the records is executed by the same, up to an `Upgraded` (E7)."""
    position: Position
    time_ns: int
    csn: Csn
    state: bytes
    """Of the object; empty when it is in pieces."""
    retention: bytes
    timers: bytes
    queue: list[Job]
    poisoned: list[tuple[ClientId, int, bytes]]
    sends: bytes = b""


def encoded(saved: Saved, interface: Interface) -> bytes:
    """*saved* as bytes that were read back (E9). The object's own part is no more than bytes here: it is read
    back where it is captured. Raises ``NotCapturable``."""
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
    """*saved* and the state of *instance*, in pieces that follow each other, each of which was read back."""
    yield framed(encoded(msgspec.structs.replace(saved, version=IN_PIECES), definition.interface))
    for piece in definition.capture.pieces_of(instance, definition.spare, saved.code.version):
        yield framed(piece)


def head_of(chunks: Iterator[bytes]) -> Saved:
    """What was saved, less the object where it is in pieces. Raises ``msgspec.DecodeError``."""
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
    """What was saved, and its object: None after each bit of work, and at last these two. *fresh* is as in
    :meth:`.capture.Capture.restored`. Raises ``msgspec.DecodeError``, and what ``set_state`` raises."""
    first = next(chunks, b"")
    if first[:1] in _FIRST_OF_WHOLE:
        found = msgspec.msgpack.decode(b"".join([first, *chunks]), type=Saved)
        invariant(found.version == WHOLE, f"a state of version {found.version} cannot be read")
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
