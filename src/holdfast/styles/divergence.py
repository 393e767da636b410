"""Detects members whose object differs from the group's, and tracks members without an object (O3, E8).

:class:`DigestComparison` compares a member's states with its primary's (E1, E8). At a mark every member
captures its state, and the primary's digest follows as a record. Either digest may be known first: the digest
of a large state is known only once it has been written, and a passive backup reads ahead of what it has
replayed. A state that was not found equal never becomes a checkpoint, and a member with a different digest
has an object that is not the group's.

:class:`OwedDigest` is the primary's side in passive groups: the digest it owes its backups for a mark (E8).
Either may come first, the order of the mark or the digest.

:class:`Absence` is a member without an object: its replay gave another outcome than the acknowledged one, its
digest differs from the primary's, or its host knows another reason why the object would not be the group's.
Such a member has given up the object. It continues to acknowledge, never leads, and asks its primary for a
state if one would help; with that state it is a normal member again.

An object that differs again and again has a cause that no state removes: another library, another setting, a
broken machine. Such a member stays without an object until its process restarts, because each state it takes
costs the primary, and a member that is fit only between two differences is not fit to lead.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast.execution.records import Digested, Forward
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import SECOND, Position
from holdfast.model.ports import Clock
from holdfast.sequence.role import WORDS_MAX, Fitness, Rank
from holdfast.storage.record import ORIGIN

TIMES_MAX: Final = 3
"""An object may be found to differ this often within ``WITHIN_NS``; then the member stays without one."""
WITHIN_NS: Final = 3600 * SECOND


class Diverged(HoldfastError):
    """Raised when an object was found to differ from the one that answered (E1)."""

    code = "diverged"

    def __init__(self, why: str, found_at: Position) -> None:
        super().__init__(why)
        self.found_at = found_at


class Absence:
    """Whether one member has no object and why, for the whole life of its process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: deque[int] = deque(maxlen=TIMES_MAX)
        self.now: Fitness | None = None
        """The reason; None if there is an object, or one that only has to be loaded."""

    @property
    def is_absent(self) -> bool:
        return self.now is not None

    @property
    def why(self) -> str:
        return self.now.why if self.now is not None else ""

    def differs(self, found: Diverged) -> Fitness:
        """Record that the object was found to differ."""
        self._found.append(self._clock.now())
        is_hopeless = len(self._found) == TIMES_MAX and self._found[-1] - self._found[0] <= WITHIN_NS
        why = f"its object differs from the one that answered: {found}"
        if is_hopeless:
            why = (
                f"its object was found to differ {TIMES_MAX} times within an hour, and it stays without one; "
                f"find out what is different on this host, then start the host anew; last: {found}"
            )
        return self.begin(why, found_at=found.found_at, wants_state=not is_hopeless)

    def begin(
        self,
        why: str,
        *,
        found_at: Position = ORIGIN.position,
        wants_state: bool = False,
        rank: Rank = Rank.UNFIT,
    ) -> Fitness:
        """Start an absence: there is no object from here on, and this member leads only if *rank* lets it.
        *wants_state*: a state of the primary at *found_at* or later ends the absence."""
        since_ns = self._clock.wall()
        self.now = Fitness(rank, why[:WORDS_MAX], found_at, wants_state, since_ns)
        return self.now

    def on_leading(self) -> None:
        """End an absence that does not keep a member from leading: now that it is primary, it makes an object
        of what it holds."""
        if self.now is not None and self.now.rank is not Rank.UNFIT:
            self.now = None

    def took_state(self, position: Position) -> None:
        """Record that the object was replaced by another member's state as of *position*."""
        if self.now is not None and self.now.wants_state and position >= self.now.found_at:
            self.now = None

    def end(self) -> None:
        """End the absence: there may be an object again."""
        self.now = None


TOLD_MAX: Final = 16
"""How many of the primary's digests are kept until this member reaches their positions; older ones are
dropped, and nothing is compared there."""


class DigestComparison:
    """Compares the digests of one member with its primary's. *on_equal* is called for each state that was
    found equal."""

    def __init__(self, on_equal: Callable[[Position], None]) -> None:
        self._on_equal = on_equal
        self._own: tuple[Position, bytes] | None = None
        self._told: dict[Position, bytes] = {}
        self.last_equal = Position(0)
        """The position up to which this member's captured states are known to equal its primary's."""

    def forget(self) -> None:
        """Drop the own digest: the object has been replaced or given up."""
        self._own = None

    def took_state(self, position: Position) -> None:
        """Record that the object was replaced by the primary's own state as of *position*."""
        self._own, self.last_equal = None, position

    def captured(self, position: Position, digest: bytes) -> Diverged | None:
        """Record this member's own digest. Returns the difference from the primary's digest, if that is
        known."""
        self._own = (position, digest)
        return self._compared()

    def told(self, record: Digested) -> Diverged | None:
        """Record the primary's digest. Returns the difference from this member's digest, if that is known."""
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
        if not own or not told:  # one of the two knows that it differs, and its annex sees to that
            return None
        if own != told:
            return Diverged(
                f"the state at position {position} has the digest {own.hex()}, the primary's {told.hex()}",
                position,
            )
        self.last_equal = position
        self._on_equal(position)
        return None


class NotedDifference:
    """A divergence that was found while the object was being captured or read, so it could not be given up at
    once. *wake* is called then, so that a turn gives it up. Up to the position *forgiven*, an operator has
    accepted differences (V4)."""

    def __init__(self, wake: Callable[[], None], forgiven: Callable[[], Position]) -> None:
        self._wake = wake
        self._forgiven = forgiven
        self.noted: Diverged | None = None

    def note(self, difference: Diverged | None) -> None:
        """Note a *difference* that is not forgiven."""
        if difference is not None and difference.found_at > self._forgiven():
            self.noted = difference
            self._wake()

    def take(self) -> Diverged | None:
        """Return what was noted, and forget it."""
        difference, self.noted = self.noted, None
        return difference


class OwedDigest:
    """The digest a primary has to tell its backups. *wake* is called when there is one, so that a turn tells
    it."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._captured: tuple[Position, bytes] | None = None
        """The digest of the state this primary captured last."""
        self.is_owed = False
        """Whether backups captured their states, too, and wait for that digest."""

    def forward(self, *, is_mark: bool) -> Forward:
        """Return a record up to which backups replay. At a mark they capture their states as this primary
        does, and its digest follows (E8)."""
        self.is_owed = self.is_owed or is_mark
        self.remind()
        return Forward(is_mark)

    def begin_capture(self) -> None:
        """Record that another state is being captured: the digest of an older one is not what backups wait
        for."""
        self._captured = None

    def captured(self, position: Position, digest: bytes) -> None:
        """Record the digest of the state captured last."""
        self._captured = (position, digest)
        self.remind()

    def remind(self) -> None:
        """Request a turn if there is a digest to tell."""
        if self.is_owed and self._captured is not None:
            self._wake()

    def take(self) -> Digested | None:
        """Return the digest to be told now, once."""
        if not self.is_owed or self._captured is None:
            return None
        (position, digest), self._captured = self._captured, None
        self.is_owed = False
        return Digested(position, digest)

    def forget(self) -> None:
        """Record that this member is no longer primary: nothing is owed, and what it captured is dropped."""
        self._captured, self.is_owed = None, False
