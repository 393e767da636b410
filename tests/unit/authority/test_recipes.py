"""Identity, sessions, names and openings stay correct when answers are lost and requests come late."""

import pytest

from holdfast.authority import keys
from holdfast.authority.contract import Applied, LeaseGone, Put, Refused
from holdfast.authority.identity import (
    AuthorityBehind,
    Floors,
    check_not_behind,
    ensure_identity,
    read_identity,
    restore,
)
from holdfast.authority.names import NotBound, NotYours, Taken, bind, list_names, resolve, unbind
from holdfast.authority.recipe import Contended, InDoubt, NoAnswer, Removed, Seen
from holdfast.authority.sessions import (
    NoSession,
    close_session,
    list_sessions,
    open_session,
    read_session,
    resume_session,
)
from holdfast.authority.stores import Behind, Stranger, raise_opening, read_opening
from holdfast.model.errors import Corruption, InvalidRequest
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, LeaseId, Nonce, Opening, StoreId
from recipe_bench import LEASE_S, Bench

A, B = HostId("a"), HostId("b")
STORE = StoreId("store-1")


# --- identity (A5)


def test_an_identity_is_kept_whoever_asks_later(bench: Bench) -> None:
    """The first identity stays, and a second caller gets it."""
    first = bench.run(ensure_identity("one", nonce=bench.nonce()))
    second = bench.run(ensure_identity("two", nonce=bench.nonce()))
    assert isinstance(first, Seen)
    assert first == second


def test_restoring_begins_a_generation_above_every_number_in_use(bench: Bench) -> None:
    """After a restoration no incarnation is issued that a host has seen, and floors never sink (A5)."""
    bench.session("a")
    restored = bench.run(restore(Floors(epoch=Epoch(70), incarnation=Incarnation(500)), nonce=bench.nonce()))
    assert isinstance(restored, Seen)
    assert restored.value.generation == 2
    assert bench.session("a").incarnation == 501
    again = bench.run(restore(Floors(epoch=Epoch(60)), nonce=bench.nonce()))
    assert isinstance(again, Seen)
    assert (again.value.generation, again.value.floors.epoch) == (3, 70)


def test_a_restoration_in_doubt_counts_once(bench: Bench) -> None:
    """A second run with the same nonce is recognised: there is one new generation, not two (A1)."""
    nonce = bench.nonce()
    assert isinstance(bench.run(restore(Floors(), nonce=nonce), bench.lose_answer), InDoubt)
    settled = bench.run(restore(Floors(), nonce=nonce))
    assert isinstance(settled, Seen)
    assert settled.value.generation == 2


def test_a_member_that_knows_more_than_the_authority_stops() -> None:
    """A log with a higher epoch than the view shows that the authority was restored (A5)."""
    check_not_behind(GroupId(1), log_epoch=Epoch(4), view_epoch=Epoch(4))
    with pytest.raises(AuthorityBehind):
        check_not_behind(GroupId(1), log_epoch=Epoch(5), view_epoch=Epoch(4))


# --- sessions (V2)


def test_every_session_of_a_host_is_a_new_incarnation(bench: Bench) -> None:
    """Incarnations grow even after the session is gone: no number is reused (V2)."""
    first = bench.session("a")
    bench.end(first)
    second = bench.session("a")
    assert (first.incarnation, second.incarnation) == (1, 2)
    assert bench.run(read_session(A, first.incarnation)) == NoSession(A, first.incarnation)


def test_two_processes_that_race_never_share_an_incarnation(bench: Bench) -> None:
    """The second process finds the counter changed and takes the next number (V2)."""
    rivals = []
    opening = open_session(A, lease=bench.lease(), address="a:2", nonce=bench.nonce())
    ours = bench.run(opening, bench.race(lambda: rivals.append(bench.session("a"))))
    assert isinstance(ours, Seen)
    assert ours.value.incarnation != rivals[0].incarnation


def test_an_opening_whose_answer_was_lost_is_recognised(bench: Bench) -> None:
    """The same nonce finds its own session instead of opening another (A1)."""
    nonce, lease = bench.nonce(), bench.lease()
    lost = bench.run(open_session(A, lease=lease, address="a:1", nonce=nonce), bench.lose_answer)
    assert isinstance(lost, InDoubt)
    found = bench.run(open_session(A, lease=lease, address="a:1", nonce=nonce))
    assert isinstance(found, Seen)
    assert found.value.incarnation == 1


