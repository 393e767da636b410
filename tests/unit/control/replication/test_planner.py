"""Tests that plans bring the domain to its desired state, step by step, without putting any group at risk.

Property tests draw whole domains and carry out each step of a plan as primaries and hosts would.
"""

from dataclasses import dataclass, field, replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.authority.groups import GroupRecord, Placement, store_in_stay
from holdfast.authority.views import View, ViewMember
from holdfast.control.replication.locations import choose, choose_many, shared
from holdfast.control.replication.planner import (
    LEARNERS_MAX,
    Action,
    Forget,
    Lead,
    Place,
    Plan,
    Remove,
    Tune,
    by_group,
    plan,
)
from holdfast.control.replication.spec import DesiredState, GroupFact, GroupSpec, HostFact, ObservedState
from holdfast.model.ids import SECOND, Epoch, GroupId, HostId, Incarnation, Nonce, Opening, StoreId
from holdfast.model.properties import MembershipStyle, is_within

LOSS = 10
STEPS_MAX = 400


def host(name: str, location: str = "", gone: int = 0) -> HostFact:
    return HostFact(HostId(name), location or name, gone)


def fact(
    number: int,
    members: str,
    *,
    in_sync: str | None = None,
    leaving: str = "",
    min_in_sync: int = 2,
    style: str = "warm_passive",
) -> GroupFact:
    """A group on hosts that are named by one letter each."""
    entries = [Placement(host=HostId(each), store=StoreId("")) for each in members]
    entries += [Placement(host=HostId(each), store=StoreId(""), is_leaving=True) for each in leaving]
    record = GroupRecord(
        group=GroupId(number),
        class_name="x:X",
        style=style,
        members=tuple(entries),
        nonce=Nonce(f"n{number}"),
        min_in_sync=min_in_sync,
    )
    return listing(record, tuple(map(HostId, members if in_sync is None else in_sync)))


def listing(record: GroupRecord, hosts: tuple[HostId, ...]) -> GroupFact:
    entries = [record.placement(each) for each in hosts]
    view = View(
        group=record.group,
        epoch=Epoch(1),
        primary=hosts[0] if hosts else HostId(""),
        members=tuple(
            ViewMember(
                host=each.host,
                store=store_in_stay(StoreId(f"s-{each.host}"), each.number),
                incarnation=Incarnation(1),
                opening=Opening(1),
            )
            for each in entries
            if each is not None
        ),
        nonce=Nonce("v"),
    )
    return GroupFact(record, view)


def wishing(minimum: int = 3, **more: object) -> GroupSpec:
    return replace(GroupSpec(minimum=minimum), **more)  # type: ignore[arg-type]  # fields of the spec


def one(
    group: GroupFact, hosts: list[HostFact], wish: GroupSpec | None = None, draining: str = ""
) -> list[Action]:
    wishes = DesiredState(
        {group.record.group: wish or wishing()}, draining=frozenset(map(HostId, draining)), loss_ns=LOSS
    )
    return list(plan(wishes, ObservedState(tuple(hosts), (group,))).actions)


ABCD = [host("a"), host("b"), host("c"), host("d")]
A_LOST = [host("a", gone=LOSS), *ABCD[1:]]


# --- the steps, one by one


def test_a_group_as_wished_for_is_left_alone() -> None:
    assert one(fact(1, "abc"), ABCD) == []
    assert one(fact(1, "abcd"), ABCD) == [], "members beyond the minimum stay: somebody put them there"


@pytest.mark.covers("FTC-135", "FTC-150")
def test_the_minimum_is_restored_after_a_loss() -> None:
    """Another member is placed. The lost one is removed once the new one is in sync, and not before."""
    (placed,) = one(fact(1, "abc", in_sync="bc"), A_LOST)
    assert (type(placed), placed.host) == (Place, "d")
    assert one(fact(1, "abcd", in_sync="bc"), A_LOST) == []
    (removed,) = one(fact(1, "abcd", in_sync="bcd"), A_LOST)
    assert (type(removed), removed.host) == (Remove, "a")


