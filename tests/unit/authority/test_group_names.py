"""Group names and host numbers at the authority are unique."""

import pytest

from holdfast.authority.groups import (
    GroupRecord,
    NameTaken,
    NoSuchName,
    create_group,
    find_group,
)
from holdfast.authority.recipe import InDoubt, Removed, Seen
from holdfast.authority.removal import remove_group
from holdfast.authority.sessions import ensure_replica
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import GroupId, HostId
from holdfast.model.reference import check_group_name
from recipe_bench import Bench

A, B = HostId("a"), HostId("b")


def record(bench: Bench, number: int, name: str) -> GroupRecord:
    return GroupRecord(
        group=GroupId(number),
        class_name="bank:Ledger",
        style="active",
        members=(),
        nonce=bench.nonce(),
        name=name,
    )


def test_a_name_belongs_to_one_group_until_that_is_removed(bench: Bench) -> None:
    first, second = record(bench, 1, "ledger"), record(bench, 2, "ledger")
    assert isinstance(bench.run(create_group(first, A, ())), Seen)
    assert bench.run(create_group(second, A, ())) == NameTaken("ledger", GroupId(1))
    found = bench.run(find_group("ledger"))
    assert isinstance(found, Seen)
    assert (found.value.group, found.value.nonce) == (first.group, first.nonce)
    assert bench.run(remove_group(GroupId(1), nonce=bench.nonce())) == Removed()
    assert bench.run(find_group("ledger")) == NoSuchName("ledger")
    assert isinstance(bench.run(create_group(second, A, ())), Seen)


@pytest.mark.parametrize("name", ["a\0b", "\u00e9" * 300, ""])
def test_a_name_that_no_group_can_have_is_nobodys(bench: Bench, name: str) -> None:
    assert bench.run(find_group(name)) == NoSuchName(name)


@pytest.mark.parametrize("name", ["ledger", "\u00fcber-konto 2", "a.b:c", "orders/eu"])
def test_a_name_that_people_can_write_is_taken(name: str) -> None:
    check_group_name(name)


@pytest.mark.parametrize("name", ["a\nb", " a", "a ", "\t", "a\0", "\x1b[31m", "\u202ea"])
def test_a_name_that_would_confuse_a_log_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="is no name for a group"):
        check_group_name(name)


def test_a_creation_whose_answer_was_lost_is_settled_by_the_same_one(bench: Bench) -> None:
    """The name it finds taken is its own (A1)."""
    wanted = record(bench, 1, "ledger")
    assert isinstance(bench.run(create_group(wanted, A, ()), bench.lose_answer), InDoubt)
    assert isinstance(bench.run(create_group(wanted, A, ())), Seen)


def test_each_host_has_a_number_of_its_own_for_ever(bench: Bench) -> None:
    first = bench.run(ensure_replica(A, nonce=bench.nonce()))
    other = bench.run(ensure_replica(B, nonce=bench.nonce()))
    again = bench.run(ensure_replica(A, nonce=bench.nonce()))
    assert isinstance(first, Seen)
    assert isinstance(other, Seen)
    assert first == again
    assert first.value.replica != other.value.replica
