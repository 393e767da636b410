"""The seat: the record by which an authority knows whether it serves the domain, and where the domain is.

Every request comes under the seat that its sender has seen (:class:`~holdfast.authority.contract.Under`), and
an authority whose seat has changed since refuses it with the new one. So one change of this record seals an
authority for every process at once, durably, and fences off a mover that another has replaced.

The requests of a move go to two authorities; its recipes therefore yield :class:`At`, which names the place.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn, TypeVar

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import (
    Applied,
    Change,
    Elsewhere,
    Get,
    Got,
    Invalid,
    KeyValue,
    LeaseGone,
    Plain,
    Request,
    Result,
    Txn,
    Under,
    Unknown,
)
from holdfast.authority.move.place import Place
from holdfast.authority.recipe import ATTEMPTS_MAX, Silence, decoded, put
from holdfast.model.errors import BrokenInvariant, InvalidRequest
from holdfast.model.ids import Nonce, Revision

Answer = TypeVar("Answer")


class SeatState(StrEnum):
    SERVING = "serving"
    SEALED = "sealed"
    """Nothing changes here any more: the domain goes, or went, to the other place."""
    ARRIVING = "arriving"
    """A mover fills this authority from the other place."""
    GIVEN_UP = "given_up"
    """The move that was filling this authority was given up; it can never be released."""


class Seat(msgspec.Struct, frozen=True, kw_only=True, tag="seat"):
    """One authority's part in the domain. Without a record it serves its first stay."""

    state: SeatState = SeatState.SERVING
    stay: int = 1
    """The number of the last stay that was served here; 0 if there was none. Each move begins the next."""
    next_stay: int = 0
    """The stay that begins when the move under way is released."""
    offset: int = 0
    """Added to this authority's own revisions, so that revisions grow from stay to stay."""
    base: int = 0
    """The authority's own revision up to which everything was copied: what was changed later is of this
    stay."""
    move: str = ""
    """The id of the last move that had to do with this authority."""
    other: Place | None = None
    """Where the domain goes to from here (sealed), or comes from (arriving, given up)."""
    mover: str = ""
    """Who fills this authority; a mover that takes over puts its own name here and stops the other."""
    copied: int = 0
    """How many keys the mover has copied. Each change also shows that it is alive."""
    nonce: Nonce = Nonce("")


NEVER_MOVED = Seat()


@dataclass(frozen=True, slots=True)
class SeenSeat:
    """The seat of the authority at *place*, and the revision of its last change."""

    place: Place
    seat: Seat
    revision: Revision


@dataclass(frozen=True, slots=True)
class At:
    """A request to the authority at one place."""

    place: Place
    request: Request


MoveRecipe = Generator[At, Result, Answer]


@dataclass(frozen=True, slots=True)
class Overtaken:
    """The seat is not as it was seen: somebody else has changed it."""

    found: SeenSeat


def seat_state(item: KeyValue | None) -> SeatState:
    return seat_of(item).state


def seat_of(item: KeyValue | None) -> Seat:
    return NEVER_MOVED if item is None else decoded(item, Seat).value


def seen_seat(place: Place, item: KeyValue | None) -> SeenSeat:
    return SeenSeat(place, seat_of(item), Revision(0) if item is None else item.modified)


def read_seat(place: Place) -> MoveRecipe[SeenSeat]:
    """Read the seat of the authority at *place*; raises Silence when it does not answer."""
    result = yield At(place, Get(keys.SEAT))
    match result:
        case Got(item=item) | Elsewhere(seat=item):
            return seen_seat(place, item)
    raise_silence(place, result)


def ask_under(seen: SeenSeat, request: Plain) -> MoveRecipe[Result]:
    """Ask under the seat that was seen; raises Silence without an answer, Fenced when it has changed."""
    result = yield At(seen.place, Under(seen.revision, request))
    if isinstance(result, Elsewhere):
        raise Fenced(seen_seat(seen.place, result.seat))
    if isinstance(result, Unknown | Invalid):
        raise_silence(seen.place, result)
    return result


def change_seat(
    seen: SeenSeat, seat: Seat, changes: Sequence[Change] = ()
) -> MoveRecipe[SeenSeat | Overtaken | LeaseGone]:
    """Replace the seat that was seen by *seat*, together with *changes*, or find out why that cannot be.

    A doubt is settled by asking again: the change compares the seat, and *seat* carries a nonce of its own.
    """
    for _ in range(ATTEMPTS_MAX):
        request = Txn((), (put(keys.SEAT, seat), *changes))
        result = yield At(seen.place, Under(seen.revision, request))
        match result:
            case Applied(revision=revision):
                return SeenSeat(seen.place, seat, revision)
            case LeaseGone():
                return result
            case Elsewhere(seat=item):
                found = seen_seat(seen.place, item)
                return found if found.seat.nonce == seat.nonce else Overtaken(found)
            case Unknown():
                found = yield from read_seat(seen.place)
                if found.seat.nonce == seat.nonce:
                    return found
            case _:
                raise_silence(seen.place, result)
    raise Silence(f"{seen.place} did not confirm the change of its seat")


class Fenced(Exception):
    """Raised when a mover finds that the seat it works under has been changed by another."""

    def __init__(self, found: SeenSeat) -> None:
        super().__init__(f"{found.place} is {found.seat.state} now")
        self.found = found


def raise_silence(place: Place, result: Result) -> NoReturn:
    """Raise what *result*, which is not an answer to the question, means for the recipe."""
    if isinstance(result, Unknown):
        raise Silence(f"{place}: {result.reason}")
    if isinstance(result, Invalid):
        raise InvalidRequest(f"{place}: {result.reason}")
    raise BrokenInvariant(f"{place} answered with {result}")