@pytest.mark.covers("FTC-314", "FTC-315")
@pytest.mark.parametrize("style", ["cold_passive", "warm_passive", "active"])
def test_the_groups_of_a_failed_primary_are_found_and_it_is_removed_from_them(style: str) -> None:
    """Of the two groups that the host was in, one is below its minimum, so another member is placed there
    first. A group that the host was not in is left alone."""
    host_facts = [*A_LOST, host("e")]
    wishes = DesiredState(
        {GroupId(number): wishing(minimum) for number, minimum in ((1, 3), (2, 2), (3, 3))}, loss_ns=LOSS
    )

    def planned(*groups: GroupFact) -> list[tuple[type[Action], GroupId, HostId]]:
        found = plan(wishes, ObservedState(tuple(host_facts), groups)).actions
        return [(type(each), each.group, each.host) for each in found]

    others = fact(2, "abc", in_sync="bc", style=style), fact(3, "bcd", style=style)
    begun = planned(fact(1, "abc", in_sync="bc", style=style), *others)
    assert begun == [(Place, 1, "e"), (Remove, 2, "a")]
    done = planned(fact(1, "abce", in_sync="bce", style=style), *others)
    assert done == [(Remove, 1, "a"), (Remove, 2, "a")]


def test_a_host_that_may_well_be_back_is_waited_for() -> None:
    """Copying what the host holds costs more than its restart."""
    assert one(fact(1, "abc", in_sync="bc"), [host("a", gone=LOSS - 1), *ABCD[1:]]) == []


def test_a_loss_that_leaves_the_minimum_is_no_reason_to_act() -> None:
    assert one(fact(1, "abc", in_sync="bc"), A_LOST, wishing(2))[0].host == "a", "it is only let go"


@pytest.mark.covers("FTC-198")
def test_a_member_that_was_removed_is_made_anew_elsewhere() -> None:
    """The new member is at another location than the one it was removed from."""
    (placed,) = one(fact(1, "ab", leaving="c"), ABCD)
    assert (type(placed), placed.host) == (Place, "d")
    assert one(fact(1, "ab", leaving="c"), ABCD[:3]) == []


@pytest.mark.covers("FTC-133")
def test_an_application_that_controls_membership_is_left_to_it() -> None:
    """Nothing is placed or removed; the plan only says what is missing."""
    wish = wishing(membership=MembershipStyle.MEMB_APP_CTRL)
    group = fact(1, "abc", in_sync="bc")
    found = plan(DesiredState({GroupId(1): wish}, loss_ns=LOSS), ObservedState(tuple(A_LOST), (group,)))
    assert found.actions == ()
    assert list(by_group(found, GroupId(1))) == ["2 members, 3 wished for: its application places them"]


@pytest.mark.covers("FTC-134")
def test_never_two_members_in_one_location() -> None:
    """A member there blocks its location whether it stays or leaves; a lost one blocks nothing. Where no
    other is free, the member that replaces a drained one may be beside it until that one goes."""
    hosts = [host("a", "r1"), host("b", "r2"), host("c", "r3"), host("d", "r3")]
    assert one(fact(1, "ab", leaving="c"), hosts) == []
    assert [each.host for each in one(fact(1, "abc"), hosts, draining="c")] == ["d"]
    assert [each.host for each in one(fact(1, "abc"), [*hosts, host("e", "r4")], draining="c")] == ["e"]
    lost = [*hosts[:2], host("c", "r3", gone=LOSS), hosts[3]]
    assert [each.host for each in one(fact(1, "abc", in_sync="ab"), lost)] == ["d"]


@pytest.mark.covers("FTC-170")
def test_regions_differ_as_widely_as_they_can() -> None:
    """Locations count before load: an idle host in the same rack is worse than a busy one elsewhere."""
    beside = [host("a", "hall1/rack1/a")]
    near, far, farther = host("b", "hall1/rack1/b"), host("c", "hall1/rack2/c"), host("d", "hall2/rack1/d")
    load = {HostId("d"): 100, HostId("c"): 50}
    assert [each.host for each in choose_many(3, [near, far, farther], beside, load)] == ["d", "c", "b"]
    assert shared("hall1/rack1/a", "hall1/rack10/b") == 1
    assert is_within("hall1/rack1/a", "hall1/rack1")
    assert not is_within("hall1/rack10/a", "hall1/rack1")


