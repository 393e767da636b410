"""What a group's properties mean for its member on this host (FTC-165, FTC-306)."""

from typing import Any, Final

import msgspec

from holdfast.authority.groups import GroupRecord
from holdfast.faults.representatives import Monitored
from holdfast.model.ids import MILLISECOND
from holdfast.model.properties import (
    CHECKPOINT_INTERVAL,
    CONSISTENCY_STYLE,
    MONITORING_GRANULARITY,
    MONITORING_INTERVAL,
    MONITORING_STYLE,
    ConsistencyStyle,
    MonitoringGranularity,
    MonitoringStyle,
    merged,
)
from holdfast.styles.config import StyleConfig

UNIT_NS: Final = 100
"""Properties count time in units of 100 ns."""
CHECKPOINT_LEAST_NS: Final = 10 * MILLISECOND
"""Checkpoints that were asked for oftener would be all that the disk does."""
INTERVAL_LEAST_NS: Final = 20 * MILLISECOND
"""Members that were asked oftener would have little time for anything else."""
TIMEOUT_LEAST_NS: Final = 200 * MILLISECOND
"""A loop stands for some ten milliseconds now and then, to capture a state or to collect garbage. With a
shorter timeout that would end hosts."""


def tuned(config: StyleConfig, record: GroupRecord) -> StyleConfig:
    """*config* as the properties want it that the group was made with, or was given while it ran."""
    made, since = (_decoded(each) for each in (record.properties, record.tuned))
    interval = since.get(CHECKPOINT_INTERVAL, made.get(CHECKPOINT_INTERVAL))
    if interval is None:
        return config
    interval_ns = max(interval * UNIT_NS, CHECKPOINT_LEAST_NS)
    return msgspec.structs.replace(config, checkpoint_interval_ns=interval_ns)


def monitored(record: GroupRecord) -> Monitored | None:
    """How the group's members are monitored; None: not at all, which is so unless an interval was asked for:
    a thousand idle groups shall cost nothing."""
    effective = merged(_decoded(record.properties), _decoded(record.tuned))
    times = effective.get(MONITORING_INTERVAL)
    if times is None or effective[MONITORING_STYLE] != MonitoringStyle.PULL:
        return None
    return Monitored(
        record.group,
        record.class_name,
        interval_ns=max(times["monitoring_interval"] * UNIT_NS, INTERVAL_LEAST_NS),
        timeout_ns=max(times["timeout"] * UNIT_NS, TIMEOUT_LEAST_NS),
        granularity=MonitoringGranularity(effective[MONITORING_GRANULARITY]),
    )


def is_self_kept(record: GroupRecord) -> bool:
    """Whether the application keeps the group's members consistent (FTC-137)."""
    return _decoded(record.properties).get(CONSISTENCY_STYLE) == ConsistencyStyle.CONS_APP_CTRL


def _decoded(properties: str) -> dict[str, Any]:
    return msgspec.json.decode(properties, type=dict[str, Any])
