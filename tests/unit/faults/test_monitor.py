"""Tests pull monitoring: which members are asked, when, and what their answers and their silence lead to."""

from collections.abc import Callable, Hashable
from heapq import heappop, heappush

import pytest

from holdfast.faults.events import Location
from holdfast.faults.monitor import (
    FORGIVEN_AFTER,
    LOOKS,
    Monitoring,
    Relief,
    Suspicion,
    report_of,
    reports_of,
)
from holdfast.faults.reports import FaultKind, FaultReport, Scope
from holdfast.faults.representatives import Monitored, Representation, represent
from holdfast.model.ids import MILLISECOND, SECOND, GroupId, HostId
from holdfast.model.ports import NoTrace, TimerId
from holdfast.model.properties import MonitoringGranularity

MEMB, LOC, LOC_AND_TYPE = MonitoringGranularity
INTERVAL_NS, TIMEOUT_NS = 1 * SECOND, 400 * MILLISECOND


def monitored(
    group: int,
    type_id: str = "app:A",
    granularity: MonitoringGranularity = MEMB,
    interval_ns: int = INTERVAL_NS,
) -> Monitored:
    return Monitored(GroupId(group), type_id, interval_ns, TIMEOUT_NS, granularity)


class Desk:
    """A monitor on a clock that is set by hand, and members that answer as they are told to."""

    def __init__(self) -> None:
        self.time = 0
        self.answers: dict[int, str | None] = {}
        """For each group, why it is not alive, or None to stay silent; all others are well."""
        self.asked: list[tuple[int, int]] = []
        """The questions, as (when, which member)."""
        self.numbers: dict[int, int] = {}
        self.suspicions: list[Suspicion] = []
        self.reliefs: list[Relief] = []
        self._timers: list[tuple[int, int, Hashable]] = []
        self._live: dict[int, None] = {}
        self._set = 0
        self._on_timer: Callable[[Hashable], None]
        self.monitoring = Monitoring(
            clock=self,
            timers=self._bind,
            trace=NoTrace(),
            ask=self._ask,
            on_suspicion=self.suspicions.append,
            on_relief=self.reliefs.append,
        )

    def now(self) -> int:
        return self.time

    def wall(self) -> int:
        return self.time

    def _bind(self, on_timer: Callable[[Hashable], None]) -> "Desk":
        self._on_timer = on_timer
        return self

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        self._set += 1
        self._live[self._set] = None
        heappush(self._timers, (self.time + delay_ns, self._set, tag))
        return TimerId(self._set)

    def cancel(self, timer: TimerId) -> None:
        self._live.pop(timer, None)

    def _ask(self, group: GroupId, number: int) -> None:
        self.asked.append((self.time, group))
        self.numbers[group] = number
        answer = self.answers.get(group, "")
        if answer is not None:
            self.monitoring.on_answer(group, number, answer)

    def run(self, for_ns: int) -> None:
        until = self.time + for_ns
        while self._timers and self._timers[0][0] <= until:
            due, number, tag = heappop(self._timers)
            self.time = max(self.time, due)
            if number in self._live:
                del self._live[number]
                self._on_timer(tag)
        self.time = until

    def pause(self, for_ns: int) -> None:
        """Pause the whole process: timers that fall due in the meantime fire afterwards."""
        self.time += for_ns

    @property
    def pending(self) -> int:
        return len(self._live)


@pytest.mark.covers("FTC-142", "FTC-144", "FTC-246")
def test_every_member_is_asked_at_about_its_interval() -> None:
    desk = Desk()
    desk.monitoring.watch(monitored(1))
    desk.monitoring.watch(monitored(2, interval_ns=3 * SECOND))
    desk.run(7 * SECOND)
    assert [group for _, group in desk.asked].count(1) == 7
    assert [group for _, group in desk.asked].count(2) == 2
    assert not desk.suspicions


def test_an_interval_that_is_changed_holds_at_once() -> None:
    """This holds even if the next question was an hour away."""
    desk = Desk()
    desk.monitoring.watch(monitored(1, interval_ns=3600 * SECOND))
    desk.run(5 * SECOND)
    assert not desk.asked
    desk.monitoring.watch(monitored(1))
    desk.run(2 * SECOND)
    assert len(desk.asked) == 2


def test_who_is_not_monitored_costs_nothing() -> None:
    """There is no timer and no question, and none remains after a monitored member is forgotten."""
    desk = Desk()
    assert desk.pending == 0
    desk.monitoring.watch(monitored(1))
    desk.run(1500 * MILLISECOND)
    assert desk.monitoring.least_timeout_ns == TIMEOUT_NS
    desk.monitoring.forget(GroupId(1))
    desk.run(10 * SECOND)
    assert (len(desk.asked), desk.pending) == (1, 0)
    assert desk.monitoring.least_timeout_ns is None


