"""Turns what the directory on this host notes into fault reports, so that people hear of what needs them.

That is a peer that is refused (a clock too far ahead, other data), a replica that no changelog can bring up
to date, and conflicts. A refused peer tries again and again; it is told once, and once more when the link is
open again. Conflicts come in crowds when a cut link heals: those of a while are one report.
"""

from collections.abc import Callable, Mapping
from typing import Final

from holdfast.faults.backlog import Reports
from holdfast.faults.events import Location, Simple
from holdfast.faults.reports import WHY_MAX, FaultKind, FaultReport
from holdfast.model.ids import HostId

CROWD_S: Final = 10.0
"""Conflicts that are found so soon after another are reported together."""
MENDED_BY_ITSELF: Final = ("retired", "not-ready")
"""Reasons to refuse a peer that nobody need look at: it takes a new id, or waits."""


_Link = tuple[str, str]
"""A suffix, which is empty where nothing says it, and a peer: each suffix has links of its own."""


def _suffix(fields: Mapping[str, object]) -> str:
    return str(fields.get("suffix", ""))


class DirectoryFaults:
    """Reports for one host. *later* calls a function after so many seconds."""

    def __init__(
        self,
        me: HostId,
        domain: str,
        location: Callable[[], Location],
        reports: Reports,
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._me = me
        self._domain = domain
        self._location = location
        self._reports = reports
        self._later = later
        self._refused: dict[_Link, str] = {}
        """The peers that are refused, as was told, and why."""
        self._is_short: dict[_Link, None] = {}
        """The peers that cannot bring this replica up to date, as was told."""
        self._crowd = 0
        """How many conflicts were found since one was reported."""
        self._is_crowding = False

    def on_note(self, kind: str, fields: Mapping[str, object]) -> None:
        """Hear what this host's parts note (:class:`holdfast.machine.trace.CountingTrace`)."""
        match kind, fields:
            case "directory_peer_refused", {"peer": str(peer), "reason": str(reason), "why": str(why)}:
                self._on_refused((_suffix(fields), peer), reason, why)
            case "directory_link_open", {"peer": str(peer)}:
                self._on_open((_suffix(fields), peer))
            case "directory_needs_initialisation", {"replica": int(replica)}:
                why = (
                    f"replica {replica} was away for longer than changes are kept: initialise it when it is "
                    "back (`holdfast directory initialise`)"
                )
                self._report(FaultKind.NEEDS_INITIALISATION, {"Replica": replica}, why, _suffix(fields))
            case "directory_cannot_be_supplied", {"peer": str(peer), "replica": int(replica)}:
                link = (_suffix(fields), peer)
                if link not in self._is_short:
                    self._is_short[link] = None
                    why = f"{peer}: {fields.get('why')}"
                    self._report(FaultKind.NEEDS_INITIALISATION, {"Replica": replica}, why, link[0])
            case "directory_conflict", {"conflict": str(conflict)}:
                self._on_conflict(conflict)

    def _on_refused(self, link: _Link, reason: str, why: str) -> None:
        suffix, peer = link
        if self._refused.get(link) == reason or reason in MENDED_BY_ITSELF:
            return
        self._refused[link] = reason
        if reason == "skew":
            self._report(FaultKind.CLOCK_SKEW, {"HostId": peer}, why, suffix)
        else:
            details: dict[str, Simple] = {"HostId": self._me, "Peer": peer, "Reason": reason}
            self._report(FaultKind.PEER_REFUSED, details, why, suffix)

    def _on_open(self, link: _Link) -> None:
        suffix, peer = link
        self._is_short.pop(link, None)
        reason = self._refused.pop(link, None)
        if reason is not None:
            kind = FaultKind.CLOCK_SKEW if reason == "skew" else FaultKind.PEER_REFUSED
            self._report(
                FaultKind.RECOVERED,
                {"HostId": peer, "From": kind.value},
                f"{self._me} replicates with {peer} again",
                suffix,
            )

    def _on_conflict(self, conflict: str) -> None:
        if self._is_crowding:
            self._crowd += 1
            return
        self._is_crowding = True
        self._later(CROWD_S, self._end_crowd)
        # Every master finds the same conflict: it is one event.
        self._report(
            FaultKind.CONFLICT,
            {"Conflict": conflict, "Count": 1},
            "`holdfast directory conflicts list` shows both sides",
            once=f"directory/{conflict}",
        )

    def _end_crowd(self) -> None:
        crowd, self._crowd, self._is_crowding = self._crowd, 0, False
        if crowd:
            self._report(
                FaultKind.CONFLICT,
                {"HostId": self._me, "Count": crowd},
                f"{crowd} more were found within {CROWD_S:g} s: `holdfast directory conflicts list`",
            )

    def _report(
        self, kind: FaultKind, details: Mapping[str, Simple], why: str, suffix: str = "", *, once: str = ""
    ) -> None:
        if suffix:
            why = f"{suffix}: {why}"
        if "HostId" not in details and kind is FaultKind.NEEDS_INITIALISATION:
            details = {"HostId": self._me, **details}
        self._reports.report(
            FaultReport(kind, self._domain, self._location(), details=details, why=why[:WHY_MAX]), once=once
        )
