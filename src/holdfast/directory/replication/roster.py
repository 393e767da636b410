"""What one replica knows of all replicas of its suffix, itself among them, and what follows from it.

*Live* are the replicas that somebody counts and nobody calls over. A replica that is over issues nothing
more, but changes of it may still be on their way; its id is *retired* when all live replicas know that it is
over and have exactly the same of it. From then on nobody sends or takes anything of it.

Of a replica that has made no statement nothing is known, and it counts as one that has nothing (G5).
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Struct, structs

from holdfast.clock.vector import Vector
from holdfast.directory.replica.maps import CSNSTATE as CSNSTATE  # one row, whoever writes it
from holdfast.directory.replication.statement import (
    Introduction,
    Replicas,
    Statement,
    VectorText,
    decoded_statement,
    encoded_statement,
)
from holdfast.model.csn import Csn, parse
from holdfast.model.errors import Corruption
from holdfast.model.ids import ReplicaId

Rows = list[tuple[bytes, bytes | None]]

SELF: Final = b"self"
STATED: Final = b"stated/"
BASE: Final = b"base/"
FINAL: Final = b"final/"
LAGGING: Final = b"lagging/"
PURGED: Final = b"purged"
TOLD_OVER: Final = b"told-over"
"""Kept by a replica that was told that its id is over, until it has another."""


class Own(Struct, frozen=True, kw_only=True):
    """What a replica keeps of itself, beside its data."""

    replica: ReplicaId
    is_ready: bool
    """Whether it may issue changes: somebody counts it, and it has what he had when he began to."""
    base: VectorText = ""
    known: Replicas = ()
    over: Replicas = ()
    is_read_only: bool = False
    is_leaving: bool = False
    """Whether it has said its last word and issues nothing more."""


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Own)


def own_row(own: Own) -> tuple[bytes, bytes]:
    return SELF, _encoder.encode(own)


def decoded_own(data: bytes) -> Own:
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError as fault:
        raise Corruption(
            "the replica's own row is damaged", file="replication", offset=0, expected="a row", found=fault
        ) from None


def key(prefix: bytes, replica: ReplicaId) -> bytes:
    return prefix + b"%04x" % replica


class Roster:
    """The rows that replication keeps, in memory. Who changes it also writes the rows that it returns."""

    def __init__(self, own: Own, rows: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.own = own
        self.statements: dict[ReplicaId, Statement] = {}
        self.vectors: dict[ReplicaId, Vector] = {}
        """The vectors of the statements."""
        self._purges: dict[ReplicaId, Vector] = {}
        self.bases: dict[ReplicaId, str] = {}
        self.final: dict[ReplicaId, Csn | None] = {}
        """The last CSN of each retired replica that counts; None if it never issued any."""
        self.lagging: dict[ReplicaId, str] = {}
        """Replicas that lack what was trimmed here, and since when."""
        self.purged: Vector | None = None
        """What this replica has decided to purge up to."""
        for name, value in rows:
            if name == PURGED:
                self.purged = Vector.parse(value.decode())
            prefix, slash, number = name.partition(b"/")
            if not slash:
                continue
            replica = ReplicaId(int(number, 16))
            if prefix + slash == STATED:
                self._take(decoded_statement(value))
            elif prefix + slash == BASE:
                self.bases[replica] = value.decode()
            elif prefix + slash == FINAL:
                self.final[replica] = parse(value.decode()) if value else None
            elif prefix + slash == LAGGING:
                self.lagging[replica] = value.decode()

    @property
    def replica(self) -> ReplicaId:
        return self.own.replica

    # --- who there is

    @property
    def over(self) -> list[ReplicaId]:
        """The replicas that issue nothing more and are not retired yet."""
        said = {*self.own.over, *(each for s in self.statements.values() for each in s.over)}
        return sorted(said - self.final.keys())

    @property
    def live(self) -> list[ReplicaId]:
        said = {self.replica, *self.own.known}
        said.update(each for s in self.statements.values() for each in s.known)
        return sorted(said - set(self.over) - self.final.keys())

    @property
    def counted(self) -> set[ReplicaId]:
        """All that are known here: live, over, or retired."""
        return {*self.live, *self.over, *self.final}

    def is_counted(self, replica: ReplicaId) -> bool:
        return replica in self.live

    def last_of(self, replica: ReplicaId, vector: Vector) -> Csn | None:
        """The newest CSN of a replica that is over or retired which anybody may have, as known here."""
        return self.final[replica] if replica in self.final else vector.get(replica)

    # --- what is learned

    def count(self, replica: ReplicaId) -> Rows:
        """Count a replica from now on, before it is given anything."""
        return self._own(known=_with(self.own.known, replica))

    def end(self, replica: ReplicaId) -> Rows:
        """A replica issues nothing more."""
        return self._own(over=_with(self.own.over, replica))

    def become_ready(self, base: Vector) -> Rows:
        return self._own(is_ready=True, base=base.text(), known=_with(self.own.known, self.replica))

    def state(self, statement: Statement) -> Rows:
        """Take a statement, own or another's; an older one than that which is here changes nothing."""
        known = self.statements.get(statement.replica)
        if statement.replica in self.final or (known is not None and known.csn >= statement.csn):
            return []
        self._take(statement)
        rows: Rows = [(key(STATED, statement.replica), encoded_statement(statement))]
        if self.bases.get(statement.replica) != statement.base:
            rows += self.introduce(Introduction(statement.replica, statement.base))
        if statement.replica == self.replica:
            # What others have said outlives their rows: those of retired replicas are erased.
            rows += self._own(known=statement.known, over=statement.over)
        return rows

    def introduce(self, introduction: Introduction) -> Rows:
        self.bases[introduction.replica] = introduction.base
        return [(key(BASE, introduction.replica), introduction.base.encode())]

    def retire(self, replica: ReplicaId, last: Csn | None) -> Rows:
        """The id of *replica* is not used any more, and nothing of it counts after *last*."""
        self.final[replica] = last
        for known in (self.statements, self.vectors, self._purges, self.bases, self.lagging):
            known.pop(replica, None)
        rows: Rows = [(key(FINAL, replica), b"" if last is None else last.text().encode())]
        rows += [(key(prefix, replica), None) for prefix in (STATED, BASE, LAGGING)]
        return rows + self._own(
            known=tuple(each for each in self.own.known if each != replica),
            over=tuple(each for each in self.own.over if each != replica),
        )

    def purge(self, vector: Vector) -> Rows:
        self.purged = vector
        return [(PURGED, vector.text().encode())]

    def leave(self) -> Rows:
        return self._own(is_leaving=True)

    def mark_lagging(self, replica: ReplicaId, since: str) -> Rows:
        self.lagging[replica] = since
        return [(key(LAGGING, replica), since.encode())]

    def unmark(self, replica: ReplicaId) -> Rows:
        del self.lagging[replica]
        return [(key(LAGGING, replica), None)]

    # --- what follows

    def settled(self, own: Vector) -> Iterator[ReplicaId]:
        """The replicas whose ids may be retired: all live ones know that they are over, and have what is
        here, no less and no more; or someone has found that before, and it is so here."""
        live, elsewhere = self.live, self._retired_elsewhere()
        for replica in sorted({*elsewhere, *self.over} - self.final.keys() - {self.replica}):
            is_found = replica in elsewhere and own.get(replica) == elsewhere[replica]
            is_over = replica in self.over
            if is_found or (is_over and all(self._agrees(each, replica, own) for each in live)):
                yield replica

    def _retired_elsewhere(self) -> dict[ReplicaId, Csn | None]:
        found: dict[ReplicaId, Csn | None] = {}
        for who, statement in self.statements.items():
            last = {csn.replica: csn for csn in statement.final}
            found.update((each, last.get(each)) for each in self.vectors[who].retired)
        return found

    def finals(self) -> tuple[Csn, ...]:
        return tuple(csn for _, csn in sorted(self.final.items()) if csn is not None)

    def _agrees(self, other: ReplicaId, replica: ReplicaId, own: Vector) -> bool:
        statement, vector = self.statements.get(other), self.vectors.get(other)
        if statement is None or vector is None:
            return False
        if replica in vector.retired:
            return True
        return replica in statement.over and vector.get(replica) == own.get(replica)

    def purge_bound(self, own: Vector) -> Vector | None:
        """What everyone had when they issued the oldest change that may still be missing here (G7); None if
        that is nothing."""
        counted = [*self.live, *self.over]
        if any(each not in self.vectors for each in counted):
            return None
        least = []
        for replica in counted:
            csns = [self._has(each, replica, own) for each in counted]
            known = [csn for csn in csns if csn is not None]
            if len(known) < len(csns):
                return None
            least.append(min(known))
        return Vector.of(own.generation, least, retired=own.retired)

    def followed_purges(self, own: Vector) -> Iterator[Vector]:
        """What others have purged up to, of those who had nothing then that is missing here now."""
        for replica, purged in self._purges.items():
            if own.covers_all(self.vectors[replica]):
                yield purged

    def trim_bound(self, own: Vector, *, but_for: Iterable[ReplicaId] = ()) -> Vector:
        """What no live replica needs from the changelog any more (G5), not counting *but_for*."""
        others = [each for each in self.live if each != self.replica and each not in but_for]
        if any(each not in self.vectors for each in others):
            return Vector.of(own.generation)
        least = []
        for csn in own:
            csns = [self._has(each, csn.replica, own) for each in others]
            if None not in csns:
                least.append(min([csn, *(each for each in csns if each is not None)]))
        return Vector.of(own.generation, least)

    def held_by_most(self, own: Vector, present: Iterable[ReplicaId]) -> Vector:
        """What more than half of all replicas have said that they have. *present*: those that stores have now
        as the authority knows it; if it has said nothing, those that are live here."""
        replicas = sorted({*present}) or self.live
        most = len(replicas) // 2 + 1
        voices = [each for each in replicas if each in self.vectors and each != self.replica]
        held = []
        for csn in own:
            csns = [self._has(each, csn.replica, own) for each in voices]
            found = sorted((csn, *(each for each in csns if each is not None)), reverse=True)
            if len(found) >= most:
                held.append(found[most - 1])
        return Vector.of(own.generation, held)

    def lacking(self, vector: Vector) -> list[ReplicaId]:
        """The live replicas, but for this one, that have not said that they have all of *vector*."""
        return [
            each
            for each in self.live
            if each != self.replica
            and (each not in self.vectors or not self.vectors[each].covers_all(vector))
        ]

    def _has(self, who: ReplicaId, of: ReplicaId, own: Vector) -> Csn | None:
        vector = self.vectors[who]
        # Who has retired an id has all of it that counts, as much as is here.
        return own.get(of) if of in vector.retired else vector.get(of)

    def _take(self, statement: Statement) -> None:
        self.statements[statement.replica] = statement
        self.vectors[statement.replica] = Vector.parse(statement.vector)
        if statement.purged:
            self._purges[statement.replica] = Vector.parse(statement.purged)

    def _own(self, **changes: object) -> Rows:
        changed = structs.replace(self.own, **changes)
        if changed == self.own:
            return []
        self.own = changed
        return [own_row(changed)]


def _with(replicas: Replicas, one: ReplicaId) -> Replicas:
    return tuple(sorted({*replicas, one}))
