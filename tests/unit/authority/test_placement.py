"""Placing a group on hosts, and how a host joins and leaves (M5, M6)."""

import msgspec
import pytest

from holdfast.authority.contract import Request, Result
from holdfast.authority.groups import (
    GroupRecord,
    create_group,
    read_group,
    reserve_group,
    stay_of,
    store_in_stay,
)
from holdfast.authority.identity import Identity, read_identity
from holdfast.authority.placement import (
    AlreadyPlaced,
    IsListed,
    MayForget,
    NotPlaced,
    Stays,
    StillLeaving,
    TooFew,
    TooMany,
    add_member,
    forget_host,
    have_left,
    let_lead,
    may_forget,
    remove_member,
)
from holdfast.authority.recipe import Contended, InDoubt, Seen
from holdfast.authority.removal import remove_group
from holdfast.authority.views import (
    VIEWS_PER_TXN_MAX,
    NoGroup,
    Unmet,
    View,
    ViewChange,
    ViewChanges,
    ViewMember,
    change_view,
    change_views,
    next_epoch,
    read_view,
)
from holdfast.model.ids import GroupId, HostId, StoreId
from holdfast.model.reference import MEMBERS_MAX
from recipe_bench import Bench, member

A, B, C, D = map(HostId, "abcd")


@pytest.fixture
def group(bench: Bench) -> GroupId:
    """A group on a, b and c with at least two in-sync members."""
    return bench.group_on((A, B, C), min_in_sync=2)


def record_of(bench: Bench, group: GroupId) -> Seen[GroupRecord]:
    found = bench.run(read_group(group))
    assert isinstance(found, Seen)
    return found


def identity_of(bench: Bench) -> Seen[Identity]:
    found = bench.run(read_identity())
    assert isinstance(found, Seen)
    return found


def change_to(bench: Bench, group: GroupId, *members: ViewMember) -> ViewChange:
    """The change of the current view to these members."""
    seen = bench.run(read_view(group))
    assert isinstance(seen, Seen)
    epoch = next_epoch(seen.value, identity_of(bench).value)
    view = View(group=group, epoch=epoch, primary=A, members=members, nonce=bench.nonce())
    return ViewChange(seen, view)


def list_in_view(bench: Bench, group: GroupId, *members: ViewMember) -> None:
    done = bench.run(change_view(change_to(bench, group, *members), identity=identity_of(bench)))
    assert isinstance(done, Seen), done


def test_a_host_is_added_in_a_stay_of_its_own(bench: Bench, group: GroupId) -> None:
    """The stay's number is part of the member's identity: acknowledgements of an earlier stay do not
    count."""
    added = bench.run(add_member(group, D, nonce=bench.nonce()))
    assert isinstance(added, Seen)
    assert added.value.placed_on == (A, B, C, D)
    assert added == record_of(bench, group)
    assert added.value.wants(member(D, 1))
    assert not added.value.wants(member(D, 0))
    assert not added.value.wants(member(D, 2))
    assert added.value.wants(member(A, 0))
    again = bench.run(add_member(group, D, nonce=bench.nonce()))
    assert isinstance(again, AlreadyPlaced)


def test_stores_of_two_stays_differ() -> None:
    store = StoreId("store-1#2")
    assert store_in_stay(store, 0) == store
    assert stay_of(store_in_stay(StoreId("store-1"), 7)) == 7
    assert stay_of(StoreId("memory-h1-3")) == 0
    assert store_in_stay(StoreId("s"), 1) != store_in_stay(StoreId("s"), 2)


def test_an_order_without_an_answer_is_found_done(bench: Bench, group: GroupId) -> None:
    """Repeated with the same nonce, neither adding nor removing does anything twice (A1)."""
    for recipe in (add_member, remove_member):
        nonce = bench.nonce()
        assert isinstance(bench.run(recipe(group, D, nonce=nonce), bench.lose_answer), InDoubt)
        assert isinstance(bench.run(recipe(group, D, nonce=nonce)), Seen)
    assert record_of(bench, group).value.stays == 1


def test_a_host_leaves_when_the_view_can_do_without_it(bench: Bench, group: GroupId) -> None:
    """A leaving host stays a member while it is listed; then it may delete its data, and its entry goes."""
    assert isinstance(bench.run(may_forget(group, C)), Stays)
    told = bench.run(remove_member(group, C, nonce=bench.nonce()))
    assert isinstance(told, Seen)
    assert (told.value.placed_on, told.value.wants(member(C))) == ((A, B), False)
    assert isinstance(bench.run(may_forget(group, C)), IsListed)
    list_in_view(bench, group, member(A), member(B))
    assert isinstance(bench.run(may_forget(group, C)), MayForget)
    assert isinstance(bench.run(have_left(group, C, number=0, nonce=bench.nonce())), Stays)
    assert record_of(bench, group).value.placement(C) is None
    assert isinstance(bench.run(remove_member(group, C, nonce=bench.nonce())), NotPlaced)