def test_a_delayed_opening_is_refused_after_a_later_one(bench: Bench) -> None:
    """A request that arrives after the doubt was settled changes nothing (A1)."""
    nonce, lease = bench.nonce(), bench.lease()
    bench.run(open_session(A, lease=lease, address="a:1", nonce=nonce), bench.delay)
    settled = bench.run(open_session(A, lease=lease, address="a:1", nonce=nonce))
    assert isinstance(settled, Seen)
    assert [type(result) for result in bench.release()] == [Refused]


def test_a_session_needs_a_living_lease(bench: Bench) -> None:
    """No incarnation is spent on a lease that has ended."""
    dead = LeaseId(987654)
    assert bench.run(open_session(A, lease=dead, address="a:1", nonce=bench.nonce())) == LeaseGone(dead)
    assert bench.session("a").incarnation == 1


def test_an_earlier_process_cannot_close_its_successors_session(bench: Bench) -> None:
    """Closing removes only the session of exactly that incarnation."""
    first, second = bench.session("a"), bench.session("a")
    assert bench.run(close_session(A, first.incarnation, nonce=bench.nonce())) == Removed()
    listing = bench.run(list_sessions())
    assert not isinstance(listing, NoAnswer)
    assert [each.value for each in listing.items] == [second]
    assert bench.run(close_session(A, second.incarnation, nonce=bench.nonce())) == Removed()
    assert bench.run(read_session(A, second.incarnation)) == NoSession(A, second.incarnation)


def test_a_delayed_resumption_cannot_bring_a_closed_session_back(bench: Bench) -> None:
    """A closed session stays closed, whatever arrives late, and its process cannot resume it (A1)."""
    session = bench.session("a")
    bench.end(session)
    assert isinstance(bench.run(resume_session(session, lease=bench.lease()), bench.delay), InDoubt)
    assert isinstance(bench.run(resume_session(session, lease=bench.lease())), Seen)
    assert bench.run(close_session(A, session.incarnation, nonce=bench.nonce())) == Removed()
    assert [type(result) for result in bench.release()] == [Refused]
    assert bench.run(resume_session(session, lease=bench.lease())) == NoSession(A, session.incarnation)
    assert bench.session("a").incarnation > session.incarnation


# --- names (A7)


def test_a_name_has_one_holder_while_that_lives(bench: Bench) -> None:
    """A second binder is told who holds the name, and can take it when the holder's session ends (A7)."""
    first, second = bench.session("a"), bench.session("b")
    bound = bench.run(bind("printer", "a:9", owner=first, nonce=bench.nonce()))
    assert isinstance(bound, Seen)
    refused = bench.run(bind("printer", "b:9", owner=second, nonce=bench.nonce()))
    assert refused == Taken(bound.value)
    bench.end(first)
    assert bench.run(resolve("printer")) == NotBound("printer")
    assert isinstance(bench.run(bind("printer", "b:9", owner=second, nonce=bench.nonce())), Seen)
    resolved = bench.run(resolve("printer"))
    assert isinstance(resolved, Seen)
    assert resolved.value.target == "b:9"


def test_of_two_racers_for_one_name_one_wins(bench: Bench) -> None:
    """The loser's compare fails and it finds the winner (A7)."""
    first, second = bench.session("a"), bench.session("b")
    rival = bind("printer", "b:9", owner=second, nonce=bench.nonce())
    ours = bind("printer", "a:9", owner=first, nonce=bench.nonce())
    outcome = bench.run(ours, bench.race(lambda: bench.run(rival)))
    assert isinstance(outcome, Taken)
    assert outcome.entry.target == "b:9"


def test_a_binder_whose_session_ends_meanwhile_does_not_bind(bench: Bench) -> None:
    """Binding compares the binder's own session: a dead process holds no name."""
    owner = bench.session("a")
    ours = bind("printer", "a:9", owner=owner, nonce=bench.nonce())
    assert isinstance(bench.run(ours, bench.race(lambda: bench.end(owner))), NoSession)
    assert bench.run(resolve("printer")) == NotBound("printer")


