"""Pull monitoring: the members of one host are asked ``is_alive`` again and again (FTC-142, FTC-246 to 248).

An answer of *no*, an exception, and no answer in time are a fault alike. Waiting is counted by
:class:`CountedWait`: a monitor that was paused itself suspects nobody on the strength of that. A
suspected member is asked on, at growing intervals while it keeps failing, and the first good answer ends the
suspicion: nobody is suspected for ever who is not faulty for ever. From then on it is asked as often as any
other, or its next fault would be found late; only a member that fails again soon is left alone for longer.
Who is asked, and for whom, says :mod:`.representatives`. Nothing at all is done for members that are not
monitored.

Waiting that counts: how long something was waited for, by one who may be held up itself.

Whoever waits by the clock alone takes its own pause (a stopped process, a sleeping machine, a processor that
others have) for the other's silence. So a waiter looks again and again, and of the time between two looks no
more counts than it meant to let pass: a pause of an hour is worth one look.

What detectors find, as reports (FTC-250 to FTC-254).

A member that is faulty is an ``ObjectCrashFault``, the only kind that consumers of the source's own domain
know, however it was found out; its group goes on without it, whether anybody hears of that or not. One that
does not answer is told as a ``Hang`` as well, with how long it was waited for. Whom a report is about follows
from whom the member stands for.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from holdfast.faults.events import Location, Simple
from holdfast.faults.reports import WHY_MAX, FaultKind, FaultReport, Scope
from holdfast.faults.representatives import Monitored, Representation, represent
from holdfast.model.ids import MILLISECOND, GroupId, HostId
from holdfast.model.ports import Clock, TimerId, Timers, Trace


class CountedWait:
    """One waiting. *look_ns*: how long it means to let pass between two looks."""

    __slots__ = ("_looked_at", "look_ns", "waited_ns")

    def __init__(self, now: int, look_ns: int) -> None:
        self.look_ns = look_ns
        self.waited_ns = 0
        """So far, as of the last look."""
        self._looked_at = now

    def look(self, now: int) -> int:
        """It is *now*, and what is waited for has not come; how long that has been so."""
        # Twice: a look that comes a little late is no pause, and must not make every waiting longer.
        self.waited_ns += min(now - self._looked_at, 2 * self.look_ns)
        self._looked_at = now
        return self.waited_ns


LOOKS: Final = 8
"""Into so many parts a timeout is divided by looks: it may be overrun by one, and a pause counts two."""
LOOK_LEAST_NS: Final = 5 * MILLISECOND
DOUBLINGS_MAX: Final = 4
"""How often the interval is doubled for a member that keeps failing."""
FORGIVEN_AFTER: Final = 5
"""Good answers in a row after which a member's earlier faults do not count any more."""

