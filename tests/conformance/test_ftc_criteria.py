"""What factories are told, and what a group that is made comes to (FTC sections K, N and P)."""

from typing import Any

import msgspec
import pytest

from holdfast.admin.group_spec import GroupSpecDraft, draft
from holdfast.control.desired.changes import SetDefaultProperties, SetGroupProperties, SetTypeProperties
from holdfast.control.desired.state import DomainState
from holdfast.control.replication.criteria import (
    FT_PROPERTIES,
    OBJECT_LOCATION,
    check_known,
    check_location,
    check_member,
    member_criteria,
    properties_in,
    to_keep,
)
from holdfast.model.admin.errors import CannotMeetCriteria, InvalidCriteria
from holdfast.model.admin.groups import CreateGroup
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import GroupId, Nonce
from holdfast.model.properties import (
    FACTORIES,
    INITIAL_NUMBER,
    MINIMUM_NUMBER,
    InvalidProperty,
    MembershipStyle,
    Style,
    UnsupportedProperty,
    full_name,
)

LEDGER = "bank:Ledger"


def drafted(state: DomainState | None = None, **asked: Any) -> GroupSpecDraft:
    """What an order for a ledger comes to in a domain with such wishes."""
    order = CreateGroup(name="g", class_name=LEDGER, **asked)
    beneath = (state or DomainState()).for_type(LEDGER)
    return draft(order, beneath, nonce=Nonce("n"), created_ns=1)


def as_properties(**properties: Any) -> str:
    return msgspec.json.encode(properties).decode()


# --- criteria


@pytest.mark.covers("FTC-192", "FTC-212", "FTC-235")
def test_a_factory_is_told_what_is_given_then_its_place_then_what_the_property_has_for_it() -> None:
    """What is given goes over the property, and the group's properties are not the factory's business."""
    effective = {
        FACTORIES: [
            {"location": "rack2", "criteria": {"memory": "2G"}},
            {"location": "rack1", "criteria": {"memory": "8G", "disk": "ssd"}},
        ]
    }
    given = {FT_PROPERTIES: {"InitialNumberReplicas": 3}, "memory": "16G"}
    told = member_criteria(given, effective, "rack1/host3")
    assert list(told.items()) == [("memory", "16G"), (OBJECT_LOCATION, "rack1/host3"), ("disk", "ssd")]
    assert member_criteria({}, effective, "rack3") == {OBJECT_LOCATION: "rack3"}
    assert msgspec.json.decode(to_keep(told)) == {"memory": "16G", "disk": "ssd"}


@pytest.mark.covers("FTC-177", "FTC-210")
def test_a_factory_makes_objects_at_its_own_place_alone() -> None:
    check_location({OBJECT_LOCATION: "rack1"}, "rack1")
    check_location({}, "rack1")
    with pytest.raises(CannotMeetCriteria) as unmet:
        check_location({OBJECT_LOCATION: "rack2"}, "rack1")
    assert unmet.value.about == {"unmet_criteria": {OBJECT_LOCATION: "rack2"}}


@pytest.mark.covers("FTC-172", "FTC-177")
def test_criteria_that_are_not_understood_are_named() -> None:
    with pytest.raises(InvalidCriteria) as invalid:
        check_known({"arguments": [], "colour": "red", "size": 3}, ("arguments",))
    assert invalid.value.about == {"invalid_criteria": {"colour": "red", "size": 3}}


@pytest.mark.covers("FTC-172", "FTC-211")
def test_properties_are_one_criterion() -> None:
    assert properties_in({FT_PROPERTIES: {"a": 1}, "name": "x"}) == {"a": 1}
    assert properties_in({}) == {}
    with pytest.raises(InvalidCriteria):
        properties_in({FT_PROPERTIES: 5})


@pytest.mark.covers("FTC-177")
def test_members_with_a_state_are_made_alike_and_others_need_not_be() -> None:
    told = {OBJECT_LOCATION: "rack1", "arguments": [1]}
    check_member(told, Style.STATELESS, "rack1")
    for style in (Style.COLD_PASSIVE, Style.WARM_PASSIVE, Style.ACTIVE):
        with pytest.raises(CannotMeetCriteria):
            check_member(told, style, "rack1")
    with pytest.raises(InvalidCriteria):
        check_member({"arguments": 5}, Style.STATELESS, "rack1")


