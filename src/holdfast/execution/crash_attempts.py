"""Which calls have ended processes, so that none ends more of them than it must (E4).

A process that a method ends has no time to say so. So what is about to run is noted first, in a *slot* that
outlives the process; whoever sees it die reads the slot and tells the others, before they take over.

How. To cost next to nothing, a note stands for a whole frame of calls: all of them come under suspicion when
the process dies. Calls to a group with suspects are noted one by one, so a second death names one call; at
the limit that call is *poisonous*: it is not run, but given up by an ordered record.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from msgspec import Struct

from holdfast.execution.records import Call
from holdfast.model.calls import Request
from holdfast.model.ids import HOUR, ClientId, GroupId
from holdfast.model.ports import Clock

NO_GROUP: Final = GroupId(0)
POISON_LIMIT: Final = 2
"""So many processes may a call end."""
SUSPECTS_MAX: Final = 256
"""Notes kept for one group; the oldest go first. Each is the death of a process."""
SUSPICION_NS: Final = HOUR
"""For how long a note counts. Without an end, one killed host would slow the noting of calls for ever."""


class Attempt(Struct, frozen=True, array_like=True):
    """What a process was executing: some call of *client* with a number from *first* to *last*."""

    group: GroupId
    client: ClientId
    first: int
    last: int
    attempts: int
    """Processes that it has ended, if it ends this one."""

    def may_be(self, request: Request) -> bool:
        return self.client == request.client and self.first <= request.number <= self.last


class Slot(Protocol):
    """Where a process notes what it executes. A note is there for others as soon as it is written."""

    def note(self, group: GroupId, client: ClientId, first: int, last: int, attempts: int) -> None: ...

    def clear(self) -> None:
        """Nothing is being executed."""
        ...


class NoSlot:
    """For surroundings in which no method ends the process."""

    def note(self, group: GroupId, client: ClientId, first: int, last: int, attempts: int) -> None:
        return None

    def clear(self) -> None:
        return None


class CrashSuspicions:
    """What is known of the calls of one group, and the noting of those that run now."""

    def __init__(
        self,
        group: GroupId = NO_GROUP,
        *,
        slot: Slot | None = None,
        clock: Clock | None = None,
        limit: int = POISON_LIMIT,
    ) -> None:
        self._group = group
        self._slot = slot or NoSlot()
        self._clock = clock
        self._limit = limit
        self._suspects: list[tuple[int, Attempt]] = []
        self._frame: tuple[ClientId, int, int] | None = None
        """The note that stands for all calls of the frame which runs now."""

    @property
    def has_suspects(self) -> bool:
        """Whether any note still counts. Asked before every frame of calls, so those that do not go here."""
        if self._suspects and self._now() - self._suspects[0][0] >= SUSPICION_NS:
            now = self._now()
            self._suspects = [(at, each) for at, each in self._suspects if now - at < SUSPICION_NS]
        return bool(self._suspects)

    def ended(self, attempt: Attempt) -> None:
        """A process has died while this was being executed."""
        self._suspects = [*self._suspects[1 - SUSPECTS_MAX :], (self._now(), attempt)]

    def of(self, request: Request) -> int:
        """How many processes the call has ended, as far as is known: as many as one of them counted, or as
        died of it without knowing of each other."""
        found = [each for _, each in self._suspects if each.may_be(request)]
        named = sum(each.first == each.last for each in found)
        return max([named, *(each.attempts for each in found)])

    def given_up(self, request: Request) -> int:
        """How many processes it has ended, if that is so many that it must not run; else 0."""
        attempts = self.of(request) if self.has_suspects else 0
        return attempts if attempts >= self._limit else 0

    def enter(self, client: ClientId, calls: Sequence[Call]) -> Callable[[int], None] | None:
        """These calls are about to run. If something is returned, it must be told the number of each before
        that one runs. :meth:`leave` follows."""
        if self.has_suspects:
            return lambda number: self._note_one(client, number)
        first, last = calls[0].number, calls[-1].number
        if last - first != len(calls) - 1:
            # Not one after the other, as most frames are: so look at each.
            numbers = [each.number for each in calls]
            first, last = min(numbers), max(numbers)
        self._frame = (client, first, last)
        self._slot.note(self._group, client, first, last, 1)
        return None

    def enter_one(self, client: ClientId, number: int) -> None:
        """One call is about to run, or to go on, maybe one of a frame. :meth:`leave_one` follows."""
        self._note_one(client, number)

    def leave_one(self) -> None:
        """It has ended, or waits. *Without the frame's note:* a call behind it that ends the process is under
        no suspicion, and ends every process in turn."""
        if self._frame is None:
            self._slot.clear()
        else:
            self._slot.note(self._group, *self._frame, 1)

    def leave(self) -> None:
        """The frame has ended."""
        self._frame = None
        self._slot.clear()

    def _note_one(self, client: ClientId, number: int) -> None:
        attempts = self.of(Request(client, number)) if self.has_suspects else 0
        self._slot.note(self._group, client, number, number, attempts + 1)

    def _now(self) -> int:
        return self._clock.now() if self._clock is not None else 0
