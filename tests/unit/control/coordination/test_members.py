"""Tests who takes part in updates, and what happens to a domain that lost all participants (T3, T4)."""

from holdfast.authority.control_records import MANAGER, ONLOOKER, Standing, Status, Transaction, read_standing
from holdfast.authority.election import Elected, Governed, Recovered, elect, recover_context
from holdfast.authority.membership import NotJoined, join, leave
from holdfast.authority.recipe import Contended, InDoubt, Removed, Seen
from holdfast.authority.sessions import Session
from holdfast.authority.transactions import (
    NoTransaction,
    WrongCas,
    create_transaction,
    get_transaction_status,
    set_transaction_status,
)
from holdfast.control.coordination.members import (
    are_too_few,
    chosen,
    is_worth_listing,
    shall_take_part,
    superfluous,
)
from holdfast.model.ids import HostId, Term
from recipe_bench import Bench

A, B, C, D, E = map(HostId, "abcde")
WANTED = 3


def joined(bench: Bench, *hosts: HostId, role: str = MANAGER, cas: int = 0) -> list[Session]:
    sessions = [bench.session(host) for host in hosts]
    for each in sessions:
        assert isinstance(bench.run(join(each, roles=(role,), context_cas=cas, nonce=bench.nonce())), Seen)
    return sessions


def standing_of(bench: Bench) -> Standing:
    return bench.run(read_standing())


def committed(bench: Bench, cas: int, *hosts: HostId) -> None:
    """Commit update *cas* with *hosts*, by the coordinator of a term of its own."""
    term = standing_of(bench).current_term
    found = bench.run(elect(term, nonce=bench.nonce(), prefer=hosts[0]))
    assert isinstance(found, Elected)
    assert found.term.coordinator is not None
    term = found.term.term
    assert isinstance(bench.run(create_transaction(term, cas, hosts, nonce=bench.nonce())), Seen)
    ended = bench.run(set_transaction_status(term, cas, Status.COMMIT, nonce=bench.nonce()))
    assert isinstance(ended, Transaction)


def test_as_many_take_part_as_are_wanted_and_the_others_look_on(bench: Bench) -> None:
    joined(bench, A, B)
    assert shall_take_part(standing_of(bench), C, 0, WANTED)
    joined(bench, C)
    assert not shall_take_part(standing_of(bench), D, 0, WANTED)
    assert shall_take_part(standing_of(bench), A, 0, WANTED)


def test_nobody_is_left_alone_by_a_choice_that_was_made_before_others_joined(bench: Bench) -> None:
    """T4: with two hosts, one may continue alone. Meanwhile there are three, and one of them could take
    part."""
    joined(bench, A, B)
    found = bench.run(elect(standing_of(bench).current_term, nonce=bench.nonce(), prefer=A))
    assert isinstance(found, Elected)
    before = standing_of(bench)
    joined(bench, C)

    def opened(as_of: Standing) -> object:
        creation = create_transaction(found.term.term, 1, (A,), nonce=bench.nonce(), as_of=as_of)
        return bench.run(creation)

    assert isinstance(opened(before), Contended)
    assert standing_of(bench).open_transaction is None
    assert isinstance(opened(standing_of(bench)), Seen)


def test_who_holds_what_it_helped_to_commit_takes_part_however_many_came_before(bench: Bench) -> None:
    """After a total outage it may be the only host that can be elected (T3)."""
    (session,) = joined(bench, A)
    committed(bench, 1, A)
    bench.end(session)
    joined(bench, B, C, D)
    standing = standing_of(bench)
    assert shall_take_part(standing, A, 1, WANTED)
    assert not shall_take_part(standing, A, 0, WANTED), "its copy is gone"
    assert not shall_take_part(standing, E, 1, WANTED), "it took no part"


def test_those_of_the_last_update_are_chosen_first_and_no_more_than_are_wanted(bench: Bench) -> None:
    joined(bench, A, B, C, D, E)
    assert chosen(standing_of(bench), C, (), WANTED) == [C, A, B]
    committed(bench, 1, C, D, E)
    joined(bench, A, B, cas=1)
    assert chosen(standing_of(bench), E, (), WANTED) == [E, C, D]
    assert chosen(standing_of(bench), E, (C,), WANTED) == [E, D, A]
    assert [each.host for each in superfluous(standing_of(bench), WANTED)] == [A, B]


def test_all_hosts_count_when_too_few_are_refused(bench: Bench) -> None:
    """At least two hosts take part while there are three, even if two of them only look on (T4)."""
    joined(bench, A)
    assert not are_too_few(standing_of(bench), [A])
    joined(bench, B, C, role=ONLOOKER)
    assert are_too_few(standing_of(bench), [A])
    assert not are_too_few(standing_of(bench), [A, B])


