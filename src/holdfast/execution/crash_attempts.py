"""Records which calls have crashed processes, so that no call crashes more of them than necessary (E4).

A process that is killed by a method cannot report it. So before a call runs it is noted in a *slot* that
outlives the process. Whichever process sees it die reads the slot and tells the other members before they
take over.

To keep the cost low, one note covers a whole frame of calls, and all of them are suspects if the process
dies. Calls to a group with suspects are noted one by one, so a second crash identifies a single call. At the
limit that call is *poisonous*: it does not run again, and an ordered record gives it up.
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
"""A call that has crashed this many processes is given up."""
SUSPECTS_MAX: Final = 256
"""How many notes are kept for one group; the oldest are dropped first. Each note is one crash of a
process."""
SUSPICION_NS: Final = HOUR
"""How long a note counts. Without a limit, one killed host would slow the noting of calls forever."""


class Attempt(Struct, frozen=True, array_like=True):
    """What a process was executing: one of the calls of *client* numbered *first* to *last*."""

    group: GroupId
    client: ClientId
    first: int
    last: int
    attempts: int
    """How many processes the call has crashed, including this one if it crashes."""

    def may_be(self, request: Request) -> bool:
        return self.client == request.client and self.first <= request.number <= self.last


class Slot(Protocol):
    """Where a process notes what it is executing. Other processes can read a note as soon as it is
    written."""

    def note(self, group: GroupId, client: ClientId, first: int, last: int, attempts: int) -> None: ...

    def clear(self) -> None:
        """Note that nothing is being executed."""
        ...

    def apart(self) -> "Slot":
        """A slot beside this one, for a method that runs beside the loop, until it is cleared (E15)."""
        ...


class NoSlot:
    """A slot that stores nothing, for environments in which no method can crash the process."""

    def note(self, group: GroupId, client: ClientId, first: int, last: int, attempts: int) -> None:
        return None

    def clear(self) -> None:
        return None

    def apart(self) -> "NoSlot":
        return self


class CrashSuspicions:
    """The suspected calls of one group, and the notes about the calls that are running now."""

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
        self.suspects: list[tuple[int, Attempt]] = []
        """The notes, and when each was heard of. Usually there is none, and then :attr:`has_suspects`, which
        removes the expired ones, need not be asked."""
        self.crashes = 0
        """How many crashes were ever told. What was decided about calls holds until there is one more."""
        self._frame: tuple[ClientId, int, int] | None = None
        """The note that covers all calls of the frame that is running now."""

    @property
    def has_suspects(self) -> bool:
        """Whether any note still counts. This is asked before every frame of calls, so expired notes are
        removed here."""
        if self.suspects and self._now() - self.suspects[0][0] >= SUSPICION_NS:
            now = self._now()
            self.suspects = [(at, each) for at, each in self.suspects if now - at < SUSPICION_NS]
        return bool(self.suspects)

    def ended(self, attempt: Attempt) -> None:
        """Record that a process crashed while executing *attempt*."""
        self.suspects = [*self.suspects[1 - SUSPECTS_MAX :], (self._now(), attempt)]
        self.crashes += 1

    def of(self, request: Request) -> int:
        """How many processes the call has crashed, as far as is known: the highest count in any note about
        it, or the number of notes that name it alone, if processes crashed without knowing of each other."""
        found = [each for _, each in self.suspects if each.may_be(request)]
        named = sum(each.first == each.last for each in found)
        return max([named, *(each.attempts for each in found)])

    def given_up(self, request: Request) -> int:
        """How many processes the call has crashed if it has reached the limit and must not run; otherwise
        0."""
        attempts = self.of(request) if self.has_suspects else 0
        return attempts if attempts >= self._limit else 0

    def enter(self, client: ClientId, calls: Sequence[Call]) -> Callable[[int], None] | None:
        """Note that these calls are about to run. If a function is returned, the caller must call it with
        each call's number before that call runs. :meth:`leave` must follow."""
        if self.suspects and self.has_suspects:
            return lambda number: self._note_one(client, number)
        first, last = calls[0].number, calls[-1].number
        if last - first != len(calls) - 1:
            # The numbers are not consecutive, as they are in most frames, so take the extremes.
            numbers = [each.number for each in calls]
            first, last = min(numbers), max(numbers)
        self._frame = (client, first, last)
        self._slot.note(self._group, client, first, last, 1)
        return None

    def enter_one(self, client: ClientId, number: int) -> None:
        """Note that one call, possibly of a frame, is about to start or resume. :meth:`leave_one` must
        follow."""
        self._note_one(client, number)

    def leave_one(self) -> None:
        """Note that the call has ended or is waiting, and restore the note of its frame. *Without the frame's
        note:* a later call of the frame that crashes the process is not suspected, and crashes one process
        after another."""
        if self._frame is None:
            self._slot.clear()
        else:
            self._slot.note(self._group, *self._frame, 1)

    def enter_apart(self, client: ClientId, number: int) -> Callable[[], None]:
        """Note that one call is about to run beside the others. Call what this returns when it has ended."""
        slot = self._slot.apart()
        slot.note(self._group, client, number, number, self._attempts_at(client, number) + 1)
        return slot.clear

    def leave(self) -> None:
        """Note that the frame has ended."""
        self._frame = None
        self._slot.clear()

    def _note_one(self, client: ClientId, number: int) -> None:
        self._slot.note(self._group, client, number, number, self._attempts_at(client, number) + 1)

    def _attempts_at(self, client: ClientId, number: int) -> int:
        return self.of(Request(client, number)) if self.has_suspects else 0

    def _now(self) -> int:
        return self._clock.now() if self._clock is not None else 0
