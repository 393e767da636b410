"""Numbers the openings of disk stores (V5, decision 0002).

The authority holds the number and nonce of each store's latest opening. A store raises them by
compare-and-set, from exactly the pair on its disk to the next number and the nonce it has already written
down as its intent. A store that presents any other pair was wiped, copied or rolled back; it counts as a
stranger and joins as new.
"""

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Applied
from holdfast.authority.identity import Identity
from holdfast.authority.recipe import (
    ATTEMPTS_MAX,
    Contended,
    InDoubt,
    Recipe,
    Seen,
    answering,
    change,
    put,
    read,
)
from holdfast.model.ids import Nonce, Opening, StoreId


class StoreRecord(msgspec.Struct, frozen=True, kw_only=True, tag="store"):
    """The latest opening of a store, and the authority's generation that numbered it."""

    store: StoreId
    opening: Opening
    nonce: Nonce
    generation: int


class Stranger(msgspec.Struct, frozen=True, tag="stranger"):
    """The authority knows another opening than this store: it was wiped, copied or rolled back."""

    found: StoreRecord | None


class Behind(msgspec.Struct, frozen=True, tag="behind"):
    """The store has been opened more often than this authority knows: the authority was restored (A5)."""

    found: StoreRecord | None


@answering
def raise_opening(
    store: StoreId, *, expected: Opening, expected_nonce: Nonce, nonce: Nonce
) -> Recipe[Seen[StoreRecord] | Stranger | Behind | Contended | InDoubt]:
    """Number the next opening, from exactly the (number, nonce) on the store's disk; (0, "") if new."""
    for _ in range(ATTEMPTS_MAX):
        found = yield from read(keys.store(store), StoreRecord)
        identity = yield from read(keys.IDENTITY, Identity)
        generation = 1 if identity.value is None else identity.value.generation
        if found.value is not None and (found.value.opening, found.value.nonce) == (expected + 1, nonce):
            return Seen(found.key, found.value, found.modified)
        objection = _objection(found.value, expected, expected_nonce, generation)
        if objection is not None:
            return objection
        record = StoreRecord(store=store, opening=Opening(expected + 1), nonce=nonce, generation=generation)
        result = yield from change(
            [found.unchanged(), identity.unchanged()], [put(found.key, record)], nonce=nonce
        )
        if isinstance(result, Applied):
            return Seen(found.key, record, result.revision)
        if isinstance(result, InDoubt):
            return result
    return Contended(f"the opening of {store}")


@answering
def read_opening(store: StoreId) -> Recipe[Seen[StoreRecord | None]]:
    """Read the latest opening that the authority numbered."""
    return (yield from read(keys.store(store), StoreRecord))


def _objection(
    found: StoreRecord | None, expected: Opening, expected_nonce: Nonce, generation: int
) -> Stranger | Behind | None:
    """Why this store may not be opened as the one the authority knows; None when it may."""
    known = 0 if found is None else found.opening
    if expected > known:
        # Only an authority that was restored since it numbered this store may be told what it forgot, and
        # only once: the record then carries the new generation.
        numbered_in = 1 if found is None else found.generation
        return None if numbered_in < generation else Behind(found)
    if found is None or (expected, expected_nonce) == (found.opening, found.nonce):
        return None
    return Stranger(found)
