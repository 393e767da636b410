"""Properties: names, values, levels, precedence, and which exclude each other (FTC sections K, L and N)."""

from typing import Any

import pytest

from holdfast.model import properties
from holdfast.model.errors import InvalidRequest
from holdfast.model.properties import (
    PLACES,
    SPECIFIED,
    InvalidProperty,
    Level,
    UnsupportedProperty,
    check_together,
    checked,
    full_name,
    merged,
)

TABLE = {
    # Table 27-2: default, type, creation, dynamically.
    "ReplicationStyle": (3, "xxx-"),
    "MembershipStyle": (1, "xxx-"),
    "ConsistencyStyle": (1, "xx--"),
    "FaultMonitoringStyle": (2, "xx--"),
    "FaultMonitoringGranularity": (1, "xxxx"),
    "Factories": ([{"location": "rack1/host1"}], "-xxx"),
    "InitialNumberReplicas": (3, "xxx-"),
    "MinimumNumberReplicas": (2, "xxxx"),
    "FaultMonitoringIntervalAndTimeout": ({"monitoring_interval": 10, "timeout": 20}, "xxxx"),
    "CheckpointInterval": (10_000_000, "xxxx"),
}


@pytest.mark.covers(
    "FTC-156",
    "FTC-157",
    "FTC-158",
    "FTC-159",
    "FTC-160",
    "FTC-161",
    "FTC-162",
    "FTC-163",
    "FTC-164",
    "FTC-165",
    "FTC-166",
)
@pytest.mark.parametrize("level", list(Level))
@pytest.mark.parametrize("name", list(TABLE))
def test_each_may_be_set_where_the_table_says_and_nowhere_else(name: str, level: Level) -> None:
    value, marks = TABLE[name]
    if marks[level] == "x":
        assert list(checked({name: value}, level)) == [f"org.omg.ft.{name}"]
    else:
        with pytest.raises(InvalidProperty) as refused:
            checked({name: value}, level)
        assert (refused.value.name, refused.value.value) == (name, value)


def test_the_table_is_whole() -> None:
    of_the_source = {name for name in SPECIFIED if name.startswith("org.omg.ft.")}
    assert {full_name(name) for name in TABLE} == of_the_source


@pytest.mark.parametrize(
    "wrong",
    [
        ["a"],
        {"hosts": "abc"},
        {"hosts": ["a", "a"]},
        {"hosts": ["a", ""]},
        {"hosts": ["a"], "never_lead": ["b"]},
        {"hosts": ["a", "b"], "never_lead": ["b", "a"]},
        {"hosts": ["a"], "more": 1},
    ],
)
def test_named_hosts_are_checked(wrong: object) -> None:
    """W2, W3: a host is named once, who never leads is among them, and one may lead."""
    with pytest.raises(InvalidProperty):
        checked({PLACES: wrong}, Level.DYNAMIC)


def test_named_hosts_are_of_one_group() -> None:
    named = {"hosts": ["a", "b"], "never_lead": ["b"]}
    for level in (Level.CREATION, Level.DYNAMIC):
        assert checked({"holdfast.Places": named}, level) == {PLACES: named}
    for level in (Level.DEFAULT, Level.TYPE):
        with pytest.raises(InvalidProperty):
            checked({PLACES: named}, level)
    assert checked({PLACES: {}}, Level.DYNAMIC) == {PLACES: {"hosts": [], "never_lead": []}}


@pytest.mark.covers("FTC-125", "FTC-132", "FTC-136", "FTC-141", "FTC-143")
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("ReplicationStyle", {"stateless": 0, "COLD_PASSIVE": 1, "warm_passive": 2, "ACTIVE": 3}),
        ("MembershipStyle", {"MEMB_APP_CTRL": 0, "MEMB_INF_CTRL": 1}),
        ("ConsistencyStyle", {"CONS_APP_CTRL": 0, "CONS_INF_CTRL": 1}),
        ("FaultMonitoringStyle", {"PULL": 0, "NOT_MONITORED": 2}),
        ("FaultMonitoringGranularity", {"MEMB": 0, "LOC": 1, "LOC_AND_TYPE": 2}),
    ],
)
def test_values_have_the_numbers_of_the_source_and_may_be_named(name: str, values: dict[str, int]) -> None:
    for word, number in values.items():
        for given in (word, number):
            assert checked({name: given}, Level.TYPE) == {full_name(name): number}


@pytest.mark.covers("FTC-131", "FTC-142", "FTC-174")
@pytest.mark.parametrize(
    ("name", "value"),
    [("ReplicationStyle", 4), ("FaultMonitoringStyle", "PUSH"), ("Colour", "red")],
)
def test_what_is_not_supported_is_named_with_its_value(name: str, value: Any) -> None:
    with pytest.raises(UnsupportedProperty) as refused:
        checked({name: value}, Level.TYPE)
    assert properties.full_name(refused.value.name) == full_name(name)
    assert refused.value.value in (value, 1)