@pytest.mark.covers("FTC-175")
def test_factories_are_told_what_they_understand() -> None:
    """Where the property is set, not when a member is made in the middle of a night."""
    factories = [{"location": "rack1", "criteria": {"arguments": [1]}}]
    stateful = SetTypeProperties(type_id=LEDGER, properties={"Factories": factories})
    with pytest.raises(InvalidProperty, match="made alike"):
        stateful.applied(DomainState())
    with pytest.raises(InvalidProperty, match="made alike"):
        SetGroupProperties(group=GroupId(1), made_with={}, properties={"Factories": factories}).applied(
            DomainState()
        )
    with pytest.raises(InvalidProperty, match="made alike"):
        drafted(properties=as_properties(Factories=factories))
    stateless = {"Factories": factories, "ReplicationStyle": "stateless"}
    state = SetTypeProperties(type_id=LEDGER, properties=stateless).applied(DomainState())
    assert drafted(state).wish.locations == ("rack1",)


# --- what a group comes to


@pytest.mark.covers("FTC-7", "FTC-167", "FTC-183", "FTC-186", "FTC-211", "FTC-223")
def test_a_new_group_has_its_creators_properties_over_its_types_over_the_defaults() -> None:
    state = SetDefaultProperties(
        properties={"InitialNumberReplicas": 5, "CheckpointInterval": 10, "ReplicationStyle": "ACTIVE"}
    ).applied(DomainState())
    state = SetTypeProperties(
        type_id=LEDGER, properties={"InitialNumberReplicas": 4, "ReplicationStyle": 1}
    ).applied(state)
    made = drafted(state, properties=as_properties(InitialNumberReplicas=2))
    assert (made.replicas, made.record.style) == (2, "cold_passive")
    kept = msgspec.json.decode(made.record.properties)
    assert kept[full_name("CheckpointInterval")] == 10
    assert drafted(state).replicas == 4
    assert drafted(state, replicas=3, style="warm_passive").record.style == "warm_passive"


@pytest.mark.covers("FTC-183", "FTC-186")
def test_later_changes_of_defaults_and_types_leave_a_group_as_it_was_made() -> None:
    made = drafted(SetDefaultProperties(properties={"InitialNumberReplicas": 5}).applied(DomainState()))
    later = SetDefaultProperties(properties={"InitialNumberReplicas": 1}).applied(DomainState())
    effective = later.for_group(made.record.group, msgspec.json.decode(made.record.properties))
    assert effective[INITIAL_NUMBER] == 5


def test_without_any_wish_a_group_has_three_replicas_that_are_kept() -> None:
    made = drafted()
    assert (made.record.style, made.replicas, made.record.min_in_sync) == ("warm_passive", 3, 2)
    assert made.effective[MINIMUM_NUMBER] == 3
    assert made.wish.membership is MembershipStyle.MEMB_INF_CTRL
    assert drafted(replicas=5).effective[MINIMUM_NUMBER] == 5


@pytest.mark.covers("FTC-158", "FTC-159", "FTC-175", "FTC-321")
@pytest.mark.parametrize(
    ("asked", "kind", "about"),
    [
        ({"properties": as_properties(ConsistencyStyle=1)}, InvalidProperty, ("ConsistencyStyle", 1)),
        ({"properties": as_properties(FaultMonitoringStyle=0)}, InvalidProperty, ("FaultMonitoringStyle", 0)),
        ({"properties": as_properties(ReplicationStyle=4)}, UnsupportedProperty, ("ReplicationStyle", 4)),
        ({"replicas": 2, "minimum": 3}, InvalidProperty, ("MinimumNumberReplicas", 3)),
        (
            {"properties": as_properties(InitialNumberReplicas=65)},
            UnsupportedProperty,
            ("InitialNumberReplicas", 65),
        ),
        (
            {"style": "stateless", "properties": as_properties(CheckpointInterval=5)},
            InvalidProperty,
            ("CheckpointInterval", 5),
        ),
    ],
)
def test_what_no_group_can_be_made_with_is_named(
    asked: dict[str, Any], kind: type[InvalidRequest], about: tuple[str, Any]
) -> None:
    with pytest.raises(kind) as refused:
        drafted(**asked)
    assert refused.value.about == {"nam": full_name(about[0]), "val": about[1]}


def test_active_groups_do_not_keep_themselves_consistent() -> None:
    state = SetDefaultProperties(properties={"ConsistencyStyle": "CONS_APP_CTRL"}).applied(DomainState())
    with pytest.raises(UnsupportedProperty, match="ConsistencyStyle"):
        drafted(state, style="active")
    assert drafted(state).record.style == "warm_passive"


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"min_in_sync": 4}, {"min_in_sync": 4}),
        ({"on_total_loss": "restart"}, {"on_total_loss": "restart"}),
    ],
)
@pytest.mark.covers("FTC-177")
def test_what_is_understood_and_cannot_be_met_is_named(asked: dict[str, Any], named: dict[str, Any]) -> None:
    with pytest.raises(CannotMeetCriteria) as unmet:
        drafted(**asked)
    assert unmet.value.about == {"unmet_criteria": named}
