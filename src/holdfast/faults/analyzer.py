"""The analyzer: makes few reports of many (FTC 27.4.1).

*Condenses*: when everything at a location crashed or hangs, what follows there is a part of that, until the
location has recovered or a while has passed; and for longer what has the same event name, by which those who
report both say that the one follows from the other. A consumer hears of a part only if it has not heard of
the whole; parts can still be listed. So the death of a host with a thousand members is one report to whoever
hears of hosts, and one to whoever asked for a single member.

*Limits*: what is reported again and again is told a few times, then once more with the mark ``IsFlapping``,
and from then on each repetition is a part of that one.

*Correlates*: hosts of one region that crash in the same moment make one more report, of the region.

Pure and deterministic: the notifier's replicas come to the same.

The hook for analyzers of applications: they hear every event and make reports of their own (FTC-241).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from msgspec import Struct, structs

from holdfast.faults.events import InvalidEvent, Location, Property, StructuredEvent
from holdfast.faults.reports import FaultKind, FaultReport, Scope
from holdfast.faults.told_events import Told
from holdfast.model.ids import MINUTE, SECOND

PART_NS: Final = 30 * SECOND
"""For how long after a report of a whole others count as its parts."""
NAMED_PART_NS: Final = 10 * MINUTE
"""For how long those do that have its name, whether the location has recovered or not."""
WHOLES_MAX: Final = 256
"""Wholes remembered for it; of more at once the oldest are forgotten, and their parts told one by one."""
FLAP_NS: Final = 1 * MINUTE
FLAPS_TOLD_MAX: Final = 5
"""The same fault is told so often within FLAP_NS; the next time it is marked, and repetitions are parts."""
FLAP_SILENCE_NS: Final = 10 * MINUTE
"""Of what goes on flapping, a report is told again after so long."""
FLAPS_MAX: Final = 4_096
"""Faults remembered for it."""
TOGETHER_NS: Final = 1 * SECOND
"""Hosts of one region that crash within this crash together."""
IS_FLAPPING, REPEATS = "IsFlapping", "Repeats"


class Whole(Struct, frozen=True, array_like=True):
    """A report about everything at a location."""

    number: int
    at_ns: int
    rank: int
    location: Location
    is_host_crash: bool = False
    name: str = ""
    """The event's, if it has one."""
    is_over: bool = False
    """The location has recovered."""

    @property
    def about(self) -> tuple[int, int]:
        """How much it is about, the most first: a host's objects, then those of a process there."""
        return self.rank, len(self.location.parts)


class Flap(Struct, frozen=True, array_like=True):
    """How often the same was reported."""

    since_ns: int
    last_ns: int
    count: int
    told: int = 0
    """The number under which it was told that it flaps; 0: it does not."""
    told_ns: int = 0


class AnalysisState(Struct, frozen=True, array_like=True):
    wholes: tuple[Whole, ...] = ()
    flaps: dict[str, Flap] = {}


NOTHING_KNOWN: Final = AnalysisState()


@dataclass(frozen=True, slots=True)
class Judged:
    """An event as it is to be told, and of which event it is a part."""

    event: StructuredEvent
    part_of: int = 0


