"""What a group's properties mean for its member on this host (FTC-165, FTC-306)."""

from typing import Any, Final

import msgspec

from holdfast.authority.groups import GroupRecord
from holdfast.model.properties import CHECKPOINT_INTERVAL, CONSISTENCY_STYLE, ConsistencyStyle
from holdfast.model.units import MILLISECOND
from holdfast.styles.config import StyleConfig

UNIT_NS: Final = 100
"""Properties count time in units of 100 ns."""
CHECKPOINT_LEAST_NS: Final = 10 * MILLISECOND
"""Checkpoints that were asked for oftener would be all that the disk does."""


def tuned(config: StyleConfig, record: GroupRecord) -> StyleConfig:
    """*config* as the properties want it that the group was made with, or was given while it ran."""
    made, since = (_decoded(each) for each in (record.properties, record.tuned))
    interval = since.get(CHECKPOINT_INTERVAL, made.get(CHECKPOINT_INTERVAL))
    if interval is None:
        return config
    interval_ns = max(interval * UNIT_NS, CHECKPOINT_LEAST_NS)
    return msgspec.structs.replace(config, checkpoint_interval_ns=interval_ns)


def is_self_kept(record: GroupRecord) -> bool:
    """Whether the application keeps the group's members consistent (FTC-137)."""
    return _decoded(record.properties).get(CONSISTENCY_STYLE) == ConsistencyStyle.CONS_APP_CTRL


def _decoded(properties: str) -> dict[str, Any]:
    return msgspec.json.decode(properties, type=dict[str, Any])