@pytest.mark.covers("FTC-214")
def test_members_are_made_only_where_there_are_factories() -> None:
    hosts = [host("a", "r1/a"), host("b", "r1/b"), host("c", "r2/c"), host("d", "r3/d")]
    wish = wishing(locations=("r1", "r3"))
    assert choose([hosts[2]], [], {}, locations=wish.locations) is None
    assert [each.host for each in one(fact(1, "ab"), hosts, wish)] == ["d"]
    found = plan(DesiredState({GroupId(1): wish}), ObservedState(tuple(hosts[:3]), (fact(1, "ab"),)))
    assert list(by_group(found, GroupId(1))) == ["1 more needed, and no host in r1, r3 can take it"]


@pytest.mark.covers("FTC-216")
def test_the_loss_of_a_factory_is_the_loss_of_its_location() -> None:
    """Members made there are made again at another of the group's factories."""
    hosts = [host("a", "r1/a", gone=LOSS), host("b", "r2/b"), host("c", "r3/c"), host("d", "r4/d")]
    (placed,) = one(fact(1, "ab", in_sync="b"), hosts, wishing(2, locations=("r1", "r2", "r4")))
    assert (type(placed), placed.host) == (Place, "d")


@pytest.mark.covers("FTC-18", "FTC-135", "FTC-149")
def test_a_group_that_has_not_begun_gets_the_members_it_lacks() -> None:
    (placed,) = one(fact(1, "ab", in_sync=""), [host("a", gone=LOSS), *ABCD[1:]], wishing(2))
    assert (type(placed), placed.host) == (Place, "c")


@pytest.mark.covers("FTC-189")
def test_what_was_set_while_a_group_ran_is_told_to_its_hosts_once() -> None:
    """This also holds for a group whose members the application controls."""
    wish = GroupSpec.of({}).with_tuned({"org.omg.ft.CheckpointInterval": 5, "org.omg.ft.Factories": []})
    for membership in MembershipStyle:
        wished = replace(wish, minimum=3, membership=membership)
        (told,) = one(fact(1, "abc"), ABCD, wished)
        assert isinstance(told, Tune)
        assert told.tuned == '{"org.omg.ft.CheckpointInterval":5}'
        known = msgspec.structs.replace(fact(1, "abc").record, tuned=told.tuned)
        assert one(replace(fact(1, "abc"), record=known), ABCD, wished) == []
        assert isinstance(one(replace(fact(1, "abc"), record=known), ABCD, wishing())[0], Tune)


def test_nobody_waits_until_a_host_that_was_removed_has_forgotten() -> None:
    """The entry is removed as soon as no view lists the host, and not before."""
    group, removed = fact(1, "bcd", leaving="a"), frozenset([HostId("a")])

    def planned(group: GroupFact, removed: frozenset[HostId]) -> list[Action]:
        wishes = DesiredState({GroupId(1): wishing()}, removed=removed, loss_ns=LOSS)
        return list(plan(wishes, ObservedState(tuple(ABCD[1:]), (group,))).actions)

    assert [(type(each), each.host) for each in planned(group, removed)] == [(Forget, "a")]
    assert planned(group, frozenset()) == []
    listed = fact(1, "bcd", in_sync="abcd", leaving="a")
    assert planned(listed, removed) == []


def test_a_host_is_emptied_one_for_one() -> None:
    """A new member is placed, and the old one is removed when the new one is in sync. This holds for a
    primary too, which hands over."""
    assert [type(each) for each in one(fact(1, "abc"), ABCD, draining="a")] == [Place, Lead]
    assert [type(each) for each in one(fact(1, "abcd", in_sync="abc"), ABCD, draining="b")] == []
    (removed,) = one(fact(1, "abcd"), ABCD, draining="a")
    assert (type(removed), removed.host) == (Remove, "a")


def test_who_is_emptied_is_replaced_once_however_many_hosts_there_are() -> None:
    """The group is as large afterwards as it was, also where its minimum is smaller."""
    many = [*ABCD, host("e"), host("f")]
    for minimum in (2, 3):
        wish = wishing(minimum)
        placed, *_ = one(fact(1, "abc"), many, wish, draining="a")
        assert (type(placed), placed.host) == (Place, "d")
        assert [(type(each), each.host) for each in one(fact(1, "abcd"), many, wish, draining="a")] == [
            (Remove, "a")
        ]
        assert one(fact(1, "bcd"), many, wish, draining="a") == []