def test_a_host_that_leaves_can_be_asked_back_only_while_it_is_listed(bench: Bench, group: GroupId) -> None:
    """Afterwards the host may already be deleting what it held."""
    bench.run(remove_member(group, C, nonce=bench.nonce()))
    back = bench.run(add_member(group, C, nonce=bench.nonce()))
    assert isinstance(back, Seen)
    assert back.value.wants(member(C))
    bench.run(remove_member(group, C, nonce=bench.nonce()))
    list_in_view(bench, group, member(A), member(B))
    assert isinstance(bench.run(add_member(group, C, nonce=bench.nonce())), StillLeaving)
    bench.run(have_left(group, C, number=0, nonce=bench.nonce()))
    anew = bench.run(add_member(group, C, nonce=bench.nonce()))
    assert isinstance(anew, Seen)
    assert not anew.value.wants(member(C))
    assert anew.value.wants(member(C, 1))


def test_a_host_that_was_asked_back_meanwhile_forgets_nothing(bench: Bench, group: GroupId) -> None:
    """C asks whether it may forget. Before it reads the view, it is asked back, and then dropped for being
    slow: it is a member, and must have what it acknowledged (M6)."""
    bench.run(remove_member(group, C, nonce=bench.nonce()))
    asked: list[Request] = []

    def asked_back_in_between(request: Request) -> Result:
        asked.append(request)
        if len(asked) == 2:
            bench.run(add_member(group, C, nonce=bench.nonce()))
            list_in_view(bench, group, member(A), member(B))
        return bench.ask(request)

    assert isinstance(bench.run(may_forget(group, C), asked_back_in_between), Stays)


def test_an_entry_goes_only_with_the_stay_that_has_ended(bench: Bench, group: GroupId) -> None:
    """C has left and does not know that its entry is gone. It is placed again and told to leave again before
    it repeats its request: it has not deleted what it holds now (M6)."""
    bench.run(remove_member(group, C, nonce=bench.nonce()))
    list_in_view(bench, group, member(A), member(B))
    told = bench.nonce()
    assert isinstance(bench.run(have_left(group, C, number=0, nonce=told), bench.lose_answer), InDoubt)
    bench.run(add_member(group, C, nonce=bench.nonce()))
    list_in_view(bench, group, member(A), member(B), member(C, 1))
    bench.run(remove_member(group, C, nonce=bench.nonce()))
    assert isinstance(bench.run(have_left(group, C, number=0, nonce=told)), Stays)
    assert record_of(bench, group).value.placement(C) is not None
    assert isinstance(bench.run(may_forget(group, C)), IsListed)


def test_a_host_that_never_comes_back_is_forgotten_once_no_view_lists_it(
    bench: Bench, group: GroupId
) -> None:
    """The decision uses the authority's current state: the caller may have read an older view."""

    def forget(as_of: Seen[GroupRecord]) -> object:
        return bench.run(forget_host(group, C, nonce=bench.nonce(), as_of=as_of.modified))

    staying = record_of(bench, group)
    assert isinstance(forget(staying), Stays)
    bench.run(remove_member(group, C, nonce=bench.nonce()))
    leaving = record_of(bench, group)
    assert isinstance(forget(leaving), IsListed)
    list_in_view(bench, group, member(A), member(B))
    assert isinstance(forget(staying), Contended)
    gone = forget(leaving)
    assert isinstance(gone, Seen)
    assert gone == record_of(bench, group)
    assert gone.value.placement(C) is None


def test_asking_back_and_dropping_cannot_both_happen(bench: Bench, group: GroupId) -> None:
    """The primary drops the host between the read of the view and the change: the host leaves."""
    bench.run(remove_member(group, C, nonce=bench.nonce()))
    drop = bench.race(lambda: list_in_view(bench, group, member(A), member(B)))
    assert isinstance(bench.run(add_member(group, C, nonce=bench.nonce()), drop), StillLeaving)


def test_a_group_keeps_as_many_members_as_it_needs(bench: Bench, group: GroupId) -> None:
    assert isinstance(bench.run(remove_member(group, C, nonce=bench.nonce())), Seen)
    assert isinstance(bench.run(remove_member(group, B, nonce=bench.nonce())), TooFew)
    assert record_of(bench, group).value.placed_on == (A, B)


def test_a_group_has_so_many_members_and_no_more(bench: Bench, group: GroupId) -> None:
    for number in range(MEMBERS_MAX - 3):
        assert isinstance(bench.run(add_member(group, HostId(f"h{number}"), nonce=bench.nonce())), Seen)
    assert isinstance(bench.run(add_member(group, HostId("one more"), nonce=bench.nonce())), TooMany)


