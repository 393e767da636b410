"""Copies everything that a sealed authority holds to one that is being filled, and verifies the copy (A8).

The source is sealed, so it does not change while it is read. What the target already holds of it stays, so
that a mover which takes over from another does little again; anything else there is removed. Every change of
the target compares its seat, so a mover that has been replaced copies nothing more.

Each lease of the source gets one of the same length at the target, and a record says which continues which.
The copy is right when both sides have the same digest: all keys, all values, and which of them end with a
lease.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.authority import keys
from holdfast.authority.contract import (
    TXN_BYTES_MAX,
    Applied,
    Change,
    Delete,
    KeyValue,
    LeaseGone,
    LeaseGrant,
    LeaseGranted,
    LeaseKeep,
    List,
    Listed,
    Put,
    Txn,
)
from holdfast.authority.move.revisions import Translation, records_of, table_of
from holdfast.authority.move.seat import Fenced, MoveRecipe, Overtaken, SeenSeat, ask_under, change_seat
from holdfast.authority.recipe import put
from holdfast.model.errors import BrokenInvariant, InvalidRequest
from holdfast.model.ids import LeaseId, Nonce

BATCH_CHANGES_MAX: Final = 100
"""The most keys in one transaction of the copy; the contract allows some more."""
BATCH_BYTES_MAX: Final = 500_000
"""A batch ends with the value that exceeds this size, so that the seat's own record still fits."""
COPY_BYTES_MAX: Final = 256_000_000
"""The most bytes of keys and values that a move copies: the mover holds them in memory, and every process of
the domain waits meanwhile."""
LEASES_MAX: Final = 1_000
"""The most leases that a move continues; there is one for each host."""

Items = Mapping[str, KeyValue]


class MovedLease(msgspec.Struct, frozen=True, kw_only=True, tag="moved_lease"):
    """The lease of this authority that continues one of the authority before."""

    lease: LeaseId


@dataclass(frozen=True, slots=True)
class Copied:
    """A verified copy: the target's seat as it is now, and what was copied."""

    target: SeenSeat
    keys: int
    bytes: int
    digest: str
    leases: tuple[LeaseId, ...]
    """The target's leases."""
    marks: tuple[Put, ...]
    """The records of the leases, each under its own."""


class Differs(Exception):
    """Raised when the copy is not what the source holds: a lease ended meanwhile, or a disk lies."""


def copy_all(
    source: SeenSeat, target: SeenSeat, *, nonce: Callable[[], Nonce], tell: Callable[[int, int], None]
) -> MoveRecipe[Copied]:
    """Copy and verify everything at *source*; *tell* is called with the keys done and the keys in all."""
    everything = yield from list_everything(source)
    wanted = _of_domain(everything)
    found = yield from list_everything(target)
    leases = yield from _grant_leases(source, target, wanted)
    wanted = {key: item for key, item in wanted.items() if not item.lease or item.lease in leases}
    done = 0
    for batch in batches(_changes(wanted, found, leases)):
        target = yield from _write(target, batch, done + len(batch), nonce)
        done += len(batch)
        tell(min(done, len(wanted)), len(wanted))
    known = Translation(source.seat.offset, source.seat.base, table_of(everything.values()))
    table = {key: known.revisions_of(item) for key, item in wanted.items()}
    for batch in batches(records_of(table)):
        target = yield from _write(target, batch, done, nonce)
    marks = tuple(put(keys.moved_lease(old), MovedLease(lease=new), lease=new) for old, new in leases.items())
    for batch in batches(marks):
        target = yield from _write(target, batch, done, nonce)
    arrived = yield from list_everything(target)
    if digest(_of_domain(arrived)) != digest(wanted) or table_of(arrived.values()) != table:
        raise Differs(f"{len(arrived)} keys arrived of {len(wanted)}, and they are not the same")
    # The last change of the copy: what is changed after it is of the new stay.
    target = yield from _write(target, (), done, nonce)
    return Copied(target, len(wanted), _size(wanted), digest(wanted), tuple(leases.values()), marks)


def list_all(seen: SeenSeat) -> MoveRecipe[Items]:
    """Everything of the domain at an authority; not the records of moves themselves."""
    found = yield from list_everything(seen)
    return _of_domain(found)