class Analysis:
    """What the notifier remembers of its latest events, in order to make few of many."""

    def __init__(self, state: AnalysisState = NOTHING_KNOWN) -> None:
        self._wholes = list(state.wholes)
        self._flaps = dict(state.flaps)

    def state(self) -> AnalysisState:
        return AnalysisState(tuple(self._wholes), dict(self._flaps))

    def judge(self, event: StructuredEvent, number: int, at_ns: int) -> Judged:
        """What becomes of *event*, which is to have that number."""
        report = _report_of(event)
        if report is None:
            return Judged(event)  # an application's own: what it is about, its own analyzer knows
        self._forget(at_ns)
        if report.kind is FaultKind.RECOVERED:
            self._wholes = [
                structs.replace(each, is_over=each.is_over or report.location.covers(each.location))
                for each in self._wholes
            ]
        whole = self._whole_of(report, at_ns)
        judged = (
            Judged(event, whole.number) if whole is not None else self._limited(report, event, number, at_ns)
        )
        self._remember(report, number, at_ns)
        return judged

    def correlated(self, told: Told) -> FaultReport | None:
        """The report of a region, when *told* makes it that its hosts crash together."""
        crashed = [each for each in self._wholes if each.is_host_crash and each.number == told.number]
        if not crashed:
            return None
        region = Location(crashed[0].location.parts[:-1]) if len(crashed[0].location.parts) > 1 else None
        if region is None:
            return None
        together = [
            each
            for each in self._wholes
            if each.is_host_crash
            and each.at_ns > told.at_ns - TOGETHER_NS
            and region.covers(each.location)
            and each.location != region
        ]
        hosts = len(dict.fromkeys(str(each.location) for each in together))
        if hosts < 2 or hosts & (hosts - 1):
            return None  # told at two, four, eight: a region that goes down is not told host by host
        report = FaultReport.of(told.event)
        return FaultReport(
            FaultKind.CORRELATED,
            report.domain,
            region,
            details={"Hosts": hosts, "WithinNs": TOGETHER_NS},
            why=f"{hosts} hosts of {region} crashed within {TOGETHER_NS // SECOND} s",
        )

    def _whole_of(self, report: FaultReport, at_ns: int) -> Whole | None:
        """The nearest whole that *report* is a part of."""
        rank = _rank(report)
        if rank is None:
            return None
        about = (rank, len(report.location.parts))
        above = [
            each
            for each in self._wholes
            if each.about < about
            and each.location.covers(report.location)
            and (_is_named(each, report) or not (each.is_over or each.at_ns <= at_ns - PART_NS))
        ]
        return max(above, key=lambda each: (each.about, each.number), default=None)

    def _remember(self, report: FaultReport, number: int, at_ns: int) -> None:
        rank = _rank(report)
        if rank is None or report.scope is not Scope.LOCATION:
            return
        is_host_crash = report.kind is FaultKind.HOST_CRASH
        self._wholes.append(Whole(number, at_ns, rank, report.location, is_host_crash, report.name))
        del self._wholes[:-WHOLES_MAX]

    def _limited(self, report: FaultReport, event: StructuredEvent, number: int, at_ns: int) -> Judged:
        key = _key(report)
        known = self._flaps.pop(key, None)
        if known is None or at_ns - known.last_ns > FLAP_NS:
            known = Flap(since_ns=at_ns, last_ns=at_ns, count=0)
        flap = structs.replace(known, last_ns=at_ns, count=known.count + 1)
        judged = Judged(event)
        if flap.count > FLAPS_TOLD_MAX:
            if flap.told and at_ns - flap.told_ns < FLAP_SILENCE_NS:
                judged = Judged(event, flap.told)
            else:
                flap = structs.replace(flap, told=number, told_ns=at_ns)
                judged = Judged(_marked(event, flap.count))
        self._flaps[key] = flap  # last: the longest silent are forgotten first
        return judged

    def _forget(self, at_ns: int) -> None:
        self._wholes = [each for each in self._wholes if each.at_ns > at_ns - NAMED_PART_NS]
        while self._flaps:
            oldest = next(iter(self._flaps))
            if len(self._flaps) <= FLAPS_MAX and at_ns - self._flaps[oldest].last_ns <= FLAP_NS:
                break
            del self._flaps[oldest]


_RANKS: Final = {Scope.LOCATION: 1, Scope.TYPE: 2, Scope.MEMBER: 3}
_ENDINGS: Final = (FaultKind.OBJECT_CRASH, FaultKind.HANG, FaultKind.IN_SYNC_SHRUNK)
"""What follows when a location goes down. What else happens there is news of its own."""


def _rank(report: FaultReport) -> int | None:
    """How much it is about, the most first; None when it can be neither a whole nor a part."""
    if report.kind is FaultKind.HOST_CRASH:
        return 0
    return _RANKS[report.scope] if report.kind in _ENDINGS else None


def _is_named(whole: Whole, report: FaultReport) -> bool:
    return bool(whole.name) and whole.name == report.name


def _report_of(event: StructuredEvent) -> FaultReport | None:
    try:
        return FaultReport.of(event)
    except InvalidEvent:
        return None


def _key(report: FaultReport) -> str:
    """Equal for reports of the same."""
    return f"{report.kind.value} {report.location} {report.type_id or ''} {report.group or ''}"


def _marked(event: StructuredEvent, count: int) -> StructuredEvent:
    """*event*, saying of itself that it comes again and again."""
    header = event.header
    others: Sequence[Property] = [
        each for each in header.variable_header if each.name not in (IS_FLAPPING, REPEATS)
    ]
    marks = (*others, Property(IS_FLAPPING, True), Property(REPEATS, count))
    return structs.replace(event, header=structs.replace(header, variable_header=marks))


class Analyzer(Protocol):
    """Condenses events in its own way. It hears its own reports too, and had better know them."""

    def take(self, told: Told) -> Iterable[FaultReport | StructuredEvent]:
        """What is to be told because of this event; most often nothing."""
