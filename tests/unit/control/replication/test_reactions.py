"""Tests how the manager reacts to reported faults."""

import pytest

from holdfast.authority import keys
from holdfast.authority.recipe import Seen
from holdfast.authority.views import View, ViewMember
from holdfast.control.replication.planner import Lead
from holdfast.control.replication.reactions import DOUBTS_MAX, NEWS_NS, FaultReactions, to_lead
from holdfast.faults.events import EventHeader, EventType, FixedEventHeader, Location, StructuredEvent
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.faults.told_events import Told
from holdfast.model.ids import SECOND, Epoch, GroupId, HostId, Incarnation, Nonce, Opening, Revision, StoreId

GROUP = GroupId(7)
A, B, C = HostId("a"), HostId("b"), HostId("c")
NOW_NS = 1_000 * SECOND


def views(*hosts: HostId) -> dict[GroupId, Seen[View]]:
    """The views of one group with these members; the first is primary."""
    members = tuple(
        ViewMember(host=host, store=StoreId(host), incarnation=Incarnation(1), opening=Opening(1))
        for host in hosts
    )
    view = View(group=GROUP, epoch=Epoch(1), primary=hosts[0], members=members, nonce=Nonce("v"))
    return {GROUP: Seen(keys.view(GROUP), view, Revision(1))}


def told(
    location: str = "rack1/a",
    kind: FaultKind = FaultKind.OBJECT_CRASH,
    type_id: str | None = "ledger:Ledger",
    group: GroupId | None = GROUP,
    *,
    is_answered: bool = False,
) -> Told:
    report = FaultReport(kind, "main", Location.parse(location), type_id, group, is_answered=is_answered)
    return Told(1, NOW_NS, report.to_event())


@pytest.mark.covers("FTC-314")
def test_another_in_sync_member_leads_instead_of_a_primary_that_crashed() -> None:
    found = to_lead(told(), NOW_NS, views(A, B, C), [A, C])
    assert found == Lead(GROUP, C, "its member on a is reported to have crashed")


@pytest.mark.parametrize(
    ("event", "hosts"),
    [
        (told("rack1/b"), (A, B)),  # the member is a backup
        (told(), (A,)),  # there is nobody else
        (told(kind=FaultKind.HANG), (A, B)),  # the member still exists; its host handles the hang
        (told(group=None), (A, B)),  # all objects of a type
        (told(type_id=None, group=None), (A, B)),  # all objects at a location, as when a host died
        (told(group=GroupId(8)), (A, B)),  # no such group
        (told(is_answered=True), (A, B)),  # its host has found the fault, and the group has failed over
    ],
)
def test_nobody_hands_over_for_anything_else(event: Told, hosts: tuple[HostId, ...]) -> None:
    assert to_lead(event, NOW_NS, views(*hosts), [A, B]) is None


def test_an_old_report_and_an_applications_own_event_move_nobody() -> None:
    assert to_lead(told(), NOW_NS + NEWS_NS + 1, views(A, B), [A, B]) is None
    own = StructuredEvent(EventHeader(FixedEventHeader(EventType("MINE", "Smoke"), "")), (), None)
    assert to_lead(Told(1, NOW_NS, own), NOW_NS, views(A, B), [A, B]) is None


def test_a_report_is_heeded_until_another_leads_or_it_is_old() -> None:
    """The member that is asked to hand over may not get the message."""
    doubts, lead = FaultReactions(), Lead(GROUP, B, "its member on a is reported to have crashed")
    assert doubts.add(told(), NOW_NS, views(A, B), [A, B]) == lead
    assert doubts.add(told("rack1/b"), NOW_NS, views(A, B), [A, B]) is None
    for _ in range(2):
        assert doubts.due(NOW_NS, views(A, B), [A, B]) == [lead]
    assert doubts.due(NOW_NS, views(B, A), [A, B]) == []
    assert doubts.due(NOW_NS, views(A, B), [A, B]) == [], "it was heeded"
    doubts.add(told(), NOW_NS, views(A, B), [A, B])
    assert doubts.due(NOW_NS + NEWS_NS + 1, views(A, B), [A, B]) == []


def test_doubts_are_bounded() -> None:
    doubts = FaultReactions()
    taken = [doubts.add(told(), NOW_NS, views(A, B), [A, B]) for _ in range(DOUBTS_MAX + 1)]
    assert (taken.count(None), taken[-1]) == (1, None)
