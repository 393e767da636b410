"""Tests whether a group may continue with other code (E7): the decision, and what the authority keeps."""

import msgspec
import pytest

from holdfast.authority.group_code import note_served, served, wish_upgrade, withdraw_upgrade
from holdfast.authority.groups import GroupRecord, Placement, UpgradeWish, read_group
from holdfast.authority.recipe import Seen
from holdfast.authority.sessions import Session
from holdfast.authority.views import NoGroup
from holdfast.groups.upgrade_rules import Wishes, may_replay, why_not_upgrade
from holdfast.model.code import UNKNOWN, Code
from holdfast.model.ids import GroupId, HostId, Incarnation, Nonce, StoreId
from recipe_bench import Bench

X, Y = Code("1", "aaaaaaaaaa"), Code("2", "bbbbbbbbbb")
A, B, C, D, E = map(HostId, "abcde")


def record_on(*hosts: HostId, upgrade: UpgradeWish | None = None) -> GroupRecord:
    return GroupRecord(
        group=GroupId(1),
        class_name="app:Counter",
        style="active",
        members=tuple(Placement(host=host, store=StoreId("")) for host in hosts),
        nonce=Nonce("n"),
        upgrade=upgrade,
    )


def in_session(**codes: Code) -> dict[HostId, Session]:
    return {
        HostId(host): Session(
            host=HostId(host),
            incarnation=Incarnation(1),
            address="",
            nonce=Nonce("n"),
            codes={"app:Counter": code},
        )
        for host, code in codes.items()
    }


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        (Code("2", "3f9a12cd77"), "2 (3f9a12cd)"),
        (Code("", "3f9a12cd77"), "3f9a12cd"),
        (Code("2"), "2"),
        (UNKNOWN, "unknown"),
    ],
)
def test_a_code_as_people_see_it(code: Code, shown: str) -> None:
    assert str(code) == shown


def test_the_digest_alone_says_whether_code_is_the_same() -> None:
    assert Code("1", "aa").is_same(Code("2", "aa"))
    assert not Code("1", "aa").is_same(Code("1", "bb"))
    assert not Code("1", "aa").is_same(Code("1"))
    assert Code("1").is_same(UNKNOWN)


def test_most_have_the_new_code_and_nobody_the_old() -> None:
    assert why_not_upgrade(record_on(A, B, C), X, Y, in_session(a=Y, b=Y)) == ""


def test_a_host_with_the_old_code_is_waited_for() -> None:
    """The group waits however few such hosts there are, because they could not follow."""
    assert why_not_upgrade(record_on(A, B, C), X, Y, in_session(a=Y, b=Y, c=X)) == (
        "c has 1 (aaaaaaaa); here is 2 (bbbbbbbb)"
    )
    assert why_not_upgrade(record_on(A, B, C), X, Y, in_session(a=Y, b=X, c=X)) == (
        "b and c have 1 (aaaaaaaa); here is 2 (bbbbbbbb)"
    )


def test_hosts_that_are_many_are_counted() -> None:
    why = why_not_upgrade(record_on(A, B, C, D, E), X, Y, in_session(a=X, b=X, c=X, d=X, e=Y))
    assert why.startswith("a, b, c and 1 more have ")


def test_half_of_the_hosts_are_not_most_of_them() -> None:
    """Absent hosts may have the old code and serve with it."""
    why = why_not_upgrade(record_on(A, B), X, Y, in_session(a=Y))
    assert why == "the group was served by 1 (aaaaaaaa); here is 2 (bbbbbbbb), as on 1 of 2 hosts"
    assert why_not_upgrade(record_on(A), X, Y, in_session(a=Y)) == ""


def test_hosts_that_are_not_placed_or_have_other_classes_do_not_count() -> None:
    assert why_not_upgrade(record_on(A, B, C), X, Y, in_session(a=Y, b=Y, d=X)) == ""
    sessions = in_session(a=Y, b=Y)
    sessions[C] = msgspec.structs.replace(in_session(c=X)[C], codes={"app:Other": X})
    assert why_not_upgrade(record_on(A, B, C), X, Y, sessions) == ""


def test_what_a_person_wishes_is_done_whoever_has_what() -> None:
    wished = record_on(A, B, C, upgrade=UpgradeWish(code=Y))
    assert why_not_upgrade(wished, X, Y, in_session(a=Y, b=X, c=X)) == ""
    assert why_not_upgrade(wished, X, X, {}) == ""
    other = record_on(A, B, C, upgrade=UpgradeWish(code=Code("3", "cccc")))
    assert why_not_upgrade(other, X, Y, in_session(a=Y, b=Y, c=Y)) == ""
    assert why_not_upgrade(other, X, Y, in_session(a=Y, b=X, c=X)) != ""