@pytest.mark.covers("FTC-247", "FTC-248")
def test_a_member_that_says_no_is_suspected_at_once() -> None:
    desk = Desk()
    desk.answers[1] = "is_alive said no"
    desk.monitoring.watch(monitored(1))
    desk.run(INTERVAL_NS)
    assert desk.suspicions == [Suspicion(GroupId(1), "app:A", Scope.MEMBER, "is_alive said no")]
    assert desk.monitoring.suspected == [1]


@pytest.mark.covers("FTC-248")
def test_a_member_that_does_not_answer_in_time_is_suspected() -> None:
    """It is suspected soon after its timeout, and not before."""
    desk = Desk()
    desk.answers[1] = None
    desk.monitoring.watch(monitored(1))
    desk.run(INTERVAL_NS + TIMEOUT_NS - 1)
    assert not desk.suspicions
    desk.run(TIMEOUT_NS // LOOKS + 1)
    assert [each.is_hang for each in desk.suspicions] == [True]
    assert desk.suspicions[0].waited_ns >= TIMEOUT_NS


def test_an_answer_that_comes_too_late_is_no_answer_to_the_next_question() -> None:
    desk = Desk()
    desk.answers[1] = None
    desk.monitoring.watch(monitored(1))
    desk.run(INTERVAL_NS)
    first = desk.numbers[1]
    desk.run(10 * SECOND)
    assert desk.numbers[1] > first
    desk.monitoring.on_answer(GroupId(1), first, "")
    assert desk.monitoring.suspected == [1]


def test_a_monitor_suspects_nobody_for_its_own_pause() -> None:
    """This holds however long the pause is, because the member could not answer either. Once both run again,
    the member has the rest of its time."""
    desk = Desk()
    desk.answers[1] = None
    desk.monitoring.watch(monitored(1))
    desk.run(INTERVAL_NS)
    desk.pause(60 * SECOND)
    desk.run(TIMEOUT_NS // 2)
    assert not desk.suspicions
    desk.monitoring.on_answer(GroupId(1), desk.numbers[1], "")
    desk.run(TIMEOUT_NS)
    assert not desk.suspicions
    desk.run(INTERVAL_NS + TIMEOUT_NS)
    assert len(desk.suspicions) == 1  # a member that stays silent while the monitor runs is found


def test_a_suspicion_ends_with_the_first_good_answer() -> None:
    """No member is suspected for ever unless it is faulty for ever."""
    desk = Desk()
    desk.answers[1] = "broken"
    desk.monitoring.watch(monitored(1))
    desk.run(INTERVAL_NS)
    desk.answers[1] = ""
    desk.run(10 * INTERVAL_NS)
    assert desk.monitoring.suspected == []
    assert [each.after_ns for each in desk.reliefs] == [2 * INTERVAL_NS]


def test_one_that_keeps_failing_is_asked_less_often_and_is_news_once() -> None:
    """Handling a fault costs something, and must not take up all of a host's time."""
    desk = Desk()
    desk.answers[1] = "broken"
    desk.monitoring.watch(monitored(1))
    desk.run(100 * INTERVAL_NS)
    assert [each.is_new for each in desk.suspicions] == [True] + [False] * (len(desk.suspicions) - 1)
    assert len(desk.suspicions) < 15


def test_one_that_is_well_again_is_asked_as_often_as_any_other() -> None:
    """Its next fault is found no later than the first, however often it has failed before."""
    desk = Desk()
    desk.answers[1] = "broken"
    desk.monitoring.watch(monitored(1))
    desk.run(100 * INTERVAL_NS)
    desk.answers[1] = ""
    while not desk.reliefs:
        desk.run(INTERVAL_NS)
    desk.asked.clear()
    desk.run(3 * INTERVAL_NS)
    assert len(desk.asked) == 3
    desk.answers[1] = "broken"
    desk.suspicions.clear()
    desk.run(INTERVAL_NS)
    assert len(desk.suspicions) == 1


def test_one_that_fails_again_soon_is_left_alone_for_longer() -> None:
    """Once it has been well for a while, its earlier faults no longer count."""
    desk = Desk()
    desk.monitoring.watch(monitored(1))
    for well in (1, 1, FORGIVEN_AFTER):
        desk.answers[1] = "broken"
        desk.run(INTERVAL_NS)
        desk.answers[1] = ""
        while len(desk.reliefs) < len(desk.suspicions):
            desk.run(INTERVAL_NS)
        desk.run((well - 1) * INTERVAL_NS)
    desk.answers[1] = "broken"
    desk.run(INTERVAL_NS)
    desk.answers[1] = ""
    desk.run(2 * INTERVAL_NS)
    assert [each.after_ns // INTERVAL_NS for each in desk.reliefs] == [2, 4, 8, 2]


def asked(*members: Monitored, before: Representation | None = None) -> dict[int, Scope]:
    chosen = represent(members, before or Representation())
    assert sorted(chosen.asked) == sorted(chosen.scopes)
    return {group: chosen.scopes[group] for group in chosen.asked}


@pytest.mark.covers("FTC-144", "FTC-145", "FTC-147")
def test_one_member_of_a_location_or_of_a_type_there_stands_for_the_others() -> None:
    assert asked(monitored(1), monitored(2)) == {1: Scope.MEMBER, 2: Scope.MEMBER}
    assert asked(monitored(1, granularity=LOC), monitored(2, "app:B", LOC)) == {1: Scope.LOCATION}
    by_type = [monitored(1, "app:A", LOC_AND_TYPE), monitored(2, "app:B", LOC_AND_TYPE)]
    again = [monitored(3, "app:A", LOC_AND_TYPE), monitored(4, "app:B", LOC_AND_TYPE)]
    assert asked(*by_type, *again) == {1: Scope.TYPE, 2: Scope.TYPE}


@pytest.mark.covers("FTC-145")
def test_who_is_asked_anyway_represents_those_that_need_not_be() -> None:
    """A member that is monitored for itself represents one that is monitored by its location."""
    assert asked(monitored(1, granularity=LOC), monitored(2)) == {2: Scope.LOCATION}
    assert asked(monitored(1, "app:A", LOC_AND_TYPE), monitored(2, "app:B")) == {
        1: Scope.TYPE,
        2: Scope.MEMBER,
    }


@pytest.mark.covers("FTC-146")
def test_a_representative_stays_and_another_is_chosen_when_it_goes() -> None:
    one, other = monitored(5, granularity=LOC), monitored(3, granularity=LOC)
    first = represent([one], Representation())
    both = represent([other, one], first)
    assert list(both.asked) == [5]
    assert list(represent([other], both).asked) == [3]


@pytest.mark.covers("FTC-146")
def test_a_representative_removed_without_a_fault_is_no_fault() -> None:
    desk = Desk()
    desk.monitoring.watch(monitored(1, granularity=LOC))
    desk.monitoring.watch(monitored(2, granularity=LOC))
    desk.run(2 * INTERVAL_NS)
    assert {group for _, group in desk.asked} == {1}
    desk.monitoring.forget(GroupId(1))
    desk.asked.clear()
    desk.run(2 * INTERVAL_NS)
    assert {group for _, group in desk.asked} == {2}
    assert not desk.suspicions


def told(suspicion: Suspicion) -> list[FaultReport]:
    place = {"domain": "d", "location": Location.parse("rack1/h1"), "host": HostId("h1")}
    return list(reports_of(suspicion, **place))  # type: ignore[arg-type]  # one dictionary for three arguments


@pytest.mark.covers("FTC-252", "FTC-253", "FTC-254")
def test_a_report_names_whom_the_member_stood_for() -> None:
    """It is about one member, all objects of its type there, or all objects there; a hang says how long it
    was waited for."""
    suspicion = Suspicion(GroupId(7), "app:A", Scope.MEMBER, "broken")
    assert [(each.kind, each.type_id, each.group) for each in told(suspicion)] == [
        (FaultKind.OBJECT_CRASH, "app:A", 7)
    ]
    of_type = told(Suspicion(GroupId(7), "app:A", Scope.TYPE, "broken"))
    assert [each.scope for each in of_type] == [Scope.TYPE]
    hung = told(Suspicion(GroupId(7), "app:A", Scope.LOCATION, "no answer", waited_ns=9))
    assert [(each.kind, each.scope) for each in hung] == [
        (FaultKind.OBJECT_CRASH, Scope.LOCATION),
        (FaultKind.HANG, Scope.LOCATION),
    ]
    assert hung[1].details["WaitedNs"] == 9


def test_the_end_of_a_suspicion_is_told_as_a_recovery() -> None:
    relief = Relief(GroupId(7), "app:A", 5)
    report = report_of(relief, domain="d", location=Location.parse("h1"), host=HostId("h1"))
    assert (report.kind, report.group, report.details["AfterNs"]) == (FaultKind.RECOVERED, 7, 5)
