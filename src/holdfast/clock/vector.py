"""Replica update vectors, the lists of pending changes, and which changes to send.

A vector has, for each replica, the newest CSN whose change a server has. It belongs to one data set, named by
its generation; vectors of different data sets are never mixed. It covers a CSN if it contains that CSN or a
newer one of the same replica, since changes of one replica travel in order. s does not matter, since an
operation arrives whole. The id of a retired replica leaves the vector for good. The vector remembers it;
otherwise the next merge with a peer that has not heard of the retirement would bring it back.

The text form (version 1) is one sorted line, ``GENERATION [CSN]... [-REPLICA]...``, for example ``2f6c
03626325e00010001 03626325f00000002 -0003``: the newest CSN of replicas 1 and 2, and 3 is retired.

A pending list says which committed changes of a replica may be sent (CSN-52..54). A vector means "everything
up to here", so a change may be sent, and counted in a vector, only when no smaller CSN of the same replica is
still in flight. Aborted CSNs hold up nothing.

:func:`missing` and :func:`to_send` find the smallest set of changes that brings a consumer up to date
(CSN-62).
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
    """What one server has of one data set. Immutable: a change gives a new vector."""

    generation: str
    _newest: Mapping[ReplicaId, Csn]
    """The newest CSN of each replica, without its s; sorted by replica."""
    retired: tuple[ReplicaId, ...] = ()
    """The retired replicas, sorted; none of them is in the vector."""

    @classmethod
    def of(cls, generation: str, csns: Iterable[Csn] = (), *, retired: Iterable[ReplicaId] = ()) -> "Vector":
        """The vector of a server that has *csns* and, of each replica, everything older."""
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
        """The newest CSN of *replica*; None if nothing of it is known."""
        return self._newest.get(replica)

    def newest(self) -> Csn | None:
        """The newest CSN of all, which a generator must pass."""
        return max(self._newest.values(), default=None)

    def covers(self, csn: Csn) -> bool:
        """Whether nothing of *csn* needs to be sent to the owner of this vector.

        A retired replica's changes are always covered: nobody sends or accepts them any more.
        """
        known = self._newest.get(csn.replica)
        if known is None:
            return csn.replica in self.retired
        return csn.operation <= known

    def covers_all(self, other: "Vector") -> bool:
        """Whether the owner of this vector has everything that *other*'s owner has."""
        self.check_generation(other)
        return all(self.covers(csn) for csn in other)

    def advanced(self, csn: Csn) -> "Vector":
        """This vector after the change of *csn*; a covered CSN changes nothing."""
        return self if self.covers(csn) else self._with((csn,), ())

    def merged(self, other: "Vector") -> "Vector":
        """The least vector that covers both. Raises :class:`DifferentGeneration`."""
        self.check_generation(other)
        return self._with(other, other.retired)

    def without(self, replica: ReplicaId) -> "Vector":
        """Retire *replica*: its id leaves this vector and every vector merged with it (CSN-72)."""
        return self._with((), (replica,))

    def check_generation(self, other: "Vector") -> None:
        if other.generation != self.generation:
            raise DifferentGeneration(self.generation, other.generation)

    def text(self) -> str:
        """The vector as one line; equal vectors give equal text."""
        csns = [csn.text() for csn in self]
        return " ".join([self.generation, *csns, *(f"-{replica:04x}" for replica in self.retired)])

    @classmethod
    def parse(cls, text: str) -> "Vector":
        """Parse the output of :meth:`text`, strictly. Raises :class:`InvalidRequest`."""
        generation, *words = text.split(" ")
        retired = [ReplicaId(int(word[1:], 16)) for word in words if _RETIRED.fullmatch(word)]
        vector = cls.of(generation, map(parse, words[: len(words) - len(retired)]), retired=retired)
        if vector.text() != text:
            raise InvalidRequest("not a vector: its parts are repeated, unsorted, or retired yet present")
        return vector

    def _with(self, csns: Iterable[Csn], retired: Iterable[ReplicaId]) -> "Vector":
        return Vector.of(self.generation, (*self, *csns), retired=(*self.retired, *retired))


PENDING_MAX: Final = 200_000
"""How many CSNs may be pending; with more, something holds up the list and must be investigated."""


class PendingList:
    """The CSNs of one replica in order, from assigned (or received) until they are drained as sendable.

    For the server's own replica, register ``assigned``, ``committed`` and ``aborted`` with the generator.
    They run outside its lock, so with several threads a CSN may be committed here before a smaller one is
    even known here. Then drain with ``below=generator.oldest_in_flight()``, read *after* the commits.
    """

    def __init__(self, replica: ReplicaId, *, lock: AbstractContextManager[object] | None = None) -> None:
        self.replica = replica
        self._lock = lock or nullcontext()
        self._is_committed: dict[Csn, bool] = {}
        """Every pending CSN, and whether it is committed."""
        self._order: list[Csn] = []
        """A heap of the pending CSNs; aborted ones stay until they reach the top."""

    def __len__(self) -> int:
        return len(self._is_committed)

    def assigned(self, csn: Csn, _argument: object = None) -> None:
        """Record that *csn* is in flight: assigned here, or received and not yet durable."""
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
        """Record that the change of *csn* is durable."""
        with self._lock:
            self._require_in_flight(csn)
            self._is_committed[csn] = True

    def aborted(self, csn: Csn, _argument: object = None) -> None:
        """Record that *csn* will never be committed; nothing waits for it."""
        with self._lock:
            self._require_in_flight(csn)
            del self._is_committed[csn]

    def take_sendable(self, *, below: Csn | None = None) -> list[Csn]:
        """Drain, in order, the committed CSNs that no smaller CSN in flight holds up.

        The last of them is what the vector may claim for this replica.
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

    Nothing beyond the supplier's own vector is sent: a smaller CSN of that replica may still be in flight
    there.
    """
    ranges = {part.replica: part for part in missing(supplier, consumer)}
    wanted = [csn for csn in changes if csn.replica in ranges and ranges[csn.replica].includes(csn)]
    wanted.sort()
    return wanted
