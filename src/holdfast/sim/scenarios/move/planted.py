"""Bugs planted in the move of a domain between two authorities (A8)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final

import msgspec

from holdfast.authority import keys, server
from holdfast.authority.contract import (
    Applied,
    Change,
    Delete,
    Elsewhere,
    Get,
    KeyValue,
    LeaseGone,
    List,
    Plain,
    Put,
    Request,
    Result,
    Txn,
    Under,
    Unknown,
    broken_bound,
    plain,
)
from holdfast.authority.move import copying, filling, follower, mover
from holdfast.authority.move.copying import Copied, Items
from holdfast.authority.move.filling import Filling
from holdfast.authority.move.finding import Undecided, is_arriving, unsealed
from holdfast.authority.move.mover import Mover
from holdfast.authority.move.revisions import Translation
from holdfast.authority.move.seat import (
    At,
    Fenced,
    MoveRecipe,
    Overtaken,
    Seat,
    SeatState,
    SeenSeat,
    change_seat,
    seat_state,
    seen_seat,
)
from holdfast.authority.recipe import NoAnswer, Silence, put
from holdfast.authority.sqlite import SqliteStore
from holdfast.model.ids import LeaseId, Nonce, Revision
from holdfast.sim.runner.planted import Planted, Planting, replacing

_take_seat = SqliteStore._take_seat
_changes = copying._changes


# --- the seal


def _forget_seal(store: SqliteStore) -> KeyValue | None:
    """Keeps a seal in memory only: the process that is started next serves on."""
    item = store._read(keys.SEAT)
    return None if seat_state(item) is SeatState.SEALED else item


def _judge_reads(store: SqliteStore, asked: Request, now_ns: int) -> Result:
    """Refuses only changes: what can be wrong with reading?"""
    seat, request = plain(asked)
    current = 0 if store._seat is None else store._seat.modified
    if seat != current and not isinstance(request, Get | List):
        return Elsewhere(store._seat)
    if isinstance(request, Get) and request.key == keys.SEAT and seat != current:
        return Elsewhere(store._seat)
    return broken_bound(asked) or store._carry_out(request, now_ns)


def _judge_old_clients(store: SqliteStore, asked: Request, now_ns: int) -> Result:
    """Takes changes from a client that has not heard of the seal yet."""
    seat, request = plain(asked)
    current = 0 if store._seat is None else store._seat.modified
    if seat != current and not (isinstance(request, Txn) and seat_state(store._seat) is SeatState.SEALED):
        return Elsewhere(store._seat)
    return broken_bound(asked) or store._carry_out(request, now_ns)


def _take_seat_without_grace(store: SqliteStore, item: KeyValue) -> None:
    """Lets leases go on from where they were, though nobody could renew them meanwhile."""
    _take_seat(store, item)
    store._is_unsealed = False


# --- the copy


def _trust_keys(wanted: Items, found: Items, leases: Mapping[LeaseId, LeaseId]) -> Iterator[Change]:
    """Leaves alone what the target has already, without comparing it."""
    for change in _changes(wanted, found, leases):
        if isinstance(change, Delete) or change.lease or change.key not in found:
            yield change


@contextmanager
def _release_unverified() -> Iterator[None]:
    with (
        replacing(copying, "_changes", _trust_keys),
        replacing(copying, "digest", lambda items: str(len(items))),
    ):
        yield


def _changes_without_leases(
    wanted: Items, found: Items, leases: Mapping[LeaseId, LeaseId]
) -> Iterator[Change]:
    for change in _changes(wanted, found, leases):
        yield Put(change.key, change.value) if isinstance(change, Put) else change


def _digest_of_values(items: Items) -> str:
    return repr(sorted((key, item.value) for key, item in items.items()))


@contextmanager
def _sessions_forever() -> Iterator[None]:
    with (
        replacing(copying, "_changes", _changes_without_leases),
        replacing(copying, "digest", _digest_of_values),
    ):
        yield


def _changes_without_removal(
    wanted: Items, found: Items, leases: Mapping[LeaseId, LeaseId]
) -> Iterator[Change]:
    """Removes nothing that an earlier stay or attempt left at the target."""
    return (change for change in _changes(wanted, found, leases) if isinstance(change, Put))


@contextmanager
def _leftovers_stay() -> Iterator[None]:
    def digest_of(items: Items) -> str:
        return ""

    with (
        replacing(copying, "_changes", _changes_without_removal),
        replacing(copying, "digest", digest_of),
    ):
        yield


# --- who decides


def _change_seat_stubbornly(
    seen: SeenSeat, seat: Seat, changes: Sequence[Change] = ()
) -> MoveRecipe[SeenSeat | Overtaken | LeaseGone]:
    """Goes on under whatever seat it finds: this mover does not let itself be stopped."""
    revision = seen.revision
    while True:
        result = yield At(seen.place, Under(revision, Txn((), (put(keys.SEAT, seat), *changes))))
        if isinstance(result, Applied):
            return SeenSeat(seen.place, seat, result.revision)
        if isinstance(result, LeaseGone):
            return result
        if isinstance(result, Elsewhere):
            revision = seen_seat(seen.place, result.seat).revision
        else:
            raise Silence("no answer")


def _ask_stubbornly(seen: SeenSeat, request: Plain) -> MoveRecipe[Result]:
    revision = seen.revision
    while True:
        result = yield At(seen.place, Under(revision, request))
        if isinstance(result, Unknown):
            raise Silence(result.reason)
        if not isinstance(result, Elsewhere):
            return result
        revision = seen_seat(seen.place, result.seat).revision


@contextmanager
def _two_movers() -> Iterator[None]:
    with (
        replacing(filling, "ask_under", _ask_stubbornly),
        replacing(mover, "change_seat", _change_seat_stubbornly),
        replacing(filling, "change_seat", _change_seat_stubbornly),
    ):
        yield


def _give_up_at_source(found: Undecided, *, nonce: Nonce) -> MoveRecipe[SeenSeat | Overtaken | NoAnswer]:
    """Unseals the source without a word to the target, which may be released at any moment."""
    try:
        outcome = yield from change_seat(found.source, unsealed(found.source.seat, nonce))
    except Silence as silence:
        return NoAnswer(str(silence))
    return outcome if isinstance(outcome, SeenSeat) else Overtaken(found.source)


@contextmanager
def _unseal_undecided() -> Iterator[None]:
    with (
        replacing(follower, "give_up", _give_up_at_source),
        replacing(mover, "give_up", _give_up_at_source),
    ):
        yield


def _give_up_anyway(found: Undecided, *, nonce: Nonce) -> MoveRecipe[SeenSeat | Overtaken | NoAnswer]:
    """Unseals the source even if the target was released before it could be given up."""
    try:
        if is_arriving(found.source.seat, found.target):
            given_up = msgspec.structs.replace(found.target.seat, state=SeatState.GIVEN_UP, nonce=nonce)
            yield from change_seat(found.target, given_up)
        outcome = yield from change_seat(found.source, unsealed(found.source.seat, nonce))
    except Silence as silence:
        return NoAnswer(str(silence))
    return outcome if isinstance(outcome, SeenSeat) else Overtaken(found.source)


@contextmanager
def _unseal_released() -> Iterator[None]:
    with (
        replacing(follower, "give_up", _give_up_anyway),
        replacing(mover, "give_up", _give_up_anyway),
    ):
        yield


# --- afterwards


def _release_without_offset(
    self: Mover, source: SeenSeat, copied: Copied, filled: Filling
) -> MoveRecipe[SeenSeat]:
    """Lets revisions begin anew with the new authority's own."""
    serving = Seat(stay=source.seat.next_stay, move=source.seat.move, nonce=self._nonce())
    released = yield from change_seat(filled.target, serving, copied.marks)
    if isinstance(released, SeenSeat):
        return released
    raise Fenced(filled.target)


