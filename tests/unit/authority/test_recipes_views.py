"""Group ids are never reused, epochs only grow, and claims are sent in batches (V6, K4, M2)."""

import pytest

from holdfast.authority import keys
from holdfast.authority.contract import Applied, Refused, Request, Result, Txn, Unknown
from holdfast.authority.groups import (
    GroupRecord,
    Placement,
    Reserved,
    create_group,
    list_groups,
    read_group,
    reserve_group,
    reserve_groups,
)
from holdfast.authority.identity import Floors, Identity, read_identity, restore
from holdfast.authority.recipe import InDoubt, NoAnswer, Removed, Seen, put
from holdfast.authority.removal import remove_group
from holdfast.authority.views import (
    VIEWS_PER_TXN_MAX,
    IdentityChanged,
    Lost,
    NoGroup,
    View,
    ViewChange,
    ViewChanges,
    change_view,
    change_views,
    list_views,
    next_epoch,
    read_view,
)
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import Epoch, GroupId, HostId, Nonce
from recipe_bench import Bench, member

A, B = HostId("a"), HostId("b")
MEMBERS = (member(A), member(B))


def reserved(bench: Bench) -> GroupId:
    group = bench.run(reserve_group(nonce=bench.nonce()))
    assert isinstance(group, int), group
    return group


def record_of(bench: Bench, group: GroupId) -> GroupRecord:
    placements = tuple(Placement(host=each.host, store=each.store) for each in MEMBERS)
    return GroupRecord(
        group=group, class_name="bank.Ledger", style="warm", members=placements, nonce=bench.nonce()
    )


def created(bench: Bench) -> Seen[View]:
    view = bench.run(create_group(record_of(bench, reserved(bench)), A, MEMBERS))
    assert isinstance(view, Seen), view
    return view


def many_views(bench: Bench, number: int) -> list[Seen[View]]:
    """The first views of *number* groups, stored a hundred at a time to save syncs."""
    views = [
        View(group=GroupId(group), epoch=Epoch(1), primary=A, members=MEMBERS, nonce=bench.nonce())
        for group in range(1, number + 1)
    ]
    for start in range(0, number, 100):
        bench.change(*(put(keys.view(view.group), view) for view in views[start : start + 100]))
    listing = bench.run(list_views())
    assert not isinstance(listing, NoAnswer)
    return list(listing.items)


def identity_of(bench: Bench) -> Seen[Identity]:
    identity = bench.run(read_identity())
    assert isinstance(identity, Seen)
    return identity


def claim(bench: Bench, seen: Seen[View], by: HostId = B) -> ViewChange:
    epoch = next_epoch(seen.value, identity_of(bench).value)
    return ViewChange(
        seen, View(group=seen.value.group, epoch=epoch, primary=by, members=MEMBERS, nonce=bench.nonce())
    )


# --- groups


def test_a_group_is_created_with_its_record_and_first_view(bench: Bench) -> None:
    """The record and the view are both stored or neither is; the first epoch is 1."""
    view = created(bench)
    assert (view.value.epoch, view.value.primary) == (1, A)
    assert bench.run(read_view(view.value.group)) == view
    record = bench.run(read_group(view.value.group))
    assert isinstance(record, Seen)
    assert record.value.class_name == "bank.Ledger"
    groups, views = bench.run(list_groups()), bench.run(list_views())
    assert not isinstance(groups, NoAnswer)
    assert not isinstance(views, NoAnswer)
    assert [each.value.group for each in groups.items] == [each.value.group for each in views.items] == [1]


def test_group_ids_are_never_reused(bench: Bench) -> None:
    """This holds after a removal, after an unknown outcome, and after a restoration (V6)."""
    first = created(bench).value.group
    assert bench.run(remove_group(first, nonce=bench.nonce())) == Removed()
    assert bench.run(read_view(first)) == NoGroup(first)
    assert isinstance(bench.run(reserve_group(nonce=bench.nonce()), bench.lose_answer), InDoubt)
    assert reserved(bench) == first + 2
    bench.run(restore(Floors(group=GroupId(1000)), nonce=bench.nonce()))
    assert reserved(bench) == 1001


