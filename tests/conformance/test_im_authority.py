"""The index coordinator's checklist, as far as the authority (its ns-server) decides: IM D, K and M."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.authority import transactions
from holdfast.authority.contract import Refused, Request, Result, Txn
from holdfast.authority.control_records import INDEXER, MANAGER, Member, Status, Transaction
from holdfast.authority.election import Elected, TermMoved, elect, read_term
from holdfast.authority.identity import Floors, restore
from holdfast.authority.membership import (
    Held,
    NotJoined,
    declare_context,
    get_index_coordinator,
    get_index_coordinator_replicas,
    get_indexer_nodes,
    join,
    leave,
)
from holdfast.authority.recipe import InDoubt, NoAnswer, Removed, Seen
from holdfast.authority.sessions import NoSession, Session
from holdfast.authority.transactions import (
    AlreadyDecided,
    Deposed,
    NoTransaction,
    NotReady,
    TransactionOpen,
    WrongCas,
    create_transaction,
    get_transaction_status,
    last_committed,
    last_transaction,
    set_transaction_status,
)
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId, Term
from recipe_bench import Bench


@pytest.fixture
def plane(tmp_path: Path) -> Iterator["Plane"]:
    bench = Bench(tmp_path)
    yield Plane(bench)
    bench.close()


class Plane:
    """A control plane on a real store: what the tests do, in its own words."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def joined(self, host: str, *, cas: int = 0, roles: tuple[str, ...] = (MANAGER,)) -> Session:
        session = self.bench.session(host)
        member = self.try_join(session, cas=cas, roles=roles)
        assert isinstance(member, Seen), member
        return session

    def try_join(self, session: Session, *, cas: int = 0, roles: tuple[str, ...] = (MANAGER,)) -> object:
        return self.bench.run(join(session, roles=roles, context_cas=cas, nonce=self.bench.nonce()))

    def elected(self, from_term: int, prefer: str | None = None) -> Elected:
        outcome = self.bench.run(
            elect(
                Term(from_term), nonce=self.bench.nonce(), prefer=None if prefer is None else HostId(prefer)
            )
        )
        assert isinstance(outcome, Elected), outcome
        return outcome

    def create(self, term: int, cas: int, *hosts: str) -> object:
        participants = [HostId(host) for host in hosts]
        return self.bench.run(create_transaction(Term(term), cas, participants, nonce=self.bench.nonce()))

    def end(self, term: int, cas: int, status: Status) -> object:
        return self.bench.run(set_transaction_status(Term(term), cas, status, nonce=self.bench.nonce()))

    def declare(self, session: Session, cas: int) -> Member:
        declared = self.bench.run(
            declare_context(session.host, session.incarnation, context_cas=cas, nonce=self.bench.nonce())
        )
        assert isinstance(declared, Seen), declared
        return declared.value

    def committed(self, term: int, cas: int, *sessions: Session) -> None:
        """A transaction of these hosts, committed, its context declared by all of them."""
        assert isinstance(self.create(term, cas, *(each.host for each in sessions)), Seen)
        assert isinstance(self.end(term, cas, Status.COMMIT), Transaction)
        for session in sessions:
            self.declare(session, cas)

    def status(self, cas: int) -> Status:
        found = self.bench.run(get_transaction_status(cas))
        assert isinstance(found, Transaction), found
        return found.status

    def last(self) -> Transaction | None:
        found = self.bench.run(last_transaction())
        assert not isinstance(found, NoAnswer)
        return found


# --- D: the transaction record is the commit point


@pytest.mark.covers("IM-19")
def test_each_update_raises_the_cas_by_one_and_creates_a_record(plane: Plane) -> None:
    """The next CAS and no other; a rollback uses it up too, so that no log is mistaken for another's."""
    plane.joined("a")
    plane.elected(0)
    assert plane.create(1, 2, "a") == WrongCas(1)
    opened = plane.create(1, 1, "a")
    assert isinstance(opened, Seen)
    assert (opened.value.cas, opened.value.status) == (1, Status.INITIAL)
    plane.end(1, 1, Status.ROLLBACK)
    assert plane.create(1, 1, "a") == WrongCas(2)
    assert isinstance(plane.create(1, 2, "a"), Seen)


