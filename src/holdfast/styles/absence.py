"""A member without its object, and why (O3, E8).

Its replay gave another outcome than the one that was answered, or its state another digest than the
primary's; or whoever stands on this knows another reason for which the object here would not be the group's.
Such a member has given the object up. It goes on acknowledging, never leads, and asks its primary for a
state, where one would help. When it has one it is a member like any other.

One whose object differs again and again has a cause that no state removes: another library, another setting,
a broken machine. It stays without until its process is started anew: each state that it takes costs the
primary, and a member that is fit only between two differences is not fit to lead.
"""

from collections import deque
from typing import Final

from holdfast.model.errors import HoldfastError
from holdfast.model.ids import Position
from holdfast.model.ports import Clock
from holdfast.model.units import SECOND
from holdfast.sequence.fitness import WORDS_MAX, Fitness, Rank
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
