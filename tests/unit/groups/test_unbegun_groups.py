"""Tests groups that are created without members, how the first member starts them (FTC-213), and when a host
starts one anew (V8)."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from holdfast.authority.groups import (
    BEGUN_ANEW,
    GroupRecord,
    NameTaken,
    Placement,
    Restored,
    begin_group,
    create_group,
    create_unbegun_group,
    find_group,
    read_group,
    reserve_group,
)
from holdfast.authority.identity import Floors, ensure_identity, restore
from holdfast.authority.placement import add_member, tune_group
from holdfast.authority.recipe import InDoubt, Removed, Seen
from holdfast.authority.removal import remove_group
from holdfast.authority.views import NoGroup, View, ViewChange, ViewMember, change_view, read_view
from holdfast.groups.lifecycle import UnbegunGroups
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


# --- V8


def first_of(bench: Bench, *, min_in_sync: int = 2, members: tuple[ViewMember, ...] = ()) -> GroupId:
    """A group placed on A and B, with a first view of *members*, or of A alone."""
    record = msgspec.structs.replace(
        unbegun(bench),
        members=tuple(Placement(host=each, store=StoreId("")) for each in (A, B)),
        min_in_sync=min_in_sync,
    )
    assert isinstance(bench.run(create_group(record, A, members or (member(A),))), Seen)
    return record.group


def anew(bench: Bench, group: GroupId, host: HostId, *, store: str = "new") -> View:
    me = msgspec.structs.replace(member(host), store=StoreId(store), incarnation=Incarnation(2))
    bench.run(begin_group(group, me, at_ns=1, nonce=bench.nonce()))
    seen = bench.run(read_view(group))
    assert isinstance(seen, Seen)
    assert isinstance(seen.value, View)
    return seen.value


def test_a_host_that_lost_its_store_before_anything_was_acknowledged_begins_its_group_anew(
    bench: Bench,
) -> None:
    """V8. Found by seed 552 of the scenario groups: nobody else is listed, and nobody would ever claim."""
    bench.run(ensure_identity("d", nonce=bench.nonce()))
    group = first_of(bench)
    found = anew(bench, group, A)
    assert (found.primary, found.epoch, found.cause.text) == (A, Epoch(2), BEGUN_ANEW)
    assert [(each.host, each.store) for each in found.members] == [(A, "new")]
    assert found.generation == Epoch(0), "members that hold nothing of another history stay as they are"


@pytest.mark.parametrize(("min_in_sync", "hosts"), [(1, (A,)), (2, (A, B)), (3, (A, B))])
def test_a_group_that_somebody_else_holds_or_that_may_have_acknowledged_is_not_begun_anew(
    bench: Bench, min_in_sync: int, hosts: tuple[HostId, ...]
) -> None:
    """V8: one member is enough for a group with ``min_in_sync`` 1. Where another is listed, it claims."""
    bench.run(ensure_identity("d", nonce=bench.nonce()))
    group = first_of(bench, min_in_sync=min_in_sync, members=tuple(map(member, hosts)))
    assert anew(bench, group, A).epoch == Epoch(1)


def test_only_the_host_whose_store_is_gone_begins_a_group_anew(bench: Bench) -> None:
    """V8: B cannot know that A's store is gone, and A itself has nothing to begin while it has it."""
    bench.run(ensure_identity("d", nonce=bench.nonce()))
    group = first_of(bench)
    assert anew(bench, group, B).epoch == Epoch(1)
    assert anew(bench, group, A, store=member(A).store).epoch == Epoch(1)


def test_a_group_is_not_begun_anew_after_a_forced_recovery(bench: Bench) -> None:
    """V8: the member that was chosen is listed alone, and holds what was acknowledged before (V4)."""
    identity = bench.run(ensure_identity("d", nonce=bench.nonce()))
    assert isinstance(identity, Seen)
    group = first_of(bench, members=(member(A), member(B)))
    seen = bench.run(read_view(group))
    assert isinstance(seen, Seen)
    forced = View(
        group=group,
        epoch=Epoch(2),
        primary=A,
        members=(member(A),),
        nonce=bench.nonce(),
        generation=Epoch(2),
    )
    assert isinstance(bench.run(change_view(ViewChange(seen, forced), identity=identity)), Seen)
    assert anew(bench, group, A) == forced


def test_a_group_is_not_begun_anew_after_the_authority_was_restored(bench: Bench) -> None:
    """V8: the view may be of yesterday, and others hold what was acknowledged since (A5)."""
    bench.run(ensure_identity("d", nonce=bench.nonce()))
    group = first_of(bench)
    assert isinstance(bench.run(restore(Floors(epoch=Epoch(7)), nonce=bench.nonce())), Seen)
    assert anew(bench, group, A).epoch == Epoch(1)


class Starter:
    """The groups that host A may start, with the authority of *bench*."""

    def __init__(self, bench: Bench, store: str | None) -> None:
        self.learned: list[View] = []
        me = (
            msgspec.structs.replace(member(A), store=StoreId(store), incarnation=Incarnation(2))
            if store
            else None
        )
        self.groups = UnbegunGroups(
            A,
            cast(Any, SimpleNamespace(start=lambda recipe, then: then(bench.run(recipe)))),
            cast(Any, lambda on_timer: SimpleNamespace(set=lambda delay_ns, tag: 1)),
            cast(Any, SimpleNamespace(wall=lambda: 1)),
            cast(Any, SimpleNamespace(note=lambda *_, **__: None)),
            bench.nonce,
            member_of=lambda group: me,
            learn=lambda seen: self.learned.append(seen.value),
        )

    def look(self, bench: Bench, group: GroupId) -> list[View]:
        record, seen = bench.run(read_group(group)), bench.run(read_view(group))
        assert isinstance(record, Seen)
        assert isinstance(seen, Seen)
        self.groups.look(record.value, None)
        self.groups.look(record.value, seen.value)
        return self.learned


def test_a_host_looks_whether_a_group_is_to_begin_anew_once_it_knows_the_view(bench: Bench) -> None:
    """V8: the record and the view arrive one after the other, and either may be the last."""
    bench.run(ensure_identity("d", nonce=bench.nonce()))
    group = first_of(bench)
    assert Starter(bench, None).look(bench, group) == [], "it holds records of the group, or does not host it"
    assert Starter(bench, member(A).store).look(bench, group) == [], "its store is the listed one"
    starter = Starter(bench, "new")
    (found,) = starter.look(bench, group)
    assert (found.epoch, found.cause.text) == (Epoch(2), BEGUN_ANEW)
    assert len(starter.look(bench, group)) == 1, "the view lists this store now"
