"""The backlog of a host's fault reports: detectors leave reports here without waiting.

A detector must not wait for the notifier, so it leaves its report in the host's backlog and goes on. The
backlog is bounded, and the reports it could not keep are counted, so that their loss can be reported too.

Reports about everything at a location leave at once. All others wait a moment: when a host dies, other hosts
miss its members at the same time, and a consumer that is told of the whole first need not be told of its
parts (:mod:`.analyzer`).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from holdfast.faults.reports import FaultKind, FaultReport, Scope
from holdfast.model.ids import SECOND
from holdfast.model.ports import Clock

BACKLOG_MAX: Final = 4_096
"""How many reports a host keeps while the notifier does not answer. Then the newest are dropped, because the
first reports of a disaster say more than the last."""
PART_DELAY_NS: Final = 1 * SECOND
"""How long a report about less than a location waits for one that explains it."""


class Reports(Protocol):
    """Where detectors leave their reports, on the host's loop. It never blocks and never raises."""

    def report(self, report: FaultReport, *, once: str = "") -> None:
        """Forward the report later, at least once.

        Reports with the same *once* text are one event, however many hosts make them, as long as the notifier
        remembers the first. It is meant for faults that several hosts notice, such as ``host2/4/death``.
        """


@dataclass(frozen=True, slots=True)
class Filed:
    """A report in the backlog, with the key that identifies repetitions of it."""

    report: FaultReport
    once: str
    due_ns: int


class Backlog:
    """The reports of one host that have not reached the notifier yet.

    *name* distinguishes its reports from those of other backlogs and of other processes of this host.
    """

    def __init__(self, clock: Clock, *, size_max: int = BACKLOG_MAX) -> None:
        self.name = ""
        """Set once the host has a session."""
        self.on_filed: Callable[[], None] = lambda: None
        """Called for each report that was kept."""
        self._clock = clock
        self._size_max = size_max
        self._wholes: deque[Filed] = deque()
        self._parts: deque[Filed] = deque()
        self._number = 0
        self.dropped = 0
        """How many reports were dropped since the host started."""
        self.filed = dict.fromkeys(FaultKind, 0)
        """How many reports of each kind were made since the host started."""

    def __len__(self) -> int:
        return len(self._wholes) + len(self._parts)

    def report(self, report: FaultReport, *, once: str = "") -> None:
        self.filed[report.kind] += 1
        if len(self) >= self._size_max:
            self.dropped += 1
            return
        self._number += 1
        # Every report has a key, so that one that is sent again for lack of an answer is still the same
        # report.
        key = once or f"{self.name}/{self._number}"
        now = self._clock.now()
        if report.scope is Scope.LOCATION:
            self._wholes.append(Filed(report, key, now))
        else:
            self._parts.append(Filed(report, key, now + PART_DELAY_NS))
        self.on_filed()

    def due_in_ns(self) -> int | None:
        """Return how long until a report is due, or None if there is none."""
        first = self._wholes or self._parts
        return max(0, first[0].due_ns - self._clock.now()) if first else None

    def due(self, count: int) -> tuple[Filed, ...]:
        """Return up to *count* due reports, the most important first. They stay in the backlog."""
        now = self._clock.now()
        found = self._wholes or self._parts
        return tuple(each for each in list(found)[:count] if each.due_ns <= now)

    def drop(self, refused: tuple[Filed, ...]) -> None:
        """Remove reports returned by :meth:`due` that can never be told."""
        self.dropped += len(refused)
        self.forget(refused)

    def forget(self, told: tuple[Filed, ...]) -> None:
        """Remove reports returned by :meth:`due` that were told."""
        queue = self._wholes if self._wholes and self._wholes[0] is told[0] else self._parts
        for _ in told:
            queue.popleft()