@pytest.mark.covers("FTC-175")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ReplicationStyle", 9),
        ("ReplicationStyle", True),
        ("ReplicationStyle", "lukewarm"),
        ("InitialNumberReplicas", 0),
        ("InitialNumberReplicas", 65_536),
        ("MinimumNumberReplicas", "two"),
        ("CheckpointInterval", -1),
        ("CheckpointInterval", 2**64),
        ("CheckpointInterval", 1.5),
        ("FaultMonitoringIntervalAndTimeout", {"monitoring_interval": 10}),
        ("FaultMonitoringIntervalAndTimeout", {"monitoring_interval": 10, "timeout": 0}),
        ("Factories", "rack1/host1"),
        ("Factories", [{"criteria": {}}]),
        ("Factories", [{"location": "rack1//host1"}]),
        ("Factories", [{"location": "a", "colour": 1}]),
        ("Factories", [{"location": "a"}, {"location": "a"}]),
        ("Factories", [{"location": "a", "criteria": [1]}]),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidProperty, match=name):
        checked({name: value}, Level.TYPE)


@pytest.mark.covers("FTC-124")
def test_names_are_the_dotted_ones_and_may_be_shortened() -> None:
    assert checked({"org.omg.ft.InitialNumberReplicas": 5}, Level.CREATION) == checked(
        {"InitialNumberReplicas": 5}, Level.CREATION
    )


@pytest.mark.covers("FTC-149", "FTC-150", "FTC-152", "FTC-154")
def test_numbers_have_the_ranges_of_their_types() -> None:
    """Of the numbers of members that the source allows, those are refused that no group can have."""
    most = {"InitialNumberReplicas": 64, "MinimumNumberReplicas": 64, "CheckpointInterval": 2**64 - 1}
    for name, value in most.items():
        assert checked({name: value}, Level.DEFAULT) == {full_name(name): value}
    for name in ("InitialNumberReplicas", "MinimumNumberReplicas"):
        for value in (65, 65_535):
            with pytest.raises(UnsupportedProperty, match="more than 64 members"):
                checked({name: value}, Level.DYNAMIC if name.startswith("Min") else Level.DEFAULT)
        with pytest.raises(InvalidProperty):
            checked({name: 65_536}, Level.DEFAULT)


@pytest.mark.covers("FTC-151")
def test_the_monitoring_interval_goes_by_both_its_names() -> None:
    both = {"monitoring_interval": 50, "timeout": 50}
    assert checked({"FaultMonitoringInterval": 50}, Level.DYNAMIC) == {
        "org.omg.ft.FaultMonitoringIntervalAndTimeout": both
    }


@pytest.mark.covers("FTC-169", "FTC-170")
def test_factories_name_places_and_what_each_is_told() -> None:
    given = [{"location": "rack1/host2", "criteria": {"memory": "8G"}}, {"location": "rack2"}]
    assert checked({"Factories": given}, Level.CREATION)["org.omg.ft.Factories"] == [
        {"location": "rack1/host2", "criteria": {"memory": "8G"}},
        {"location": "rack2", "criteria": {}},
    ]


def test_a_factory_other_than_the_host_of_a_place_is_refused_because_nobody_would_ask_it() -> None:
    named = {"location": "rack2", "factory": "f"}
    with pytest.raises(InvalidProperty, match="the factory there is the host itself"):
        checked({"Factories": [named]}, Level.CREATION)


@pytest.mark.covers("FTC-167", "FTC-190")
def test_dynamic_goes_before_creation_before_type_before_default() -> None:
    name = full_name("MinimumNumberReplicas")
    levels: list[dict[str, Any]] = [{name: 1}, {name: 2}, {name: 3}, {name: 4}]
    for strongest in range(1, 5):
        assert merged(*levels[:strongest])[name] == strongest
    untouched = merged({full_name("InitialNumberReplicas"): 5}, {}, {}, {name: 4})
    assert (untouched[full_name("InitialNumberReplicas")], untouched[name]) == (5, 4)


@pytest.mark.covers("FTC-153")
@pytest.mark.parametrize("other", [{"ReplicationStyle": "stateless"}, {"ConsistencyStyle": "CONS_APP_CTRL"}])
def test_a_checkpoint_interval_needs_a_state_that_is_ours_to_keep(other: dict[str, Any]) -> None:
    wanted = checked({"CheckpointInterval": 100, **other}, Level.TYPE)
    with pytest.raises(InvalidProperty, match="CheckpointInterval"):
        check_together(wanted, merged(wanted))
    check_together(checked(other, Level.TYPE), merged(checked(other, Level.TYPE)))


def test_the_minimum_is_not_above_what_is_made_at_first() -> None:
    wanted = checked({"InitialNumberReplicas": 2, "MinimumNumberReplicas": 3}, Level.CREATION)
    with pytest.raises(InvalidProperty, match="MinimumNumberReplicas"):
        check_together(wanted, merged(wanted))
    single = checked({"InitialNumberReplicas": 1}, Level.CREATION)
    check_together(single, merged(single))
    assert merged(single)[full_name("MinimumNumberReplicas")] == 1


def test_nothing_is_taken_when_one_is_wrong() -> None:
    with pytest.raises(InvalidRequest):
        checked({"InitialNumberReplicas": 3, "MinimumNumberReplicas": 0}, Level.DEFAULT)