def _known_without_table(self: Translation, item: KeyValue) -> KeyValue:
    """Shows every copied key as if it had just been changed."""
    seen = Revision(item.modified + self.offset)
    return KeyValue(item.key, item.value, seen, seen, self._here(item.lease))


def _keep_watching(watching: server.ClientWatches) -> None:
    """Lets watches run on across a move, whatever revisions are counted afterwards."""


PAUSES: Final = "movers-pause"
_plant = Planting("move")


def _several(
    name: str,
    rule: str,
    summary: str,
    plant: Callable[[], AbstractContextManager[None]],
    profile: str | None = None,
) -> Planted:
    return Planted(f"move-{name}", rule, "move", summary, plant, profile)


PLANTED = (
    _plant(
        "seal-in-memory",
        "A8",
        "a seal does not survive the process that took it",
        SqliteStore,
        "_stored_seat",
        _forget_seal,
        "steps",
    ),
    _plant(
        "stale-client",
        "A8",
        "a sealed authority takes changes under the seat from before",
        SqliteStore,
        "_judge",
        _judge_old_clients,
    ),
    _plant(
        "stale-read",
        "A8",
        "an authority that is not the domain's any more answers reads",
        SqliteStore,
        "_judge",
        _judge_reads,
    ),
    _plant(
        "no-grace",
        "A4",
        "an unsealed authority ends the leases that could not be renewed",
        SqliteStore,
        "_take_seat",
        _take_seat_without_grace,
        "steps",
    ),
    _several("unverified", "A8", "released before the copy was compared", _release_unverified),
    _several("sessions-forever", "A4", "sessions are copied without their leases", _sessions_forever),
    _several("leftovers", "A8", "what an earlier stay left at the target comes back", _leftovers_stay),
    _several("two-movers", "A8", "a mover is not stopped by the one that took over", _two_movers, PAUSES),
    _several(
        "unseal-undecided", "A8", "unsealed while the target may be released", _unseal_undecided, PAUSES
    ),
    _several("unseal-released", "A8", "unsealed after the target was released", _unseal_released, PAUSES),
    _plant(
        "revisions-anew",
        "A8",
        "the new authority counts from its own revision",
        Mover,
        "_release",
        _release_without_offset,
    ),
    _plant(
        "revisions-forgotten",
        "A5",
        "copied keys look as if they had been changed by the move",
        Translation,
        "_known",
        _known_without_table,
    ),
    _plant(
        "watch-goes-on",
        "A3",
        "a watch survives the move",
        server.ClientWatches,
        "_end_all",
        _keep_watching,
    ),
)
"""The planted bugs, the plainest first."""
