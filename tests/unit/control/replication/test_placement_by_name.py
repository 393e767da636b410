"""A group whose hosts a person has named: it is brought there member by member, and kept there (W2, W3)."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.authority.groups import GroupRecord, Placement
from holdfast.authority.views import View, ViewMember
from holdfast.control.replication.planner import (
    LEARNERS_MAX,
    Action,
    LetLead,
    Place,
    Plan,
    Remove,
    by_group,
    plan,
)
from holdfast.control.replication.spec import DesiredState, GroupFact, GroupSpec, HostFact, ObservedState
from holdfast.model.host_roles import SEARCH
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Nonce, Opening, StoreId

LOSS = 10
GROUP = GroupId(1)
HOSTS = {each: HostFact(HostId(each), each) for each in "abcdef"}
STEPS_MAX = 50


def fact(placed: str, in_sync: str | None = None, *, never: str = "", leaving: str = "") -> GroupFact:
    entries = [
        Placement(host=HostId(each), store=StoreId(""), never_leads=each in never, is_leaving=each in leaving)
        for each in placed + leaving
    ]
    record = GroupRecord(
        group=GROUP,
        class_name="x:X",
        style="active",
        members=tuple(entries),
        nonce=Nonce("n"),
        min_in_sync=2,
    )
    listed = placed if in_sync is None else in_sync
    members = tuple(
        ViewMember(host=HostId(each), store=StoreId(each), incarnation=Incarnation(1), opening=Opening(1))
        for each in listed
    )
    view = View(group=GROUP, epoch=Epoch(1), primary=HostId(listed[:1]), members=members, nonce=Nonce("v"))
    return GroupFact(record, view)


def named(hosts: str, never: str = "") -> GroupSpec:
    return GroupSpec(minimum=3, hosts=tuple(map(HostId, hosts)), never_lead=tuple(map(HostId, never)))


def planned(
    group: GroupFact, spec: GroupSpec, hosts: dict[str, HostFact] | None = None, draining: str = ""
) -> Plan:
    wishes = DesiredState({GROUP: spec}, frozenset(map(HostId, draining)), loss_ns=LOSS)
    return plan(wishes, ObservedState(tuple((hosts or HOSTS).values()), (group,)))


def said(found: Plan) -> list[tuple[type[Action], str]]:
    return [(type(each), each.host) for each in found.actions]


def test_a_group_is_brought_to_the_named_hosts_and_no_member_goes_before_all_are_in_sync() -> None:
    """W2. What it waits for is said."""
    spec = named("def")
    assert said(planned(fact("abc"), spec)) == [(Place, "d"), (Place, "e"), (Place, "f")]
    waits = planned(fact("abcdef", "abcde"), spec)
    assert waits.actions == ()
    assert list(by_group(waits, GROUP)) == ["a, b, c not named, and stays until f can do without it"]
    assert said(planned(fact("abcdef"), spec)) == [(Remove, "a")], "one at a time"
    assert said(planned(fact("bcdef"), spec)) == [(Remove, "b")]
    assert said(planned(fact("def"), spec)) == []


def test_it_is_kept_there_though_a_named_host_is_lost_or_drained() -> None:
    """Nothing is placed elsewhere: the person who named the hosts names others."""
    lost = {**HOSTS, "c": HostFact(HostId("c"), "c", LOSS)}
    assert said(planned(fact("abc", "ab"), named("abc"), lost)) == []
    assert said(planned(fact("ab"), named("abc"), lost)) == []
    assert list(by_group(planned(fact("ab"), named("abc"), lost), GROUP)) == [
        "c, which is named, does not live"
    ]
    drained = planned(fact("abc"), named("abc"), draining="c")
    assert drained.actions == ()
    assert list(by_group(drained, GROUP)) == ["c is being emptied, and keeps its member, because it is named"]


@pytest.mark.parametrize(
    ("host", "why"),
    [
        (replace(HOSTS["c"], roles=(SEARCH,)), "c, which is named, has not the role groups"),
        (replace(HOSTS["c"], gone_ns=1), "c, which is named, does not live"),
    ],
)
def test_it_is_said_why_a_named_host_has_no_member_yet(host: HostFact, why: str) -> None:
    found = planned(fact("ab"), named("abc"), {**HOSTS, "c": host})
    assert (found.actions, list(by_group(found, GROUP))) == ((), [why])


def test_a_host_that_leaves_is_asked_back_while_it_is_listed() -> None:
    assert said(planned(fact("ab", "abc", leaving="c"), named("abc"))) == [(Place, "c")]
    gone = planned(fact("ab", leaving="c"), named("abc"))
    assert list(by_group(gone, GROUP)) == ["c, which is named, is still leaving"]


def test_it_waits_for_its_turn_on_a_host_where_many_learn() -> None:
    others = [
        GroupFact(
            msgspec.structs.replace(fact("ad").record, group=GroupId(number)),
            msgspec.structs.replace(fact("ad", "a").view, group=GroupId(number)),
        )
        for number in range(2, LEARNERS_MAX + 2)
    ]
    wishes = DesiredState(
        {GROUP: named("abd")} | {each.record.group: GroupSpec(minimum=2) for each in others}
    )
    found = plan(wishes, ObservedState(tuple(HOSTS.values()), (fact("ab"), *others)))
    assert list(by_group(found, GROUP)) == ["d is next when other members have caught up there"]


def test_members_never_lead_as_it_was_said() -> None:
    """W3: a new one from the beginning; one that is there once all are in sync; and it may be taken back."""
    (placed,) = planned(fact("ab"), named("abc", "c")).actions
    assert isinstance(placed, Place)
    assert placed.never_leads
    assert planned(fact("abc", "ab"), named("abc", "a")).actions == ()
    (barred,) = planned(fact("abc"), named("abc", "a")).actions
    assert isinstance(barred, LetLead)
    assert (barred.host, barred.never_leads) == ("a", True)
    (freed,) = planned(fact("abc", "ab", never="c"), named("abc")).actions
    assert isinstance(freed, LetLead)
    assert (freed.host, freed.never_leads) == ("c", False)
    assert planned(fact("abc", never="c"), named("abc", "c")).actions == ()


def test_too_few_named_hosts_are_not_believed() -> None:
    """Who sets the property by hand may name one host for a group that needs two."""
    found = planned(fact("abc"), named("a"))
    assert found.actions == ()
    assert list(by_group(found, GROUP)) == ["1 hosts are named, and 2 members must hold an operation"]


@settings(max_examples=80, deadline=None)
@given(
    st.permutations("abcdef"),
    st.permutations("abcdef"),
    st.integers(2, 5),
    st.integers(2, 5),
    st.randoms(use_true_random=False),
)
def test_whatever_catches_up_when_the_named_are_there_before_any_goes(
    before: list[str], wanted: list[str], had: int, count: int, rng: object
) -> None:
    """Members catch up in any order, one or none between two plans. At each removal all named ones are in
    sync, and in the end the group is exactly where it was to be."""
    placed, hosts = list(before[:had]), "".join(wanted[:count])
    in_sync = list(placed)
    for _ in range(STEPS_MAX):
        found = planned(fact("".join(placed), "".join(in_sync)), named(hosts))
        for action in found.actions:
            if isinstance(action, Place):
                placed.append(action.host)
            else:
                assert set(hosts) <= set(in_sync), "removed before the named are in sync"
                placed.remove(action.host)
                in_sync.remove(action.host)
        learning = [each for each in placed if each not in in_sync]
        if learning and rng.random() < 0.7:  # type: ignore[attr-defined]  # a random.Random
            in_sync.append(rng.choice(learning))  # type: ignore[attr-defined]  # likewise
        elif not found.actions and not learning:
            break
    assert sorted(placed) == sorted(hosts)
