"""Tests how a group's properties become settings of its member on a host."""

import msgspec
import pytest

from holdfast.authority.groups import GroupRecord
from holdfast.faults.representatives import Monitored
from holdfast.groups.settings import (
    CHECKPOINT_LEAST_NS,
    INTERVAL_LEAST_NS,
    TIMEOUT_LEAST_NS,
    GroupsConfig,
    monitored,
    tuned,
)
from holdfast.model.group_options import OPTIONS
from holdfast.model.ids import MILLISECOND, SECOND, GroupId, Nonce
from holdfast.model.properties import (
    OF_HOSTS,
    InvalidProperty,
    Level,
    MembershipStyle,
    MonitoringGranularity,
    check_dynamic,
    checked,
    full_name,
    merged,
)
from holdfast.sequence.config import SequenceConfig
from holdfast.storage.segments import LogConfig
from holdfast.styles.config import StyleConfig

CONFIG = GroupsConfig().style


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
    return tuned(GroupsConfig(), group_record(properties, tuned_to)).style.checkpoint_interval_ns


def interval(units: int) -> str:
    return f'{{"org.omg.ft.CheckpointInterval": {units}}}'


@pytest.mark.covers("FTC-152", "FTC-165", "FTC-189")
def test_the_checkpoint_interval_is_as_the_group_was_made_or_was_told_since() -> None:
    """The interval is in units of 100 ns."""
    assert interval_ns() == CONFIG.checkpoint_interval_ns
    assert interval_ns(interval(20_000_000)) == 2 * SECOND
    assert interval_ns(interval(20_000_000), interval(50_000_000)) == 5 * SECOND
    assert interval_ns(tuned_to=interval(50_000_000)) == 5 * SECOND


def own(properties: str = "{}", tuned_to: str = "{}") -> tuple[StyleConfig, SequenceConfig]:
    made = tuned(GroupsConfig(), group_record(properties, tuned_to))
    return made.style, made.sequence


def test_a_groups_own_options_come_before_its_hosts_settings() -> None:
    """Those that were set while it runs come before those of its creation; all others are the host's."""
    style, sequence = own('{"holdfast.CheckpointBytes": 1000000, "holdfast.NotifyMilliseconds": 5}')
    assert (style.checkpoint_bytes, sequence.notify_ns) == (1_000_000, 5 * MILLISECOND)
    assert sequence == msgspec.structs.replace(
        SequenceConfig(), min_in_sync=sequence.min_in_sync, notify_ns=5 * MILLISECOND
    )
    style, sequence = own(
        '{"holdfast.NotifyMilliseconds": 5}',
        '{"holdfast.NotifyMilliseconds": 0, "holdfast.LogBytesMax": 5000000}',
    )
    assert (style.log_bytes_max, sequence.notify_ns) == (5_000_000, 1)


@pytest.mark.parametrize("due", [64 << 10, 1 << 20, 24 << 20, None])
@pytest.mark.parametrize("most", [1 << 20, 20 << 20, 80 << 20, None])
def test_whatever_options_a_group_has_its_sizes_fit_together(due: int | None, most: int | None) -> None:
    """And they fit into the log of a host with the default settings (D4)."""
    given = {"holdfast.CheckpointBytes": due, "holdfast.LogBytesMax": most}
    text = msgspec.json.encode({name: value for name, value in given.items() if value is not None}).decode()
    style, sequence = own(text)
    assert style.validate() == sequence.validate() == []
    assert style.log_bytes_max + 2 * style.checkpoint_bytes <= LogConfig().group_bytes_max


def test_every_option_is_a_property_and_a_field() -> None:
    """Each of the table's rows is checked, stored for hosts, and applied to a field that exists."""
    for option in OPTIONS:
        name = option.property_name
        assert full_name(option.name) == full_name(name) == name
        assert name in OF_HOSTS
        assert checked({option.name: option.least}, Level.DYNAMIC) == {name: option.least}
        for wrong in (option.least - 1, option.most + 1, "1", True):
            with pytest.raises(InvalidProperty):
                checked({name: wrong}, Level.CREATION)
        made = own(f'{{"{name}": {option.most}}}')[option.section == "sequence"]
        assert getattr(made, option.field) <= option.field_value(option.most)
        assert option.about


def test_a_log_too_short_for_its_checkpoints_is_refused() -> None:
    explicit = checked({"CheckpointBytes": 1_000_000, "LogBytesMax": 4_000_000}, Level.CREATION)
    with pytest.raises(InvalidProperty, match="5 times CheckpointBytes"):
        check_dynamic(explicit, merged(explicit))
    check_dynamic({}, merged(explicit))  # nobody asks for it now


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


@pytest.mark.covers("FTC-242")
@pytest.mark.parametrize("membership", list(MembershipStyle))
def test_members_are_monitored_whoever_looks_after_their_number(membership: MembershipStyle) -> None:
    asked_for = times(20_000_000, 10_000_000)
    made = how(f'{{"org.omg.ft.MembershipStyle": {membership.value}, {asked_for[1:]}')
    assert made == Monitored(GroupId(1), "a:B", 2 * SECOND, 1 * SECOND)


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