def test_a_dead_entry_whose_owner_is_seen_dead_is_replaced_only_as_it_was_checked(bench: Bench) -> None:
    """Two successors of a dead entry race: the second is refused against what it checked (A7)."""
    dead = bench.session("a")
    bench.run(bind("printer", "a:9", owner=dead, nonce=bench.nonce()))
    bench.end(dead)
    first, second = bench.session("b"), bench.session("c")
    rival = bind("printer", "c:9", owner=second, nonce=bench.nonce())
    outcome = bench.run(
        bind("printer", "b:9", owner=first, nonce=bench.nonce()), bench.race(lambda: bench.run(rival))
    )
    assert isinstance(outcome, Taken)
    assert outcome.entry.host == "c"


def test_an_entry_whose_owner_comes_back_while_it_is_checked_is_not_replaced(bench: Bench) -> None:
    """The owner was dead when checked and is alive when the binding arrives: its session is compared (A7)."""
    owner, rival = bench.session("a"), bench.session("b")
    bound = bench.run(bind("printer", "a:9", owner=owner, nonce=bench.nonce()))
    assert isinstance(bound, Seen)
    bench.end(owner)
    taking = bind("printer", "b:9", owner=rival, nonce=bench.nonce())
    outcome = bench.run(taking, bench.race(lambda: bench.run(resume_session(owner, lease=bench.lease()))))
    assert outcome == Taken(bound.value)


def test_a_late_unbinding_leaves_the_successors_entry(bench: Bench) -> None:
    """Unbinding removes only the caller's own entry, even if the request was sent while it owned it (A7)."""
    old = bench.session("a")
    bench.run(bind("printer", "a:9", owner=old, nonce=bench.nonce()))
    assert isinstance(bench.run(unbind("printer", owner=old, nonce=bench.nonce()), bench.delay), InDoubt)
    new = bench.session("a")
    bench.run(bind("printer", "a:10", owner=new, nonce=bench.nonce()))
    assert [type(result) for result in bench.release()] == [Refused]
    assert isinstance(bench.run(unbind("printer", owner=old, nonce=bench.nonce())), NotYours)
    resolved = bench.run(resolve("printer"))
    assert isinstance(resolved, Seen)
    assert resolved.value.target == "a:10"


def test_a_delayed_binding_cannot_come_back_after_its_own_unbinding(bench: Bench) -> None:
    """When the delayed request arrives the name is free, but the guard has changed: it is refused (A1)."""
    owner, nonce = bench.session("a"), bench.nonce()
    assert isinstance(bench.run(bind("printer", "a:9", owner=owner, nonce=nonce), bench.delay), InDoubt)
    assert isinstance(bench.run(bind("printer", "a:9", owner=owner, nonce=nonce)), Seen)
    assert bench.run(unbind("printer", owner=owner, nonce=bench.nonce())) == Removed()
    assert [type(result) for result in bench.release()] == [Refused]
    assert bench.run(resolve("printer")) == NotBound("printer")


def test_a_binding_applied_after_its_sender_gave_up_waiting_is_recognised(bench: Bench) -> None:
    """The nonce in the entry tells the writer that it is its own (A1)."""
    owner, nonce = bench.session("a"), bench.nonce()
    bench.run(bind("printer", "a:9", owner=owner, nonce=nonce), bench.delay)
    assert [type(result) for result in bench.release()] == [Applied]
    found = bench.run(bind("printer", "a:9", owner=owner, nonce=nonce))
    assert isinstance(found, Seen)
    assert found.value.nonce == nonce


def test_silence_while_reading_changes_nothing(bench: Bench) -> None:
    """NoAnswer means that this run changed nothing."""
    owner = bench.session("a")
    outcome = bench.run(bind("printer", "a:9", owner=owner, nonce=bench.nonce()), bench.silence)
    assert isinstance(outcome, NoAnswer)
    listing = bench.run(list_names())
    assert not isinstance(listing, NoAnswer)
    assert listing.items == ()


