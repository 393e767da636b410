"""Tests how a group's properties become settings of its member on a host."""

import pytest

from holdfast.authority.groups import GroupRecord
from holdfast.faults.representatives import Monitored
from holdfast.groups.settings import (
    CHECKPOINT_LEAST_NS,
    INTERVAL_LEAST_NS,
    TIMEOUT_LEAST_NS,
    monitored,
    tuned,
)
from holdfast.model.ids import SECOND, GroupId, Nonce
from holdfast.model.properties import MonitoringGranularity
from holdfast.styles.config import StyleConfig

CONFIG = StyleConfig()


def group_record(properties: str, tuned_to: str) -> GroupRecord:
    return GroupRecord(
        group=GroupId(1),
        class_name="a:B",
        style="warm_passive",
        members=(),
        nonce=Nonce("n"),
        properties=properties,
        tuned=tuned_to,
    )


def interval_ns(properties: str = "{}", tuned_to: str = "{}") -> int:
    return tuned(CONFIG, group_record(properties, tuned_to)).checkpoint_interval_ns


def interval(units: int) -> str:
    return f'{{"org.omg.ft.CheckpointInterval": {units}}}'


@pytest.mark.covers("FTC-152", "FTC-165", "FTC-189")
def test_the_checkpoint_interval_is_as_the_group_was_made_or_was_told_since() -> None:
    """The interval is in units of 100 ns."""
    assert interval_ns() == CONFIG.checkpoint_interval_ns
    assert interval_ns(interval(20_000_000)) == 2 * SECOND
    assert interval_ns(interval(20_000_000), interval(50_000_000)) == 5 * SECOND
    assert interval_ns(tuned_to=interval(50_000_000)) == 5 * SECOND


def how(properties: str = "{}", tuned_to: str = "{}") -> Monitored | None:
    return monitored(group_record(properties, tuned_to))


def times(interval: int, timeout: int) -> str:
    return (
        '{"org.omg.ft.FaultMonitoringIntervalAndTimeout": '
        f'{{"monitoring_interval": {interval}, "timeout": {timeout}}}}}'
    )


@pytest.mark.covers("FTC-141", "FTC-151", "FTC-164")
def test_members_are_monitored_only_where_an_interval_was_asked_for() -> None:
    """The interval is in units of 100 ns. Properties set while the group ran override those it was created
    with."""
    assert how() is None
    made = how(times(20_000_000, 10_000_000))
    assert made == Monitored(GroupId(1), "a:B", 2 * SECOND, 1 * SECOND)
    since = how(times(20_000_000, 10_000_000), times(50_000_000, 30_000_000))
    assert since == Monitored(GroupId(1), "a:B", 5 * SECOND, 3 * SECOND)


@pytest.mark.covers("FTC-141")
def test_who_is_not_to_be_monitored_is_not() -> None:
    style = '"org.omg.ft.FaultMonitoringStyle": 2'
    assert how(f"{{{style}, {times(20_000_000, 10_000_000)[1:]}") is None


@pytest.mark.covers("FTC-143", "FTC-160")
def test_the_granularity_is_as_was_asked_for_last() -> None:
    made = f'{{"org.omg.ft.FaultMonitoringGranularity": 1, {times(20_000_000, 10_000_000)[1:]}'
    found = how(made), how(made, '{"org.omg.ft.FaultMonitoringGranularity": 2}')
    assert [each.granularity for each in found if each is not None] == [
        MonitoringGranularity.LOC,
        MonitoringGranularity.LOC_AND_TYPE,
    ]


def test_no_loop_is_taken_for_hung_in_the_time_that_a_capture_takes() -> None:
    found = how(times(1, 1))
    assert found is not None
    assert (found.interval_ns, found.timeout_ns) == (INTERVAL_LEAST_NS, TIMEOUT_LEAST_NS)


def test_checkpoints_are_never_all_that_the_disk_does() -> None:
    assert interval_ns(interval(1)) == CHECKPOINT_LEAST_NS
