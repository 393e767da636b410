"""The call to another group that an object waits for, as its primary makes it (PROTOCOL E3)."""

from dataclasses import replace

from holdfast.model.calls import Request
from holdfast.model.ids import Position
from holdfast.styles.effects import Outgoing


class CallingOut:
    """Of one replica. There is one such call at a time; who knows whether a copy of it has left before."""

    def __init__(self) -> None:
        self._sent: tuple[Request, int] | None = None
        """The one that was sent out; a repetition would be harmless but useless."""
        self._taken_up_at = Position(0)
        """Calls that positions up to here led to may have been sent by a primary before this one."""
        self._sent_again: tuple[Request, int] | None = None
        """One that this primary sent and must send again."""

    def take_up(self, committed: Position) -> None:
        """This replica is primary from here on."""
        self._sent = None
        self._taken_up_at = committed

    def is_awaited(self, caller: Request, call: int) -> bool:
        return self._sent == (caller, call)

    def to_send(self, waits: Outgoing) -> Outgoing | None:
        """The call that the object *waits* for, to be sent now; None when it has been."""
        call = (waits.caller, waits.call)
        if self._sent == call:
            return None
        self._sent = call
        may_have_left = waits.position <= self._taken_up_at or self._sent_again == call
        return replace(waits, may_have_left=may_have_left)

    def send_again(self) -> None:
        """Its outcome came and could not be ordered: it is asked again when calls are taken again."""
        self._sent_again, self._sent = self._sent, None
