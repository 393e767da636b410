"""The messages between a host and the process that replays with older code, through a pipe (E7)."""

import dataclasses
from functools import cache
from typing import Any, Final, get_type_hints

import msgspec

from holdfast.authority.groups import GroupRecord
from holdfast.execution.effects import Outgoing
from holdfast.machine import pipe_frames
from holdfast.model.calls import Request
from holdfast.model.code import Code
from holdfast.model.csn import Csn
from holdfast.model.ids import ClientId, Position
from holdfast.styles.ports import Waits

PIECE_BYTES: Final = 256 << 10
"""The size of the pieces in which a state comes back."""
WHY_CHARACTERS_MAX: Final = 500


class Task(msgspec.Struct, frozen=True, kw_only=True, tag="task"):
    """Describes the work. The chunks of the state and the records follow, then ``End``."""

    record: GroupRecord
    code: Code
    """The code that made the records."""
    by: Code
    """The code that executes them: the same, unless a person wants another."""
    modules: str
    """The directory that holds the class's modules."""
    apps: tuple[str, ...]
    """Directories from which nothing is imported: they hold the class as it is now."""
    memory_bytes: int
    position: Position
    """The position of the state; 0 when there is none."""
    size: int
    chunk_bytes: int


class Chunk(msgspec.Struct, frozen=True, array_like=True, tag=1):
    data: bytes


class Ordered(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A record as the log holds it."""

    data: bytes


class End(msgspec.Struct, frozen=True, array_like=True, tag=3):
    pass


class Piece(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """A piece of the resulting state."""

    data: bytes


class Done(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """The resulting state is complete."""

    position: Position
    digest: bytes


class Waiting(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """A call waits for another group, or for its own end; see :class:`holdfast.styles.ports.Waits`."""

    outgoing: dict[str, msgspec.Raw] | None
    """The fields of the call, except the one that follows its story."""
    csn: Csn
    time_ns: int
    slow: tuple[ClientId, int] | None = None

    @staticmethod
    def of(waits: Waits) -> "Waiting":
        if waits.outgoing is None:
            return Waiting(None, waits.csn, waits.time_ns, waits.slow)
        fields = {name: msgspec.Raw(_encode(getattr(waits.outgoing, name))) for name in _outgoing()}
        return Waiting(fields, waits.csn, waits.time_ns)

    @property
    def waits(self) -> Waits:
        """Decode the message; raises ``msgspec.DecodeError``."""
        if self.outgoing is None:
            slow = Request(*self.slow) if self.slow is not None else None
            return Waits(None, self.csn, self.time_ns, slow)
        kinds = _outgoing()
        found: dict[str, Any] = {
            name: msgspec.msgpack.decode(value, type=kinds[name])
            for name, value in self.outgoing.items()
            if name in kinds
        }
        return Waits(Outgoing(**found), self.csn, self.time_ns)


@cache
def _outgoing() -> dict[str, Any]:
    """The fields of a call that leave a process, with their types."""
    kinds = get_type_hints(Outgoing)
    return {each.name: kinds[each.name] for each in dataclasses.fields(Outgoing) if each.name != "story"}


class Failed(msgspec.Struct, frozen=True, array_like=True, tag=14):
    why: str


ToProcess = Chunk | Ordered | End
FromProcess = Piece | Done | Waiting | Failed

_encode: Final = msgspec.msgpack.Encoder().encode
to_process: Final[msgspec.msgpack.Decoder[ToProcess]] = msgspec.msgpack.Decoder(ToProcess)
from_process: Final[msgspec.msgpack.Decoder[FromProcess]] = msgspec.msgpack.Decoder(FromProcess)
task: Final = msgspec.msgpack.Decoder(Task)


def framed(message: Task | ToProcess | FromProcess) -> bytes:
    """Encode *message* with its length in front."""
    return pipe_frames.framed(_encode(message))
