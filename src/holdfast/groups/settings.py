"""Translates a group's properties into settings for its member on this host (FTC-165, FTC-306)."""

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
"""Properties express time in units of 100 ns."""
CHECKPOINT_LEAST_NS: Final = 10 * MILLISECOND
"""The shortest checkpoint interval. Shorter intervals would keep the disk busy with nothing but
checkpoints."""
INTERVAL_LEAST_NS: Final = 20 * MILLISECOND
"""The shortest monitoring interval. Members that are checked more often have little time for anything
else."""
TIMEOUT_LEAST_NS: Final = 200 * MILLISECOND
"""The shortest monitoring timeout. An event loop can pause for some ten milliseconds, to capture a state or
to collect garbage, and a shorter timeout would end healthy hosts because of that."""


def tuned(config: StyleConfig, record: GroupRecord) -> StyleConfig:
    """Return *config* adjusted to the properties that the group was created with or given while it ran."""
    made, since = (_decoded(each) for each in (record.properties, record.tuned))
    interval = since.get(CHECKPOINT_INTERVAL, made.get(CHECKPOINT_INTERVAL))
    if interval is None:
        return config
    interval_ns = max(interval * UNIT_NS, CHECKPOINT_LEAST_NS)
    return msgspec.structs.replace(config, checkpoint_interval_ns=interval_ns)


def monitored(record: GroupRecord) -> Monitored | None:
    """Return how the group's members are monitored, or None if they are not. Members are monitored only if an
    interval was asked for, so that a thousand idle groups cost nothing."""
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
    """Whether the application itself keeps the group's members consistent (FTC-137)."""
    return _decoded(record.properties).get(CONSISTENCY_STYLE) == ConsistencyStyle.CONS_APP_CTRL


def _decoded(properties: str) -> dict[str, Any]:
    return msgspec.json.decode(properties, type=dict[str, Any])
