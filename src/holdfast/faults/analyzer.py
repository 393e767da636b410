"""The analyzer: turns many reports into few (FTC 27.4.1).

It *condenses*. When everything at a location crashed or hangs, later reports from there count as parts of
that report, until the location has recovered or a while has passed. Reports with the same event name count as
parts for longer, because their reporters say by the name that one follows from the other. A consumer is told
of a part only if it was not told of the whole; parts can still be listed. So the death of a host with a
thousand members is one report to a consumer that hears of hosts, and one to a consumer that asked for a
single member.

It *limits*. A fault that is reported again and again is told a few times, then once more with the mark
``IsFlapping``. From then on each repetition is a part of that one.

It *correlates*. Hosts of one region that crash at the same moment make one more report, about the region.

The analysis is pure and deterministic, so the notifier's replicas get the same results. Applications can add
their own :class:`Analyzer`, which gets every event and makes its own reports (FTC-241).
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
"""How long after a report about a whole location other reports count as its parts."""
NAMED_PART_NS: Final = 10 * MINUTE
"""How long reports with the same name count as parts, whether the location has recovered or not."""
WHOLES_MAX: Final = 256
"""How many such reports are remembered. If there are more, the oldest are forgotten and their parts are told
one by one."""
FLAP_NS: Final = 1 * MINUTE
FLAPS_TOLD_MAX: Final = 5
"""How many times the same fault is told within FLAP_NS. The next report is marked, and repetitions are its
parts."""
FLAP_SILENCE_NS: Final = 10 * MINUTE
"""How long after a marked report a fault that keeps flapping is told again."""
FLAPS_MAX: Final = 4_096
"""How many faults are remembered to detect flapping."""
TOGETHER_NS: Final = 1 * SECOND
"""Hosts of one region that crash within this time crash together."""
IS_FLAPPING, REPEATS = "IsFlapping", "Repeats"


class Whole(Struct, frozen=True, array_like=True):
    """A report about everything at a location."""

    number: int
    at_ns: int
    rank: int
    location: Location
    is_host_crash: bool = False
    name: str = ""
    """The name of the event, if it has one."""
    is_over: bool = False
    """Whether the location has recovered."""

    @property
    def about(self) -> tuple[int, int]:
        """A sort key by how much the report is about: all objects of a host come before those of one of its
        processes."""
        return self.rank, len(self.location.parts)


class Flap(Struct, frozen=True, array_like=True):
    """How often the same fault was reported."""

    since_ns: int
    last_ns: int
    count: int
    told: int = 0
    """The number of the event that says that the fault flaps; 0 if it does not."""
    told_ns: int = 0


class AnalysisState(Struct, frozen=True, array_like=True):
    wholes: tuple[Whole, ...] = ()
    flaps: dict[str, Flap] = {}


NOTHING_KNOWN: Final = AnalysisState()


@dataclass(frozen=True, slots=True)
class Judged:
    """An event as it is to be told, and the event that it is a part of."""

    event: StructuredEvent
    part_of: int = 0


class Analysis:
    """What the notifier remembers of its latest events, in order to turn many into few."""

    def __init__(self, state: AnalysisState = NOTHING_KNOWN) -> None:
        self._wholes = list(state.wholes)
        self._flaps = dict(state.flaps)

    def state(self) -> AnalysisState:
        return AnalysisState(tuple(self._wholes), dict(self._flaps))

    def judge(self, event: StructuredEvent, number: int, at_ns: int) -> Judged:
        """Decide how to tell *event*, which will have that number."""
        report = _report_of(event)
        if report is None:
            return Judged(event)  # an application's own event, which only its own analyzer understands
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
        """Return a report about a region, if *told* is the crash that shows that its hosts crash together."""
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
            # told at two, four, eight hosts, so that a region that goes down is not reported host by host
            return None
        report = FaultReport.of(told.event)
        return FaultReport(
            FaultKind.CORRELATED,
            report.domain,
            region,
            details={"Hosts": hosts, "WithinNs": TOGETHER_NS},
            why=f"{hosts} hosts of {region} crashed within {TOGETHER_NS // SECOND} s",
        )

    def _whole_of(self, report: FaultReport, at_ns: int) -> Whole | None:
        """Return the nearest whole that *report* is a part of."""
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
        self._flaps[key] = flap  # last, so that those silent for longest are forgotten first
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
"""The kinds of faults that follow when a location goes down. Any other kind is separate news."""


def _rank(report: FaultReport) -> int | None:
    """Return how much the report is about, the widest first; None if it can be neither a whole nor a part."""
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
    """Return a key that is equal for reports of the same fault."""
    return f"{report.kind.value} {report.location} {report.type_id or ''} {report.group or ''}"


def _marked(event: StructuredEvent, count: int) -> StructuredEvent:
    """Return *event* with a mark that it keeps repeating."""
    header = event.header
    others: Sequence[Property] = [
        each for each in header.variable_header if each.name not in (IS_FLAPPING, REPEATS)
    ]
    marks = (*others, Property(IS_FLAPPING, True), Property(REPEATS, count))
    return structs.replace(event, header=structs.replace(header, variable_header=marks))


class Analyzer(Protocol):
    """An application's own analyzer. It also gets its own reports, and should recognise them."""

    def take(self, told: Told) -> Iterable[FaultReport | StructuredEvent]:
        """Return what is to be told because of this event; most often nothing."""