def test_group_ids_are_issued_in_rows(bench: Bench) -> None:
    """A row belongs to its caller alone, and a restored authority's floor lies below the whole row."""
    first = reserved(bench)
    row = bench.run(reserve_group(nonce=bench.nonce(), count=3))
    assert row == first + 3
    assert reserved(bench) == first + 4
    bench.run(restore(Floors(group=GroupId(1000)), nonce=bench.nonce()))
    assert bench.run(reserve_group(nonce=bench.nonce(), count=2)) == 1002


def test_a_creation_in_doubt_is_recognised_and_cannot_return_after_a_removal(bench: Bench) -> None:
    """The same record finds its own group; a delayed copy is refused even after the group is removed (A1)."""
    known = bench.run(reserve_groups(nonce=bench.nonce()))
    assert isinstance(known, Reserved)
    record = record_of(bench, known.last)
    # On guesses it would be refused whenever it arrives; from what is known it would be applied now.
    assert isinstance(bench.run(create_group(record, A, MEMBERS, known=known), bench.delay), InDoubt)
    settled = bench.run(create_group(record, A, MEMBERS))
    assert isinstance(settled, Seen)
    assert bench.run(create_group(record, A, MEMBERS)) == settled
    bench.run(remove_group(record.group, nonce=bench.nonce()))
    assert [type(result) for result in bench.release()] == [Refused]
    assert bench.run(read_view(record.group)) == NoGroup(record.group)


def test_a_creation_in_doubt_is_recognised_also_when_its_primary_has_claimed_since(bench: Bench) -> None:
    """The primary claims within milliseconds. *Without it:* the creator is told that the group is gone."""
    record = record_of(bench, reserved(bench))
    assert isinstance(bench.run(create_group(record, A, MEMBERS), bench.lose_answer), InDoubt)
    first = bench.run(read_view(record.group))
    assert isinstance(first, Seen)
    claimed = bench.run(change_view(claim(bench, first, B), identity=identity_of(bench)))
    assert isinstance(claimed, Seen)
    assert bench.run(create_group(record, A, MEMBERS)) == claimed
    other = record_of(bench, record.group)
    assert bench.run(create_group(other, A, MEMBERS)) == Lost(record.group, claimed)


# --- views


def test_a_claim_puts_the_next_epoch_in_place_of_exactly_the_view_seen(bench: Bench) -> None:
    """Of two claimants of one view, one wins and the other is told who (K1)."""
    view, identity = created(bench), identity_of(bench)
    first, second = claim(bench, view, A), claim(bench, view, B)
    won = bench.run(change_view(first, identity=identity))
    assert isinstance(won, Seen)
    assert won.value.epoch == 2
    assert bench.run(change_view(second, identity=identity)) == Lost(view.value.group, won)
    assert bench.run(read_view(view.value.group)) == won


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_epoch_that_does_not_grow_is_refused_before_it_is_sent(bench: Bench, epoch: int) -> None:
    """The epoch is the only thing the authority knows about a view (V6)."""
    view = created(bench)
    stale = View(group=view.value.group, epoch=Epoch(epoch), primary=B, members=MEMBERS, nonce=Nonce("x"))
    with pytest.raises(InvalidRequest):
        bench.run(change_view(ViewChange(view, stale), identity=identity_of(bench)))
    assert bench.run(read_view(view.value.group)) == view


def test_a_restored_authority_issues_no_epoch_that_may_be_in_use(bench: Bench) -> None:
    """Claims made with the old identity are refused, new ones start above the floor (A5)."""
    view, old = created(bench), identity_of(bench)
    prepared = claim(bench, view)
    bench.run(restore(Floors(epoch=Epoch(50)), nonce=bench.nonce()))
    assert bench.run(change_view(prepared, identity=old)) == IdentityChanged()
    renewed = bench.run(change_view(claim(bench, view), identity=identity_of(bench)))
    assert isinstance(renewed, Seen)
    assert renewed.value.epoch == 51
    assert created(bench).value.epoch == 51


