"""Reporting: how whoever sees a fault hands it on, without waiting.

A detector has better things to do than to wait for a notifier: it leaves its report in the host's backlog and
goes on. The backlog is bounded, and what it could not keep is counted, so that the loss itself can be told.

Reports about everything at a location leave at once; those about less wait a moment, because when a host
dies its members are missed by others at the same time, and whoever hears of the whole first need not hear of
its parts (:mod:`.analyzer`).
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from holdfast.faults.reports import FaultKind, FaultReport, Scope
from holdfast.model.ids import SECOND
from holdfast.model.ports import Clock

BACKLOG_MAX: Final = 4_096
"""Reports a host keeps while the notifier does not answer. Beyond these the newest are dropped: the first
reports of a disaster tell more than the last."""
PART_DELAY_NS: Final = 1 * SECOND
"""How long a report about less than a location waits for one that explains it."""


class Reports(Protocol):
    """Where detectors leave what they saw. Never blocks, never raises, on the host's loop."""

    def report(self, report: FaultReport, *, once: str = "") -> None:
        """Tell it, some time later and at least once.

        *once*: reports with the same text are one event, however many hosts make them, as long as the
        notifier remembers the first. For what several hosts see alike, such as ``host2/4/death``.
        """


@dataclass(frozen=True, slots=True)
class Filed:
    """A report on its way, and what makes it the same as another."""

    report: FaultReport
    once: str
    due_ns: int


class Backlog:
    """The reports of one host that have not reached the notifier yet.

    *name* makes its reports differ from those of other backlogs, and of this host's other processes.
    """

    def __init__(self, clock: Clock, *, size_max: int = BACKLOG_MAX) -> None:
        self.name = ""
        """Known once the host has a session."""
        self.on_filed: Callable[[], None] = lambda: None
        """Told of each report that was kept."""
        self._clock = clock
        self._size_max = size_max
        self._wholes: deque[Filed] = deque()
        self._parts: deque[Filed] = deque()
        self._number = 0
        self.dropped = 0
        """Reports that found it full, since the host began."""
        self.filed = dict.fromkeys(FaultKind, 0)
        """How many reports of each kind were made, since the host began."""

    def __len__(self) -> int:
        return len(self._wholes) + len(self._parts)

    def report(self, report: FaultReport, *, once: str = "") -> None:
        self.filed[report.kind] += 1
        if len(self) >= self._size_max:
            self.dropped += 1
            return
        self._number += 1
        # A key in any case: a report that is sent again, because nobody answered, is the same report.
        key = once or f"{self.name}/{self._number}"
        now = self._clock.now()
        if report.scope is Scope.LOCATION:
            self._wholes.append(Filed(report, key, now))
        else:
            self._parts.append(Filed(report, key, now + PART_DELAY_NS))
        self.on_filed()

    def due_in_ns(self) -> int | None:
        """When something is to be told; None: nothing is."""
        first = self._wholes or self._parts
        return max(0, first[0].due_ns - self._clock.now()) if first else None

    def due(self, count: int) -> tuple[Filed, ...]:
        """Up to *count* of those that are due, the most important first. They stay."""
        now = self._clock.now()
        found = self._wholes or self._parts
        return tuple(each for each in list(found)[:count] if each.due_ns <= now)

    def drop(self, refused: tuple[Filed, ...]) -> None:
        """These, which :meth:`due` gave, can never be told."""
        self.dropped += len(refused)
        self.forget(refused)

    def forget(self, told: tuple[Filed, ...]) -> None:
        """These, which :meth:`due` gave, were told."""
        queue = self._wholes if self._wholes and self._wholes[0] is told[0] else self._parts
        for _ in told:
            queue.popleft()