@pytest.mark.covers("IM-18", "IM-20")
@pytest.mark.parametrize("end", [Status.COMMIT, Status.ROLLBACK])
def test_a_transaction_is_initial_and_then_ends_once_and_for_all(plane: Plane, end: Status) -> None:
    """The first decision is the truth for everyone; the other one is refused, and told what stands."""
    plane.joined("a")
    plane.elected(0)
    plane.create(1, 1, "a")
    assert plane.status(1) is Status.INITIAL
    decided = plane.end(1, 1, end)
    assert isinstance(decided, Transaction)
    assert decided.status is end
    other = Status.ROLLBACK if end is Status.COMMIT else Status.COMMIT
    assert plane.end(1, 1, other) == AlreadyDecided(decided)
    again = plane.end(1, 1, end)
    assert isinstance(again, Transaction)
    assert plane.status(1) is end
    with pytest.raises(InvalidRequest):
        plane.end(1, 1, Status.INITIAL)


def test_two_decisions_that_race_end_in_one(plane: Plane) -> None:
    """Set-status is compare-and-set from initial (N-2): the loser finds the winner's."""
    plane.joined("a")
    plane.elected(0)
    plane.create(1, 1, "a")
    rollback = set_transaction_status(Term(1), 1, Status.ROLLBACK, nonce=plane.bench.nonce())
    outcome = plane.bench.run(rollback, plane.bench.race(lambda: plane.end(1, 1, Status.COMMIT)))
    assert isinstance(outcome, AlreadyDecided)
    assert plane.status(1) is Status.COMMIT


def test_one_transaction_is_open_at_a_time(plane: Plane) -> None:
    """The next waits until the first has ended."""
    plane.joined("a")
    plane.elected(0)
    opened = plane.create(1, 1, "a")
    assert isinstance(opened, Seen)
    assert plane.create(1, 2, "a") == TransactionOpen(opened.value)


@pytest.mark.parametrize("asked", [Status.COMMIT, Status.ROLLBACK])
def test_a_decision_in_doubt_is_found_out_by_asking_again(plane: Plane, asked: Status) -> None:
    """Whether the lost request was applied or arrives late: one decision, and its sender learns it (A1)."""
    plane.joined("a")
    plane.elected(0)
    bench = plane.bench
    for cas, treat in enumerate((bench.lose_answer, bench.delay), start=1):
        plane.create(1, cas, "a")
        nonce = bench.nonce()
        doubt = bench.run(set_transaction_status(Term(1), cas, asked, nonce=nonce), treat)
        assert isinstance(doubt, InDoubt)
        settled = bench.run(set_transaction_status(Term(1), cas, asked, nonce=nonce))
        assert isinstance(settled, Transaction)
        assert settled.status is asked
        assert all(isinstance(result, Refused) for result in bench.release())


def test_a_creation_that_nobody_answers_leaves_no_trace(plane: Plane) -> None:
    """Silence before anything was sent: no CAS is used that anyone could see."""
    plane.joined("a")
    plane.elected(0)
    creation = create_transaction(Term(1), 1, [HostId("a")], nonce=plane.bench.nonce())
    assert isinstance(plane.bench.run(creation, plane.bench.silence), NoAnswer)
    assert plane.last() is None
    assert isinstance(plane.create(1, 1, "a"), Seen)


def test_a_creation_in_doubt_is_recognised(plane: Plane) -> None:
    """The coordinator finds its own transaction open, and only one."""
    plane.joined("a")
    plane.elected(0)
    bench, nonce = plane.bench, plane.bench.nonce()
    for treat in (bench.lose_answer, bench.ask):
        outcome = bench.run(create_transaction(Term(1), 1, [HostId("a")], nonce=nonce), treat)
    assert isinstance(outcome, Seen)
    assert plane.last() == outcome.value


def test_a_deposed_coordinator_cannot_create_or_decide(plane: Plane) -> None:
    """Everything is bound to the term (N-2): a late commit of the old one is refused."""
    plane.joined("a")
    plane.joined("b")
    plane.elected(0, prefer="a")
    plane.create(1, 1, "a", "b")
    late = set_transaction_status(Term(1), 1, Status.COMMIT, nonce=plane.bench.nonce())
    outcome = plane.bench.run(late, plane.bench.race(lambda: plane.elected(1, prefer="b")))
    assert isinstance(outcome, AlreadyDecided)
    assert plane.status(1) is Status.ROLLBACK
    assert plane.create(1, 2, "a", "b") == Deposed(Term(2))
    plane.create(2, 2, "a", "b")
    assert plane.end(1, 2, Status.COMMIT) == Deposed(Term(2))
    assert plane.status(2) is Status.INITIAL


