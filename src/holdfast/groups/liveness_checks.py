"""Members are asked whether they are alive, and what becomes of one that is not (FTC-142, FTC-247).

A member that fails is made anew: its object is given up and made of what is committed; if it was primary,
another member serves first. So a fault costs a hand-over, and a suspicion that was wrong costs no more. With
a member that stood for others these are made anew as well (FTC-146).

An object is asked on the host's loop, between two of its operations. One that never returns from a method, or
from ``is_alive``, stops the loop and all questions with it: that is seen by the heart, on a thread of its
own, which ends the host when the loop has stood for the shortest timeout of those that are monitored here.
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
    """Of the members in *housed*. *on_finding* is told of faults that are news, and of their ends."""

    def __init__(
        self,
        housed: Mapping[GroupId, HostedGroup],
        clock: Clock,
        timers: MakeTimers,
        trace: Trace,
        journal: Journal,
        on_finding: Callable[[Finding], None],
    ) -> None:
        self._housed = housed
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
        """A group that has a member here shall be as its record says now."""
        wanted = monitored(record)
        if wanted is not None:
            self.monitoring.watch(wanted)
        else:
            self.monitoring.forget(record.group)

    def forget(self, group: GroupId) -> None:
        """It has no member here any more."""
        self.monitoring.forget(group)

    def _ask(self, group: GroupId, number: int) -> None:
        housed = self._housed.get(group)
        why = housed.style.why_not_alive() if housed is not None else ""
        self.monitoring.on_answer(group, number, why)

    def _on_suspicion(self, suspicion: Suspicion) -> None:
        if suspicion.is_new:
            self._journal.warning(
                "a member is not alive", group=suspicion.group, scope=suspicion.scope.value, why=suspicion.why
            )
            self._on_finding(suspicion)
        for housed in self._struck_by(suspicion):
            self._make_anew(housed, suspicion.why)

    def _struck_by(self, suspicion: Suspicion) -> list[HostedGroup]:
        if suspicion.scope is Scope.MEMBER:
            housed = self._housed.get(suspicion.group)
            return [housed] if housed is not None else []
        is_all = suspicion.scope is Scope.LOCATION
        return [
            each for each in self._housed.values() if is_all or each.record.class_name == suspicion.type_id
        ]

    def _make_anew(self, housed: HostedGroup, why: str) -> None:
        try:
            housed.make_anew(why)
        except DISK_ERRORS:
            raise
        except HoldfastError as error:
            # It keeps the object it has, and is asked on.
            self._journal.error("a member cannot be made anew", group=housed.group, why=str(error))

    def _on_relief(self, relief: Relief) -> None:
        self._journal.info("a member is alive again", group=relief.group)
        self._on_finding(relief)
