"""The seam between a replica and replication: what one may ask of the other.

:class:`holdfast.directory.replica.replica.Replica` is a :class:`ReplicaSeam`. All calls belong to the thread
that drives the replica. The rules:

- ``vector`` has only what is committed, and it was committed with the data (G1): whoever is told of it may
  rely on it after a power cut.
- ``apply`` takes updates of one peer, in the order in which the peer sent them. What the vector covers is
  passed over, so an update may come twice and from several peers. Nothing of a call is applied if it raises.
  ``on_applied(token)`` follows when all of it is on the disk, in the order of the calls.
- ``updates_since`` reads the changelog, own and others' updates alike, in the order of their CSNs, from one
  snapshot of the store. It ends where that snapshot's vector ends.
- Rows that replication keeps for itself are written in the order of all other transactions: a row written
  after an update never outlives it.
- Any failed commit is final (D1): ``on_failed`` is the last that is heard, and the process must end.
"""

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Protocol, Self

from holdfast.clock.vector import Vector
from holdfast.directory.replica.update import Update
from holdfast.directory.store import Reader
from holdfast.model.csn import Csn
from holdfast.model.ids import ReplicaId
from holdfast.model.ports import Token


class UpdateReader(Protocol):
    """Updates from one snapshot, in the order of their CSNs. Close it, or use it in a ``with``."""

    @property
    def vector(self) -> Vector:
        """What the snapshot has: whoever has read to the end has all of it."""
        ...

    def __iter__(self) -> Iterator[Update]: ...

    def csns(self) -> Iterator[Csn]:
        """Those of the updates, without reading these."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class ReplicaListener(Protocol):
    """Whoever replicates: bound to a replica with ``listen``."""

    def on_committed(self, updates: Sequence[Update], *, is_own: bool) -> None:
        """These are on the disk and in the vector now, oldest first: own ones (*is_own*), or another
        master's, to be passed on."""
        ...

    def on_applied(self, token: Token) -> None:
        """All that ``apply``, ``keep`` or ``trim`` was called with under *token* is on the disk."""
        ...

    def on_failed(self, why: str) -> None:
        """Nothing is committed any more; the process must end (D1)."""
        ...


class ReplicaSeam(Protocol):
    """One replica as replication sees it."""

    @property
    def id(self) -> ReplicaId: ...

    @property
    def suffix(self) -> str: ...

    @property
    def vector(self) -> Vector:
        """What is committed here, of all replicas."""
        ...

    @property
    def trimmed(self) -> Vector:
        """Up to where the changelog was trimmed: who has less than this needs initialisation."""
        ...

    def listen(self, listener: ReplicaListener) -> None: ...

    def apply(
        self, peer: str, updates: Sequence[Update], token: Token, *, complete_to: Sequence[Csn] = ()
    ) -> None:
        """Apply what *peer* sent. *complete_to* says that there is nothing more of these replicas up to these
        CSNs (a heartbeat): the vector moves there as well.

        Raises ``SkewTooLarge`` if a CSN is further ahead than the clock allows, ``InvalidRequest`` if no
        master can have issued an update, and ``NeedsInitialisation`` if one is older than purged state and
        never came; then nothing here has changed.
        """
        ...

    def updates_since(self, vector: Vector) -> UpdateReader:
        """The committed updates that the owner of *vector* lacks. Raises ``NeedsInitialisation`` if some of
        them were trimmed, and ``DifferentGeneration`` for a vector of other data."""
        ...

    def heartbeat(self, token: Token) -> Csn:
        """Move the own part of the vector to a new CSN without a change; ``on_applied`` when it is there."""
        ...

    def trim(self, vector: Vector, token: Token) -> int:
        """Forget updates of the changelog that *vector* covers (never a replica's newest), as many as fit
        one transaction, and say how many; 0 when there is nothing left to trim."""
        ...

    def purge(self, vector: Vector, token: Token) -> None:
        """Begin to drop state that only changes up to *vector* needed (G7 says how far that may be). One that
        is under way is part of it from now on. ``on_applied`` follows when it is done; one that was cut short
        is begun again by the next process that opens the store."""
        ...

    @property
    def is_purging(self) -> bool:
        """Whether a purge is under way: ``purge_on`` is to be called, now and then."""
        ...

    def purge_on(self) -> None:
        """Do a little of the purge that is under way, a few milliseconds at most. Changes may arrive before
        the next call."""
        ...

    def retire(self, replica: ReplicaId, token: Token) -> None:
        """Take the id of a retired replica out of the vector, for good."""
        ...

    def keep(self, rows: Sequence[tuple[bytes, bytes | None]], token: Token) -> None:
        """Write rows of replication's own (None erases one): what it knows of its peers."""
        ...

    def kept(self, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        """Replication's own rows as they are on the disk, by key."""
        ...

    def read(self) -> Reader:
        """A snapshot of all maps (:mod:`.maps`), for a full copy."""
        ...

    def dump(self) -> bytes:
        """All state, as bytes: equal at replicas that have the same vector and purged to one vector."""
        ...
