"""Tests groups that are created without members, and how the first member starts them (FTC-213)."""

import pytest

from holdfast.authority.groups import (
    GroupRecord,
    NameTaken,
    Restored,
    begin_group,
    create_unbegun_group,
    find_group,
    read_group,
    reserve_group,
)
from holdfast.authority.identity import Floors, ensure_identity, restore
from holdfast.authority.placement import add_member, tune_group
from holdfast.authority.recipe import InDoubt, Removed, Seen
from holdfast.authority.removal import remove_group
from holdfast.authority.views import NoGroup, View, ViewMember, read_view
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Nonce, Opening, StoreId
from recipe_bench import Bench

A, B = HostId("a"), HostId("b")


def member(host: HostId) -> ViewMember:
    return ViewMember(
        host=host, store=StoreId(f"store-{host}#1"), incarnation=Incarnation(1), opening=Opening(1)
    )


def unbegun(bench: Bench, name: str = "g") -> GroupRecord:
    number = bench.run(reserve_group(nonce=bench.nonce()))
    assert isinstance(number, int)
    return GroupRecord(
        group=GroupId(number),
        class_name="bank:Ledger",
        style="warm_passive",
        members=(),
        nonce=bench.nonce(),
        name=name,
    )


@pytest.fixture
def group(bench: Bench) -> GroupId:
    record = unbegun(bench)
    made = bench.run(create_unbegun_group(record))
    assert isinstance(made, Seen)
    assert not made.value.is_begun
    return record.group


def begun_by(bench: Bench, group: GroupId, host: HostId) -> object:
    return bench.run(begin_group(group, member(host), at_ns=1, nonce=bench.nonce()))


@pytest.mark.covers("FTC-42", "FTC-213")
def test_a_group_without_members_exists_and_has_no_view(bench: Bench, group: GroupId) -> None:
    found = bench.run(find_group("g"))
    assert isinstance(found, Seen)
    assert found.value.members == ()
    assert isinstance(bench.run(read_view(group)), NoGroup)


def test_the_first_host_that_is_placed_begins_and_others_find_its_view(bench: Bench, group: GroupId) -> None:
    for host in (A, B):
        assert isinstance(bench.run(add_member(group, host, nonce=bench.nonce())), Seen)
    begun = begun_by(bench, group, A)
    assert isinstance(begun, Seen)
    assert (begun.value.primary, begun.value.members) == (A, (member(A),))
    assert begun_by(bench, group, B) == begun
    record = bench.run(read_group(group))
    assert isinstance(record, Seen)
    assert record.value.is_begun
    assert record.value.placed_on == (A, B)


def test_a_host_that_is_not_placed_begins_nothing(bench: Bench, group: GroupId) -> None:
    assert begun_by(bench, group, A) == NoGroup(group)
    assert isinstance(bench.run(read_view(group)), NoGroup)


def test_the_same_order_makes_one_group_and_another_of_that_name_none(bench: Bench, group: GroupId) -> None:
    first = bench.run(read_group(group))
    assert isinstance(first, Seen)
    assert bench.run(create_unbegun_group(first.value)) == first
    assert bench.run(create_unbegun_group(unbegun(bench))) == NameTaken("g", group)


def test_a_group_that_has_not_begun_can_be_removed_and_never_begins_then(
    bench: Bench, group: GroupId
) -> None:
    """A start that was on its way in the meantime does not take effect either (A1)."""
    bench.run(add_member(group, A, nonce=bench.nonce()))
    late = bench.run(begin_group(group, member(A), at_ns=1, nonce=Nonce("late")), bench.delay)
    assert isinstance(late, InDoubt)
    assert bench.run(remove_group(group, nonce=bench.nonce())) == Removed()
    bench.release()
    assert isinstance(bench.run(read_view(group)), NoGroup)
    assert isinstance(bench.run(read_group(group)), NoGroup)
    assert not isinstance(bench.run(find_group("g")), Seen)


def test_a_removal_that_was_on_its_way_when_the_group_began_removes_nothing(
    bench: Bench, group: GroupId
) -> None:
    """The removal was ordered for a group without members and finds one with a view, so it must be ordered
    again."""
    bench.run(add_member(group, A, nonce=bench.nonce()))
    nonce = bench.nonce()
    assert isinstance(bench.run(remove_group(group, nonce=nonce), bench.delay), InDoubt)
    begun_by(bench, group, A)
    bench.release()
    seen = bench.run(read_view(group))
    assert isinstance(seen, Seen)
    assert isinstance(seen.value, View)
    assert bench.run(remove_group(group, nonce=nonce)) == Removed()
    assert isinstance(bench.run(read_view(group)), NoGroup)


def test_a_group_that_may_have_begun_before_the_authority_was_restored_does_not_begin_again(
    bench: Bench,
) -> None:
    """What a host acknowledged then must not be replaced by nothing (A5)."""
    assert isinstance(bench.run(ensure_identity("d", nonce=bench.nonce())), Seen)
    record = unbegun(bench)
    assert isinstance(bench.run(create_unbegun_group(record)), Seen)
    bench.run(add_member(record.group, A, nonce=bench.nonce()))
    assert isinstance(bench.run(restore(Floors(epoch=Epoch(7)), nonce=bench.nonce())), Seen)
    assert begun_by(bench, record.group, A) == Restored()
    assert isinstance(bench.run(read_view(record.group)), NoGroup)


def test_what_a_running_group_is_told_stands_in_its_record(bench: Bench, group: GroupId) -> None:
    told = bench.run(tune_group(group, '{"a":1}', nonce=bench.nonce()))
    assert isinstance(told, Seen)
    assert told.value.tuned == '{"a":1}'
    again = bench.run(tune_group(group, '{"a":1}', nonce=bench.nonce()))
    assert isinstance(again, Seen)
    assert again.modified == told.modified, "what is so already is not written again"


def test_who_never_leads_does_not_begin_a_group(bench: Bench, group: GroupId) -> None:
    """W3: the first to begin is the first primary."""
    bench.run(add_member(group, A, nonce=bench.nonce(), never_leads=True))
    assert isinstance(begun_by(bench, group, A), NoGroup)
    bench.run(add_member(group, B, nonce=bench.nonce()))
    assert isinstance(begun_by(bench, group, A), NoGroup)
    found = begun_by(bench, group, B)
    assert isinstance(found, Seen)
    assert found.value.primary == B
