"""What a group's object gives to the outside: outputs, each with an id that is the same at every member (O5).

A method gives an output with ``holdfast.context.emit(topic, payload)``. Its id is the position that is being
executed, and its index among the outputs of that position. Every member that executes the position has the
same output under the same id, so a destination may take outputs from any of them, drops what it has, and goes
on by id where another member left off (LOSS-13). Each member keeps the last ones, in memory: they are no part
of the state, because whoever executes a record again has its outputs again.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import Position

OUTPUTS_MAX: Final = 10_000
BYTES_MAX: Final = 16 << 20
"""How many outputs a member keeps, and how many bytes they have: as far back as a destination may go on."""
TOPIC_CHARACTERS_MAX: Final = 200
PAYLOAD_BYTES_MAX: Final = 60_000
PER_POSITION_MAX: Final = 4096


class OutputId(Struct, frozen=True, array_like=True, order=True):
    """Identifies an output for ever; later ones are higher."""

    position: int
    index: int


class Output(Struct, frozen=True, array_like=True):
    id: OutputId
    topic: str
    payload: bytes


class Outputs:
    """The last outputs of one object. *position* returns the position that is being executed."""

    def __init__(self, position: Callable[[], Position]) -> None:
        self._position = position
        self._kept: deque[Output] = deque()
        self._bytes = 0
        self._last = OutputId(0, 0)
        self.since: OutputId | None = None
        """The last output that is not kept any more; None if every one since the object was made is."""

    def put(self, topic: str, payload: bytes) -> OutputId:
        """Keep an output. Raises ``InvalidRequest`` if it is too long, or one too many."""
        if len(topic) > TOPIC_CHARACTERS_MAX or len(payload) > PAYLOAD_BYTES_MAX:
            raise InvalidRequest(
                f"an output has a topic of at most {TOPIC_CHARACTERS_MAX} characters and at most "
                f"{PAYLOAD_BYTES_MAX} bytes, not {len(topic)} and {len(payload)}"
            )
        position = self._position()
        index = self._last.index + 1 if self._last.position == position else 0
        if index >= PER_POSITION_MAX:
            raise InvalidRequest(f"one position has at most {PER_POSITION_MAX} outputs")
        self._last = OutputId(position, index)
        self._kept.append(Output(self._last, topic, payload))
        self._bytes += len(payload)
        while len(self._kept) > OUTPUTS_MAX or self._bytes > BYTES_MAX:
            gone = self._kept.popleft()
            self._bytes -= len(gone.payload)
            self.since = gone.id
        return self._last

    def begin_at(self, position: Position) -> None:
        """The object was loaded as of *position*: what it gave before is not here."""
        if position:
            self.since = OutputId(position, PER_POSITION_MAX)

    def after(self, last: OutputId | None, committed: Position) -> tuple[list[Output], bool]:
        """The outputs after *last* that may leave, because their positions are committed; and whether some
        between are not here any more, so that a destination cannot be sure to have all."""
        found = list[Output]()
        for each in reversed(self._kept):  # a destination that keeps up asks for the last few
            if last is not None and each.id <= last:
                break
            if each.id.position <= committed:
                found.append(each)
        found.reverse()
        is_gap = self.since is not None and (last is None or last < self.since)
        return found, is_gap