def test_a_host_that_is_emptied_leads_nothing_even_where_it_must_stay() -> None:
    """Three hosts, three members wanted: the host stays a member, and another leads."""
    (lead,) = one(fact(1, "abc"), ABCD[:3], draining="a")
    assert (type(lead), lead.host) == (Lead, "b")
    assert one(fact(1, "abc", style="active"), ABCD[:3], draining="a") == [], "active groups have no primary"


def test_so_many_learn_on_one_host_and_no_more() -> None:
    groups = tuple(fact(number, "ab") for number in range(1, LEARNERS_MAX + 6))
    wishes = DesiredState({each.record.group: wishing() for each in groups})
    found = plan(wishes, ObservedState(tuple(ABCD[:3]), groups))
    assert len(found.actions) == LEARNERS_MAX
    assert [each.why for each in found.waiting] == [
        "1 more needed: its turn comes when other members have caught up"
    ] * 5


def test_it_is_said_of_a_host_that_is_gone_when_it_is_taken_for_lost() -> None:
    """Nothing is done until then, because the host may well come back."""

    def said(gone_ns: int) -> tuple[list[Action], list[str]]:
        hosts = (host("a", gone=gone_ns), *ABCD[1:3])
        wishes = DesiredState({GroupId(1): wishing()}, loss_ns=10 * SECOND)
        found = plan(wishes, ObservedState(hosts, (fact(1, "abc", in_sync="bc"),)))
        return list(found.actions), [each.why for each in found.waiting]

    assert said(0) == ([], [])
    assert said(3 * SECOND) == ([], ["a is gone for 3 s, and taken for lost after 10 s"])
    stays = "a is lost, and stays until others can do without it"
    assert said(10 * SECOND) == ([], ["1 more needed, and no host can take it", stays])


# --- whole domains


@dataclass
class Played:
    """A domain that carries out its plans, as far as primaries and hosts allow."""

    hosts: list[HostFact]
    groups: dict[GroupId, GroupFact]
    wishes: DesiredState
    taken: list[Action] = field(default_factory=list)

    def plan(self) -> Plan:
        return plan(self.wishes, ObservedState(tuple(self.hosts), tuple(self.groups.values())))

    def alive(self) -> list[HostId]:
        return [each.host for each in self.hosts if each.is_alive]

    def do(self, action: Action) -> None:
        self.taken.append(action)
        group = self.groups[action.group]
        record, listed = group.record, [each.host for each in group.view.members]
        entry = record.placement(action.host)
        if isinstance(action, Place):
            assert entry is None
            made = Placement(host=action.host, store=StoreId(""), number=record.stays + 1)
            record = msgspec.structs.replace(record, members=(*record.members, made), stays=record.stays + 1)
        elif isinstance(action, Remove):
            assert entry is not None
            assert not entry.is_leaving
            assert len(record.placed_on) > record.min_in_sync, "the authority would refuse it"
            left = tuple(each for each in record.members if each.host != action.host)
            record = msgspec.structs.replace(record, members=left)
            listed = [each for each in listed if each != action.host]
        else:
            assert action.host in listed
            listed = [action.host, *(each for each in listed if each != action.host)]
        self.groups[action.group] = listing(record, tuple(listed))

    def learn(self) -> None:
        """Living members catch up and are listed; dead ones are dropped while others are left (M1)."""
        for number, group in self.groups.items():
            listed = [each.host for each in group.view.members]
            living = [each for each in listed if each in self.alive()]
            if len(living) >= group.record.min_in_sync:
                listed = living
            if any(each in self.alive() for each in listed):
                placed = group.record.placed_on
                listed += [each for each in placed if each not in listed and each in self.alive()]
            self.groups[number] = listing(group.record, tuple(listed))

    def settle(self) -> None:
        for _ in range(STEPS_MAX):
            actions = self.plan().actions
            for action in actions:
                self.do(action)
            self.learn()
            if not actions:
                return
        raise AssertionError("the plan does not come to an end")


REGIONS = st.sampled_from(("r1", "r2", "r3"))


