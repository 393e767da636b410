"""The receiving half of a link: batches are checked, applied in order, and confirmed when they are durable.

A batch is taken whole or not at all. Its updates come first, then the statements that follow them; each
statement is written before the vector moves to it, so that no vector ever tells of a statement that is lost.
"""

from collections import deque
from collections.abc import Callable

from holdfast.clock.errors import SkewTooLarge
from holdfast.clock.vector import Vector
from holdfast.directory.replica.update import Update, decoded_update
from holdfast.directory.replication.messages import Reason, Refused, Updates, shortened
from holdfast.directory.replication.ports import ReplicationConfig, ReplicationPorts
from holdfast.directory.replication.roster import Roster, Rows
from holdfast.directory.replication.statement import check_statement
from holdfast.directory.resolving import NeedsInitialisation
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId
from holdfast.model.ports import Token


class PeerRefused(Exception):
    """Raised when what a peer sent ends its session; nothing of it was applied."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.why)
        self.refused = refused


class Consumer:
    """Takes from one peer, for one session."""

    def __init__(
        self,
        peer: str,
        ports: ReplicationPorts,
        roster: Roster,
        config: ReplicationConfig,
        new_token: Callable[[Callable[[], None]], Token],
        on_done: Callable[[], None],
    ) -> None:
        self._peer = peer
        self._ports = ports
        self._roster = roster
        self._config = config
        self._new_token = new_token
        self._on_done = on_done
        self._taken = 0
        self.done = 0
        """The last batch that is on the disk."""
        self._on_their_way: deque[Updates] = deque()
        self._received = Vector.of(ports.replica.vector.generation)
        """What this session has brought, committed or not."""

    def take(self, batch: Updates) -> Vector:
        """Apply a batch, and return the newest CSNs that it had. Raises :class:`PeerRefused`."""
        # What a batch has beside its updates is written before the vector moves on. Most have nothing: then
        # one transaction is all of it, and the next batch does not wait behind a second sync.
        is_plain = not batch.introductions and not batch.statements
        try:
            updates = self._checked(batch)
            token = self._new_token(self._committed if is_plain else _nothing)
            self._ports.replica.apply(self._peer, updates, token)
        except SkewTooLarge as fault:
            raise PeerRefused(Refused(Reason.SKEW, shortened(fault))) from None
        except NeedsInitialisation as fault:
            raise PeerRefused(Refused(Reason.NEEDS_INITIALISATION, shortened(fault))) from None
        except InvalidRequest as fault:
            raise PeerRefused(Refused(Reason.INVALID, shortened(fault))) from None
        # A statement may be older than updates that it came with: the newest of both counts.
        csns = (*(each.csn for each in updates), *(each.csn for each in batch.statements))
        newest = Vector.of(self._received.generation, csns)
        self._received = self._received.merged(newest)
        self._taken = batch.number
        self._on_their_way.append(batch)
        if not is_plain:
            self._take_statements(batch)
        return newest

    def _take_statements(self, batch: Updates) -> None:
        rows: Rows = []
        for introduction in batch.introductions:
            if introduction.replica not in self._roster.bases:
                rows += self._roster.introduce(introduction)
        for statement in batch.statements:
            rows += self._roster.state(statement)
        if rows:
            self._ports.replica.keep(rows, self._new_token(_nothing))
        complete_to = [statement.csn for statement in batch.statements]
        token = self._new_token(self._committed)
        self._ports.replica.apply(self._peer, (), token, complete_to=complete_to)

    def _committed(self) -> None:
        self.done = self._on_their_way.popleft().number
        self._on_done()

    def _checked(self, batch: Updates) -> list[Update]:
        if batch.number != self._taken + 1:
            raise InvalidRequest(f"batch {batch.number} follows {self._taken}")
        self._check_window(batch)
        has = self._ports.replica.vector
        for csn in batch.after:
            if not has.covers(csn) and not self._received.covers(csn):
                raise InvalidRequest(f"batch {batch.number} follows on {csn}, which is not here")
        for introduction in batch.introductions:
            self._check_base(introduction.replica, introduction.base)
        for statement in batch.statements:
            check_statement(statement, has.generation)
        return [decoded_update(data) for data in batch.updates]

    def _check_window(self, batch: Updates) -> None:
        updates = sum(len(each.updates) for each in (*self._on_their_way, batch))
        length = sum(each.bytes for each in (*self._on_their_way, batch))
        is_alone = not self._on_their_way and len(batch.updates) <= 1
        if not is_alone and (updates > self._config.window_updates or length > self._config.window_bytes):
            raise InvalidRequest(
                f"{updates} updates of {length} bytes are on their way, and the window has room for "
                f"{self._config.window_updates} of {self._config.window_bytes} bytes"
            )

    def _check_base(self, replica: ReplicaId, base: str) -> None:
        """A replica that is new here may not have begun with less than what is purged here: its changes would
        not know of what is gone (G7)."""
        purged = self._roster.purged
        if replica in self._roster.bases or replica in self._roster.final or purged is None:
            return
        if not base or not Vector.parse(base).covers_all(purged):
            raise NeedsInitialisation(
                f"replica {replica} began with {base or 'nothing'}, and {purged.text()} is purged here: "
                f"initialise it, or this replica"
            )


def _nothing() -> None:
    return None
