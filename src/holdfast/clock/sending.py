"""What to send: the smallest set of changes that brings a consumer up to date (CSN-62)."""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.clock.vector import Vector
from holdfast.model.csn import Csn
from holdfast.model.ids import ReplicaId


@dataclass(frozen=True, slots=True)
class Missing:
    """The changes of one replica that a consumer lacks: all after *after* (None: all) up to *up_to*."""

    replica: ReplicaId
    after: Csn | None
    up_to: Csn

    def includes(self, csn: Csn) -> bool:
        operation = csn.operation
        return operation <= self.up_to and (self.after is None or operation > self.after)


def missing(supplier: Vector, consumer: Vector) -> tuple[Missing, ...]:
    """What *supplier* has and *consumer* lacks, by replica. Raises :class:`DifferentGeneration`."""
    supplier.check_generation(consumer)
    return tuple(
        Missing(csn.replica, consumer.get(csn.replica), csn) for csn in supplier if not consumer.covers(csn)
    )


def to_send(changes: Iterable[Csn], supplier: Vector, consumer: Vector) -> list[Csn]:
    """Those of *changes* that *consumer* lacks, in the order in which they must be sent.

    Nothing beyond the supplier's own vector: a smaller CSN of that replica may still be in flight there.
    """
    ranges = {part.replica: part for part in missing(supplier, consumer)}
    wanted = [csn for csn in changes if csn.replica in ranges and ranges[csn.replica].includes(csn)]
    wanted.sort()
    return wanted
