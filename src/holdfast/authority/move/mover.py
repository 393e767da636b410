"""Moves a domain to another authority (A8).

1. *Reserve* the target: its seat names the move and the mover.
2. *Seal* the source. From here on nothing of the domain changes, and every process asks where it is.
3. *Copy* everything, with a lease for each lease, and *verify* the copy by a digest.
4. *Release* the target: one change of its seat. This decides the move; the processes follow.

A mover may end at any point. Before the seal nothing has happened. Between seal and release the next mover
takes over (it puts its own name into the target's seat), or any process of the domain gives the move up
(:mod:`.finding`). After the release the domain is at the target. The source stays sealed and points there.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from holdfast.authority import keys
from holdfast.authority.contract import KeyValue, LeaseGone, LeaseKeep
from holdfast.authority.move.copying import Copied, Items, burden_of, copy_all, list_all
from holdfast.authority.move.filling import Differs, Filling, TooMuch
from holdfast.authority.move.finding import Undecided, give_up, is_arriving, was_released
from holdfast.authority.move.place import Place
from holdfast.authority.move.seat import (
    Fenced,
    MoveRecipe,
    Overtaken,
    Seat,
    SeatState,
    SeenSeat,
    ask_under,
    change_seat,
    read_seat,
)
from holdfast.authority.recipe import NoAnswer, Silence
from holdfast.model.ids import LeaseId, Nonce

COPIES_MAX: Final = 3
"""How often a copy is begun anew that turned out to differ, because leases had ended; then the move is given
up."""
NEW_FILE_KEYS: Final = (keys.IDENTITY,)
"""What an authority holds that nobody has used."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A step of the move has been taken, or a part of it."""

    step: str
    """``reserved``, ``sealed``, ``copied``, ``continued`` (leases), ``verified``, ``renewed`` or
    ``released``."""
    done: int = 0
    of: int = 0


@dataclass(frozen=True, slots=True)
class Moved:
    """The domain is at the target. *copied* is None when an earlier mover did that already."""

    seen: SeenSeat
    copied: Copied | None


@dataclass(frozen=True, slots=True)
class StaysHere:
    """The move did not happen, and will not: the domain is where it was."""

    reason: str


@dataclass(frozen=True, slots=True)
class TakenOver:
    """Somebody else has changed a seat since: another mover works, or a process gave the move up.

    :func:`~.finding.find_serving` says what comes of it.
    """

    reason: str


MoveEnd = Moved | StaysHere | TakenOver | NoAnswer