def test_a_recipe_gives_up_when_others_never_leave_it_alone(bench: Bench) -> None:
    """Attempts are bounded: endless contention is an answer, not an endless loop."""
    identity = bench.run(read_identity())
    assert isinstance(identity, Seen)

    def meddle(request: object) -> object:
        bench.run(restore(Floors(), nonce=bench.nonce()))
        return bench.ask(request)  # type: ignore[arg-type]  # the recipe's own request

    outcome = bench.run(
        open_session(A, lease=bench.lease(), address="a:1", nonce=bench.nonce()),
        meddle,  # type: ignore[arg-type]  # as above
    )
    assert isinstance(outcome, Contended)


def test_names_are_bounded_and_foreign_values_are_told(bench: Bench) -> None:
    """Bad input gets one clear error; a value that Holdfast did not write is reported as corruption."""
    with pytest.raises(InvalidRequest):
        bench.run(resolve("x" * 401))
    with pytest.raises(InvalidRequest):
        bench.run(resolve(""))
    bench.change(Put(keys.name("odd"), b"not ours"))
    with pytest.raises(Corruption):
        bench.run(resolve("odd"))


def test_a_session_outlives_its_lease_time_only_when_kept(bench: Bench) -> None:
    """The session ends with its lease, and its names count as dead."""
    session = bench.session("a")
    bench.now_ns += (LEASE_S + 1) * 1_000_000_000
    bench.expire()
    assert bench.run(read_session(A, session.incarnation)) == NoSession(A, session.incarnation)


# --- openings of stores (V5)


def open_store(bench: Bench, held: tuple[int, str], nonce: str) -> object:
    return bench.run(
        raise_opening(STORE, expected=Opening(held[0]), expected_nonce=Nonce(held[1]), nonce=Nonce(nonce))
    )


def opening_of(outcome: object) -> int:
    assert isinstance(outcome, Seen)
    number: int = outcome.value.opening
    return number


def test_each_opening_is_the_next_number(bench: Bench) -> None:
    """The number is raised from exactly what the store holds (V5)."""
    assert opening_of(open_store(bench, (0, ""), "n1")) == 1
    assert opening_of(open_store(bench, (1, "n1"), "n2")) == 2
    found = bench.run(read_opening(STORE))
    assert isinstance(found, Seen)
    assert found.value is not None
    assert (found.value.opening, found.value.nonce) == (2, "n2")


def test_a_crash_after_the_authority_numbered_an_opening_is_not_a_stranger(bench: Bench) -> None:
    """The store holds the old number and its intent, and that intent is recognised (decision 0002)."""
    assert opening_of(open_store(bench, (0, ""), "n1")) == 1
    assert opening_of(open_store(bench, (0, ""), "n1")) == 1


@pytest.mark.parametrize(
    ("held", "what"), [((0, ""), "wiped"), ((1, "n1"), "rolled back"), ((2, "x"), "copied")]
)
def test_a_store_that_is_not_the_one_last_opened_is_a_stranger(
    bench: Bench, held: tuple[int, str], what: str
) -> None:
    """Another number, or the same number with another nonce, means that this is not the known disk (V5)."""
    open_store(bench, (0, ""), "n1")
    open_store(bench, (1, "n1"), "n2")
    assert isinstance(open_store(bench, held, "n3"), Stranger), what


def test_of_two_copies_of_a_store_one_opens(bench: Bench) -> None:
    """Both hold the same pair; the compare-and-set lets one through (V5)."""
    open_store(bench, (0, ""), "n1")
    ours = raise_opening(STORE, expected=Opening(1), expected_nonce=Nonce("n1"), nonce=Nonce("mine"))
    outcome = bench.run(ours, bench.race(lambda: open_store(bench, (1, "n1"), "theirs")))
    assert isinstance(outcome, Stranger)
    assert outcome.found is not None
    assert outcome.found.nonce == "theirs"


def test_an_authority_that_forgot_an_opening_says_so_unless_it_was_restored(bench: Bench) -> None:
    """An authority with fewer openings than the disk is behind (A5). After `restore` it catches up once."""
    open_store(bench, (0, ""), "n1")
    assert isinstance(open_store(bench, (5, "n5"), "n6"), Behind)
    bench.run(restore(Floors(), nonce=bench.nonce()))
    assert opening_of(open_store(bench, (5, "n5"), "n6")) == 6
    assert isinstance(open_store(bench, (9, "n9"), "n10"), Behind)
