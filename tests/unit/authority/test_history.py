"""The history of a group lists its views and their causes, is bounded, and is removed with the group."""

import msgspec

from holdfast.authority.groups import GroupRecord, Placement, create_group, reserve_group
from holdfast.authority.history import (
    CHAPTERS_MAX,
    GIVEN_UP_MAX,
    Chapter,
    GivenUp,
    History,
    Steps,
    Unkept,
    read_history,
    write_history,
)
from holdfast.authority.recipe import InDoubt, Removed, Seen
from holdfast.authority.removal import remove_group
from holdfast.authority.views import Cause, NoGroup, View, ViewMember, Why
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Opening, StoreId
from recipe_bench import Bench

A, B = HostId("a"), HostId("b")
GROUP = GroupId(1)
MEASURED = Steps(claimed_ns=1, committed_ns=2, ready_ns=3, replayed=4)


def created(bench: Bench) -> View:
    group = bench.run(reserve_group(nonce=bench.nonce()))
    assert isinstance(group, int), group
    member = ViewMember(host=A, store=StoreId("s"), incarnation=Incarnation(1), opening=Opening(1))
    record = GroupRecord(
        group=group,
        class_name="bank:Ledger",
        style="warm_passive",
        members=(Placement(host=A, store=StoreId("s")),),
        nonce=bench.nonce(),
        created_ns=77,
    )
    made = bench.run(create_group(record, A, (member,)))
    assert isinstance(made, Seen), made
    return made.value


def chapter(epoch: int, steps: Steps | None = None) -> Chapter:
    cause = Cause(why=Why.DEAD, host=A, at_ns=epoch)
    return Chapter(epoch=Epoch(epoch), primary=B, in_sync=(B,), cause=cause, steps=steps)


def test_a_first_view_says_that_its_group_was_created(bench: Bench) -> None:
    assert created(bench).cause == Cause(why=Why.CREATED, host=A, at_ns=77)


def test_a_view_of_before_causes_were_written_is_still_read() -> None:
    """Its cause is UNTOLD."""
    old = b'{"type":"view","group":1,"epoch":3,"primary":"a","members":[],"nonce":"n"}'
    assert msgspec.json.decode(old, type=View).cause.why is Why.UNTOLD


def test_only_the_latest_views_are_remembered_in_order() -> None:
    """A late writer's chapters are sorted in, and measurements are not lost to a chapter without any."""
    history = History(group=GROUP).with_chapters(chapter(epoch) for epoch in range(2, CHAPTERS_MAX + 10))
    assert len(history.chapters) == CHAPTERS_MAX
    assert history.chapters[-1].epoch == CHAPTERS_MAX + 9
    measured = History(group=GROUP).with_chapters([chapter(5, MEASURED), chapter(3)])
    again = measured.with_chapters([chapter(5), chapter(4)])
    assert [each.epoch for each in again.chapters] == [3, 4, 5]
    assert again.chapters[-1].steps == MEASURED


def test_a_history_is_written_once_however_often_its_answer_is_lost(bench: Bench) -> None:
    group, nonce = created(bench).group, bench.nonce()
    assert isinstance(bench.run(write_history(group, (chapter(2),), nonce=nonce), bench.lose_answer), InDoubt)
    for wanted in (chapter(2), chapter(3, MEASURED)):
        bench.run(write_history(group, (wanted,), nonce=nonce))
    assert bench.run(read_history(group)) == History(group=group, chapters=(chapter(2), chapter(3, MEASURED)))


def test_the_history_goes_with_its_group_and_no_late_writer_brings_it_back(bench: Bench) -> None:
    group = created(bench).group
    bench.run(write_history(group, (chapter(2),), nonce=bench.nonce()))
    assert isinstance(bench.run(remove_group(group, nonce=bench.nonce())), Removed)
    assert bench.run(read_history(group)) == History(group=group)
    assert bench.run(write_history(group, (chapter(3),), nonce=bench.nonce())) == NoGroup(group)
    assert bench.run(read_history(group)) == History(group=group)


def test_each_host_says_of_its_own_checkpoints_whether_they_fail() -> None:
    failed = [Unkept(host=HostId(name), why="a set", at_ns=5) for name in "ba"]
    history = History(group=GROUP).with_unkept(failed[0]).with_unkept(failed[1])
    assert [each.host for each in history.unkept] == ["a", "b"]
    again = history.with_unkept(Unkept(host=HostId("a"), why=""))
    assert again.unkept == (failed[0],)
    assert again.with_unkept(Unkept(host=HostId("c"), why="")) == again


def test_a_checkpoint_that_failed_counts_though_its_process_is_gone_until_one_is_made() -> None:
    a, b = HostId("a"), HostId("b")
    failed = Unkept(host=a, why="a set", at_ns=5, incarnation=Incarnation(1))
    history = History(group=GROUP).with_unkept(failed)
    for running in ({a: Incarnation(1)}, {a: Incarnation(2)}, {}):
        assert list(history.unkept_now(running)) == [failed]
    made = history.with_unkept(Unkept(host=b, why="", at_ns=6))
    assert list(made.unkept_now({a: Incarnation(1)})) == [failed], (
        "it says so itself, for a reason of its own"
    )
    assert list(made.unkept_now({a: Incarnation(2)})) == []
    assert list(history.with_unkept(Unkept(host=b, why="", at_ns=4)).unkept_now({})) == [failed]
    well = History(group=GROUP)
    assert well.with_unkept(Unkept(host=b, why="", at_ns=6)) == well, "nothing is written for it"


def test_calls_that_were_given_up_are_remembered_once_and_not_without_end() -> None:
    """E4: an operator can see these calls, whichever member abandoned them."""
    many = [GivenUp(request=f"c/{n}", call="exit()", attempts=2, at_ns=n) for n in range(GIVEN_UP_MAX + 3)]
    history = History(group=GROUP).with_given_up(many).with_chapters([chapter(2)])
    assert history.given_up == tuple(many[3:])
    again = GivenUp(request=many[-1].request, call="exit()", attempts=3, at_ns=999)
    assert history.with_given_up([again]).given_up == history.given_up, "the first word counts"
