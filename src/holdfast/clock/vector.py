"""Replica update vectors: per replica, the newest CSN whose change a server has.

A vector belongs to one data set, named by its generation; vectors of different ones are never mixed. It
covers a CSN when it holds that one or a newer one of the same replica, for changes of one replica travel in
order. s plays no part: an operation arrives whole. A retired replica's id leaves the vector for good; it is
remembered, else the next merge with a peer that has not heard of it would bring it back.

Text (version 1), one line, sorted: ``GENERATION [CSN]... [-REPLICA]...``, for example
``2f6c 03626325e00010001 03626325f00000002 -0003``: the newest CSN of replicas 1 and 2, and 3 is retired.

Pending lists: which committed changes of a replica may be sent (CSN-52..54).

A vector says "everything up to here", so a change may be sent, and counted in a vector, only when no
smaller CSN of the same replica is still in flight. Aborted ones hold nobody up.

What to send: the smallest set of changes that brings a consumer up to date (CSN-62).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from holdfast.clock.errors import DifferentGeneration
from holdfast.model.csn import Csn, parse
from holdfast.model.errors import InvalidRequest, Overloaded
from holdfast.model.ids import ReplicaId

_GENERATION: Final = re.compile(r"[0-9a-zA-Z_.:]{1,64}", re.ASCII)
_RETIRED: Final = re.compile(r"-[0-9a-f]{4}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Vector:
    """What one server has of one data set. A value: changes give a new vector."""

    generation: str
    _newest: Mapping[ReplicaId, Csn]
    """Sorted by replica; each CSN without its s."""
    retired: tuple[ReplicaId, ...] = ()
    """Sorted; none of them in the vector."""

    @classmethod
    def of(cls, generation: str, csns: Iterable[Csn] = (), *, retired: Iterable[ReplicaId] = ()) -> "Vector":
        """The vector of a server that has *csns*, and of each replica everything older."""
        if not _GENERATION.fullmatch(generation):
            raise InvalidRequest(f"not a generation mark: {generation!r}")
        gone = dict.fromkeys(sorted(retired))
        newest: dict[ReplicaId, Csn] = {}
        for csn in csns:
            known = newest.get(csn.replica)
            if csn.replica not in gone and (known is None or csn > known):
                newest[csn.replica] = csn.operation
        return cls(generation, {replica: newest[replica] for replica in sorted(newest)}, tuple(gone))

    def __iter__(self) -> Iterator[Csn]:
        """The newest CSNs, by replica."""
        return iter(self._newest.values())

    def __len__(self) -> int:
        return len(self._newest)

    def get(self, replica: ReplicaId) -> Csn | None:
        """The newest CSN of *replica*, None when nothing of it is known."""
        return self._newest.get(replica)

    def newest(self) -> Csn | None:
        """The newest CSN of all: what a generator must get past."""
        return max(self._newest.values(), default=None)

    def covers(self, csn: Csn) -> bool:
        """Nothing of *csn* needs to be sent to the owner of this vector.

        A retired replica's changes are always covered: nobody sends or takes them any more.
        """
        known = self._newest.get(csn.replica)
        if known is None:
            return csn.replica in self.retired
        return csn.operation <= known

    def covers_all(self, other: "Vector") -> bool:
        """The owner of this vector has everything that *other*'s owner has."""
        self.check_generation(other)
        return all(self.covers(csn) for csn in other)

    def advanced(self, csn: Csn) -> "Vector":
        """This vector after the change of *csn*; covered ones change nothing."""
        return self if self.covers(csn) else self._with((csn,), ())

    def merged(self, other: "Vector") -> "Vector":
        """The least vector that covers both. Raises :class:`DifferentGeneration`."""
        self.check_generation(other)
        return self._with(other, other.retired)

    def without(self, replica: ReplicaId) -> "Vector":
        """Retire *replica*: its id leaves this vector and every one merged with it (CSN-72)."""
        return self._with((), (replica,))

    def check_generation(self, other: "Vector") -> None:
        if other.generation != self.generation:
            raise DifferentGeneration(self.generation, other.generation)

    def text(self) -> str:
        """One line; equal vectors give equal text."""
        csns = [csn.text() for csn in self]
        return " ".join([self.generation, *csns, *(f"-{replica:04x}" for replica in self.retired)])

    @classmethod
    def parse(cls, text: str) -> "Vector":
        """Read :meth:`text`, strictly. Raises :class:`InvalidRequest`."""
        generation, *words = text.split(" ")
        retired = [ReplicaId(int(word[1:], 16)) for word in words if _RETIRED.fullmatch(word)]
        vector = cls.of(generation, map(parse, words[: len(words) - len(retired)]), retired=retired)
        if vector.text() != text:
            raise InvalidRequest("not a vector: its parts are repeated, unsorted, or retired yet present")
        return vector

    def _with(self, csns: Iterable[Csn], retired: Iterable[ReplicaId]) -> "Vector":
        return Vector.of(self.generation, (*self, *csns), retired=(*self.retired, *retired))


PENDING_MAX: Final = 200_000
"""CSNs known and not yet drained; beyond it something holds the list up, and it must be looked at."""


class PendingList:
    """The CSNs of one replica, from assigned (or received) to drained as sendable, in order.

    For the server's own replica register ``assigned``, ``committed`` and ``aborted`` with the generator.
    They run outside its lock, so with several threads a CSN may be committed here before a smaller one is
    even known here: then drain with ``below=generator.oldest_in_flight()``, read *after* the commits.
    """

    def __init__(self, replica: ReplicaId, *, lock: AbstractContextManager[object] | None = None) -> None:
        self.replica = replica
        self._lock = lock or nullcontext()
        self._is_committed: dict[Csn, bool] = {}
        """Every CSN that is pending."""
        self._order: list[Csn] = []
        """A heap of them; aborted ones linger until they come up."""

    def __len__(self) -> int:
        return len(self._is_committed)

    def assigned(self, csn: Csn, _argument: object = None) -> None:
        """*csn* is in flight: assigned here, or received and not yet durable."""
        if csn.replica != self.replica:
            raise InvalidRequest(f"CSN {csn} is not of replica {self.replica}")
        with self._lock:
            if csn in self._is_committed:
                raise InvalidRequest(f"CSN {csn} is pending already")
            if len(self._is_committed) >= PENDING_MAX:
                raise Overloaded(f"{PENDING_MAX} CSNs of replica {self.replica} are pending")
            self._is_committed[csn] = False
            heappush(self._order, csn)

    def committed(self, csn: Csn, _argument: object = None) -> None:
        """The change of *csn* is durable."""
        with self._lock:
            self._require_in_flight(csn)
            self._is_committed[csn] = True

    def aborted(self, csn: Csn, _argument: object = None) -> None:
        """*csn* will never be committed; nobody waits for it."""
        with self._lock:
            self._require_in_flight(csn)
            del self._is_committed[csn]

    def take_sendable(self, *, below: Csn | None = None) -> list[Csn]:
        """Drain, in order, the committed CSNs that no smaller one in flight holds up.

        The last of them is what the vector may say of this replica.
        """
        sendable: list[Csn] = []
        with self._lock:
            while self._order and (below is None or self._order[0] < below):
                csn = self._order[0]
                if self._is_committed.get(csn) is False:
                    break
                heappop(self._order)
                if self._is_committed.pop(csn, None):
                    sendable.append(csn)
        return sendable

    def _require_in_flight(self, csn: Csn) -> None:
        if self._is_committed.get(csn) is not False:
            raise InvalidRequest(f"CSN {csn} is not in flight: it has ended, or was never assigned")


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