def _of_domain(items: Items) -> Items:
    return {key: item for key, item in items.items() if not keys.is_of_moves(key)}


def list_everything(seen: SeenSeat) -> MoveRecipe[Items]:
    """Every key at an authority, but for its seat."""
    found: dict[str, KeyValue] = {}
    size, after, is_more = 0, "", True
    while is_more:
        listed = yield from ask_under(seen, List("", after=after))
        if not isinstance(listed, Listed):
            raise BrokenInvariant(f"a list was answered with {listed}")
        for item in listed.items:
            after = item.key
            size += len(item.key) + len(item.value)
            if item.key != keys.SEAT:
                found[item.key] = item
        if size > COPY_BYTES_MAX:
            raise InvalidRequest(f"{seen.place} holds more than the {COPY_BYTES_MAX} bytes that can be moved")
        is_more = listed.more
    return found


def keep_leases(copied: Copied) -> MoveRecipe[bool]:
    """Give every lease at the target its full time; returns whether all of them still stand."""
    for lease in copied.leases:
        kept = yield from ask_under(copied.target, LeaseKeep(lease))
        if not isinstance(kept, LeaseGranted):
            return False
    return True


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
        size += _change_size(change)
        if len(batch) == BATCH_CHANGES_MAX or size > BATCH_BYTES_MAX:
            # What exceeds the bound goes alone: with the rest it might not fit.
            if size > TXN_BYTES_MAX - BATCH_BYTES_MAX and len(batch) > 1:
                yield tuple(batch[:-1])
                batch = batch[-1:]
            yield tuple(batch)
            batch, size = [], 0
    if batch:
        yield tuple(batch)


def _grant_leases(source: SeenSeat, target: SeenSeat, wanted: Items) -> MoveRecipe[dict[LeaseId, LeaseId]]:
    """A new lease of the same length for each that stands at the source (A4)."""
    held = dict.fromkeys(item.lease for item in wanted.values() if item.lease)
    if len(held) > LEASES_MAX:
        raise InvalidRequest(f"{source.place} holds {len(held)} leases; a move takes {LEASES_MAX}")
    granted: dict[LeaseId, LeaseId] = {}
    for lease in held:
        # This tells its length; a sealed authority ends no lease by itself, but an etcd may have.
        kept = yield from ask_under(source, LeaseKeep(lease))
        if isinstance(kept, LeaseGranted):
            new = yield from ask_under(target, LeaseGrant(kept.seconds))
            if not isinstance(new, LeaseGranted):
                raise BrokenInvariant(f"a lease was asked for and answered with {new}")
            granted[lease] = new.lease
    return granted


def _changes(wanted: Items, found: Items, leases: Mapping[LeaseId, LeaseId]) -> Iterator[Change]:
    for key in found:
        if key not in wanted:
            yield Delete(key)
    for key, item in wanted.items():
        there = found.get(key)
        # A key under a lease is always put: the lease of an earlier attempt ends with that attempt's mover.
        if item.lease or there is None or there.lease or there.value != item.value:
            yield Put(key, item.value, leases[item.lease] if item.lease else LeaseId(0))


def _write(
    target: SeenSeat, batch: tuple[Change, ...], copied: int, nonce: Callable[[], Nonce]
) -> MoveRecipe[SeenSeat]:
    if sum(map(_change_size, batch)) > BATCH_BYTES_MAX:
        # The seat's record might not fit beside it.
        result = yield from ask_under(target, Txn((), batch))
        if not isinstance(result, Applied):
            raise Differs(f"a part of the copy was answered with {result}")
        return target
    outcome = yield from change_seat(target, replace(target.seat, copied=copied, nonce=nonce()), batch)
    if isinstance(outcome, Overtaken):
        raise Fenced(outcome.found)
    if isinstance(outcome, LeaseGone):
        raise Differs("a lease ended before its keys were copied")
    return outcome


def _change_size(change: Change) -> int:
    return len(change.key.encode()) + (len(change.value) if isinstance(change, Put) else 0)


def _size(items: Items) -> int:
    return sum(len(item.key.encode()) + len(item.value) for item in items.values())
