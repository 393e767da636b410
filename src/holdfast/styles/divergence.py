"""A member without its object, and why (O3, E8).

Its replay gave another outcome than the one that was answered, or its state another digest than the
primary's; or whoever stands on this knows another reason for which the object here would not be the group's.
Such a member has given the object up. It goes on acknowledging, never leads, and asks its primary for a
state, where one would help. When it has one it is a member like any other.

One whose object differs again and again has a cause that no state removes: another library, another setting,
a broken machine. It stays without until its process is started anew: each state that it takes costs the
primary, and a member that is fit only between two differences is not fit to lead.

Whether a member's states are its primary's: digests of both, as of the same places (E1, E8).

At a mark every member captures its state, and the primary's digest follows as a record. Either may be known
first: of a large state the digest comes when it has been written, and a passive backup reads ahead of what it
has replayed. A state that was not found equal is nobody's checkpoint; and who finds another has an object
that is not the group's.

The digest that a passive primary owes its backups (E8).

At a mark they have captured their states as the primary has, and wait for its digest, which follows as a
record of its own. Either may come first: the mark is ordered, or the digest is known. Of a large state it is
known only when that has been written.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast.execution.records import Digested
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import SECOND, Position
from holdfast.model.ports import Clock
from holdfast.sequence.role import WORDS_MAX, Fitness, Rank
from holdfast.storage.record import ORIGIN

TIMES_MAX: Final = 3
"""Within this time an object may be found to differ so often; then the member stays without."""
WITHIN_NS: Final = 3600 * SECOND


class Diverged(HoldfastError):
    """Raised when an object was found to differ from the one that answered (E1)."""

    code = "diverged"

    def __init__(self, why: str, found_at: Position) -> None:
        super().__init__(why)
        self.found_at = found_at


class Absence:
    """Of one member, over its whole life in this process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: deque[int] = deque(maxlen=TIMES_MAX)
        self.now: Fitness | None = None
        """None: there is an object, or one that only has to be loaded."""

    @property
    def is_absent(self) -> bool:
        return self.now is not None

    @property
    def why(self) -> str:
        return self.now.why if self.now is not None else ""

    def differs(self, found: Diverged) -> Fitness:
        """The object was found to differ."""
        self._found.append(self._clock.now())
        is_hopeless = len(self._found) == TIMES_MAX and self._found[-1] - self._found[0] <= WITHIN_NS
        why = f"its object differs from the one that answered: {found}"
        if is_hopeless:
            why = (
                f"its object was found to differ {TIMES_MAX} times within an hour, and it stays without one; "
                f"find out what is different on this host, then start the host anew; last: {found}"
            )
        return self.begin(why, found_at=found.found_at, wants_state=not is_hopeless)

    def begin(self, why: str, *, found_at: Position = ORIGIN.position, wants_state: bool = False) -> Fitness:
        """There is none from here on, and this member does not lead. *wants_state*: one of the primary's that
        stands for *found_at*, or more, makes up for it."""
        since_ns = self._clock.wall()
        self.now = Fitness(Rank.UNFIT, why[:WORDS_MAX], found_at, wants_state, since_ns)
        return self.now

    def took_state(self, position: Position) -> None:
        """The object is what another member's state says, as of *position*."""
        if self.now is not None and self.now.wants_state and position >= self.now.found_at:
            self.now = None

    def end(self) -> None:
        """There may be one again."""
        self.now = None


TOLD_MAX: Final = 16
"""Of the primary's digests whose place was not reached yet; older ones are given up, and with them the
comparison there."""


class DigestComparison:
    """Of one member. *on_equal* is told of each state that was found equal."""

    def __init__(self, on_equal: Callable[[Position], None]) -> None:
        self._on_equal = on_equal
        self._own: tuple[Position, bytes] | None = None
        self._told: dict[Position, bytes] = {}
        self.last_equal = Position(0)
        """What this member had captured up to here was its primary's as well."""

    def forget(self) -> None:
        """The object is another, or none."""
        self._own = None

    def took_state(self, position: Position) -> None:
        """The object is the primary's own, as of there."""
        self._own, self.last_equal = None, position

    def captured(self, position: Position, digest: bytes) -> Diverged | None:
        """This member's own digest is known; how it differs from the primary's, if that is known as well."""
        self._own = (position, digest)
        return self._compared()

    def told(self, record: Digested) -> Diverged | None:
        """The primary's is known; how this member's differs, if it is."""
        self._told[record.position] = record.digest
        while len(self._told) > TOLD_MAX:
            del self._told[next(iter(self._told))]
        return self._compared()

    def _compared(self) -> Diverged | None:
        if self._own is None or self._own[0] not in self._told:
            return None
        (position, own), self._own = self._own, None
        told = self._told[position]
        self._told = {place: digest for place, digest in self._told.items() if place > position}
        if own != told:
            return Diverged(
                f"the state at position {position} has the digest {own.hex()}, the primary's {told.hex()}",
                position,
            )
        self.last_equal = position
        self._on_equal(position)
        return None


class OwedDigest:
    """What one primary has to tell. *wake* is called when there is something, so that a turn tells it."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._captured: tuple[Position, bytes] | None = None
        """The digest of what this primary captured last."""
        self._is_owed = False
        """Backups captured their states as well, and wait for that digest."""

    def owe(self) -> None:
        """A mark is ordered."""
        self._is_owed = True

    def begin_capture(self) -> None:
        """Another state is captured now: the digest of an older one is not what backups wait for."""
        self._captured = None

    def captured(self, position: Position, digest: bytes) -> None:
        """What the state captured last comes to."""
        self._captured = (position, digest)
        self.remind()

    def remind(self) -> None:
        """Have a turn, if there is something to tell."""
        if self._is_owed and self._captured is not None:
            self._wake()

    def take(self) -> Digested | None:
        """What is to be told now, once."""
        if not self._is_owed or self._captured is None:
            return None
        (position, digest), self._captured = self._captured, None
        self._is_owed = False
        return Digested(position, digest)

    def forget(self) -> None:
        """This member is no primary any more: nothing is owed, and what it captured is nobody's."""
        self._captured, self._is_owed = None, False