@st.composite
def domains(draw: st.DrawFn) -> Played:
    count = draw(st.integers(3, 8))
    names = "abcdefgh"[:count]
    hosts = [host(each, f"{draw(REGIONS)}/{each}") for each in names]
    groups, wishes = {}, {}
    for number in range(1, draw(st.integers(1, 12)) + 1):
        members = draw(st.permutations(names))[: draw(st.integers(2, min(4, count)))]
        least = draw(st.integers(1, 2))
        groups[GroupId(number)] = fact(number, "".join(members), min_in_sync=least)
        styles = st.sampled_from((*[MembershipStyle.MEMB_INF_CTRL] * 4, MembershipStyle.MEMB_APP_CTRL))
        wishes[GroupId(number)] = wishing(draw(st.integers(1, 4)), membership=draw(styles))
    lost = draw(st.integers(0, 2))
    hosts = [replace(each, gone_ns=LOSS) if i < lost else each for i, each in enumerate(hosts)]
    draining = draw(st.frozensets(st.sampled_from([each.host for each in hosts]), max_size=2))
    played = Played(hosts, groups, DesiredState(wishes, draining, loss_ns=LOSS))
    played.learn()
    return played


@settings(max_examples=60, deadline=None)
@given(domains())
def test_every_group_comes_to_what_is_wished_for(played: Played) -> None:
    """As far as there are hosts, each group gets its minimum of in-sync members, and no replaceable member
    stays on a lost or draining host. Then there is nothing more to do."""
    played.settle()
    assert played.plan().actions == ()
    usable = [each for each in played.alive() if each not in played.wishes.draining]
    for number, group in played.groups.items():
        wish = played.wishes.of(number)
        if wish.membership is MembershipStyle.MEMB_APP_CTRL or not set(group.in_sync) & set(played.alive()):
            continue
        wanted = max(wish.minimum, group.record.min_in_sync)
        good = [each for each in group.in_sync if each in usable]
        assert len(good) >= min(wanted, len(usable))
        if len(usable) >= wanted and len(good) >= wanted:
            assert set(group.record.placed_on) <= set(usable)


@settings(max_examples=60, deadline=None)
@given(domains())
def test_no_step_risks_what_a_group_has(played: Played) -> None:
    """No step leaves a group with fewer living in-sync members than before, unless it has its minimum.
    Nothing is placed on a dead or draining host, or next to a member in the same location. Groups whose
    membership the application controls are not touched."""
    for _ in range(STEPS_MAX):
        actions = played.plan().actions
        for action in actions:
            wish, before = played.wishes.of(action.group), played.groups[action.group]
            assert wish.membership is MembershipStyle.MEMB_INF_CTRL
            if isinstance(action, Place):
                assert action.host in played.alive()
                assert action.host not in played.wishes.draining
                assert before.record.placement(action.host) is None
            living = [each for each in before.in_sync if each in played.alive()]
            played.do(action)
            left = [each for each in played.groups[action.group].in_sync if each in played.alive()]
            assert len(left) >= min(len(living), max(wish.minimum, before.record.min_in_sync))
        played.learn()
        if not actions:
            break


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 9), st.integers(1, 40), st.integers(1, 3))
def test_load_is_even(hosts: int, groups: int, replicas: int) -> None:
    """Equal hosts get the same number of members, give or take one."""
    facts = [host(each) for each in "abcdefghi"[:hosts]]
    load: dict[HostId, int] = {}
    for _ in range(groups):
        for chosen in choose_many(replicas, facts, [], load):
            load[chosen.host] = load.get(chosen.host, 0) + 1
    counts = [load.get(each.host, 0) for each in facts]
    assert sum(counts) == groups * replicas
    assert max(counts) - min(counts) <= 1


@pytest.mark.covers("FTC-167")
def test_what_is_in_effect_comes_from_the_strongest_level() -> None:
    """Dynamic properties override those set at creation, which override those of the type and the
    defaults."""
    name = "org.omg.ft.MinimumNumberReplicas"
    levels = [{name: number} for number in (1, 2, 3, 4)]
    for count in range(1, 5):
        assert GroupSpec.of(*levels[:count]).minimum == count
    assert GroupSpec.of({"org.omg.ft.Factories": [{"location": "r1/a", "criteria": {}}]}).locations == (
        "r1/a",
    )
