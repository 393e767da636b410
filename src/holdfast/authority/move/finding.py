"""Finds the authority that serves the domain, and gives up a move that nobody finishes (A8).

A move is decided at its target: it is released there, or given up there, by a compare-and-set of the same
record. Only when it can never be released any more is the source unsealed. Any process may do this, and any
number of them at once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from holdfast.authority import keys
from holdfast.authority.contract import KeyValue, List, Listed
from holdfast.authority.move.copying import MovedLease
from holdfast.authority.move.place import Place
from holdfast.authority.move.revisions import table_of
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
from holdfast.authority.recipe import NoAnswer, Silence, decoded
from holdfast.model.errors import BrokenInvariant
from holdfast.model.ids import LeaseId, Nonce

HOPS_MAX: Final = 16
"""How many authorities are asked in turn; each points to a later stay, unless moves happen meanwhile."""


@dataclass(frozen=True, slots=True)
class Serving:
    """The authority that serves, and what it took along from the one before."""

    seen: SeenSeat
    leases: dict[LeaseId, LeaseId]
    """Which of its leases continues which."""
    table: dict[str, tuple[int, int]]
    """The revisions that keys had there."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """A move is under way: the source is sealed, and the target is neither released nor given up."""

    source: SeenSeat
    target: SeenSeat


@dataclass(frozen=True, slots=True)
class Nowhere:
    """Every place that was asked pointed to another one: ask again."""

    asked: Place


def find_serving(start: Place) -> MoveRecipe[Serving | Undecided | Nowhere | NoAnswer]:
    """Follow the seats from *start* to the authority that serves."""
    try:
        place = start
        for _ in range(HOPS_MAX):
            seen = yield from read_seat(place)
            if seen.seat.state is SeatState.SERVING:
                leases = yield from _moved_leases(seen)
                table = table_of((yield from _list(seen, keys.MOVED_REVISIONS)))
                return Serving(seen, leases, table)
            if seen.seat.other is None:
                raise BrokenInvariant(f"{place} is {seen.seat.state} and does not say where the domain is")
            if seen.seat.state is SeatState.SEALED:
                target = yield from read_seat(seen.seat.other)
                if not was_released(seen.seat, target):
                    return Undecided(seen, target)
            place = seen.seat.other
        return Nowhere(start)
    except Fenced:
        return Nowhere(start)
    except Silence as silence:
        return NoAnswer(str(silence))


@dataclass(frozen=True, slots=True)
class Unmoved:
    """The authority serves as it did when it was last seen."""


def look_around(
    seen: SeenSeat, others: Iterable[Place]
) -> MoveRecipe[Unmoved | Serving | Undecided | Nowhere | NoAnswer]:
    """Find out whether the authority that was seen still serves, and else where the domain is.

    One that does not answer may have been switched off after the domain left it. Then *others* are asked, and
    believed only about a later stay: an authority that lost its seal, as by a restored file, is not followed.
    """
    try:
        now = yield from read_seat(seen.place)
    except Silence as silence:
        for place in others:
            found = yield from find_serving(place)
            if isinstance(found, Serving) and found.seen.seat.stay > seen.seat.stay:
                return found
        return NoAnswer(str(silence))
    return Unmoved() if now == seen else (yield from find_serving(seen.place))


def give_up(found: Undecided, *, nonce: Nonce) -> MoveRecipe[SeenSeat | Overtaken | NoAnswer]:
    """Give up the move that was found under way; returns the source's seat, which serves again.

    Overtaken says that somebody decided the move first, in this way or the other.
    """
    try:
        sealed = found.source.seat
        if is_arriving(sealed, found.target):
            given_up = replace(found.target.seat, state=SeatState.GIVEN_UP, nonce=Nonce(f"{nonce} given up"))
            outcome = yield from change_seat(found.target, given_up)
            if not isinstance(outcome, SeenSeat):
                raise_unless_overtaken(outcome)
                return Overtaken(found.target)
        # From here on nobody can release the target for this move: its seat is not the mover's any more, and
        # no mover of a sealed source reserves a target anew.
        outcome = yield from change_seat(found.source, unsealed(sealed, nonce))
        if isinstance(outcome, SeenSeat):
            return outcome
        raise_unless_overtaken(outcome)
        return Overtaken(found.source)
    except Silence as silence:
        return NoAnswer(str(silence))


def was_released(sealed: Seat, target: SeenSeat) -> bool:
    """Whether the move for which the source was sealed ended at the target.

    A record that does not exist has served nothing, though it stands for a first stay elsewhere.
    """
    return bool(target.revision) and target.seat.stay >= sealed.next_stay


def is_arriving(sealed: Seat, target: SeenSeat) -> bool:
    """Whether the target is still being filled by the move for which the source was sealed."""
    return target.seat.state is SeatState.ARRIVING and target.seat.move == sealed.move


def unsealed(sealed: Seat, nonce: Nonce) -> Seat:
    """The seat with which a sealed authority serves on."""
    return Seat(stay=sealed.stay, offset=sealed.offset, base=sealed.base, move=sealed.move, nonce=nonce)


def raise_unless_overtaken(outcome: object) -> None:
    if not isinstance(outcome, Overtaken):
        raise BrokenInvariant(f"the change of a seat was answered with {outcome}")


def _moved_leases(seen: SeenSeat) -> MoveRecipe[dict[LeaseId, LeaseId]]:
    items = yield from _list(seen, keys.MOVED_LEASES)
    return {
        LeaseId(int(item.key.removeprefix(keys.MOVED_LEASES))): decoded(item, MovedLease).value.lease
        for item in items
    }


def _list(seen: SeenSeat, prefix: str) -> MoveRecipe[list[KeyValue]]:
    found: list[KeyValue] = []
    is_more = True
    while is_more:
        listed = yield from ask_under(seen, List(prefix, after=found[-1].key if found else ""))
        if not isinstance(listed, Listed):
            raise BrokenInvariant(f"a list was answered with {listed}")
        found += listed.items
        is_more = listed.more
    return found