def test_a_newcomer_that_holds_the_context_is_worth_an_update_that_lists_it(bench: Bench) -> None:
    joined(bench, A, B)
    assert not is_worth_listing(standing_of(bench), A, WANTED), "nothing was committed yet"
    committed(bench, 1, A, B)
    assert not is_worth_listing(standing_of(bench), A, WANTED)
    joined(bench, C)
    assert not is_worth_listing(standing_of(bench), A, WANTED), "it holds nothing yet"
    joined(bench, C, cas=1)
    assert is_worth_listing(standing_of(bench), A, WANTED)
    _, b, _, _ = joined(bench, A, B, C, D, cas=1)
    committed(bench, 2, A, B, C)
    assert not is_worth_listing(standing_of(bench), A, WANTED), "there are enough"
    assert isinstance(bench.run(leave(B, b.incarnation, nonce=bench.nonce())), Removed)
    joined(bench, D, cas=2)
    assert is_worth_listing(standing_of(bench), A, WANTED)


# --- when all participants are lost


def lost(bench: Bench) -> Session:
    """The session of d, which holds nothing, after all participants are gone."""
    gone = joined(bench, A, B)
    committed(bench, 1, A, B)
    for each in gone:
        bench.end(each)
    (left,) = joined(bench, D)
    return left


def test_a_domain_goes_on_from_the_copy_that_is_named(bench: Bench) -> None:
    """Nobody could be elected before. Afterwards the named host is."""
    session = lost(bench)
    before = standing_of(bench).current_term
    found = bench.run(elect(before, nonce=bench.nonce(), prefer=D))
    assert isinstance(found, Elected)
    assert found.term.coordinator is None
    recovered = bench.run(recover_context(D, session.incarnation, 2, nonce=bench.nonce()))
    assert isinstance(recovered, Recovered)
    assert recovered.transaction.status is Status.COMMIT
    standing = standing_of(bench)
    assert standing.committed_cas == 2
    assert standing.current_term == before + 2
    joined(bench, D, cas=2)
    found = bench.run(elect(standing.current_term, nonce=bench.nonce(), prefer=D))
    assert isinstance(found, Elected)
    assert found.term.coordinator is not None
    assert found.term.coordinator.host == D


def test_nothing_is_recovered_where_somebody_can_coordinate(bench: Bench) -> None:
    a, b = joined(bench, A, B)
    nonce = bench.nonce()
    able = bench.run(recover_context(B, b.incarnation, 1, nonce=nonce))
    assert able == Governed(A), "before the first commit anybody can be elected"
    committed(bench, 1, A)
    assert bench.run(recover_context(B, b.incarnation, 2, nonce=nonce)) == Governed(A)
    bench.end(a)
    joined(bench, A, cas=1)
    assert bench.run(recover_context(B, b.incarnation, 2, nonce=nonce)) == Governed(A)


def test_recovery_is_of_that_process_and_of_the_next_number(bench: Bench) -> None:
    session = lost(bench)
    nonce = bench.nonce()
    assert bench.run(recover_context(D, session.incarnation, 1, nonce=nonce)) == WrongCas(2)
    assert isinstance(bench.run(recover_context(E, session.incarnation, 2, nonce=nonce)), NotJoined)
    bench.end(session)
    assert isinstance(bench.run(recover_context(D, session.incarnation, 2, nonce=nonce)), NotJoined)
    assert isinstance(bench.run(get_transaction_status(2)), NoTransaction)


def test_a_recovery_in_doubt_counts_once(bench: Bench) -> None:
    session = lost(bench)
    recipe = lambda: recover_context(D, session.incarnation, 2, nonce=nonce)  # noqa: E731  # thrice the same
    nonce = bench.nonce()
    assert isinstance(bench.run(recipe(), bench.lose_answer), InDoubt)
    first = bench.run(recipe())
    assert isinstance(first, Recovered)
    assert bench.run(recipe()) == first
    assert standing_of(bench).current_term == first.transaction.term


def test_an_update_that_was_left_open_ends_with_the_recovery(bench: Bench) -> None:
    a, b, d = joined(bench, A, B, D)
    committed(bench, 1, A, B)
    term = standing_of(bench).current_term
    assert isinstance(bench.run(create_transaction(term, 2, (A, B), nonce=bench.nonce())), Seen)
    bench.end(a)
    bench.end(b)
    found = bench.run(recover_context(D, d.incarnation, 3, nonce=bench.nonce()))
    assert isinstance(found, Recovered)
    left = bench.run(get_transaction_status(2))
    assert isinstance(left, Transaction)
    assert left.status is Status.ROLLBACK
    late = bench.run(set_transaction_status(Term(term), 2, Status.COMMIT, nonce=bench.nonce()))
    assert not isinstance(late, Transaction)