def test_a_creation_that_races_with_anything_it_rests_on_is_refused(plane: Plane) -> None:
    """An election, another creation, the end of a participant: each between the reading and the writing."""
    a, b = plane.joined("a"), plane.joined("b")
    plane.elected(0, prefer="a")
    bench = plane.bench

    def create_while(term: int, cas: int, rival: Callable[[], object]) -> object:
        creation = create_transaction(Term(term), cas, [a.host, b.host], nonce=bench.nonce())
        return bench.run(creation, bench.race(rival))

    assert create_while(1, 1, lambda: plane.elected(1, prefer="a")) == Deposed(Term(2))
    assert isinstance(create_while(2, 1, lambda: plane.create(2, 1, "a")), TransactionOpen)
    plane.end(2, 1, Status.ROLLBACK)
    assert create_while(2, 2, lambda: bench.end(b)) == NotReady((b.host,))


@pytest.mark.covers("IM-34", "IM-123", "IM-128", "IM-138")
def test_nobody_joins_while_a_transaction_is_open(plane: Plane) -> None:
    """A newcomer is held from the record's creation until its end, checked in the joining itself."""
    plane.joined("a")
    plane.elected(0)
    newcomer = plane.bench.session("b")
    racing = join(newcomer, context_cas=0, nonce=plane.bench.nonce())
    held = plane.bench.run(racing, plane.bench.race(lambda: plane.create(1, 1, "a")))
    assert isinstance(held, Held)
    assert held.transaction.cas == 1
    assert isinstance(plane.try_join(newcomer), Held)
    assert isinstance(plane.try_join(plane.bench.session("a")), Held)  # a restarted participant waits too
    plane.end(1, 1, Status.COMMIT)
    assert isinstance(plane.try_join(newcomer), Seen)


@pytest.mark.covers("IM-9")
def test_a_transaction_is_not_opened_over_a_joining_it_did_not_see(plane: Plane) -> None:
    """List of members and opening are one step: the creation that raced with a join reads again."""
    plane.joined("a")
    plane.elected(0)
    transactions_sent = 0
    join_first = plane.bench.race(lambda: plane.joined("b"))

    def count(request: Request) -> Result:
        nonlocal transactions_sent
        transactions_sent += isinstance(request, Txn)
        return join_first(request)

    creation = create_transaction(Term(1), 1, [HostId("a")], nonce=plane.bench.nonce())
    assert isinstance(plane.bench.run(creation, count), Seen)
    assert transactions_sent == 2


@pytest.mark.covers("IM-35", "IM-139")
def test_only_who_took_part_in_the_last_commit_and_holds_its_context_is_elected(plane: Plane) -> None:
    """Whoever joined since, or lost its disk, is not; when none of the others lives nobody is."""
    a, b = plane.joined("a"), plane.joined("b")
    plane.elected(0, prefer="a")
    plane.committed(1, 1, a, b)
    plane.joined("c", cas=1)  # holds the context, took no part
    plane.bench.end(a)
    plane.joined("a")  # took part, but its disk is new
    elected = plane.elected(1, prefer="a")
    assert elected.term.coordinator is not None
    assert elected.term.coordinator.host == "b"
    plane.bench.end(b)
    nobody = plane.elected(2, prefer="c")
    assert nobody.term.coordinator is None
    assert plane.bench.run(get_index_coordinator()) == ""
    plane.joined("b", cas=1)
    assert plane.elected(3).term.address == "b:1"


def test_a_host_without_the_context_cannot_take_part(plane: Plane) -> None:
    """D joins with nothing; it is no participant, so a rollback cannot make it eligible (T3)."""
    a, b = plane.joined("a"), plane.joined("b")
    plane.elected(0, prefer="a")
    plane.committed(1, 1, a, b)
    d = plane.joined("d")
    assert plane.create(1, 2, "a", "b", "d") == NotReady((d.host,))
    plane.create(1, 2, "a", "b")
    plane.end(1, 2, Status.ROLLBACK)
    plane.bench.end(a)
    plane.bench.end(b)
    assert plane.elected(1).term.coordinator is None
    plane.bench.run(leave(d.host, d.incarnation, nonce=plane.bench.nonce()))
    assert plane.create(1, 3, "a", "b", "d") == Deposed(Term(2))


def test_the_process_that_stored_the_last_commit_may_take_part_in_the_next(plane: Plane) -> None:
    """It accepted the context that was committed; it need not declare it first. A restarted one must."""
    plane.joined("a")
    plane.joined("b")
    plane.elected(0, prefer="a")
    plane.create(1, 1, "a", "b")
    plane.end(1, 1, Status.COMMIT)
    assert isinstance(plane.create(1, 2, "a", "b"), Seen)
    plane.end(1, 2, Status.ROLLBACK)
    restarted = plane.joined("b")
    assert plane.create(1, 3, "a", "b") == NotReady((restarted.host,))
    plane.declare(restarted, 1)
    assert isinstance(plane.create(1, 3, "a", "b"), Seen)


