"""How long a call to another group is waited for, and how long the called group remembers it (E3, X3).

Both follow from the calling operation and from records alone, never from a clock: so every copy of the call
carries the same expiration, whoever sends it and however often the operation is replayed.
"""

from typing import Final

from holdfast.model.units import SECOND
from holdfast.styles.effects import Job

SETTLING_S: Final = 10
"""For so long after it is not waited for any more the called group still knows a call: its caller asks for
its outcome, for good, and an answer "expired" would say nothing. Groups' times may differ by less."""


def deadline_ns(job: Job, timeout_ns: int | None, now_ns: int) -> int:
    """Until when the operation *job* waits for a call that it makes at *now_ns*, by its group's time: for
    *timeout_ns*, and not longer than its own caller waits for it."""
    own_ns = (job.expiration_s - (SETTLING_S if job.chain else 0)) * SECOND
    return own_ns if timeout_ns is None else min(own_ns, now_ns + timeout_ns)


def expiration_s(deadline_ns: int) -> int:
    """Of a call that is waited for until then."""
    return -(-deadline_ns // SECOND) + SETTLING_S
