"""MessageLoss faults: what the leader on this host has decided about losses, told to the notifier.

A lossy stream may lose a thousand messages a second, and people are told of the stream, not of each: one
report for each stream in a while, which says how much was lost since the last one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.faults.backlog import Backlog
from holdfast.faults.events import Location, Simple
from holdfast.faults.reports import FaultKind, FaultReport
from holdfast.model.ids import SECOND, GroupId

PAUSE_NS: Final = 5 * SECOND
"""The shortest time between two reports of one stream."""
DECIDED: Final = "decided"
"""The note of a member that applies a decision."""


@dataclass(slots=True)
class _Lost:
    first: int
    last: int
    losses: int = 0
    messages: int = 0


class LossReports:
    """Reports the losses of streams whose leader is on this host. *led* returns the group of a stream, with
    its class, if its leader is here."""

    def __init__(
        self,
        reports: Backlog,
        domain: str,
        location: Location,
        now: Callable[[], int],
        led: Callable[[str], tuple[GroupId, str] | None],
    ) -> None:
        self._reports = reports
        self._domain = domain
        self._location = location
        self._now = now
        self._led = led
        self._untold: dict[str, _Lost] = {}
        self._told_ns: dict[str, int] = {}

    def on_note(self, kind: str, fields: Mapping[str, object]) -> None:
        """Take what a member on this host has noted."""
        if kind != DECIDED:
            return
        stream, (first, last) = str(fields.get("stream", "")), _span(str(fields.get("lost", "")))
        group = self._led(stream)
        if group is None:
            return
        lost = self._untold.setdefault(stream, _Lost(first, last))
        lost.losses += 1
        lost.messages += last - first + 1
        lost.last = max(lost.last, last)
        now = self._now()
        told = self._told_ns.get(stream)
        if told is not None and now - told < PAUSE_NS:
            return
        self._told_ns[stream] = now
        del self._untold[stream]
        why = f"{lost.losses} losses, {lost.messages} messages; the last: {fields.get('action', '')}"
        details: dict[str, Simple] = {"Stream": stream, "FirstLost": lost.first, "LastLost": lost.last}
        self._reports.report(
            FaultReport(
                FaultKind.MESSAGE_LOSS, self._domain, self._location, group[1], group[0], details, why
            )
        )


def _span(text: str) -> tuple[int, int]:
    """The numbers in ``3 to 5``."""
    first, _, last = text.partition(" to ")
    if not first.isdecimal() or not last.isdecimal():
        return 0, 0
    return int(first), int(last)