_REPRESENT: Final = "represent"


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A member was found faulty; with it, all that it stands for."""

    group: GroupId
    type_id: str
    scope: Scope
    why: str
    waited_ns: int = 0
    """For an answer that did not come; 0 for one that came."""
    is_new: bool = True
    """It was not suspected before."""

    @property
    def is_hang(self) -> bool:
        return self.waited_ns > 0


@dataclass(frozen=True, slots=True)
class Relief:
    """A suspected member answers well again."""

    group: GroupId
    type_id: str
    after_ns: int
    """Since it was suspected."""


@dataclass(slots=True)
class _Watch:
    member: Monitored
    scope: Scope
    number: int = 0
    """Of the last question; an answer to an earlier one says nothing."""
    waiting: CountedWait | None = None
    """For the answer to that one."""
    timer: TimerId | None = None
    suspected_since: int | None = None
    faults: int = 0
    well: int = 0
    """Good answers since the last fault."""


class Monitoring:
    """Of one process. *ask* puts a question to a member, whose answer comes by :meth:`on_answer`, perhaps at
    once; *on_suspicion* is told of every fault, *on_relief* of the end of a suspicion."""

    def __init__(
        self,
        *,
        clock: Clock,
        timers: Callable[[Callable[[Hashable], None]], Timers],
        trace: Trace,
        ask: Callable[[GroupId, int], None],
        on_suspicion: Callable[[Suspicion], None],
        on_relief: Callable[[Relief], None],
    ) -> None:
        self._clock = clock
        self._timers = timers(self._on_timer)
        self._trace = trace
        self._ask_member = ask
        self._on_suspicion = on_suspicion
        self._on_relief = on_relief
        self._members: dict[GroupId, Monitored] = {}
        self._watches: dict[GroupId, _Watch] = {}
        self._chosen = Representation()
        self._is_choosing = False
        self.least_timeout_ns: int | None = None
        """The shortest within which somebody here must answer; None: nobody need. For any thread to read."""

    @property
    def asked(self) -> list[GroupId]:
        """Who is asked: for itself, or for others too."""
        return list(self._watches)

    @property
    def suspected(self) -> list[GroupId]:
        """Who is suspected now."""
        return [group for group, each in self._watches.items() if each.suspected_since is not None]

    def watch(self, member: Monitored) -> None:
        """Monitor it, from now on, as it says."""
        if self._members.get(member.group) != member:
            self._members[member.group] = member
            self._choose_soon()

    def forget(self, group: GroupId) -> None:
        """It is not monitored, or is here no more: no fault."""
        if self._members.pop(group, None) is not None:
            self._stop(group)
            self._choose_soon()

    def on_answer(self, group: GroupId, number: int, why: str) -> None:
        """The member has answered: *why* it is not alive, or nothing when it is."""
        watch = self._watches.get(group)
        if watch is None or watch.waiting is None or number != watch.number:
            return
        self._end_waiting(watch)
        if why:
            self._suspect(watch, why)
        else:
            self._believe(watch)
        self._ask_later(watch)

    # --- who is asked

    def _choose_soon(self) -> None:
        """Many come at a time, when a host begins."""
        if not self._is_choosing:
            self._is_choosing = True
            self._timers.set(0, _REPRESENT)

    def _choose(self) -> None:
        self._is_choosing = False
        self._chosen = chosen = represent(self._members.values(), self._chosen)
        for group in [each for each in self._watches if each not in chosen.asked]:
            self._stop(group)
        for group, member in chosen.asked.items():
            watch = self._watches.setdefault(group, _Watch(member, chosen.scopes[group]))
            is_same, watch.member, watch.scope = watch.member == member, member, chosen.scopes[group]
            if watch.timer is None or not is_same:
                self._end_waiting(watch)
                self._ask_later(watch)
        self.least_timeout_ns = min((each.timeout_ns for each in chosen.asked.values()), default=None)

    def _stop(self, group: GroupId) -> None:
        watch = self._watches.pop(group, None)
        if watch is not None:
            self._end_waiting(watch)

    # --- asking

    def _ask_later(self, watch: _Watch) -> None:
        if self._watches.get(watch.member.group) is not watch:
            return  # whoever was told of its fault has taken it away
        is_failing = watch.suspected_since is not None
        interval_ns = watch.member.interval_ns << (min(watch.faults, DOUBLINGS_MAX) if is_failing else 0)
        watch.timer = self._timers.set(interval_ns, watch.member.group)

    def _on_timer(self, tag: Hashable) -> None:
        if tag == _REPRESENT:
            self._choose()
            return
        assert isinstance(tag, int)
        watch = self._watches.get(GroupId(tag))
        if watch is None:
            return
        if watch.waiting is None:
            self._ask(watch)
        else:
            self._look(watch, watch.waiting)

    def _ask(self, watch: _Watch) -> None:
        look_ns = max(watch.member.timeout_ns // LOOKS, LOOK_LEAST_NS)
        watch.number += 1
        watch.waiting = CountedWait(self._clock.now(), look_ns)
        watch.timer = self._timers.set(look_ns, watch.member.group)
        self._ask_member(watch.member.group, watch.number)

    def _look(self, watch: _Watch, waiting: CountedWait) -> None:
        waited_ns = waiting.look(self._clock.now())
        if waited_ns < watch.member.timeout_ns:
            watch.timer = self._timers.set(waiting.look_ns, watch.member.group)
            return
        self._end_waiting(watch)
        self._suspect(watch, f"no answer in {waited_ns // MILLISECOND} ms", waited_ns)
        self._ask_later(watch)

    def _end_waiting(self, watch: _Watch) -> None:
        watch.waiting = None
        if watch.timer is not None:
            self._timers.cancel(watch.timer)
            watch.timer = None

    # --- judging

    def _suspect(self, watch: _Watch, why: str, waited_ns: int = 0) -> None:
        is_new = watch.suspected_since is None
        if is_new:
            watch.suspected_since = self._clock.now()
        watch.faults, watch.well = watch.faults + 1, 0
        group = watch.member.group
        self._trace.note("member_suspected", group=group, why=why, is_new=is_new, waited_ns=waited_ns)
        self._on_suspicion(Suspicion(group, watch.member.type_id, watch.scope, why, waited_ns, is_new))

    def _believe(self, watch: _Watch) -> None:
        watch.well += 1
        if watch.well >= FORGIVEN_AFTER:
            watch.faults = 0
        if watch.suspected_since is not None:
            after_ns = self._clock.now() - watch.suspected_since
            watch.suspected_since = None
            self._trace.note("member_recovered", group=watch.member.group)
            self._on_relief(Relief(watch.member.group, watch.member.type_id, after_ns))


def reports_of(
    suspicion: Suspicion, *, domain: str, location: Location, host: HostId
) -> tuple[FaultReport, ...]:
    """What is told of a member that was found faulty on *host*."""
    type_id = suspicion.type_id if suspicion.scope is not Scope.LOCATION else None
    group = suspicion.group if suspicion.scope is Scope.MEMBER else None
    why = suspicion.why[:WHY_MAX]
    crash = FaultReport(FaultKind.OBJECT_CRASH, domain, location, type_id, group, {}, why, is_answered=True)
    if not suspicion.is_hang:
        return (crash,)
    details: dict[str, Simple] = {"HostId": str(host), "WaitedNs": suspicion.waited_ns}
    return (crash, FaultReport(FaultKind.HANG, domain, location, type_id, group, details, why))


def report_of(relief: Relief, *, domain: str, location: Location, host: HostId) -> FaultReport:
    """What is told when it answers again."""
    kind = FaultKind.OBJECT_CRASH.value
    details: dict[str, Simple] = {"HostId": str(host), "From": kind, "AfterNs": relief.after_ns}
    return FaultReport(FaultKind.RECOVERED, domain, location, relief.type_id, relief.group, details)
