"""The settings for the groups of a host, and what a group's properties make of them for its member on this
host (FTC-165, FTC-306)."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.authority.groups import GroupRecord
from holdfast.calling.config import ClientConfig
from holdfast.faults.representatives import Monitored
from holdfast.model.group_options import BY_NAME
from holdfast.model.ids import MILLISECOND
from holdfast.model.properties import (
    CHECKPOINT_INTERVAL,
    CONSISTENCY_STYLE,
    LOG_CHECKPOINTS,
    MONITORING_GRANULARITY,
    MONITORING_INTERVAL,
    MONITORING_STYLE,
    ConsistencyStyle,
    MonitoringGranularity,
    MonitoringStyle,
    merged,
)
from holdfast.sequence.catchup_limiter import ASKING_MAX
from holdfast.sequence.config import LeaseConfig, SequenceConfig
from holdfast.storage.free_space import SpaceConfig
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


class GroupsConfig(Struct, frozen=True, kw_only=True):
    """The settings for the groups of a host."""

    leases: LeaseConfig = LeaseConfig()
    sequence: SequenceConfig = SequenceConfig()
    """``min_in_sync`` is not set here; it comes with each group's record."""
    style: StyleConfig = StyleConfig()
    calling: ClientConfig = ClientConfig()
    """The settings for calls from groups to groups."""
    space: SpaceConfig = SpaceConfig()
    asking_max: int = ASKING_MAX
    """How many members may ask one other host for a state at the same time."""


def tuned(config: GroupsConfig, record: GroupRecord) -> GroupsConfig:
    """Return the host's *config* adjusted to what the group was created with or given while it ran: its own
    options, and how many members must hold an operation."""
    given = {**_decoded(record.properties), **_decoded(record.tuned)}
    style, sequence = config.style, config.sequence
    interval = given.get(CHECKPOINT_INTERVAL)
    if interval is not None:
        interval_ns = max(interval * UNIT_NS, CHECKPOINT_LEAST_NS)
        style = msgspec.structs.replace(style, checkpoint_interval_ns=interval_ns)
    changes: dict[str, dict[str, int]] = {"execution": {}, "sequence": {"min_in_sync": record.min_in_sync}}
    for name, option in BY_NAME.items():
        if name in given:
            changes[option.section][option.field] = option.field_value(given[name])
    style = _fitting(style, changes["execution"])
    changes["sequence"]["full_log_bytes"] = style.log_bytes_max
    return msgspec.structs.replace(
        config, style=style, sequence=msgspec.structs.replace(sequence, **changes["sequence"])
    )


def _fitting(style: StyleConfig, changes: dict[str, int]) -> StyleConfig:
    """Return *style* with *changes*, and with those sizes that must lie between others moved along."""
    if not changes:
        return style
    made = msgspec.structs.replace(style, **changes)
    due = min(made.checkpoint_bytes, made.log_bytes_max // LOG_CHECKPOINTS)
    return msgspec.structs.replace(
        made,
        checkpoint_bytes=due,
        checkpoint_bytes_least=min(made.checkpoint_bytes_least, due),
        long_log_bytes=(3 * due + made.log_bytes_max) // 2,
        sent_state_bytes_max=min(made.sent_state_bytes_max, due // 2),
    )


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
