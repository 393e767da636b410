"""The sending half of a link: what the peer lacks, in order, within the room that it gives.

The supplier knows what the peer has from the peer's own words and from what it has sent in this session; so
nothing goes round in circles, and after a cut it goes on where the peer says. Own changes leave at once.
Others' wait a moment, because a peer with a link to their issuer has them by then and says so.
"""

from collections import deque
from dataclasses import dataclass

from holdfast.clock.vector import Vector
from holdfast.directory.replica.update import encoded_update
from holdfast.directory.replication.greeting import least_needed
from holdfast.directory.replication.messages import (
    CannotSupply,
    Have,
    Hello,
    Updates,
    shortened,
)
from holdfast.directory.replication.ports import ReplicationConfig, ReplicationPorts
from holdfast.directory.replication.roster import Roster
from holdfast.directory.replication.statement import Introduction, Statement
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId


@dataclass(frozen=True, slots=True)
class _OnItsWay:
    number: int
    updates: int
    bytes: int


class Supplier:
    """Sends to one peer, for one session."""

    def __init__(
        self, peer: str, hello: Hello, ports: ReplicationPorts, roster: Roster, config: ReplicationConfig
    ) -> None:
        self._peer = peer
        self._ports = ports
        self._roster = roster
        self._config = config
        self._window_updates = hello.window_updates
        self._window_bytes = hello.window_bytes
        self.committed = Vector.parse(hello.vector)
        """What the peer has on its disk, in its own words."""
        self._position = self.committed
        """What it has or was sent."""
        self._heard = hello.vector
        self._on_its_way: deque[_OnItsWay] = deque()
        self._number = 0
        self._told_shortage: Vector | None = None
        self._short = Vector.of(self.committed.generation)
        """The replicas of which the peer lacks what is not kept here."""
        self.sent = 0
        """How many updates were sent in this session."""

    def on_have(self, have: Have) -> None:
        if have.done > self._number:
            raise InvalidRequest(f"batch {have.done} was never sent")
        if have.vector != self._heard:
            self._heard = have.vector
            vector = Vector.parse(have.vector)
            self.committed = self.committed.merged(vector)
            self._position = self._position.merged(vector)
        while self._on_its_way and self._on_its_way[0].number <= have.done:
            self._on_its_way.popleft()

    def has_received(self, newest: Vector) -> None:
        """The peer has sent these itself: they are not sent back."""
        self._position = self._position.merged(newest)

    def pump(self, *, own_only: bool = False) -> None:
        """Send what the peer lacks, as far as there is room."""
        if self._position.covers_all(self._ports.replica.vector):
            return
        self._find_short()
        while self._has_room():
            batch = self._gather(own_only=own_only)
            if batch is None:
                return
            self._ports.links.send(self._peer, batch)

    def _find_short(self) -> None:
        """See of which replicas the peer lacks what is not kept here: nothing of those is sent, and the peer
        is told. What it lacks of others is sent all the same."""
        least = least_needed(self._ports.replica.trimmed, self._roster)
        self._short = Vector.of(least.generation, [csn for csn in least if not self._position.covers(csn)])
        if not len(self._short):
            self._told_shortage = None
        elif least != self._told_shortage:
            self._told_shortage = least
            why = f"you have {self._position.text()}; what was before {least.text()} is not kept here"
            self._ports.trace.note("directory_cannot_supply", peer=self._peer, why=why)
            self._ports.links.send(self._peer, CannotSupply(shortened(why), least.text()))

    def _has_room(self) -> bool:
        # One update is let through whatever its length: it could never be sent otherwise.
        return not self._on_its_way or (
            sum(each.updates for each in self._on_its_way) < self._window_updates
            and sum(each.bytes for each in self._on_its_way) < self._window_bytes
        )

    def _room(self) -> tuple[int, int]:
        updates = self._window_updates - sum(each.updates for each in self._on_its_way)
        length = self._window_bytes - sum(each.bytes for each in self._on_its_way)
        return min(updates, self._config.batch_updates), min(length, self._config.batch_bytes)

    def _gather(self, *, own_only: bool) -> Updates | None:
        updates: list[bytes] = []
        newest: dict[ReplicaId, Csn] = {}
        room_updates, room_bytes = self._room()
        length = 0
        left_out: Csn | None = None
        with self._ports.replica.updates_since(self._position.merged(self._short)) as reader:
            due = self._due(reader.vector, own_only=own_only)
            for update in reader:
                replica = update.csn.replica
                if not self._is_sent(replica, own_only=own_only):
                    continue
                data = encoded_update(update)
                # A window that is used up in part takes nothing that does not fit: it waits its turn.
                fits = length + len(data) <= room_bytes and len(updates) < room_updates
                # What comes after a statement waits until that has gone: the peer has it on the disk before
                # its vector moves on (G7).
                is_after = replica in due and due[replica].csn < update.csn
                if is_after or (not fits and (updates or self._on_its_way)):
                    left_out = update.csn
                    break
                updates.append(data)
                length += len(data)
                newest[replica] = update.csn
        statements = [each for _, each in sorted(due.items()) if left_out is None or each.csn < left_out]
        newest |= {each.replica: each.csn for each in statements}
        if not newest:
            return None
        return self._batch(
            updates, length, tuple(statements), Vector.of(self._position.generation, newest.values())
        )

    def _due(self, available: Vector, *, own_only: bool) -> dict[ReplicaId, Statement]:
        """The statements that the peer lacks, and may have once it has all changes before them."""
        return {
            replica: statement
            for replica, statement in self._roster.statements.items()
            if self._is_sent(replica, own_only=own_only)
            and not self._position.covers(statement.csn)
            and available.covers(statement.csn)
        }

    def _is_sent(self, replica: ReplicaId, *, own_only: bool) -> bool:
        if own_only and replica != self._roster.replica:
            return False
        return self._short.get(replica) is None

    def _batch(
        self,
        updates: list[bytes],
        length: int,
        statements: tuple[Statement, ...],
        sent: Vector,
    ) -> Updates:
        before = {csn.replica: self._position.get(csn.replica) for csn in sent}
        self._number += 1
        self.sent += len(updates)
        self._position = self._position.merged(sent)
        self._on_its_way.append(_OnItsWay(self._number, len(updates), length))
        return Updates(
            number=self._number,
            after=tuple(csn for csn in before.values() if csn is not None),
            introductions=tuple(
                Introduction(replica, self._roster.bases[replica])
                for replica, csn in before.items()
                if csn is None and replica in self._roster.bases
            ),
            updates=tuple(updates),
            statements=statements,
        )