@pytest.mark.covers("IM-36")
def test_the_log_of_outcomes_rolls(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes are known for the last so many transactions; older ones are said to be gone, not guessed."""
    monkeypatch.setattr(transactions, "TRANSACTION_LOG_MAX", 5)
    plane.joined("a")
    plane.elected(0)
    ends = [Status.COMMIT, Status.ROLLBACK] * 4
    for cas, end in enumerate(ends, start=1):
        plane.create(1, cas, "a")
        plane.end(1, cas, end)
    assert [plane.status(cas) for cas in range(4, 9)] == ends[3:]
    for cas in (1, 3, 9):
        assert plane.bench.run(get_transaction_status(cas)) == NoTransaction(cas, oldest=4, last=8)
    assert plane.end(1, 2, Status.COMMIT) == NoTransaction(2, oldest=4, last=8)


def test_the_last_committed_transaction_outlives_rollbacks(plane: Plane) -> None:
    """What was committed stands, whatever was rolled back since."""
    a = plane.joined("a")
    plane.elected(0)
    plane.committed(1, 1, a)
    plane.create(1, 2, "a")
    plane.end(1, 2, Status.ROLLBACK)
    committed = plane.bench.run(last_committed())
    assert isinstance(committed, Transaction)
    assert committed.cas == 1
    last = plane.last()
    assert last is not None
    assert (last.cas, last.status) == (2, Status.ROLLBACK)


# --- elections and terms


def test_an_election_closes_what_the_old_term_left_open(plane: Plane) -> None:
    """In the same transaction: initial becomes rollback, and is so in the log too (N-3)."""
    plane.joined("a")
    plane.joined("b")
    plane.elected(0, prefer="a")
    plane.create(1, 1, "a", "b")
    plane.elected(1, prefer="b")
    last = plane.last()
    assert last is not None
    assert last.status is Status.ROLLBACK
    assert plane.status(1) is Status.ROLLBACK


def test_an_election_closes_what_is_opened_while_it_decides(plane: Plane) -> None:
    """No transaction of the old term slips in between the reading and the writing of the new one (N-3)."""
    plane.joined("a")
    plane.joined("b")
    plane.elected(0, prefer="a")
    election = elect(Term(1), nonce=plane.bench.nonce(), prefer=HostId("b"))
    outcome = plane.bench.run(election, plane.bench.race(lambda: plane.create(1, 1, "a", "b")))
    assert isinstance(outcome, Elected)
    assert plane.status(1) is Status.ROLLBACK


def test_of_two_elections_from_one_term_one_counts(plane: Plane) -> None:
    """The second is told of the first, instead of deposing it at once."""
    plane.joined("a")
    plane.joined("b")
    second = elect(Term(0), nonce=plane.bench.nonce(), prefer=HostId("b"))
    outcome = plane.bench.run(second, plane.bench.race(lambda: plane.elected(0, prefer="a")))
    assert isinstance(outcome, TermMoved)
    assert plane.bench.run(get_index_coordinator()) == "a:1"


def test_an_election_in_doubt_raises_the_term_once(plane: Plane) -> None:
    """Run again with its nonce it finds itself elected (A1)."""
    plane.joined("a")
    nonce = plane.bench.nonce()
    assert isinstance(plane.bench.run(elect(Term(0), nonce=nonce), plane.bench.lose_answer), InDoubt)
    settled = plane.bench.run(elect(Term(0), nonce=nonce))
    assert isinstance(settled, Elected)
    assert settled.term.term == 1
    assert plane.bench.run(read_term()) == settled.term


def test_an_election_does_not_choose_a_host_that_has_just_gone(plane: Plane) -> None:
    """The chosen member is compared: it is alive in the very transaction that elects it."""
    a = plane.joined("a")
    plane.joined("b")
    election = elect(Term(0), nonce=plane.bench.nonce(), prefer=a.host)
    outcome = plane.bench.run(election, plane.bench.race(lambda: plane.bench.end(a)))
    assert isinstance(outcome, Elected)
    assert outcome.term.address == "b:1"


def test_a_restored_authority_goes_on_above_terms_and_cas(plane: Plane) -> None:
    """No term and no CAS that may be in use is issued again (A5)."""
    plane.joined("a")
    plane.bench.run(restore(Floors(term=Term(30), cas=40), nonce=plane.bench.nonce()))
    assert plane.elected(0).term.term == 31
    assert plane.create(31, 1, "a") == WrongCas(41)


# --- K: the calls of the ns-server


@pytest.mark.covers("IM-120")
def test_get_index_coordinator_names_the_elected_and_is_empty_otherwise(plane: Plane) -> None:
    """Empty before the first election, after the coordinator has gone, and when it has restarted."""
    bench = plane.bench
    assert bench.run(get_index_coordinator()) == ""
    a = plane.joined("a")
    assert bench.run(get_index_coordinator()) == ""
    plane.elected(0)
    assert bench.run(get_index_coordinator()) == "a:1"
    bench.end(a)
    assert bench.run(get_index_coordinator()) == ""
    plane.joined("a")  # nobody resumes a role
    assert bench.run(get_index_coordinator()) == ""


@pytest.mark.covers("IM-121")
def test_get_index_coordinator_replicas_are_all_other_active_managers(plane: Plane) -> None:
    """Not the coordinator, not a mere indexer, not one whose session has ended."""
    plane.joined("a")
    plane.joined("b")
    gone = plane.joined("c")
    plane.joined("d", roles=(INDEXER,))
    plane.joined("e", roles=(MANAGER, INDEXER))
    plane.elected(0, prefer="b")
    plane.bench.end(gone)
    assert plane.bench.run(get_index_coordinator_replicas()) == ("a:1", "e:1")


@pytest.mark.covers("IM-122")
def test_get_indexer_nodes_are_all_active_indexers(plane: Plane) -> None:
    """Whatever else they do; gone when their session is."""
    plane.joined("a")
    gone = plane.joined("c", roles=(INDEXER,))
    plane.joined("d", roles=(INDEXER,))
    plane.joined("e", roles=(MANAGER, INDEXER))
    plane.bench.end(gone)
    assert plane.bench.run(get_indexer_nodes()) == ("d:1", "e:1")


def test_only_a_living_session_joins(plane: Plane) -> None:
    """And a member's declaration is its own process's alone."""
    old = plane.joined("a")
    new = plane.joined("a")
    assert plane.try_join(old) == NoSession(old.host, old.incarnation)
    stale = declare_context(old.host, old.incarnation, context_cas=7, nonce=plane.bench.nonce())
    assert plane.bench.run(stale) == NotJoined(old.host, old.incarnation)
    assert plane.declare(new, 3).context_cas == 3
    replaced = plane.bench.session("b")
    racing = join(replaced, context_cas=0, nonce=plane.bench.nonce())
    outcome = plane.bench.run(racing, plane.bench.race(lambda: plane.bench.session("b")))
    assert outcome == NoSession(replaced.host, replaced.incarnation)


@pytest.mark.covers("IM-124")
def test_a_host_leaves_the_cluster(plane: Plane) -> None:
    """It is off the list, at once but not while a transaction is open; a late leave spares the successor."""
    bench = plane.bench
    plane.joined("a")
    old = plane.joined("b")
    plane.elected(0, prefer="a")
    racing = leave(old.host, old.incarnation, nonce=bench.nonce())
    assert isinstance(bench.run(racing, bench.race(lambda: plane.create(1, 1, "a", "b"))), Held)
    assert isinstance(bench.run(leave(old.host, old.incarnation, nonce=bench.nonce())), Held)
    plane.end(1, 1, Status.ROLLBACK)
    assert bench.run(get_index_coordinator_replicas()) == ("b:1",)
    assert bench.run(leave(old.host, old.incarnation, nonce=bench.nonce())) == Removed()
    assert bench.run(get_index_coordinator_replicas()) == ()
    plane.joined("b")
    assert bench.run(leave(old.host, old.incarnation, nonce=bench.nonce())) == Removed()
    assert bench.run(get_index_coordinator_replicas()) == ("b:1",)


def test_a_delayed_join_cannot_return_after_its_leave(plane: Plane) -> None:
    """The guard has moved: a doubt that was settled stays settled (A1)."""
    bench, session = plane.bench, plane.bench.session("a")
    nonce = bench.nonce()
    assert isinstance(bench.run(join(session, context_cas=0, nonce=nonce), bench.delay), InDoubt)
    assert isinstance(bench.run(join(session, context_cas=0, nonce=nonce)), Seen)
    assert bench.run(leave(session.host, session.incarnation, nonce=bench.nonce())) == Removed()
    assert [type(result) for result in bench.release()] == [Refused]
    assert bench.run(get_index_coordinator_replicas()) == ()
