"""How long changes take from their CSN to the disk, as the generator's callbacks tell it (CSN-46).

The generator says when a CSN is assigned, committed or aborted; whatever is aborted is forgotten, so that
nobody waits for it (CSN-48).
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast.clock.assignments import Assignments
from holdfast.model.csn import Csn

KEPT: Final = 1_000
"""Of how many changes the times are kept: the newest."""


class CommitTimes:
    """The newest times. :meth:`close` takes the registration back."""

    def __init__(self, assignments: Assignments, now: Callable[[], float]) -> None:
        self._now = now
        self._began: dict[Csn, float] = {}
        self._seconds: deque[float] = deque(maxlen=KEPT)
        self._assignments = assignments
        self._registration = assignments.register(self._assigned, self._committed, self._aborted)

    @property
    def under_way(self) -> int:
        return len(self._began)

    def quantile(self, part: float) -> float:
        """Below which time that part of the newest changes was on the disk; 0 if there were none."""
        found = sorted(self._seconds)
        return found[min(int(part * len(found)), len(found) - 1)] if found else 0.0

    def close(self) -> None:
        self._assignments.unregister(self._registration)

    def _assigned(self, csn: Csn, _argument: object) -> None:
        self._began[csn] = self._now()

    def _committed(self, csn: Csn, _argument: object) -> None:
        began = self._began.pop(csn, None)
        if began is not None:  # it was assigned before this was registered
            self._seconds.append(self._now() - began)

    def _aborted(self, csn: Csn, _argument: object) -> None:
        self._began.pop(csn, None)
