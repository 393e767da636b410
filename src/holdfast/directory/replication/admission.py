"""Whether a client may write at this replica, and where else."""

from collections.abc import Sequence

from holdfast.directory.replication.roster import Own
from holdfast.model.errors import Rejected, Unavailable


class ReferredElsewhere(Rejected):
    """Raised when a client writes at a replica that takes no writes; *masters* take the write."""

    code = "referred_elsewhere"

    def __init__(self, masters: Sequence[str], why: str = "is read-only") -> None:
        super().__init__(f"this replica {why}; write at " + (", ".join(masters) or "a master"))
        self.masters = tuple(masters)


class NotReady(Unavailable):
    """Raised when a replica has not got all data that it must know of before it issues changes."""

    code = "not_ready"


def check_write(own: Own, masters: Sequence[str]) -> None:
    if own.is_read_only:
        raise ReferredElsewhere(masters)
    if own.is_leaving:
        raise ReferredElsewhere(masters, "is being retired")
    if not own.is_ready:
        raise NotReady("this replica is catching up with the others since its store was new or put back")
