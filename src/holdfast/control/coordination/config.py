"""The control plane's times and bounds."""

from dataclasses import dataclass
from typing import Final

from holdfast.model.ids import MILLISECOND, SECOND

CONTEXT_BYTES_MAX: Final = 8 << 20
"""A whole context fits one frame between hosts."""
CHANGES_BYTES_MAX: Final = 4 << 20
"""Of the changes in one transaction: they travel in one frame, too."""


@dataclass(frozen=True, slots=True)
class ControlConfig:
    """Of one host; hosts of a domain should agree on the times."""

    participants: int = 3
    """So many hosts keep the state context; each costs every update a message and a sync."""
    beat_ns: int = 250 * MILLISECOND
    """A coordinator says so often that it is there."""
    silence_ns: int = 2 * SECOND
    """Whoever was not heard for so long is taken for gone (IM-105, IM-106)."""
    prepare_ns: int = 2 * SECOND
    """A participant that has not accepted by then has failed (IM-24)."""
    retry_ns: int = 100 * MILLISECOND
    """What was not answered is asked again after about this."""
    poll_ns: int = 1 * SECOND
    """How often the authority is asked how things stand, besides being watched (IM-66)."""
    isolation_ns: int = 4 * SECOND
    """A coordinator that the authority has not answered for so long gives up (IM-3, IM-4): sooner than its
    session ends, so that it has stopped when another is elected."""
    waiting_max: int = 10_000
    """Changes that wait for a transaction."""
    changes_max: int = 500
    """Changes in one transaction (T5)."""
    patience_ns: int = 5 * SECOND
    """How long changes wait for a second participant (T4)."""
