"""Bugs planted in what replicates the directory: mistakes that peers have made, and those that are near."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import structs

from holdfast.clock.vector import Vector
from holdfast.directory.entry import EntryState, decoded_entry
from holdfast.directory.primitives import EntryId
from holdfast.directory.replica.maps import ENTRIES
from holdfast.directory.replica.overlay import StoredEntries
from holdfast.directory.replication import greeting, identity, link
from holdfast.directory.replication.greeting import clock_objection, objection
from holdfast.directory.replication.identity import ReplicaIds
from holdfast.directory.replication.link import Link
from holdfast.directory.replication.messages import Hello, Refused, Updates
from holdfast.directory.replication.ports import SessionClock
from holdfast.directory.replication.replicator import Replicator
from holdfast.directory.replication.roster import Own, Roster, Rows
from holdfast.directory.replication.supplier import Supplier
from holdfast.model.ids import ReplicaId
from holdfast.sim.runner.planted import Planting

_new = identity._new


def _keep_the_id(own: Own, ids: ReplicaIds) -> Own:
    """A store that was put back goes on as the replica that it was."""
    return own if own.replica else _new(own, ids)


def _issue_at_once(replicator: Replicator) -> bool:
    """Issues changes before anybody could say that the store was put back."""
    return True


def _sent_is_stored(replicator: Replicator, heard: Link) -> None:
    """Takes what was sent to a second store for what it has."""
    if heard.supplier is not None:
        replicator.acknowledgements.on_second_store(heard.supplier._position)


def _clock_first(hello: Hello, *, suffix: str, own: Vector, roster: Roster) -> Refused | None:
    """Compares no generations."""
    alike = structs.replace(hello, generation=own.generation)
    return objection(alike, suffix=suffix, own=own, roster=roster)


def _any_clock(sessions: SessionClock, peer: str, hello: Hello) -> Refused | None:
    """Lets a peer with a wrong clock in."""
    clock_objection(sessions, peer, hello)
    return None


_trim_bound = Roster.trim_bound


def _trim_for_those_who_spoke(roster: Roster, own: Vector, *, but_for: Iterable[ReplicaId] = ()) -> Vector:
    """Takes a replica of which nothing is known for one that has everything."""
    silent = [each for each in roster.live if each not in roster.vectors]
    return _trim_bound(roster, own, but_for=silent)


def _mark_nobody(roster: Roster, replica: ReplicaId, since: str) -> Rows:
    """Forgets what a replica needs without a word."""
    return []


def _purge_what_all_have(roster: Roster, own: Vector) -> Vector | None:
    """Purges what is known to be everywhere, whatever may still be on its way."""
    newest = own.newest()
    if newest is None or any(each not in roster.vectors for each in roster.live):
        return None
    return own


def _purge_for_those_who_spoke(roster: Roster, own: Vector) -> Vector | None:
    """Purging counts only replicas of which something is known."""
    counted = [each for each in (*roster.live, *roster.over) if each in roster.vectors]
    least = []
    for replica in counted:
        known = [csn for each in counted if (csn := roster._has(each, replica, own)) is not None]
        least += [min(known)] if known else []
    return Vector.of(own.generation, least, retired=own.retired) if least else None


def _follow_any_purge(roster: Roster, own: Vector) -> Iterator[Vector]:
    """Purges to what another has purged to, without having what he had."""
    for statement in roster.statements.values():
        if statement.purged:
            yield Vector.parse(statement.purged)


def _agree_with_everything(roster: Roster, other: ReplicaId, replica: ReplicaId, own: Vector) -> bool:
    """Retires an id without asking whether others have more of it."""
    return True


def _count_nobody(replicator: Replicator, replica: ReplicaId, then: Callable[[], None]) -> None:
    """Gives data to a replica that is not counted."""
    then()


_gather = Supplier._gather


def _say_too_much(sender: Supplier, *, own_only: bool) -> Updates | None:
    """Sends statements before all changes that they follow."""
    batch = _gather(sender, own_only=own_only)
    if batch is None:
        return None
    vector = sender._ports.replica.vector
    early = [
        each
        for replica, each in sorted(sender._roster.statements.items())
        if not sender._position.covers(each.csn)
        and vector.covers(each.csn)
        and sender._is_sent(replica, own_only=own_only)
    ]
    csns = [each.csn for each in early]
    sender._position = sender._position.merged(Vector.of(vector.generation, csns))
    return structs.replace(batch, statements=(*batch.statements, *early))


def _relay_nothing(sender: Supplier, replica: ReplicaId, *, own_only: bool) -> bool:
    """Passes nothing on that came from another."""
    return replica == sender._roster.replica


def _endless(sender: Supplier) -> tuple[int, int]:
    return 1 << 12, 1 << 20


def _be_ready(replicator: Replicator) -> None:
    """Issues changes before it knows what the others know."""
    if not replicator.roster.own.is_ready:
        replicator._become_ready()


def _hear_nothing(replicator: Replicator, refused_by: Link, refused: Refused) -> None:
    """Goes on under an id that was retired."""


def _had_by_most(roster: Roster, own: Vector, present: Iterable[ReplicaId]) -> Vector:
    """Takes what is here for what most replicas have."""
    return own


def _take_any_surplus(*arguments: object) -> None:
    """Lets a newcomer in that has what others do not take any more."""


def _read_before(entries: StoredEntries, entry: EntryId | None) -> Iterator[EntryState]:
    """Purges what was read when the purge began, whatever has come since."""
    kept = vars(entries)
    if entry is None:
        kept["read"] = [decoded_entry(row) for _, row in entries._overlay.rows_after(ENTRIES, b"")]
    return iter([each for each in kept["read"] if entry is None or each.id > entry])


_bug: Final = Planting("directory", runs_max=60)

PLANTED = (
    _bug(
        "keeps-the-id",
        "G3",
        "a store that was put back goes on under its replica id",
        identity,
        "_new",
        _keep_the_id,
        "stores",
    ),
    _bug(
        "issues-at-once",
        "G3",
        "a store issues changes before its peers could say that it was put back",
        Replicator,
        "_may_issue",
        _issue_at_once,
        "stores",
    ),
    _bug(
        "sent-is-stored",
        "G1",
        "acknowledge=2 is answered when the change was sent to a second store",
        Replicator,
        "on_have",
        _sent_is_stored,
    ),
    _bug(
        "takes-other-data",
        "G4",
        "the generation of a peer is not compared",
        link,
        "objection",
        _clock_first,
        "strangers",
    ),
    _bug(
        "takes-any-clock",
        "G4",
        "a peer whose clock is too far ahead is let in",
        link,
        "clock_objection",
        _any_clock,
        "strangers",
    ),
    _bug(
        "trims-for-those-who-spoke",
        "G5",
        "a replica that has said nothing counts as one that has everything",
        Roster,
        "trim_bound",
        _trim_for_those_who_spoke,
    ),
    _bug(
        "trims-unmarked",
        "G5",
        "the changelog is cut at its bound and nobody is marked",
        Roster,
        "mark_lagging",
        _mark_nobody,
    ),
    _bug(
        "purges-what-it-has",
        "G7",
        "purging goes up to the own vector",
        Roster,
        "purge_bound",
        _purge_what_all_have,
    ),
    _bug(
        "purges-for-those-who-spoke",
        "G7",
        "purging does not wait for a replica that has said nothing",
        Roster,
        "purge_bound",
        _purge_for_those_who_spoke,
    ),
    _bug(
        "follows-any-purge",
        "G7",
        "a master purges to another's vector without having what that one had",
        Roster,
        "followed_purges",
        _follow_any_purge,
    ),
    _bug(
        "purges-what-it-read",
        "G2",
        "a purge in slices writes entries as they were before changes came",
        StoredEntries,
        "after",
        _read_before,
    ),
    _bug(
        "retires-alone",
        "G3",
        "an id is retired although others have more or less of it",
        Roster,
        "_agrees",
        _agree_with_everything,
        "retirements",
    ),
    _bug(
        "counts-nobody",
        "G5",
        "a new replica is given a copy and is not counted",
        Replicator,
        "_count",
        _count_nobody,
        "stores",
    ),
    _bug(
        "states-before-changes",
        "G7",
        "a statement is sent before the changes that it follows",
        Supplier,
        "_gather",
        _say_too_much,
    ),
    _bug(
        "relays-nothing",
        "G1",
        "changes of others are not passed on",
        Supplier,
        "_is_sent",
        _relay_nothing,
    ),
    _bug("sends-without-room", "G1", "the window has no bound", Supplier, "_room", _endless),
    _bug(
        "ready-at-once",
        "G7",
        "a store that was put back issues changes before it knows what others know",
        Replicator,
        "_maybe_ready",
        _be_ready,
        "stores",
    ),
    _bug(
        "hears-no-retirement",
        "G3",
        "a replica goes on under an id that others have retired",
        Replicator,
        "on_refused",
        _hear_nothing,
        "retirements",
    ),
    _bug(
        "takes-any-surplus",
        "G3",
        "a newcomer brings changes of a retired replica that others do not take",
        greeting,
        "_surplus",
        _take_any_surplus,
        "retirements",
        runs_max=200,
    ),
    _bug(
        "trims-on-both-sides",
        "G5",
        "each side of a cut trims what the other needs",
        Roster,
        "held_by_most",
        _had_by_most,
        "clocks",
        runs_max=100,
    ),
)