def test_a_replay_by_other_code_is_ordered_by_a_person_only() -> None:
    assert not may_replay(record_on(A), Y)
    assert not may_replay(record_on(A, upgrade=UpgradeWish(code=Y)), Y)
    assert not may_replay(record_on(A, upgrade=UpgradeWish(code=X, replays=True)), Y)
    assert may_replay(record_on(A, upgrade=UpgradeWish(code=Y, replays=True)), Y)


# --- at the authority


def record_of(bench: Bench, group: GroupId) -> GroupRecord:
    found = bench.run(read_group(group))
    assert isinstance(found, Seen)
    return found.value


def test_a_wish_stands_until_the_group_is_served_by_what_it_names(bench: Bench) -> None:
    group = bench.group_on((A, B, C))
    bench.run(wish_upgrade(group, Y, replays=True, nonce=bench.nonce()))
    wish = record_of(bench, group).upgrade
    assert wish is not None
    assert (wish.code, wish.replays) == (Y, True)
    bench.run(note_served(group, X, nonce=bench.nonce()))
    assert record_of(bench, group).code == X
    assert record_of(bench, group).upgrade == wish
    bench.run(note_served(group, Y, nonce=bench.nonce()))
    assert (record_of(bench, group).code, record_of(bench, group).upgrade) == (Y, None)


def test_a_wish_is_replaced_and_withdrawn(bench: Bench) -> None:
    group = bench.group_on((A, B, C))
    bench.run(wish_upgrade(group, X, nonce=bench.nonce()))
    bench.run(wish_upgrade(group, Y, nonce=bench.nonce()))
    wish = record_of(bench, group).upgrade
    assert wish is not None
    assert wish.code == Y
    bench.run(withdraw_upgrade(group, nonce=bench.nonce()))
    assert record_of(bench, group).upgrade is None
    assert bench.run(wish_upgrade(GroupId(99), Y, nonce=bench.nonce())) == NoGroup(GroupId(99))


def test_what_is_noted_already_is_not_written_again(bench: Bench) -> None:
    group = bench.group_on((A,))
    first = bench.run(note_served(group, X, nonce=bench.nonce()))
    second = bench.run(note_served(group, X, nonce=bench.nonce()))
    assert isinstance(first, Seen)
    assert isinstance(second, Seen)
    assert first.modified == second.modified
    assert served(first.value, X) is first.value


def test_a_wish_is_over_when_whoever_had_the_code_has_another_again() -> None:
    """The request is not over before any host had the code, nor while an absent host may come back with
    it."""
    wishes, record = Wishes(), record_on(A, B, C, upgrade=UpgradeWish(code=Y, nonce=Nonce("w")))
    assert not wishes.is_over(record, X, in_session(a=X, b=X, c=X))
    assert not wishes.is_over(record, X, in_session(a=X, b=Y, c=X))
    assert not wishes.is_over(record, X, in_session(a=X, c=X))
    assert wishes.is_over(record, X, in_session(a=X, b=X, c=X))
    newer = msgspec.structs.replace(record, upgrade=UpgradeWish(code=Y, nonce=Nonce("again")))
    assert not wishes.is_over(newer, X, in_session(a=X, b=X, c=X))
    assert not wishes.is_over(record, Y, in_session(a=Y, b=Y, c=Y))


def test_a_wish_from_before_is_over_when_every_host_was_started_with_other_code() -> None:
    """All hosts were stopped, the old code was put back, and they were started again."""
    wishes, record = Wishes(), record_on(A, B, C, upgrade=UpgradeWish(code=Y, nonce=Nonce("w")))
    wishes.on_served(record)
    assert not wishes.is_over(record, X, in_session(a=X, b=X))
    assert wishes.is_over(record, X, in_session(a=X, b=X, c=X))
    wishes.forget(record.group)
    assert not wishes.is_over(record, X, in_session(a=X, b=X, c=X))


def test_only_the_wish_that_is_over_is_withdrawn(bench: Bench) -> None:
    group = bench.group_on((A, B, C))
    bench.run(wish_upgrade(group, X, nonce=bench.nonce()))
    wish = record_of(bench, group).upgrade
    bench.run(wish_upgrade(group, Y, nonce=bench.nonce()))
    newer = record_of(bench, group).upgrade
    bench.run(withdraw_upgrade(group, nonce=bench.nonce(), only=wish))
    assert record_of(bench, group).upgrade == newer
    bench.run(withdraw_upgrade(group, nonce=bench.nonce(), only=newer))
    assert record_of(bench, group).upgrade is None
