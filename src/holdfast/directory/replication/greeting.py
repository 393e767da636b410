"""Who may have a session: what a replica objects to in another's greeting.

The order matters (G4). Whether the peer has the same data is looked at first; only then its id, and last its
clock: a peer of another data set moves nobody's time. A refusal concerns the peer alone. Local writes go on.
"""

from holdfast.clock.errors import DifferentGeneration, DuplicateReplica, SkewTooLarge
from holdfast.clock.vector import Vector
from holdfast.directory.replication.messages import FORMAT, Hello, Reason, Refused, shortened
from holdfast.directory.replication.ports import SessionClock
from holdfast.directory.replication.roster import Roster
from holdfast.model.errors import InvalidRequest


def objection(hello: Hello, *, suffix: str, own: Vector, roster: Roster) -> Refused | None:
    """Why the sender of *hello* is refused, whatever its clock says; None if it is not."""
    if hello.format != FORMAT:
        return Refused(Reason.FORMAT, f"this replica speaks format {FORMAT}, not {hello.format}")
    if hello.suffix != suffix:
        return Refused(Reason.SUFFIX, shortened(f"this is {suffix}, not {hello.suffix}"))
    if hello.generation != own.generation:
        return Refused(
            Reason.GENERATION,
            f"this replica has the data set {own.generation}, not {hello.generation}; initialise one of the "
            "two from the other",
        )
    try:
        vector = Vector.parse(hello.vector)
        vector.check_generation(own)
    except (InvalidRequest, DifferentGeneration) as fault:
        return Refused(Reason.INVALID, shortened(fault))
    if hello.replica in roster.over or hello.replica in roster.final or hello.replica in own.retired:
        return Refused(
            Reason.RETIRED, f"replica {hello.replica} was retired: it must take a new id and join again"
        )
    if hello.replica == roster.replica:
        return Refused(Reason.DUPLICATE, f"this is replica {hello.replica}")
    return _surplus(hello, vector, own, roster)


def _surplus(hello: Hello, vector: Vector, own: Vector, roster: Roster) -> Refused | None:
    """A store that was put back may have changes of replicas that are over which none of the others has. Some
    may have retired those ids already and take nothing more of them: it would differ from them for ever.
    One that is ready was counted by somebody, so nobody has retired them without it (G3)."""
    may_bring = hello.is_ready or roster.is_counted(hello.replica)
    for replica in (*roster.final, *(() if may_bring else roster.over)):
        newest, last = vector.get(replica), roster.last_of(replica, own)
        if newest is not None and (last is None or newest > last):
            state = "retired" if replica in roster.final else "over"
            return Refused(
                Reason.NEEDS_INITIALISATION,
                f"you have changes of replica {replica} up to {newest}, which is {state}, and nobody "
                f"takes any after {last or 'the first'}; initialise your store, which loses them",
            )
    return None


def least_needed(trimmed: Vector, roster: Roster) -> Vector:
    """What a peer must have so that it can be brought up to date from here: what was trimmed, and all that
    counts of retired replicas, of which nothing is sent any more."""
    return Vector.of(trimmed.generation, (*trimmed, *roster.finals()))


def clock_objection(sessions: SessionClock, peer: str, hello: Hello) -> Refused | None:
    """Begin the session at the clock; refused, nothing there has changed."""
    try:
        sessions.begin_session(peer, hello.replica, Vector.parse(hello.vector))
    except SkewTooLarge as fault:
        return Refused(Reason.SKEW, shortened(fault))
    except DuplicateReplica as fault:
        return Refused(Reason.DUPLICATE, shortened(fault))
    return None
