"""What the authority says of groups, and who here is told: those that come, change, have new views and go."""

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
from holdfast.groups.outbound_groups import OutboundCalls
from holdfast.groups.ports import DiskGuard, GroupsPorts
from holdfast.model.ids import GroupId, HostId
from holdfast.sequence.role import Role


class AuthorityEvents:
    """To one host, as its *directory* hears them; its members are in *housed*."""

    def __init__(
        self,
        host: HostId,
        housed: Mapping[GroupId, HostedGroup],
        directory: GroupCatalog,
        lodging: MemberLifecycle,
        checkups: LivenessChecks,
        serving: CallRouter,
        nesting: OutboundCalls,
        recipes: Recipes,
        ports: GroupsPorts,
        guard: DiskGuard,
    ) -> None:
        self._host = host
        self._housed = housed
        self._directory = directory
        self._lodging = lodging
        self._checkups = checkups
        self._serving = serving
        self._nesting = nesting
        self._tell_of_view = ports.on_view
        self._guarded = guard.guarded
        self._leaving = LeavingGroups(
            host,
            recipes,
            guard.timers,
            ports.nonce,
            forget=guard.guarded(lodging.leave),
            look_again=self._look_again,
        )
        self._forgetting = RemovedGroups(
            host,
            guard.watch,
            recipes,
            guard.timers,
            ports.nonce,
            is_known=directory.records.__contains__,
            forget=guard.guarded(lodging.end),
        )
        self._beginning = UnbegunGroups(
            host,
            recipes,
            guard.timers,
            ports.clock,
            ports.trace,
            ports.nonce,
            member_of=self._first_of,
            learn=directory.learn,
        )

    def on_record(self, seen: Seen[GroupRecord]) -> None:
        """A group is new, or its record is another."""
        record = seen.value
        self._leaving.on_record(record)
        housed = self._housed.get(record.group)
        if housed is not None:
            self._guarded(housed.on_record)(seen)
            self._checkups.on_record(record)
        elif record.placement(self._host) is not None and not self._leaving.is_forgetting(record.group):
            self._guarded(self._lodging.take_in)(seen)
        self._beginning.on_record(record)

    def on_listed(self) -> None:
        """All records there are have been told."""
        self._forgetting.start()

    def on_gone(self, group: GroupId, is_removed: bool) -> None:
        """There is no record of the group any more; *is_removed*: by the authority's word (A5)."""
        self._nesting.on_gone(group)
        self._serving.on_removed(group)
        self._leaving.on_gone(group)
        self._forgetting.on_gone(group)
        housed = self._housed.get(group)
        if housed is not None:
            self._lodging.on_gone(housed, is_removed=is_removed)

    def on_view(self, seen: Seen[View]) -> None:
        """The group has a new view."""
        self._tell_of_view(seen.value)
        reference = self._directory.reference(seen.value.group)
        if reference is not None:
            self._nesting.on_reference(reference)
        self._leaving.on_view(seen.value.group)
        housed = self._housed.get(seen.value.group)
        if housed is None:
            return
        housed.chronicle.on_view(seen.value)
        if housed.member.role is Role.WAITING:
            self._guarded(self._lodging.start)(housed)
        else:
            self._guarded(housed.member.on_view)(seen)
        if housed.is_ready:
            self._serving.on_served(housed.group)

    def _look_again(self, group: GroupId) -> None:
        seen = self._directory.seen_records.get(group)
        if seen is not None:
            self.on_record(seen)

    def _first_of(self, group: GroupId) -> ViewMember | None:
        """Who this process would be as the first member of a group; None when it holds something of it."""
        housed = self._housed.get(group)
        return housed.ground.me if housed is not None and not housed.member.tail else None
