"""The target of a move while a mover fills it: the mover's signs of life, and leases that must not end (A8).

Processes give a move up whose mover shows no life, and a lease that ends takes its keys along. Both happen
while the mover does something long: it reads pages of keys, grants a thousand leases, renews them one by one.
So every request of the mover goes through a :class:`Filling`, which looks at the time after each of them: it
changes the target's seat, which is the sign of life, and renews the leases long before they end.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from holdfast.authority.contract import (
    Applied,
    Change,
    LeaseGone,
    LeaseGrant,
    LeaseGranted,
    LeaseKeep,
    Plain,
    Put,
    Result,
    Txn,
)
from holdfast.authority.move.seat import Fenced, MoveRecipe, Overtaken, SeenSeat, ask_under, change_seat
from holdfast.model.errors import BrokenInvariant
from holdfast.model.ids import SECOND, LeaseId, Nonce

SHOW_NS: Final = 1 * SECOND
"""The time between two signs of life; a move without one for five seconds is given up."""
LEASES_RENEWED_A_SECOND: Final = 50
"""How fast leases are renewed at least, one after the other, by a busy mover at a busy etcd."""
FRESH_PART: Final = 3
"""Leases are renewed when this part of their time is over."""
LATE_RENEWALS_MAX: Final = 3
"""How often renewing all leases may take longer than it should, as for a mover that stood still; then the
move is given up."""
BATCH_BYTES_MAX: Final = 500_000
"""A batch ends with the value that exceeds this size, so that the seat's own record still fits."""


class Differs(Exception):
    """Raised when the copy is not what the source holds: a lease ended meanwhile, or a disk lies."""


class TooMuch(Exception):
    """Raised when an authority holds more than can be moved."""


class Filling:
    """The target as this mover has left it. *now* is only compared with itself."""

    def __init__(self, target: SeenSeat, *, nonce: Callable[[], Nonce], now: Callable[[], int]) -> None:
        self.target = target
        self.copied = 0
        """How many keys have been copied."""
        self.leases: dict[LeaseId, LeaseId] = {}
        """The target's lease that continues each of the source's."""
        self._nonce = nonce
        self._now = now
        self._shown_at = now()
        self._renewed_at = 0
        self._shortest_s = 0
        self._late_renewals = 0

    @property
    def is_fresh(self) -> bool:
        """Whether every lease has at least two thirds of its time left."""
        fresh_ns = self._shortest_s * SECOND // FRESH_PART
        return not self.leases or self._now() - self._renewed_at <= fresh_ns

    def ask(self, request: Plain) -> MoveRecipe[Result]:
        """Ask the target under its seat."""
        result = yield from ask_under(self.target, request)
        yield from self._tend()
        return result

    def ask_source(self, source: SeenSeat, request: Plain) -> MoveRecipe[Result]:
        """Ask the source under its seal."""
        result = yield from ask_under(source, request)
        yield from self._tend()
        return result

    def write(self, batch: tuple[Change, ...] = ()) -> MoveRecipe[None]:
        """Change the target together with its seat."""
        if sum(map(change_size, batch)) > BATCH_BYTES_MAX:
            # The seat's record might not fit beside it.
            result = yield from ask_under(self.target, Txn((), batch))
            if not isinstance(result, Applied):
                raise Differs(f"a part of the copy was answered with {result}")
        else:
            yield from self._change_seat(batch)
        yield from self._tend()

    def grant(self, old: LeaseId, seconds: int, *, of: int) -> MoveRecipe[None]:
        """Let a new lease of so many seconds continue *old*.

        It is one of *of* leases, and is granted for longer where renewing them all takes longer (A8): else
        the first would end while the last is renewed, and the move would never end.
        """
        asked = max(seconds, FRESH_PART * of // LEASES_RENEWED_A_SECOND)
        new = yield from ask_under(self.target, LeaseGrant(asked))
        if not isinstance(new, LeaseGranted):
            raise BrokenInvariant(f"a lease was asked for and answered with {new}")
        if not self.leases:
            self._renewed_at, self._shortest_s = self._now(), new.seconds
        self.leases[old] = new.lease
        self._shortest_s = min(self._shortest_s, new.seconds)
        yield from self._tend()

    def renew(self) -> MoveRecipe[None]:
        """Give every lease its full time, and return when all have much of it left.

        Raises :class:`Differs` if one has ended, and :class:`TooMuch` if they are too many for this mover.
        """
        while True:
            yield from self._renew_once()
            if self.is_fresh:
                return
            self._late_renewals += 1
            if self._late_renewals > LATE_RENEWALS_MAX:
                raise TooMuch(f"{len(self.leases)} leases end faster than they can be renewed")

    def _renew_once(self) -> MoveRecipe[None]:
        began_at = self._now()
        for lease in self.leases.values():
            kept = yield from ask_under(self.target, LeaseKeep(lease))
            if not isinstance(kept, LeaseGranted):
                raise Differs("a lease ended before the release")
            yield from self._show_life()
        self._renewed_at = began_at

    def _tend(self) -> MoveRecipe[None]:
        if not self.is_fresh:
            yield from self.renew()
        yield from self._show_life()

    def _show_life(self) -> MoveRecipe[None]:
        if self._now() - self._shown_at >= SHOW_NS:
            yield from self._change_seat(())

    def _change_seat(self, batch: tuple[Change, ...]) -> MoveRecipe[None]:
        seat = replace(self.target.seat, copied=self.copied, nonce=self._nonce())
        outcome = yield from change_seat(self.target, seat, batch)
        if isinstance(outcome, Overtaken):
            raise Fenced(outcome.found)
        if isinstance(outcome, LeaseGone):
            raise Differs("a lease ended before its keys were copied")
        self.target = outcome
        self._shown_at = self._now()


def change_size(change: Change) -> int:
    return len(change.key.encode()) + (len(change.value) if isinstance(change, Put) else 0)
