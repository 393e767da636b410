"""What the domain knows of its directory: replica ids are given once (G3), and there is one directory."""

from holdfast.authority.directories import (
    DirectoryRecord,
    NoDirectory,
    OtherDirectory,
    allot_replica,
    as_founded,
    edit_directory,
    found_directory,
    list_directories,
    with_cut,
    with_left,
    with_read_only,
    with_returned,
    without_cut,
)
from holdfast.authority.recipe import Listing, Seen
from holdfast.model.ids import HostId
from recipe_bench import Bench

A, B, C = HostId("a"), HostId("b"), HostId("c")
SUFFIX = "dc=example,dc=com"


def found(bench: Bench, suffix: str = SUFFIX) -> object:
    return bench.run(found_directory(suffix, generation="g", founder=A, nonce=bench.nonce()))


def allot(bench: Bench, host: HostId) -> int:
    outcome = bench.run(allot_replica(SUFFIX, host, nonce=bench.nonce()))
    assert isinstance(outcome, Seen)
    return outcome.value.ids_of(host)[-1]


def record(bench: Bench) -> DirectoryRecord:
    listing = bench.run(list_directories())
    assert isinstance(listing, Listing)
    (seen,) = listing.items
    return seen.value


def test_a_domain_has_one_directory(bench: Bench) -> None:
    assert isinstance(found(bench), Seen)
    before = record(bench)
    assert isinstance(found(bench), Seen)
    assert record(bench) == before  # the second founding changes nothing
    other = found(bench, "dc=other")
    assert isinstance(other, OtherDirectory)
    assert other.record.suffix == SUFFIX


def test_two_that_begin_at_once_do_not_both_do_so(bench: Bench) -> None:
    race = bench.race(lambda: found(bench))
    second = found_directory("dc=other", generation="h", founder=B, nonce=bench.nonce())
    assert isinstance(bench.run(second, race), OtherDirectory)


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
    assert edit(with_read_only(C)).read_only == (C,)
