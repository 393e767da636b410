"""Passes on what the authority reports about groups: new groups, changed records, new views and removals."""

from collections.abc import Mapping

from holdfast.authority.groups import GroupRecord
from holdfast.authority.recipe import Recipes, Seen
from holdfast.authority.views import View, ViewMember
from holdfast.groups.call_router import CallRouter
from holdfast.groups.catalog import GroupCatalog
from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.leaving import LeavingGroups, RemovedGroups
from holdfast.groups.lifecycle import MemberLifecycle, UnbegunGroups
from holdfast.groups.liveness_checks import LivenessChecks
from holdfast.groups.outbound.groups import OutboundCalls
from holdfast.groups.ports import DiskGuard, GroupsPorts
from holdfast.model.ids import GroupId, HostId
from holdfast.sequence.role import Role


class AuthorityEvents:
    """Distributes the events that *catalog* reports to one host, whose members are in *hosted*."""

    def __init__(
        self,
        host: HostId,
        hosted: Mapping[GroupId, HostedGroup],
        catalog: GroupCatalog,
        lifecycle: MemberLifecycle,
        liveness_checks: LivenessChecks,
        serving: CallRouter,
        outbound_calls: OutboundCalls,
        recipes: Recipes,
        ports: GroupsPorts,
        guard: DiskGuard,
    ) -> None:
        self._host = host
        self._hosted = hosted
        self._catalog = catalog
        self._lifecycle = lifecycle
        self._liveness = liveness_checks
        self._serving = serving
        self._outbound = outbound_calls
        self._tell_of_view = ports.on_view
        self._guarded = guard.guarded
        self._leaving = LeavingGroups(
            host,
            recipes,
            guard.timers,
            ports.nonce,
            forget=guard.guarded(lifecycle.leave),
            look_again=self._look_again,
        )
        self._forgetting = RemovedGroups(
            host,
            guard.watch,
            recipes,
            guard.timers,
            ports.nonce,
            is_known=catalog.records.__contains__,
            forget=guard.guarded(lifecycle.end),
        )
        self._beginning = UnbegunGroups(
            host,
            recipes,
            guard.timers,
            ports.clock,
            ports.trace,
            ports.nonce,
            member_of=self._first_of,
            learn=catalog.learn,
        )

    def on_record(self, seen: Seen[GroupRecord]) -> None:
        """Handle a new group or a changed record."""
        record = seen.value
        self._leaving.on_record(record)
        hosted = self._hosted.get(record.group)
        if hosted is not None:
            self._guarded(hosted.on_record)(seen)
            self._liveness.on_record(record)
        elif record.placement(self._host) is not None and not self._leaving.is_forgetting(record.group):
            self._guarded(self._lifecycle.take_in)(seen)
        self._maybe_begin(record.group)

    def on_listed(self) -> None:
        """Handle that all existing records have been passed on."""
        self._forgetting.start()

    def on_gone(self, group: GroupId, is_removed: bool) -> None:
        """Handle that a group's record is gone; *is_removed* says whether the authority reported the removal
        (A5)."""
        self._outbound.on_gone(group)
        self._serving.on_removed(group)
        self._leaving.on_gone(group)
        self._forgetting.on_gone(group)
        hosted = self._hosted.get(group)
        if hosted is not None:
            self._lifecycle.on_gone(hosted, is_removed=is_removed)

    def on_view(self, seen: Seen[View]) -> None:
        """Handle a new view of a group."""
        self._tell_of_view(seen.value)
        reference = self._catalog.reference(seen.value.group)
        if reference is not None:
            self._outbound.on_reference(reference)
        self._leaving.on_view(seen.value.group)
        hosted = self._hosted.get(seen.value.group)
        if hosted is None:
            return
        hosted.history.on_view(seen.value)
        if hosted.member.role is Role.WAITING:
            self._guarded(self._lifecycle.start)(hosted)
        else:
            self._guarded(hosted.member.on_view)(seen)
        if hosted.is_ready:
            self._serving.on_served(hosted.group)
        self._maybe_begin(hosted.group)

    def _maybe_begin(self, group: GroupId) -> None:
        record, seen = self._catalog.records.get(group), self._catalog.views.get(group)
        if record is not None:
            self._beginning.look(record, seen.value if seen is not None else None)

    def _look_again(self, group: GroupId) -> None:
        seen = self._catalog.seen_records.get(group)
        if seen is not None:
            self.on_record(seen)

    def _first_of(self, group: GroupId) -> ViewMember | None:
        """Return the identity of this process as first member of the group; None if it holds records of it or
        does not host it."""
        hosted = self._hosted.get(group)
        return hosted.backend.me if hosted is not None and not hosted.member.tail else None
