"""Copies everything that a sealed authority holds to one that is being filled, and verifies the copy (A8).

The source is sealed, so it does not change while it is read. What the target already holds of it stays, so
that a mover which takes over from another does little again; anything else there is removed. Every change of
the target compares its seat, so a mover that has been replaced copies nothing more.

Each lease of the source gets one at the target, and a record says which continues which. Leases come last, so
that they need not be kept for longer than their own keys take. The copy is right when both sides have the
same digest: all keys, all values, and which of them end with a lease.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import (
    TXN_BYTES_MAX,
    Change,
    Delete,
    KeyValue,
    LeaseGranted,
    LeaseKeep,
    List,
    Listed,
    Plain,
    Put,
    Result,
)
from holdfast.authority.move.filling import BATCH_BYTES_MAX, Differs, Filling, TooMuch, change_size
from holdfast.authority.move.revisions import Translation, records_of, table_of
from holdfast.authority.move.seat import MoveRecipe, SeenSeat, ask_under
from holdfast.authority.recipe import put
from holdfast.model.errors import BrokenInvariant
from holdfast.model.ids import LeaseId

BATCH_CHANGES_MAX: Final = 100
"""The most keys in one transaction of the copy; the contract allows some more."""
COPY_BYTES_MAX: Final = 256_000_000
"""The most bytes of keys and values that a move copies: the mover holds them in memory, and every process of
the domain waits meanwhile."""
LEASES_MAX: Final = 2_000
"""The most leases that a move continues; there is one for each host."""
LEASES_TOLD: Final = 100
"""After so many leases the progress is told."""

Items = Mapping[str, KeyValue]
Ask = Callable[[Plain], MoveRecipe[Result]]
Tell = Callable[[str, int, int], None]
"""Told a step, how much of it is done, and of how much."""


class MovedLease(msgspec.Struct, frozen=True, kw_only=True, tag="moved_lease"):
    """The lease of this authority that continues one of the authority before."""

    lease: LeaseId


@dataclass(frozen=True, slots=True)
class Copied:
    """A verified copy, and what was copied."""

    keys: int
    bytes: int
    digest: str
    marks: tuple[Put, ...]
    """The records of the leases, each under its own."""


def copy_all(source: SeenSeat, filling: Filling, *, tell: Tell) -> MoveRecipe[Copied]:
    """Copy and verify everything at *source*."""
    everything = yield from list_everything(source.place, partial(filling.ask_source, source))
    wanted = _of_domain(everything)
    found = yield from list_everything(filling.target.place, filling.ask)
    leased = {key: item for key, item in wanted.items() if item.lease}
    lasting = {key: item for key, item in wanted.items() if not item.lease}
    there = {key: item for key, item in found.items() if key not in leased}
    yield from _write_all(filling, _changes(lasting, there, {}), len(wanted), tell)
    leases = yield from _continue_leases(source, filling, leased, tell)
    wanted = {key: item for key, item in wanted.items() if not item.lease or item.lease in leases}
    there = {key: item for key, item in found.items() if key in leased}
    continued = {key: item for key, item in leased.items() if key in wanted}
    yield from _write_all(filling, _changes(continued, there, leases), len(wanted), tell)
    known = Translation(source.seat.offset, source.seat.base, table_of(everything.values()))
    table = {key: known.revisions_of(item) for key, item in wanted.items()}
    marks = tuple(put(keys.moved_lease(old), MovedLease(lease=new), lease=new) for old, new in leases.items())
    for batch in (*batches(records_of(table)), *batches(marks)):
        yield from filling.write(batch)
    arrived = yield from list_everything(filling.target.place, filling.ask)
    if digest(_of_domain(arrived)) != digest(wanted) or table_of(arrived.values()) != table:
        raise Differs(f"{len(arrived)} keys arrived of {len(wanted)}, and they are not the same")
    # The last change of the copy: what is changed after it is of the new stay.
    yield from filling.write()
    return Copied(len(wanted), _size(wanted), digest(wanted), marks)


def list_all(seen: SeenSeat) -> MoveRecipe[Items]:
    """Everything of the domain at an authority; not the records of moves themselves."""
    found = yield from list_everything(seen.place, partial(ask_under, seen))
    return _of_domain(found)


def burden_of(seen: SeenSeat) -> MoveRecipe[str | None]:
    """Why what is at an authority is too much to be moved; None when it is not."""
    try:
        items = yield from list_all(seen)
    except TooMuch as much:
        return str(much)
    leases = len({item.lease for item in items.values() if item.lease})
    if leases > LEASES_MAX:
        return f"{seen.place} holds {leases} leases; a move takes {LEASES_MAX}"
    return None


def _of_domain(items: Items) -> Items:
    return {key: item for key, item in items.items() if not keys.is_of_moves(key)}


def list_everything(place: object, ask: Ask) -> MoveRecipe[Items]:
    """Every key at an authority, but for its seat."""
    found: dict[str, KeyValue] = {}
    size, after, is_more = 0, "", True
    while is_more:
        listed = yield from ask(List("", after=after))
        if not isinstance(listed, Listed):
            raise BrokenInvariant(f"a list was answered with {listed}")
        for item in listed.items:
            after = item.key
            size += len(item.key) + len(item.value)
            if item.key != keys.SEAT:
                found[item.key] = item
        if size > COPY_BYTES_MAX:
            raise TooMuch(f"{place} holds more than the {COPY_BYTES_MAX} bytes that can be moved")
        is_more = listed.more
    return found


def _write_all(filling: Filling, changes: Iterable[Change], of: int, tell: Tell) -> MoveRecipe[None]:
    for batch in batches(changes):
        filling.copied += len(batch)
        yield from filling.write(batch)
        tell("copied", min(filling.copied, of), of)


def _continue_leases(
    source: SeenSeat, filling: Filling, leased: Items, tell: Tell
) -> MoveRecipe[Mapping[LeaseId, LeaseId]]:
    """A new lease for each that stands at the source (A4)."""
    held = dict.fromkeys(item.lease for item in leased.values())
    for number, lease in enumerate(held, start=1):
        # This tells its length; a sealed authority ends no lease by itself, but an etcd may have.
        kept = yield from filling.ask_source(source, LeaseKeep(lease))
        if isinstance(kept, LeaseGranted):
            yield from filling.grant(lease, kept.seconds, of=len(held))
        if number % LEASES_TOLD == 0 or number == len(held):
            tell("continued", number, len(held))
    return filling.leases


def digest(items: Items) -> str:
    """One text for the keys, their values, and whether each ends with a lease."""
    found = sha256()
    for key in sorted(items):
        item = items[key]
        for part in (key.encode(), item.value, b"leased" if item.lease else b""):
            found.update(len(part).to_bytes(8, "big") + part)
    return found.hexdigest()


def batches(changes: Iterable[Change]) -> Iterator[tuple[Change, ...]]:
    """Split *changes* so that each part fits into a transaction."""
    batch: list[Change] = []
    size = 0
    for change in changes:
        batch.append(change)
        size += change_size(change)
        if len(batch) == BATCH_CHANGES_MAX or size > BATCH_BYTES_MAX:
            # What exceeds the bound goes alone: with the rest it might not fit.
            if size > TXN_BYTES_MAX - BATCH_BYTES_MAX and len(batch) > 1:
                yield tuple(batch[:-1])
                batch = batch[-1:]
            yield tuple(batch)
            batch, size = [], 0
    if batch:
        yield tuple(batch)


def _changes(wanted: Items, found: Items, leases: Mapping[LeaseId, LeaseId]) -> Iterator[Change]:
    for key in found:
        if key not in wanted:
            yield Delete(key)
    for key, item in wanted.items():
        there = found.get(key)
        # A key under a lease is always put: the lease of an earlier attempt ends with that attempt's mover.
        if item.lease or there is None or there.lease or there.value != item.value:
            yield Put(key, item.value, leases[item.lease] if item.lease else LeaseId(0))


def _size(items: Items) -> int:
    return sum(len(item.key.encode()) + len(item.value) for item in items.values())
