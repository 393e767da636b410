"""Checks whether the members on this host are alive, and replaces the objects of those that are not (FTC-142,
FTC-247).

A member that fails the check gives up its object and makes a new one from the committed state. If it was
primary, another member serves first. So a fault costs one handover, and a wrong suspicion costs no more. If
the member represents others, those get new objects as well (FTC-146).

Objects are checked on the host's event loop, between two operations. A method, or ``is_alive`` itself, that
never returns blocks the loop and with it all checks. The heartbeat thread notices that, and ends the host
when the loop has been blocked for the shortest timeout of the members monitored here.
"""

from collections.abc import Callable, Mapping

from holdfast.authority.groups import GroupRecord
from holdfast.faults.monitor import Monitoring, Relief, Suspicion
from holdfast.faults.reports import Scope
from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.ports import Finding, Journal, MakeTimers
from holdfast.groups.settings import monitored
from holdfast.model.errors import DISK_ERRORS, HoldfastError
from holdfast.model.ids import GroupId
from holdfast.model.ports import Clock, Trace


class LivenessChecks:
    """Monitors the members in *hosted*. *on_finding* is called for each new fault and each end of a fault."""

    def __init__(
        self,
        hosted: Mapping[GroupId, HostedGroup],
        clock: Clock,
        timers: MakeTimers,
        trace: Trace,
        journal: Journal,
        on_finding: Callable[[Finding], None],
    ) -> None:
        self._hosted = hosted
        self._journal = journal
        self._on_finding = on_finding
        self.monitoring = Monitoring(
            clock=clock,
            timers=timers,
            trace=trace,
            ask=self._ask,
            on_suspicion=self._on_suspicion,
            on_relief=self._on_relief,
        )

    def on_record(self, record: GroupRecord) -> None:
        """Monitor a hosted group as its record now says."""
        wanted = monitored(record)
        if wanted is not None:
            self.monitoring.watch(wanted)
        else:
            self.monitoring.forget(record.group)

    def forget(self, group: GroupId) -> None:
        """Stop monitoring a group that has no member here any more."""
        self.monitoring.forget(group)

    def _ask(self, group: GroupId, number: int) -> None:
        hosted = self._hosted.get(group)
        why = hosted.style.why_not_alive() if hosted is not None else ""
        self.monitoring.on_answer(group, number, why)

    def _on_suspicion(self, suspicion: Suspicion) -> None:
        if suspicion.is_new:
            self._journal.warning(
                "a member is not alive", group=suspicion.group, scope=suspicion.scope.value, why=suspicion.why
            )
            self._on_finding(suspicion)
        for hosted in self._affected_by(suspicion):
            self._make_anew(hosted, suspicion.why)

    def _affected_by(self, suspicion: Suspicion) -> list[HostedGroup]:
        if suspicion.scope is Scope.MEMBER:
            hosted = self._hosted.get(suspicion.group)
            return [hosted] if hosted is not None else []
        is_all = suspicion.scope is Scope.LOCATION
        return [
            each for each in self._hosted.values() if is_all or each.record.class_name == suspicion.type_id
        ]

    def _make_anew(self, hosted: HostedGroup, why: str) -> None:
        try:
            hosted.make_anew(why)
        except DISK_ERRORS:
            raise
        except HoldfastError as error:
            # The member keeps its object and is still checked.
            self._journal.error("a member cannot be made anew", group=hosted.group, why=str(error))

    def _on_relief(self, relief: Relief) -> None:
        self._journal.info("a member is alive again", group=relief.group)
        self._on_finding(relief)
