"""The changelog: own and others' updates, kept until all who need them have them.

An update is written in the transaction that applies it (G1), under its own CSN, whoever issued it, so that it
can be passed on as it is. It is read from a snapshot, whose vector says where it ends.
"""

from collections.abc import Iterator
from heapq import merge
from types import TracebackType
from typing import Final, Self

from holdfast.clock.vector import Missing, Vector, missing
from holdfast.directory.replica.maps import REPLICA, UPDATES, VECTOR, update_row, updates_of
from holdfast.directory.replica.update import Update, decoded_update
from holdfast.directory.resolving import NeedsInitialisation
from holdfast.directory.store import Batch, Reader
from holdfast.model.csn import Csn
from holdfast.model.ids import ReplicaId

TRIMMED_MAX: Final = 5_000
"""How many updates one transaction forgets: a few milliseconds of the writer's time."""


def vector_in(reader: Reader) -> Vector | None:
    """The vector of a snapshot; None if the store is new."""
    row = reader.get(REPLICA, VECTOR)
    return None if row is None else Vector.parse(row.decode())


def check_reaches(trimmed: Vector, consumer: Vector) -> None:
    """Raise ``NeedsInitialisation`` if updates that *consumer* lacks were trimmed."""
    for csn in trimmed:
        if not consumer.covers(csn):
            raise NeedsInitialisation(
                f"updates of replica {csn.replica} up to {csn} are trimmed here, and not all of them are "
                "there: initialise the replica that lacks them"
            )


class ChangelogReader:
    """What the owner of a vector lacks, from one snapshot, in the order of CSNs."""

    def __init__(self, reader: Reader, vector: Vector, consumer: Vector) -> None:
        self._reader = reader
        self.vector = vector
        self._missing = missing(vector, consumer)

    def __iter__(self) -> Iterator[Update]:
        for _, row in merge(*map(self._rows, self._missing), key=lambda found: found[0]):
            yield decoded_update(row)

    def csns(self) -> Iterator[Csn]:
        return merge(*map(self._csns, self._missing))

    def _csns(self, part: Missing) -> Iterator[Csn]:
        return (csn for csn, _ in self._rows(part))

    def _rows(self, part: Missing) -> Iterator[tuple[Csn, bytes]]:
        start, _ = updates_of(part.replica)
        if part.after is not None:
            start = update_row(part.after) + b"\x00"
        for key, value in self._reader.rows(UPDATES, start=start, end=update_row(part.up_to) + b"\x00"):
            yield csn_of(bytes(key)), bytes(value)

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def csn_of(row: bytes) -> Csn:
    return Csn(
        int.from_bytes(row[2:6], "big"),
        int.from_bytes(row[6:8], "big"),
        ReplicaId(int.from_bytes(row[:2], "big")),
    )


def trim(reader: Reader, vector: Vector, batch: Batch) -> list[Csn]:
    """Erase, within *batch*, updates that *vector* covers, oldest first of each replica and never a
    replica's newest; return their CSNs."""
    gone: list[Csn] = []
    for newest in vector:
        start, end = updates_of(newest.replica)
        before: Csn | None = None
        for key, _ in reader.rows(UPDATES, start=start, end=end):
            if before is not None:  # one younger follows it
                batch.erase(UPDATES, update_row(before))
                gone.append(before)
            before = csn_of(bytes(key))
            if before > newest or len(gone) >= TRIMMED_MAX:
                break
    return gone
