"""What the domain knows of its directories: each suffix is noted once, and its replica ids are given once
(G3)."""

import pytest

from holdfast.authority.directories import (
    SUFFIXES_MAX,
    DirectoryRecord,
    NoDirectory,
    allot_replica,
    as_founded,
    begin_directory,
    edit_directory,
    list_directories,
    with_cut,
    with_left,
    with_returned,
    without_cut,
)
from holdfast.authority.recipe import Listing, Seen
from holdfast.model.errors import Overloaded
from holdfast.model.ids import HostId
from recipe_bench import Bench

A, B, C = HostId("a"), HostId("b"), HostId("c")
SUFFIX = "dc=example,dc=com"
FIRST, SECOND = SUFFIX, "o=other"


def found(bench: Bench, suffix: str = SUFFIX) -> object:
    return bench.run(begin_directory(suffix, generation="g", founder=A, nonce=bench.nonce()))


def allot(bench: Bench, host: HostId) -> int:
    outcome = bench.run(allot_replica(SUFFIX, host, nonce=bench.nonce()))
    assert isinstance(outcome, Seen)
    return outcome.value.ids_of(host)[-1]


def record(bench: Bench) -> DirectoryRecord:
    listing = bench.run(list_directories())
    assert isinstance(listing, Listing)
    (seen,) = listing.items
    return seen.value


def test_a_second_founding_changes_nothing(bench: Bench) -> None:
    assert isinstance(found(bench), Seen)
    before = record(bench)
    assert isinstance(found(bench), Seen)
    assert record(bench) == before


def begin(bench: Bench, suffix: str, founder: HostId = A) -> Seen:  # type: ignore[type-arg]
    found = bench.run(
        begin_directory(suffix, generation=f"of {suffix}", founder=founder, nonce=bench.nonce())
    )
    assert isinstance(found, Seen)
    return found


def suffixes(bench: Bench) -> list[str]:
    listing = bench.run(list_directories())
    assert isinstance(listing, Listing)
    return sorted(each.value.suffix for each in listing.items)


def test_each_suffix_is_noted_once(bench: Bench) -> None:
    begin(bench, FIRST)
    begin(bench, SECOND, B)
    again = begin(bench, FIRST, B)
    assert (again.value.founder, again.value.generation) == (A, f"of {FIRST}")
    assert suffixes(bench) == [FIRST, SECOND]


def test_two_that_begin_at_once_are_both_noted(bench: Bench) -> None:
    second = begin_directory(SECOND, generation="h", founder=B, nonce=bench.nonce())
    found = bench.run(second, bench.race(lambda: begin(bench, FIRST)))
    assert isinstance(found, Seen)
    assert suffixes(bench) == [FIRST, SECOND]


def test_replica_ids_of_one_suffix_say_nothing_of_another(bench: Bench) -> None:
    for suffix in (FIRST, SECOND):
        begin(bench, suffix)
    for suffix, host, replica in ((FIRST, A, 1), (FIRST, B, 2), (SECOND, B, 1), (FIRST, B, 3)):
        found = bench.run(allot_replica(suffix, host, nonce=bench.nonce()))
        assert isinstance(found, Seen)
        assert found.value.ids_of(host)[-1] == replica


def test_there_is_a_bound(bench: Bench) -> None:
    for number in range(SUFFIXES_MAX):
        begin(bench, f"o={number}")
    with pytest.raises(Overloaded):
        begin(bench, "o=one more")
    begin(bench, "o=3")  # one that is there stays


def test_a_replica_id_is_given_once(bench: Bench) -> None:
    """Whoever asks, and again for the same host: each id is new, and the host's former ones are kept."""
    found(bench)
    assert [allot(bench, each) for each in (A, B, A, C)] == [1, 2, 3, 4]
    assert record(bench).ids_of(A) == (1, 3)
    nonce = bench.nonce()
    for _ in range(2):  # asked again because the first answer was lost
        bench.run(allot_replica(SUFFIX, B, nonce=nonce))
    assert record(bench).ids_of(B) == (2, 5)
    assert isinstance(bench.run(allot_replica("dc=other", A, nonce=bench.nonce())), NoDirectory)


def test_two_that_ask_at_once_get_different_ids(bench: Bench) -> None:
    found(bench)
    race = bench.race(lambda: allot(bench, A))
    outcome = bench.run(allot_replica(SUFFIX, B, nonce=bench.nonce()), race)
    assert isinstance(outcome, Seen)
    assert (outcome.value.ids_of(A), outcome.value.ids_of(B)) == ((1,), (2,))


def test_cuts_and_hosts_that_left_are_no_peers(bench: Bench) -> None:
    found(bench)
    for host in (A, B, C):
        allot(bench, host)

    def edit(change: object) -> DirectoryRecord:
        outcome = bench.run(edit_directory(SUFFIX, change, nonce=bench.nonce()))  # type: ignore[arg-type]
        assert isinstance(outcome, Seen)
        return outcome.value

    assert edit(as_founded).is_founded
    cut = edit(with_cut(C, A))
    assert (cut.peers_of(A), cut.peers_of(B), cut.peers_of(C)) == ((B,), (A, C), (B,))
    assert edit(with_cut(A, C)) == cut
    assert edit(without_cut(A, C)).peers_of(A) == (B, C)
    edit(with_cut(A, C))
    left = edit(with_left(C))
    assert (left.members, left.cuts, left.peers_of(A)) == ((A, B), (), (B,))
    assert left.ids_of(C) == (3,)  # its ids stay known: they are never given again
    assert edit(with_returned(C)).peers_of(A) == (B, C)
    assert edit(with_returned(C, is_read_only=True)).read_only == (C,)
    assert edit(with_returned(C)).read_only == (C,), "it has not left"
    edit(with_left(C))
    assert edit(with_returned(C)).read_only == (), "it is a master now"