def test_a_view_change_in_doubt_is_settled_by_the_same_change(bench: Bench) -> None:
    """Whether or not the change was applied by then, the second run wins or finds its nonce (A1)."""
    identity = identity_of(bench)
    for treat in (bench.lose_answer, bench.delay):
        wanted = claim(bench, created(bench))
        assert isinstance(bench.run(change_view(wanted, identity=identity), treat), InDoubt)
        settled = bench.run(change_view(wanted, identity=identity))
        assert isinstance(settled, Seen)
        assert settled.value == wanted.new


def test_a_view_change_is_given_up_by_winning_another(bench: Bench) -> None:
    """Once another change has won, the old request is always refused; a read would not be enough (M2)."""
    view, identity = created(bench), identity_of(bench)
    adding = claim(bench, view, A)
    assert isinstance(bench.run(change_view(adding, identity=identity), bench.delay), InDoubt)
    assert bench.run(read_view(view.value.group)) == view
    other = bench.run(change_view(claim(bench, view, A), identity=identity))
    assert isinstance(other, Seen)
    assert [type(result) for result in bench.release()] == [Refused]
    assert bench.run(read_view(view.value.group)) == other


# --- many at once (K4)


def test_claims_travel_in_full_batches(bench: Bench) -> None:
    """150 groups in three transactions, every one won."""
    identity = identity_of(bench)
    wanted = [claim(bench, view) for view in many_views(bench, 150)]
    sizes: list[int] = []

    def count(request: Request) -> Result:
        assert isinstance(request, Txn)
        sizes.append(len(request.changes))
        return bench.ask(request)

    result = bench.run(change_views(wanted, identity=identity), count)
    assert isinstance(result, ViewChanges)
    assert [each.value for each in result.won] == [each.new for each in wanted]
    assert sizes == [VIEWS_PER_TXN_MAX, VIEWS_PER_TXN_MAX, 150 - 2 * VIEWS_PER_TXN_MAX]


def test_a_batch_that_is_refused_goes_again_without_what_was_lost(bench: Bench) -> None:
    """One lost group, one removed group, and one already won do not hinder the others (K4)."""
    identity = identity_of(bench)
    views = [created(bench) for _ in range(6)]
    wanted = [claim(bench, view) for view in views]
    rival = claim(bench, views[1], A)
    standing = bench.run(change_view(rival, identity=identity))
    bench.run(remove_group(views[2].value.group, nonce=bench.nonce()))
    bench.run(change_view(wanted[3], identity=identity))
    result = bench.run(change_views(wanted, identity=identity))
    assert isinstance(result, ViewChanges)
    assert {each.value.group for each in result.won} == {views[n].value.group for n in (0, 3, 4, 5)}
    assert set(result.lost) == {Lost(views[1].value.group, standing), Lost(views[2].value.group, None)}
    assert result.in_doubt == ()


def test_batches_not_answered_are_in_doubt_and_settled_by_asking_again(bench: Bench) -> None:
    """The first batch is won, the second applied without an answer; asked again, all are won once."""
    identity = identity_of(bench)
    wanted = [claim(bench, view) for view in many_views(bench, VIEWS_PER_TXN_MAX + 10)]
    asked = 0

    def lose_second(request: Request) -> Result:
        nonlocal asked
        asked += 1
        result = bench.ask(request)
        assert isinstance(result, Applied)
        return Unknown("lost") if asked == 2 else result

    first = bench.run(change_views(wanted, identity=identity), lose_second)
    assert isinstance(first, ViewChanges)
    assert len(first.won) == VIEWS_PER_TXN_MAX
    assert list(first.in_doubt) == wanted[VIEWS_PER_TXN_MAX:]
    again = bench.run(change_views(first.in_doubt, identity=identity))
    assert isinstance(again, ViewChanges)
    assert len(again.won) == 10
    assert again.lost == ()
    assert again.in_doubt == ()