def test_what_was_planned_from_an_older_record_is_not_done(bench: Bench, group: GroupId) -> None:
    """Of two planners who start from the same record one succeeds; the second finds the record changed."""
    seen = record_of(bench, group)
    first = bench.run(add_member(group, D, nonce=bench.nonce(), as_of=seen.modified))
    assert isinstance(first, Seen)
    other = HostId("e")
    assert isinstance(
        bench.run(add_member(group, other, nonce=bench.nonce(), as_of=seen.modified)), Contended
    )
    assert isinstance(bench.run(remove_member(group, A, nonce=bench.nonce(), as_of=seen.modified)), Contended)
    assert record_of(bench, group) == first
    assert isinstance(bench.run(remove_member(group, A, nonce=bench.nonce(), as_of=first.modified)), Seen)


def test_a_group_that_is_gone_has_no_members(bench: Bench, group: GroupId) -> None:
    bench.run(remove_group(group, nonce=bench.nonce()))
    assert isinstance(bench.run(add_member(group, D, nonce=bench.nonce())), NoGroup)
    assert isinstance(bench.run(remove_member(group, A, nonce=bench.nonce())), NoGroup)
    assert isinstance(bench.run(may_forget(group, A)), Stays)
    assert isinstance(bench.run(have_left(group, A, number=0, nonce=bench.nonce())), Stays)


def test_nobody_is_listed_by_a_record_that_does_not_stand_any_more(bench: Bench, group: GroupId) -> None:
    """A leaving host that is not listed deletes its data, so an older record must not list it again (M5)."""
    list_in_view(bench, group, member(A), member(B))
    record = record_of(bench, group)
    wanted = change_to(bench, group, member(A), member(B), member(C))
    wanted = ViewChange(wanted.seen, wanted.new, record.unchanged())
    bench.run(remove_member(group, C, nonce=bench.nonce()))
    assert bench.run(may_forget(group, C)) == MayForget()
    identity = identity_of(bench)
    assert bench.run(change_view(wanted, identity=identity)) == Unmet(group)
    standing = bench.run(read_view(group))
    assert isinstance(standing, Seen)
    assert standing.value == wanted.seen.value


def test_a_change_that_is_unmet_holds_up_no_other(bench: Bench, group: GroupId) -> None:
    """The other changes of the batch are won, and a batch of additions fits the contract (A3)."""
    record = record_of(bench, group)
    unmet = ViewChange(*_pair(change_to(bench, group, member(A))), record.unchanged())
    bench.run(remove_member(group, C, nonce=bench.nonce()))
    others = [_another(bench, record.value) for _ in range(VIEWS_PER_TXN_MAX)]
    identity = identity_of(bench)
    done = bench.run(change_views([unmet, *others], identity=identity))
    assert isinstance(done, ViewChanges)
    assert done.unmet == (Unmet(group),)
    assert len(done.won) == len(others)
    assert done.lost == done.in_doubt == ()


def _pair(change: ViewChange) -> tuple[Seen[View], View]:
    return change.seen, change.new


def _another(bench: Bench, like: GroupRecord) -> ViewChange:
    """A change of another group's view, conditional on its record."""
    number = bench.run(reserve_group(nonce=bench.nonce()))
    assert isinstance(number, int)
    group = GroupId(number)
    record = msgspec.structs.replace(like, group=group, nonce=bench.nonce())
    bench.run(create_group(record, A, (member(A),)))
    return ViewChange(
        *_pair(change_to(bench, group, member(A), member(B))), record_of(bench, group).unchanged()
    )


def test_a_member_can_be_one_that_never_leads_and_one_that_leads_is_left(
    bench: Bench, group: GroupId
) -> None:
    """W3: the record keeps a member that may lead, whatever is asked for."""
    added = bench.run(add_member(group, D, nonce=bench.nonce(), never_leads=True))
    assert isinstance(added, Seen)
    assert (added.value.leaders, added.value.may_lead(D)) == ((A, B, C), False)
    for host in (B, C):
        assert isinstance(bench.run(let_lead(group, host, never_leads=True, nonce=bench.nonce())), Seen)
    assert record_of(bench, group).value.leaders == (A,)
    assert isinstance(bench.run(let_lead(group, A, never_leads=True, nonce=bench.nonce())), TooFew)
    assert isinstance(bench.run(remove_member(group, A, nonce=bench.nonce())), TooFew)
    back = bench.run(let_lead(group, D, never_leads=False, nonce=bench.nonce()))
    assert isinstance(back, Seen)
    assert back.value.leaders == (A, D)
    assert isinstance(bench.run(remove_member(group, A, nonce=bench.nonce())), Seen)
    assert isinstance(bench.run(let_lead(group, A, never_leads=True, nonce=bench.nonce())), NotPlaced)


def test_who_returns_while_it_leaves_is_what_it_is_asked_to_be(bench: Bench, group: GroupId) -> None:
    bench.run(let_lead(group, C, never_leads=True, nonce=bench.nonce()))
    bench.run(remove_member(group, C, nonce=bench.nonce()))
    back = bench.run(add_member(group, C, nonce=bench.nonce()))
    assert isinstance(back, Seen)
    assert back.value.may_lead(C)
