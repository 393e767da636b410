"""A domain may have several directories: each suffix is noted once, and has replica ids of its own (G3)."""

import pytest

from holdfast.authority.directories import allot_replica, list_directories
from holdfast.authority.recipe import Listing, Seen
from holdfast.directory.hosting.founding import SUFFIXES_MAX, begin_directory
from holdfast.model.errors import Overloaded
from holdfast.model.ids import HostId
from recipe_bench import Bench

A, B = HostId("a"), HostId("b")
FIRST, SECOND = "dc=example,dc=com", "o=other"


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
