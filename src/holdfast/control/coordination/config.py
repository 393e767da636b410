"""The times and bounds of the control plane."""

from typing import Final

from msgspec import Struct

from holdfast.model.ids import MILLISECOND, SECOND
from holdfast.model.validation import Problem, below

CONTEXT_BYTES_MAX: Final = 8 << 20
"""The largest context; a whole context fits in one frame between hosts."""
CHANGES_BYTES_MAX: Final = 4 << 20
"""The most bytes of changes in one transaction, because they travel in one frame too."""


ISOLATION_NS_MAX: Final = 5 * SECOND
PARTICIPANTS_MAX: Final = 7


class ControlConfig(Struct, frozen=True, kw_only=True):
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

    def validate(self) -> list[Problem]:
        problems = below(self, 1, self.__struct_fields__)
        if self.silence_ns < 3 * self.beat_ns:
            problems.append(("silence_ns", "must be at least three times beat_ns"))
        if self.isolation_ns > ISOLATION_NS_MAX:
            problems.append(("isolation_ns", "must be at most 5 s: a host's session lasts for 6 s"))
        if self.participants > PARTICIPANTS_MAX:
            problems.append(("participants", f"must be at most {PARTICIPANTS_MAX}"))
        return problems
