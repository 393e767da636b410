"""What a replica does about what it knows of the others: retire ids, trim the changelog, purge old state.

*Trimming* (G5) never passes what a known replica has not said that it has, until the log is older or longer
than its settings allow; then those who lack it are marked, durably, before anything goes.
*Purging* (G7) goes up to what all had when they issued what may still be missing here. What one has purged
up to it says in its statements, and the others follow when they have all that it had then; so all purge to
one vector.
*Retiring* waits until all live replicas have the same of a replica that is over (see :mod:`.roster`).
"""

from collections.abc import Callable, Iterable

from holdfast.clock.vector import Vector
from holdfast.directory.replication.ports import ReplicationConfig, ReplicationPorts
from holdfast.directory.replication.roster import Roster, Rows
from holdfast.directory.resolving import horizon_of
from holdfast.model.csn import ZERO, Csn
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId
from holdfast.model.ports import Token

Keep = Callable[[Rows, Callable[[], None]], None]


class RetirementNeedsForce(InvalidRequest):
    """Raised when retiring a replica may lose changes; it says which, and only *force* does it all the
    same."""

    code = "retirement_needs_force"


class Housekeeping:
    def __init__(
        self,
        ports: ReplicationPorts,
        roster: Roster,
        config: ReplicationConfig,
        keep: Keep,
        new_token: Callable[[Callable[[], None]], Token],
        allotted: Callable[[], Iterable[ReplicaId]] = tuple,
    ) -> None:
        self._ports = ports
        self._roster = roster
        self._config = config
        self._keep = keep
        self._new_token = new_token
        self._allotted = allotted
        self._looked_ns: int | None = None
        self._purged_ns: int | None = None
        vector = ports.replica.vector
        self.newest_update = vector.newest() or ZERO
        """The newest update that is here; at first all that the vector may tell of."""
        self._trimmed_to: Vector | None = None
        """Up to where there is nothing left to trim."""

    def tick(self, now_ns: int) -> None:
        if self._looked_ns is None or now_ns - self._looked_ns >= self._config.statement_ns:
            # Nothing can have changed much before others have spoken again.
            self._looked_ns = now_ns
            self._retire_settled()
            self._trim()
        if self._purged_ns is None or now_ns - self._purged_ns >= self._config.purge_ns:
            self._purged_ns = now_ns
            self._purge()

    # --- retiring

    def retire(self, replica: ReplicaId, *, force: bool = False) -> str:
        """Call *replica* over, and return what that loses. Without *force* only if it loses nothing."""
        roster = self._roster
        if replica == roster.replica:
            raise InvalidRequest("a replica does not retire itself: let it leave, and retire it at another")
        if replica in roster.final:
            raise InvalidRequest(f"replica {replica} is retired already")
        if replica not in roster.live and replica not in roster.over:
            raise InvalidRequest(f"there is no replica {replica}")
        statement = roster.statements.get(replica)
        if replica in roster.over or (statement is not None and statement.is_leaving):
            loss = "nothing is lost"
        else:
            newest = self._ports.replica.vector.get(replica)
            since = "" if newest is None else f" after {newest.describe()}"
            loss = f"lost is what it issued{since} and no other replica has"
            if not force:
                raise RetirementNeedsForce(
                    f"replica {replica} has not left: {loss}. Let it leave first, or retire it by force"
                )
        self._ports.trace.note("directory_replica_over", replica=replica, force=force, loss=loss)
        self._keep(roster.end(replica), _nothing)
        return loss

    def _knows_all(self) -> bool:
        """Whether every replica that a store has now is known here. Who counted one that is not may have lost
        his store before he could say so, or be cut off: what it has, and began with, is not known."""
        counted = self._roster.counted
        return all(each in counted for each in self._allotted())

    def _retire_settled(self) -> None:
        if not self._knows_all():
            return
        vector = self._ports.replica.vector
        for replica in list(self._roster.settled(vector)):
            last = vector.get(replica)
            self._ports.trace.note("directory_replica_retired", replica=replica, last=last)
            self._keep(self._roster.retire(replica, last), _nothing)
            self._ports.replica.retire(replica, self._new_token(_nothing))

    # --- trimming

    def _trim(self) -> None:
        replica, roster = self._ports.replica, self._roster
        own, trimmed = replica.vector, replica.trimmed
        for each in [each for each in roster.lagging if each not in roster.lacking(trimmed)]:
            self._keep(roster.unmark(each), _nothing)
        bound = roster.trim_bound(own)
        excess = self._excess(own, bound)
        if excess is not None:
            lacking = [each for each in roster.lacking(excess) if each not in roster.lagging]
            for each in lacking:
                self._ports.trace.note("directory_needs_initialisation", replica=each, trimmed=excess.text())
                # The mark is in a transaction before the one that trims: it never comes after the loss.
                self._keep(roster.mark_lagging(each, excess.text()), _nothing)
            bound = bound.merged(excess)
        if len(bound) and bound != self._trimmed_to and not replica.trim(bound, self._new_token(_nothing)):
            self._trimmed_to = bound

    def _excess(self, own: Vector, bound: Vector) -> Vector | None:
        """What is kept only for replicas that lag, and is too old or too much; None if there is none."""
        if bound.covers_all(own):
            return None
        roster = self._roster
        oldest_s = self._ports.sessions.current_time() - self._config.log_age_s
        kept: list[Csn] = []
        with self._ports.replica.updates_since(self._ports.replica.trimmed.merged(bound)) as reader:
            # On the loop, of each look: of the updates themselves nothing is decoded.
            kept.extend(reader.csns())
        # What most replicas are not known to have stays whatever happens. Of two sides that are cut off from
        # each other at most one is most of them: the other keeps what it has to give, and is filled anew
        # when it has given it. If both had trimmed, filling either would lose what was acknowledged there.
        spread = roster.held_by_most(own, self._allotted())
        kept = [csn for csn in kept if spread.covers(csn)]
        too_many = kept[: max(0, len(kept) - self._config.log_updates)]
        too_old = [csn for csn in kept if csn.timestamp < oldest_s]
        if not too_many and not too_old:
            return None
        return Vector.of(own.generation, (*too_many, *too_old))

    # --- purging

    def _purge(self) -> None:
        replica, roster = self._ports.replica, self._roster
        own = replica.vector
        if replica.is_purging or not self._knows_all():
            return
        target = roster.purged
        for each in (roster.purge_bound(own), *roster.followed_purges(own)):
            if each is not None:
                target = each if target is None else target.merged(each)
        if target is None or target == roster.purged:
            return
        if roster.purged is not None and self.newest_update <= horizon_of(roster.purged):
            return  # time has passed, and nothing was changed that could be dropped
        self._keep(roster.purge(target), _nothing)
        replica.purge(target, self._new_token(_nothing))


def _nothing() -> None:
    return None
