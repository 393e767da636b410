"""The times and bounds of the control plane."""

from dataclasses import dataclass
from typing import Final

from holdfast.model.ids import MILLISECOND, SECOND

CONTEXT_BYTES_MAX: Final = 8 << 20
"""The largest context; a whole context fits in one frame between hosts."""
CHANGES_BYTES_MAX: Final = 4 << 20
"""The most bytes of changes in one transaction, because they travel in one frame too."""


@dataclass(frozen=True, slots=True)
class ControlConfig:
    """The settings of one host. The hosts of a domain should agree on the times."""

    participants: int = 3
    """How many hosts keep the state context. Each costs every update a message and a sync."""
    beat_ns: int = 250 * MILLISECOND
    """How often a coordinator sends its heartbeat."""
    silence_ns: int = 2 * SECOND
    """A host that was not heard for this long is considered gone (IM-105, IM-106)."""
    prepare_ns: int = 2 * SECOND
    """A participant that has not accepted by then has failed (IM-24)."""
    retry_ns: int = 100 * MILLISECOND
    """About how long to wait before asking again when there was no answer."""
    poll_ns: int = 1 * SECOND
    """How often the authority is asked for the current state, in addition to the watch (IM-66)."""
    isolation_ns: int = 4 * SECOND
    """A coordinator that has had no answer from the authority for this long gives up (IM-3, IM-4). This is
    shorter than its session, so that it has stopped when another is elected."""
    waiting_max: int = 10_000
    """How many changes may wait for a transaction."""
    changes_max: int = 500
    """How many changes one transaction may carry (T5)."""
    patience_ns: int = 5 * SECOND
    """How long changes wait for a second participant (T4)."""
