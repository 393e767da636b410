"""Pull monitoring: asks the members of one host again and again whether they are alive (FTC-142, FTC-246 to
248).

An answer of *no*, an exception, and no answer in time are all faults. A suspected member is still asked, at
growing intervals while it keeps failing, and the first good answer ends the suspicion, so no healthy member
is suspected for ever. From then on it is asked as often as any other, or its next fault would be found late;
only a member that soon fails again is asked less often. :mod:`.representatives` decides which members are
asked, and for whom. Members that are not monitored cost nothing.

:class:`CountedWait` measures how long an answer was waited for. A waiter that uses the clock alone mistakes
its own pause (a stopped process, a sleeping machine, a busy processor) for the other's silence. So the waiter
checks again and again, and the time between two checks counts only up to twice what was planned: a pause of
an hour counts as two checks. A monitor that was paused thus suspects nobody because of that.

:func:`reports_of` turns a suspicion into fault reports (FTC-250 to FTC-254). A faulty member is always an
``ObjectCrashFault``, the only kind that consumers of the source's own domain know. Its group goes on without
it, whether anybody is told or not. A member that does not answer is also reported as a ``Hang``, with how
long it was waited for. Which objects a report is about depends on whom the member represents.
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
    """Measures one wait. *look_ns* is the planned time between two checks."""

    __slots__ = ("_looked_at", "look_ns", "waited_ns")

    def __init__(self, now: int, look_ns: int) -> None:
        self.look_ns = look_ns
        self.waited_ns = 0
        """The time waited up to the last check."""
        self._looked_at = now

    def look(self, now: int) -> int:
        """Note that there is still no answer at time *now*, and return how long it has been waited for."""
        # Twice the planned time, because a check that is slightly late is no pause and must not lengthen
        # every wait.
        self.waited_ns += min(now - self._looked_at, 2 * self.look_ns)
        self._looked_at = now
        return self.waited_ns


LOOKS: Final = 8
"""How many checks a timeout is divided into. It may be overrun by one, and a pause counts as two."""
LOOK_LEAST_NS: Final = 5 * MILLISECOND
DOUBLINGS_MAX: Final = 4
"""How often the interval is doubled for a member that keeps failing."""
FORGIVEN_AFTER: Final = 5
"""How many good answers in a row make a member's earlier faults count no more."""

_REPRESENT: Final = "represent"


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A member was found faulty, and with it everything that it represents."""

    group: GroupId
    type_id: str
    scope: Scope
    why: str
    waited_ns: int = 0
    """How long an answer was waited for that did not come; 0 if one came."""
    is_new: bool = True
    """Whether the member was not suspected before."""

    @property
    def is_hang(self) -> bool:
        return self.waited_ns > 0


@dataclass(frozen=True, slots=True)
class Relief:
    """A suspected member answers well again."""

    group: GroupId
    type_id: str
    after_ns: int
    """The time since it was suspected."""


@dataclass(slots=True)
class _Watch:
    member: Monitored
    scope: Scope
    number: int = 0
    """The number of the last question. Answers to earlier ones are ignored."""
    waiting: CountedWait | None = None
    """The wait for the answer to that question."""
    timer: TimerId | None = None
    suspected_since: int | None = None
    faults: int = 0
    well: int = 0
    """How many good answers it gave since the last fault."""


class Monitoring:
    """Monitors the members of one process. *ask* sends a question to a member; its answer comes through
    :meth:`on_answer`, perhaps at once. *on_suspicion* is called for every fault, *on_relief* for the end of a
    suspicion."""

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
        """The shortest timeout of a monitored member here; None if there is none. Any thread may read it."""

    @property
    def asked(self) -> list[GroupId]:
        """The members that are asked, for themselves or for others too."""
        return list(self._watches)

    @property
    def suspected(self) -> list[GroupId]:
        """The members that are suspected now."""
        return [group for group, each in self._watches.items() if each.suspected_since is not None]

    def watch(self, member: Monitored) -> None:
        """Monitor the member from now on, as it says."""
        if self._members.get(member.group) != member:
            self._members[member.group] = member
            self._choose_soon()

    def forget(self, group: GroupId) -> None:
        """Stop monitoring a member that is no longer monitored or no longer here. This is no fault."""
        if self._members.pop(group, None) is not None:
            self._stop(group)
            self._choose_soon()

    def on_answer(self, group: GroupId, number: int, why: str) -> None:
        """Take the answer of a member: *why* it is not alive, or an empty text if it is."""
        watch = self._watches.get(group)
        if watch is None or watch.waiting is None or number != watch.number:
            return
        self._end_waiting(watch)
        if why:
            self._suspect(watch, why)
        else:
            self._believe(watch)
        self._ask_later(watch)

    # --- which members are asked

    def _choose_soon(self) -> None:
        """Schedule the choice, because many members arrive at once when a host starts."""
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
            return  # the handler of its fault has removed it
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
    """Return the reports about a member that was found faulty on *host*."""
    type_id = suspicion.type_id if suspicion.scope is not Scope.LOCATION else None
    group = suspicion.group if suspicion.scope is Scope.MEMBER else None
    why = suspicion.why[:WHY_MAX]
    crash = FaultReport(FaultKind.OBJECT_CRASH, domain, location, type_id, group, {}, why, is_answered=True)
    if not suspicion.is_hang:
        return (crash,)
    details: dict[str, Simple] = {"HostId": str(host), "WaitedNs": suspicion.waited_ns}
    return (crash, FaultReport(FaultKind.HANG, domain, location, type_id, group, details, why))


def report_of(relief: Relief, *, domain: str, location: Location, host: HostId) -> FaultReport:
    """Return the report about a member that answers again."""
    kind = FaultKind.OBJECT_CRASH.value
    details: dict[str, Simple] = {"HostId": str(host), "From": kind, "AfterNs": relief.after_ns}
    return FaultReport(FaultKind.RECOVERED, domain, location, relief.type_id, relief.group, details)
