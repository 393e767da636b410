"""Calls that the groups of this host make to other groups (E3).

The style says when a call may leave: once the calling operation is committed, and from the primary only.
Here it is sent, like any caller's request (:mod:`holdfast.calling`), until it has an outcome or is not waited
for any more by the calling group's time; either is handed back, to become a record of the calling group's
sequence. "Not executed" is said only if no copy of it has left, all were turned away, or the called group has
settled it (:mod:`.outbound_calls`). A copy may have been sent before, by another primary
(``Outgoing.may_have_left``): so whatever else is not the called group's own answer is `Unknown`.
"""

from collections.abc import Hashable
from functools import partial

from holdfast.authority.groups import GroupRecord, NoSuchName
from holdfast.authority.recipe import NoAnswer, Recipes
from holdfast.authority.views import NoGroup
from holdfast.calling.config import ClientConfig
from holdfast.execution.effects import Outgoing
from holdfast.execution.nested_call import sent_by
from holdfast.groups.catalog import Found, GroupCatalog, found_at_authority
from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.outbound_calls import RETRY_NS, OutboundCall, OutboundGroups
from holdfast.groups.ports import GroupsPorts, MakeTimers
from holdfast.groups.stamps import Stamps
from holdfast.model.calls import NO_FRAME, Redirected, ToClient
from holdfast.model.errors import Overloaded
from holdfast.model.ids import ClientId, GroupId, HostId
from holdfast.model.reference import Reference
from holdfast.styles.call_log import CallLog


class OutboundCalls:
    """The calls under way. *me*: the name of this process, among the callers of groups."""

    def __init__(
        self,
        me: ClientId,
        directory: GroupCatalog,
        stamps: Stamps,
        recipes: Recipes,
        ports: GroupsPorts,
        timers: MakeTimers,
        config: ClientConfig,
        lines: CallLog | None = None,
    ) -> None:
        self._directory = directory
        self._stamps = stamps
        self._recipes = recipes
        self._house = ports
        self._timers = timers(self._on_timer)
        self._called = OutboundGroups(
            me, ports.callees, ports, timers, config, lines, self._keep_connected_soon
        )
        self._put_off: dict[int, OutboundCall] = {}
        self._number = 0
        self._is_keeping = False

    def call(self, housed: HostedGroup, outgoing: Outgoing) -> None:
        """A method of *housed* calls another group: ``on_nested_outcome`` follows, once or more often."""
        self._begin(OutboundCall(housed, outgoing))

    def close(self) -> None:
        """Nothing is sent any more; other primaries make the calls that have no outcome."""
        self._put_off.clear()
        self._timers.close()
        self._called.close()

    # --- events of the hosts that are called

    def on_up(self, host: HostId) -> None:
        self._called.on_up(host)

    def on_down(self, host: HostId) -> None:
        self._called.on_down(host)

    def on_message(self, host: HostId, message: ToClient) -> None:
        self._called.on_message(host, message)

    def on_reference(self, reference: Reference) -> None:
        """This host has heard of a newer view of a group."""
        if reference.group in self._called:
            self._called.on_message(reference.primary, Redirected(NO_FRAME, reference))
            self._keep_connected_soon()

    def on_hosts(self) -> None:
        """Hosts have come, gone, or listen elsewhere."""
        self._keep_connected_soon()

    def on_gone(self, group: GroupId) -> None:
        """A group was removed: what was asked of it stays unanswered."""
        self._called.forget(group, f"group {group} was removed")

    # --- sending

    def _begin(self, awaited: OutboundCall) -> None:
        name = awaited.outgoing.group
        group = self._directory.find(name)
        reference = self._directory.reference(group) if group is not None else None
        if reference is not None:
            self._send(awaited, reference)
        else:
            self._recipes.start(found_at_authority(name, GroupId(0)), partial(self._on_found, awaited))

    def _on_found(self, awaited: OutboundCall, found: Found) -> None:
        match found:
            case NoSuchName() | NoGroup():
                awaited.tell_of_no_group()
            case NoAnswer() | GroupRecord():
                self._try_later(awaited)  # the authority is mute, or the group about to begin
            case (record, view):
                self._send(awaited, self._directory.reference_of(record, view))

    def _send(self, awaited: OutboundCall, reference: Reference) -> None:
        sent, here_ns = sent_by(awaited.housed.group, awaited.outgoing), self._stamps.time_ns()
        try:
            self._called.call(reference, awaited, sent, awaited.left_ns(here_ns), here_ns)
        except Overloaded:
            self._try_later(awaited)

    def _keep_connected_soon(self) -> None:
        """Once per turn: a host that dies makes many groups move together."""
        if self._called and not self._is_keeping:
            self._is_keeping = True
            self._house.soon(self._keep_connected)

    def _keep_connected(self) -> None:
        """With every member where it listens now; with one that is not in session, where it did.

        A reference has the addresses of those that were in session, as far as was known where it was made;
        who else is a member stands in the view. *Without that:* a host that has just started calls a group
        before it knows of any session, and has nobody to ask as long as the group's view stays the same.
        """
        self._is_keeping = False
        addresses = {
            each.host: each.address for called in self._called.references() for each in called.members
        }
        members = (host for group in self._called for host in self._directory.members(group))
        sessions = self._directory.sessions
        for host in dict.fromkeys((*addresses, *members)):
            if host in sessions:
                addresses[host] = sessions[host].address
        self._house.callees.keep(addresses.values())

    def _try_later(self, awaited: OutboundCall) -> None:
        if awaited.left_ns(self._stamps.time_ns()) <= 0:
            awaited.tell_of_nobody(f"nobody of {awaited.outgoing.group} could be asked in time")
            return
        self._number += 1
        self._put_off[self._number] = awaited
        self._timers.set(RETRY_NS, self._number)

    def _on_timer(self, tag: Hashable) -> None:
        awaited = self._put_off.pop(tag, None)  # type: ignore[call-overload]  # the tags are numbers
        if awaited is not None:
            self._begin(awaited)
