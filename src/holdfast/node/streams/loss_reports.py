"""MessageLoss faults: what the leader on this host has decided about losses, and which messages its class has
raised at, told to the notifier.

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
from holdfast.streams.delivering import FAILED

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
        self._untold: dict[tuple[str, str], _Lost] = {}
        self._told_ns: dict[tuple[str, str], int] = {}

    def on_note(self, kind: str, fields: Mapping[str, object]) -> None:
        """Take what a member on this host has noted."""
        if kind not in (DECIDED, FAILED):
            return
        is_failed = kind == FAILED
        stream = str(fields.get("stream", ""))
        first, last = _span(str(fields.get("messages" if is_failed else "lost", "")))
        group = self._led(stream)
        if group is None:
            return
        lost = self._untold.setdefault((kind, stream), _Lost(first, last))
        lost.losses += 1
        lost.messages += last - first + 1 if last else 0
        lost.last = max(lost.last, last)
        now = self._now()
        told = self._told_ns.get((kind, stream))
        if told is not None and now - told < PAUSE_NS:
            return
        self._told_ns[kind, stream] = now
        del self._untold[kind, stream]
        details: dict[str, Simple] = {"Stream": stream, "FirstLost": lost.first, "LastLost": lost.last}
        if is_failed:
            why = f"{lost.losses} calls of {fields.get('method', '')} with {lost.messages} messages did not "
            why += f"return, and none is delivered again; the last: {fields.get('why', '')}"
        else:
            why = f"{lost.losses} losses, {lost.messages} messages; the last: {fields.get('action', '')}"
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
