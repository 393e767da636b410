"""Replica update vectors: per replica, the newest CSN whose change a server has.

A vector belongs to one data set, named by its generation; vectors of different ones are never mixed. It
covers a CSN when it holds that one or a newer one of the same replica, for changes of one replica travel in
order. s plays no part: an operation arrives whole. A retired replica's id leaves the vector for good; it is
remembered, else the next merge with a peer that has not heard of it would bring it back.

Text (version 1), one line, sorted: ``GENERATION [CSN]... [-REPLICA]...``, for example
``2f6c 03626325e00010001 03626325f00000002 -0003``: the newest CSN of replicas 1 and 2, and 3 is retired.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.clock.errors import DifferentGeneration
from holdfast.model.csn import Csn, parse
from holdfast.model.errors import InvalidRequest
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