class Mover:
    """One run of a move. *nonce* gives a fresh text at every call; *now* is only compared with itself."""

    def __init__(
        self,
        source: Place,
        target: Place,
        *,
        id: str,
        nonce: Callable[[], Nonce],
        now: Callable[[], int],
        tell: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._source = source
        self._target = target
        self._id = id
        self._nonce = nonce
        self._now = now
        self._tell = tell

    def run(self) -> MoveRecipe[MoveEnd]:
        """Move, from wherever an earlier run or mover has left it. After NoAnswer, run again."""
        try:
            source = yield from read_seat(self._source)
            target = yield from read_seat(self._target)
            return (yield from self._from(source, target))
        except Fenced as fenced:
            return (yield from self._after_fence(fenced))
        except Silence as silence:
            return NoAnswer(str(silence))

    def _from(self, source: SeenSeat, target: SeenSeat) -> MoveRecipe[MoveEnd]:
        if source.seat.state is SeatState.SERVING:
            return (yield from self._begin(source, target))
        if source.seat.state is not SeatState.SEALED or source.seat.other != self._target:
            return StaysHere(f"{source.place} is {source.seat.state} ({source.seat.other}), not serving")
        if was_released(source.seat, target):
            return Moved(target, None)
        if not is_arriving(source.seat, target):
            return (yield from self._give_up(source, target, "another mover gave the move up"))
        taken = yield from change_seat(target, replace(target.seat, mover=self._id, nonce=self._nonce()))
        if not isinstance(taken, SeenSeat):
            return TakenOver("another mover is at work")
        return (yield from self._fill(source, taken))

    def _begin(self, source: SeenSeat, target: SeenSeat) -> MoveRecipe[MoveEnd]:
        objection = (yield from objection_to(target)) or (yield from burden_of(source))
        if objection is not None:
            return StaysHere(objection)
        next_stay = source.seat.stay + 1
        reservation = Seat(
            state=SeatState.ARRIVING,
            stay=target.seat.stay if target.revision else 0,
            next_stay=next_stay,
            move=self._id,
            other=self._source,
            mover=self._id,
            nonce=self._nonce(),
        )
        reserved = yield from change_seat(target, reservation)
        if not isinstance(reserved, SeenSeat):
            return TakenOver("another mover is at work")
        self._tell(Progress("reserved"))
        seal = Seat(
            state=SeatState.SEALED,
            stay=source.seat.stay,
            next_stay=next_stay,
            offset=source.seat.offset,
            base=source.seat.base,
            move=self._id,
            other=self._target,
            nonce=self._nonce(),
        )
        sealed = yield from change_seat(source, seal)
        if not isinstance(sealed, SeenSeat):
            return TakenOver("another mover is at work")
        self._tell(Progress("sealed"))
        return (yield from self._fill(sealed, reserved))

    def _fill(self, source: SeenSeat, target: SeenSeat) -> MoveRecipe[MoveEnd]:
        """Copy, verify and release; a copy that a lease has left is made again."""
        trouble = ""
        for _ in range(COPIES_MAX):
            filling = Filling(target, nonce=self._nonce, now=self._now)
            try:
                copied = yield from copy_all(source, filling, tell=self._tell_part)
                self._tell(Progress("verified", copied.keys, copied.keys))
                released = yield from self._release(source, copied, filling)
            except TooMuch as much:
                return (yield from self._give_up(source, filling.target, str(much)))
            except Differs as differs:
                trouble = str(differs)
                target = yield from read_seat(target.place)
                if target.seat.mover != self._id:
                    raise Fenced(target) from None
                continue
            self._tell(Progress("released"))
            # Whoever has not followed yet has a full lease from now.
            yield from keep_leases(released, filling.leases.values())
            return Moved(released, copied)
        return (yield from self._give_up(source, target, f"the copy could not be verified: {trouble}"))

    def _release(self, source: SeenSeat, copied: Copied, filling: Filling) -> MoveRecipe[SeenSeat]:
        yield from filling.renew()
        self._tell(Progress("renewed"))
        serving = Seat(
            stay=source.seat.next_stay,
            # Every revision that was seen until the seal lies below those that are counted from here on.
            offset=source.seat.offset + source.revision + 1,
            base=filling.target.revision,
            move=source.seat.move,
            nonce=self._nonce(),
        )
        # Putting the marks again fails if one of the leases has ended since.
        released = yield from change_seat(filling.target, serving, copied.marks[:MARKS_CHECKED_MAX])
        if isinstance(released, LeaseGone):
            raise Differs("a lease ended before the release")
        if isinstance(released, Overtaken):
            raise Fenced(released.found)
        return released

    def _after_fence(self, fenced: Fenced) -> MoveRecipe[MoveEnd]:
        """The seat we worked under has changed: say what became of the move."""
        try:
            source = yield from read_seat(self._source)
            target = yield from read_seat(self._target)
        except Silence as silence:
            return NoAnswer(str(silence))
        if source.seat.state is SeatState.SERVING:
            return StaysHere("a process of the domain gave the move up, because it saw no progress")
        if source.seat.state is SeatState.SEALED and source.seat.other == self._target:
            if was_released(source.seat, target):
                return Moved(target, None)
            if not is_arriving(source.seat, target):
                return (yield from self._give_up(source, target, "another mover reserved the target"))
        return TakenOver(f"another mover took over: {fenced}")

    def _give_up(self, source: SeenSeat, target: SeenSeat, why: str) -> MoveRecipe[MoveEnd]:
        outcome = yield from give_up(Undecided(source, target), nonce=self._nonce())
        return outcome if isinstance(outcome, NoAnswer) else StaysHere(why)

    def _tell_part(self, step: str, done: int, of: int) -> None:
        self._tell(Progress(step, done, of))


MARKS_CHECKED_MAX: Final = 100
"""How many leases the release itself checks, within the operations of one transaction; the others have been
renewed a moment before."""


def objection_to(target: SeenSeat) -> MoveRecipe[str | None]:
    """Why a domain cannot move to *target*; None when it can."""
    if target.revision:
        if target.seat.state is SeatState.SERVING:
            return f"{target.place} serves a domain already"
        return None
    found: Items = yield from list_all(target)
    foreign: list[KeyValue] = [item for key, item in found.items() if key not in NEW_FILE_KEYS]
    if foreign:
        return f"{target.place} is in use: it holds {len(foreign)} keys, {foreign[0].key!r} among them"
    return None


def keep_leases(target: SeenSeat, leases: Iterable[LeaseId]) -> MoveRecipe[None]:
    """Give every lease at a released target its full time."""
    for lease in leases:
        yield from ask_under(target, LeaseKeep(lease))
