"""The transactions of a replica on their way to the disk, in order, and what follows each.

Every one of them has the vector in it, so that the data and the vector never tell different stories (G1). The
state of the generator is written with them too, for the entry of the generator to begin from (CSN-43).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from holdfast.clock import Generator
from holdfast.clock.vector import Vector
from holdfast.directory.primitives import EntryId
from holdfast.directory.replica.derived import NO_CONSEQUENCES, Consequences
from holdfast.directory.replica.maps import CSNSTATE, KEPT, REPLICA, VECTOR
from holdfast.directory.replica.overlay import Overlay
from holdfast.directory.replica.update import Update
from holdfast.directory.store import Batch, Store
from holdfast.model.csn import Csn
from holdfast.model.errors import invariant
from holdfast.model.ports import Token

PENDING_MAX: Final = 4_096
"""How many transactions may be on their way to the disk; with more, clients are told that it is busy."""
PENDING_BYTES_MAX: Final = 128 << 20
"""How much they may write together."""

Done = Callable[[Csn], None]
"""Called with the CSN of an operation when it is on the disk."""

TOKEN: Final = "replica"


@dataclass(slots=True, kw_only=True)
class Sequel:
    """What follows when a transaction is on the disk."""

    updates: tuple[Update, ...] = ()
    own: Csn | None = None
    """The own CSN that is committed with it."""
    done: Done | None = None
    tokens: tuple[Token, ...] = ()
    """What replication gave, to hear of it."""
    changed: tuple[EntryId, ...] = ()
    consequences: Consequences = NO_CONSEQUENCES


@dataclass(frozen=True, slots=True)
class _Pending:
    number: int
    bytes: int
    vector: Vector
    sequel: Sequel


class Transactions:
    """What is on its way."""

    def __init__(self, store: Store, overlay: Overlay, generator: Generator) -> None:
        self._store = store
        self._overlay = overlay
        self._generator = generator
        self._noted_s = -1
        """The second at which the generator's state was last written: once in each is enough (CSN-23)."""
        self._pending: deque[_Pending] = deque()
        self._bytes = 0
        self._number = 0

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def is_full(self) -> bool:
        return len(self._pending) >= PENDING_MAX or self._bytes >= PENDING_BYTES_MAX

    def write(self, batch: Batch, vector: Vector, sequel: Sequel) -> None:
        batch.put(REPLICA, VECTOR, vector.text().encode())
        if self._generator.current_time() != self._noted_s:
            self._noted_s = self._generator.current_time()
            batch.put(KEPT, CSNSTATE, self._generator.csnstate().encode())
        self._number += 1
        self._overlay.add(self._number, batch)
        self._pending.append(_Pending(self._number, batch.bytes, vector, sequel))
        self._bytes += batch.bytes
        self._overlay.close()  # who reads while others write makes the store keep what they replace
        self._store.write(batch, (TOKEN, self._number))

    def take_committed(self, token: Token) -> tuple[Vector, Sequel]:
        """The oldest transaction is on the disk: its vector, and what follows."""
        oldest = self._pending.popleft()
        invariant(token == (TOKEN, oldest.number), "transactions are committed in their order")
        self._bytes -= oldest.bytes
        self._overlay.committed(oldest.number)
        return oldest.vector, oldest.sequel
