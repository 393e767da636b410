"""Which members are required, and which are listed after a claim (M1, M2, V1, V4)."""

from holdfast.authority.groups import GroupRecord, Placement
from holdfast.authority.recipe import Seen
from holdfast.authority.views import View, ViewChange, ViewMember
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Nonce, Opening, Revision, StoreId
from holdfast.sequence.config import LeaseConfig, SequenceConfig
from holdfast.sequence.view_state import ViewState, members_after_claim, memory_store


def member(name: str, incarnation: int = 1, store: str = "") -> ViewMember:
    return ViewMember(
        host=HostId(name),
        store=StoreId(store or f"disk-{name}"),
        incarnation=Incarnation(incarnation),
        opening=Opening(1),
    )


def view(primary: str, *members: ViewMember, epoch: int = 3) -> View:
    return View(
        group=GroupId(1), epoch=Epoch(epoch), primary=HostId(primary), members=members, nonce=Nonce("n")
    )


A, B, C = member("a"), member("b"), member("c")


def hosts(members: tuple[ViewMember, ...]) -> list[str]:
    return [each.host for each in members]


def test_a_claimant_drops_the_old_primary() -> None:
    assert hosts(members_after_claim(view("a", A, B, C), B, min_in_sync=2, is_released=False)) == ["b", "c"]


def test_a_claimant_keeps_the_old_primary_rather_than_undercut() -> None:
    """The members still listed stay able to claim (M1)."""
    assert hosts(members_after_claim(view("a", A, B), B, min_in_sync=2, is_released=False)) == ["a", "b"]


def test_a_primary_that_handed_over_stays() -> None:
    assert hosts(members_after_claim(view("a", A, B, C), B, min_in_sync=2, is_released=True)) == [
        "a",
        "b",
        "c",
    ]


def test_a_restarted_primary_is_listed_as_its_new_process() -> None:
    """Proof of death and leases are about one process (V1, K2)."""
    again = member("a", 2)
    assert members_after_claim(view("a", A, B, C), again, min_in_sync=2, is_released=False) == (again, B, C)


def test_required_are_the_listed_and_those_a_pending_change_would_list() -> None:
    """Until the authority has answered, either view may be the one in force (M2)."""
    seen = Seen("views/1", view("a", A, B), Revision(5))
    own = ViewState(A, seen)
    assert own.required() == [A, B]
    own.joining = C
    assert own.required() == [A, B, C]
    own.joining = None
    own.pending = ViewChange(seen, view("a", A, C, epoch=4))
    assert own.required() == [A, B, C]


def test_another_store_of_the_same_host_is_another_member() -> None:
    own = ViewState(member("b", 2, "disk-b-new"), Seen("views/1", view("a", A, B), Revision(5)))
    assert own.own_entry is None


def test_a_restarted_process_has_another_store_in_memory() -> None:
    assert memory_store(HostId("a"), Incarnation(1)) != memory_store(HostId("a"), Incarnation(2))


def test_the_defaults_are_valid_and_problems_are_all_told() -> None:
    assert SequenceConfig().validate() == LeaseConfig().validate() == []
    assert len(SequenceConfig(window=0, silence_ns=1).validate()) == 2
    assert len(LeaseConfig(interval_ns=10**9, margin_ns=-1).validate()) == 2


def test_grace_is_longer_than_the_lease_by_any_clock() -> None:
    """A holder whose clock runs slow by the bound has ended its lease before the grace is over (R3)."""
    config = LeaseConfig()
    slowest = config.lease_ns * 1_000_000 // (1_000_000 - config.rate_bound_ppm)
    assert config.grace_ns > slowest


def test_the_newest_record_says_who_never_leads() -> None:
    """W3: an older record that arrives late changes nothing."""

    def record(*barred: str) -> GroupRecord:
        return GroupRecord(
            group=GroupId(1),
            class_name="m:C",
            style="active",
            members=tuple(
                Placement(host=HostId(name), store=StoreId(""), never_leads=name in barred) for name in "abc"
            ),
            nonce=Nonce("n"),
        )

    own = ViewState(A, Seen("views/1", view("a", A, B, C), Revision(5)))
    assert own.may_lead(A.host)
    assert own.learn_record(Seen("groups/1", record("a"), Revision(7)))
    assert (own.is_barred, own.may_lead(A.host), own.may_lead(B.host)) == (True, False, True)
    assert not own.is_as_wanted, "it looks for somebody to hand over to"
    assert not own.learn_record(Seen("groups/1", record(), Revision(6)))
    assert own.is_barred
    assert own.learn_record(Seen("groups/1", record("b"), Revision(8)))
    assert (own.is_barred, own.may_lead(B.host), own.is_as_wanted) == (False, False, True)
