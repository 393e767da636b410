"""Reporting: how whoever sees a fault hands it on, without waiting.

A detector has better things to do than to wait for a notifier: it leaves its report in the host's backlog and
goes on. The backlog is bounded, and what it could not keep is counted, so that the loss itself can be told.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from holdfast.faults.reports import FaultReport

BACKLOG_MAX: Final = 4_096
"""Reports a host keeps while the notifier does not answer. Beyond these the newest are dropped: the first
reports of a disaster tell more than the last."""


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
    once: str = ""


class Backlog:
    """The reports of one host that have not reached the notifier yet, oldest first."""

    def __init__(self, *, size_max: int = BACKLOG_MAX, on_filed: Callable[[], None] = lambda: None) -> None:
        """*on_filed* is told of each report that was kept."""
        self._waiting: deque[Filed] = deque()
        self._size_max = size_max
        self._on_filed = on_filed
        self.dropped = 0
        """Reports that found it full, since the host began."""

    def __len__(self) -> int:
        return len(self._waiting)

    def report(self, report: FaultReport, *, once: str = "") -> None:
        if len(self._waiting) >= self._size_max:
            self.dropped += 1
            return
        self._waiting.append(Filed(report, once))
        self._on_filed()

    def first(self, count: int) -> tuple[Filed, ...]:
        """Up to *count* of the oldest, which stay."""
        return tuple(self._waiting[index] for index in range(min(count, len(self._waiting))))

    def forget(self, count: int) -> None:
        """The *count* oldest were told."""
        for _ in range(count):
            self._waiting.popleft()
