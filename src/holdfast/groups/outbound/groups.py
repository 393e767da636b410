"""Makes the calls from the groups of this host to other groups of this domain (E3).

The style decides when a call may leave: once the calling operation is committed, and only from the primary.
This module sends it like any caller's request (:mod:`holdfast.calling`) until it has an outcome, or until its
deadline in the calling group's time has passed. Either result goes back to the calling group and becomes a
record of its sequence. A call is reported as not executed only if no copy of it has left, if all copies were
turned away, or if the called group has settled it (:mod:`.calls`). Another primary may have sent a
copy earlier (``Outgoing.may_have_left``), so everything else that is not the called group's own answer is
`Unknown`.
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
from holdfast.groups.outbound.calls import RETRY_NS, OutboundCall, OutboundGroups
from holdfast.groups.ports import GroupsPorts, MakeTimers
from holdfast.groups.stamps import Stamps
from holdfast.model.calls import NO_FRAME, Redirected, ToClient
from holdfast.model.errors import Overloaded
from holdfast.model.ids import ClientId, GroupId, HostId
from holdfast.model.reference import Reference
from holdfast.styles.call_log import CallLog


class OutboundCalls:
    """The pending calls to groups of this domain. *me* names this process among the callers of groups."""

    def __init__(
        self,
        me: ClientId,
        catalog: GroupCatalog,
        stamps: Stamps,
        recipes: Recipes,
        ports: GroupsPorts,
        timers: MakeTimers,
        config: ClientConfig,
        lines: CallLog | None = None,
    ) -> None:
        self._catalog = catalog
        self._stamps = stamps
        self._recipes = recipes
        self._ports = ports
        self._timers = timers(self._on_timer)
        self._called = OutboundGroups(
            me, ports.callees, ports, timers, config, lines, self._keep_connected_soon
        )
        self._put_off: dict[int, OutboundCall] = {}
        self._number = 0
        self._is_keeping = False

    def call(self, hosted: HostedGroup, outgoing: Outgoing) -> None:
        """Call another group for a method of *hosted*. ``on_nested_outcome`` follows, once or more often."""
        self._begin(OutboundCall(hosted, outgoing))

    def close(self) -> None:
        """Stop sending. Other primaries make the calls that have no outcome."""
        self._put_off.clear()
        self._timers.close()
        self._called.close()

    # --- events of the called hosts

    def on_up(self, host: HostId) -> None:
        self._called.on_up(host)

    def on_down(self, host: HostId) -> None:
        self._called.on_down(host)

    def on_message(self, host: HostId, message: ToClient) -> None:
        self._called.on_message(host, message)

    def on_reference(self, reference: Reference) -> None:
        """Redirect calls to a group of which this host knows a newer view."""
        if reference.group in self._called:
            self._called.on_message(reference.primary, Redirected(NO_FRAME, reference))
            self._keep_connected_soon()

    def on_hosts(self) -> None:
        """Reconnect, because hosts have come, gone, or changed their addresses."""
        self._keep_connected_soon()

    def on_gone(self, group: GroupId) -> None:
        """Give up the calls to a removed group; they stay unanswered."""
        self._called.forget(group, f"group {group} was removed")

    # --- sending

    def _begin(self, awaited: OutboundCall) -> None:
        name = awaited.outgoing.group
        group = self._catalog.find(name)
        reference = self._catalog.reference(group) if group is not None else None
        if reference is not None:
            self._send(awaited, reference)
        else:
            self._recipes.start(found_at_authority(name, GroupId(0)), partial(self._on_found, awaited))

    def _on_found(self, awaited: OutboundCall, found: Found) -> None:
        match found:
            case NoSuchName() | NoGroup():
                awaited.tell_of_no_group()
            case NoAnswer() | GroupRecord():
                self._try_later(awaited)  # the authority does not answer, or the group has not started yet
            case (record, view):
                self._send(awaited, self._catalog.reference_of(record, view))

    def _send(self, awaited: OutboundCall, reference: Reference) -> None:
        sent, here_ns = sent_by(awaited.hosted.group, awaited.outgoing), self._stamps.time_ns()
        try:
            self._called.call(reference, awaited, sent, awaited.left_ns(self._stamps.time_ns), here_ns)
        except Overloaded:
            self._try_later(awaited)

    def _keep_connected_soon(self) -> None:
        """Schedule one update of the connections per turn, because a dying host makes many groups move
        together."""
        if self._called and not self._is_keeping:
            self._is_keeping = True
            self._ports.soon(self._keep_connected)

    def _keep_connected(self) -> None:
        """Connect to every member of the called groups: at its session's address, or at its last known one.

        A reference has only the addresses of members that were in session, as far as its maker knew. The view
        names all members. *Without that:* a host that has just started calls a group before it knows of any
        session, and has nobody to ask for as long as the group's view stays the same.
        """
        self._is_keeping = False
        addresses = {
            each.host: each.address for called in self._called.references() for each in called.members
        }
        members = (host for group in self._called for host in self._catalog.members(group))
        sessions = self._catalog.sessions
        for host in dict.fromkeys((*addresses, *members)):
            if host in sessions:
                addresses[host] = sessions[host].address
        self._ports.callees.keep(addresses.values())

    def _try_later(self, awaited: OutboundCall) -> None:
        if awaited.left_ns(self._stamps.time_ns) <= 0:
            awaited.tell_of_nobody(f"nobody of {awaited.outgoing.group} could be asked in time")
            return
        self._number += 1
        self._put_off[self._number] = awaited
        self._timers.set(RETRY_NS, self._number)

    def _on_timer(self, tag: Hashable) -> None:
        awaited = self._put_off.pop(tag, None)  # type: ignore[call-overload]  # the tags are numbers
        if awaited is not None:
            self._begin(awaited)
