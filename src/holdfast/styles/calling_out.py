"""The calls to other groups that an object waits for, as its primary makes them (E3)."""

from collections.abc import Iterator
from dataclasses import replace

from holdfast.model.calls import Request
from holdfast.model.ids import Position
from holdfast.styles.effects import Outgoing
from holdfast.styles.line import Line

Key = tuple[Request, int]


class CallingOut:
    """Of one replica. An operation waits for one call at a time, and of interleaved ones many wait at once;
    who knows whether a copy of a call has left before."""

    def __init__(self) -> None:
        self._sent: set[Key] = set()
        """Those that were sent out and have no outcome; a repetition would be harmless but useless."""
        self._line: Line | None = None
        self._turn = 0
        """Of the line's waits, those up to here were sent."""
        self._taken_up_at = Position(0)
        """Calls that positions up to here led to may have been sent by a primary before this one."""
        self._again: dict[Key, None] = {}
        """Those that this primary sent and must send again."""

    def take_up(self, committed: Position) -> None:
        """This replica is primary from here on."""
        self._line = None
        self._sent.clear()
        self._again.clear()
        self._taken_up_at = committed

    def is_awaited(self, caller: Request, call: int) -> bool:
        return (caller, call) in self._sent

    def came_back(self, caller: Request, call: int) -> None:
        """Its outcome has been ordered."""
        self._sent.discard((caller, call))

    def send_again(self, caller: Request, call: int) -> None:
        """Its outcome came and could not be ordered: it is asked again when calls are taken again."""
        self._sent.discard((caller, call))
        self._again[caller, call] = None

    def to_send(self, line: Line, committed: Position) -> Iterator[Outgoing]:
        """The calls that the object waits for and that may be sent now: what led to them is final."""
        if line is not self._line:
            self._line, self._turn = line, 0
            self._sent.clear()
            self._again.clear()
        if self._again:
            yield from self._once_more(line)
        for turn, waits in line.outgoing_since(self._turn):
            if waits.position > committed:
                return  # nor are those that came to wait later
            self._turn = turn
            self._sent.add((waits.caller, waits.call))
            yield replace(waits, may_have_left=waits.position <= self._taken_up_at)

    def for_old_code(self, waits: Outgoing) -> Outgoing | None:
        """The call that a method of other code waits for, in no line of this process (E7), to be sent now;
        None when it has been."""
        key = (waits.caller, waits.call)
        if key in self._sent:
            return None
        self._sent.add(key)
        is_again = key in self._again
        self._again.pop(key, None)
        return replace(waits, may_have_left=is_again or waits.position <= self._taken_up_at)

    def _once_more(self, line: Line) -> Iterator[Outgoing]:
        again, self._again = self._again, {}
        for caller, call in again:
            waits = line.outgoing_of(caller)
            if waits is not None and waits.call == call:
                self._sent.add((caller, call))
                yield replace(waits, may_have_left=True)
