"""Makes the calls from the groups of this host to groups of other domains (FTC-6, E3).

It works like :mod:`.groups`, with two differences. The hosts of the other domain are asked where a
group is, as its clients ask them. And the call's id contains the nonce under which the calling group was
created, which no other group of any domain has. So the called group's own retention table makes the call
happen once, no matter who sends it again. The expiration counts in the calling group's time, so the clocks of
two domains that call each other must differ by less than their calls may take.
"""

from collections.abc import Hashable
from typing import Final

from holdfast.calling.config import ClientConfig
from holdfast.calling.targets import KnownHosts
from holdfast.execution.effects import Outgoing
from holdfast.execution.nested_call import sent_abroad
from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.outbound.calls import RETRY_NS, OutboundCall, OutboundGroups
from holdfast.groups.ports import Callees, GroupsPorts, MakeTimers
from holdfast.groups.stamps import Stamps
from holdfast.model.calls import (
    FollowHosts,
    Locate,
    Located,
    RefusalCode,
    ToClient,
    Turned,
    Whereabouts,
)
from holdfast.model.errors import HoldfastError, Overloaded, Unavailable
from holdfast.model.ids import MILLISECOND, ClientId, GroupId, HostId
from holdfast.model.reference import OtherDomain, parse_group_abroad
from holdfast.styles.call_log import CallLog

DOMAINS_MAX: Final = 64
"""The most other domains that are called from here; calls to further ones are refused."""
LOCATE_NS: Final = 500 * MILLISECOND
"""How long one host has to say where a group is, before another is asked."""


class OutboundDomains:
    """The other domains that one process calls. *me* names the process among the callers of groups."""

    def __init__(
        self,
        me: ClientId,
        stamps: Stamps,
        ports: GroupsPorts,
        timers: MakeTimers,
        config: ClientConfig,
        lines: CallLog | None = None,
    ) -> None:
        self._me = me
        self._stamps = stamps
        self._ports = ports
        self._timers = timers
        self._config = config
        self._lines = lines
        self._domains: dict[OtherDomain, DomainClient] = {}

    def call(self, hosted: HostedGroup, outgoing: Outgoing) -> bool:
        """Make a call to a group of another domain. Returns False if the group is in this domain."""
        target = parse_group_abroad(outgoing.group)
        if target is None:
            return False
        awaited = OutboundCall(hosted, outgoing)
        try:
            self._domain(target.domain).call(awaited, target.name)
        except HoldfastError as error:
            awaited.refuse(error.code, str(error))
        return True

    def close(self) -> None:
        """Stop sending. Other primaries make the calls that have no outcome."""
        for each in self._domains.values():
            each.close()
        self._domains.clear()

    def _domain(self, other: OtherDomain) -> "DomainClient":
        """Return the client of the domain. Raises ``Overloaded``, ``Unavailable``, and ``InvalidRequest`` for
        an invalid address."""
        known = self._domains.get(other)
        if known is not None:
            return known
        if self._ports.abroad is None:
            raise Unavailable("other domains cannot be called from here")
        if len(self._domains) >= DOMAINS_MAX:
            raise Overloaded(f"{DOMAINS_MAX} other domains are called from this host already")
        made = DomainClient(other, self._stamps, self._ports, self._timers)
        callees = self._ports.abroad(other, made)
        ports, timers = self._ports, self._timers
        made.open(
            callees,
            OutboundGroups(
                self._me, callees, ports, timers, self._config, self._lines, made.keep_connected_soon
            ),
        )
        self._domains[other] = made
        return made


class DomainClient:
    """This process as one client of another domain, whose groups it calls."""

    callees: Callees
    _called: OutboundGroups

    def __init__(self, other: OtherDomain, stamps: Stamps, ports: GroupsPorts, timers: MakeTimers) -> None:
        self._other = other
        self._stamps = stamps
        self._ports = ports
        self._timers = timers(self._on_timer)
        self._named: dict[str, Located] = {}
        """Where each group was when it was first called."""
        self._put_off: dict[str, list[OutboundCall]] = {}
        """Calls to groups that have yet to be found, or that had no room for more calls."""
        self._questions: dict[int, str] = {}
        self._asked = 0
        self._known = KnownHosts()

    def open(self, callees: Callees, called: OutboundGroups) -> None:
        """Connect to the domain, and stay connected from now on."""
        self.callees, self._called = callees, called
        self._keep_connected()

    def call(self, awaited: OutboundCall, name: str) -> None:
        """Make a call to the group of that name there, as soon as its location is known."""
        located = self._named.get(name)
        if located is not None:
            self._send(awaited, name, located)
        elif self._is_put_off(awaited, name):
            self._ask_somebody(name)

    def close(self) -> None:
        self._timers.close()
        self._put_off.clear()
        self._called.close()
        self.callees.keep(())

    # --- events of the other domain's hosts

    def on_up(self, host: HostId) -> None:
        self.callees.send(host, FollowHosts())
        self._called.on_up(host)
        for name in self._put_off:
            self._ask(host, name)

    def on_down(self, host: HostId) -> None:
        self._called.on_down(host)

    def on_message(self, host: HostId, message: ToClient) -> None:
        match message:
            case Whereabouts(hosts=hosts):
                self._known.learn(hosts)
                self._keep_connected()
            case Located():
                self._on_located(message)
            case Turned(frame=frame, group=0, code=RefusalCode.NO_SUCH_GROUP) if frame in self._questions:
                for awaited in self._put_off.pop(self._questions.pop(frame), []):
                    awaited.tell_of_no_group()
            case _:
                self._called.on_message(host, message)
                if isinstance(message, Turned) and message.code is RefusalCode.NO_SUCH_GROUP:
                    self._forget(message.group)

    # --- finding groups

    def _is_put_off(self, awaited: OutboundCall, name: str) -> bool:
        """Let the call wait, unless it has expired. Returns whether it is the first that waits for that
        group."""
        if awaited.left_ns(self._stamps.time_ns) <= 0:
            awaited.tell_of_nobody(f"nobody of {self._other.name} could be asked in time")
            return False
        self._put_off.setdefault(name, []).append(awaited)
        return len(self._put_off[name]) == 1

    def _ask_somebody(self, name: str) -> None:
        connected = self.callees.connected
        if connected:
            self._ask(connected[self._asked % len(connected)], name)
        self._timers.set(LOCATE_NS if connected else RETRY_NS, name)

    def _ask(self, host: HostId, name: str) -> None:
        self._asked += 1
        self._questions[self._asked] = name
        self.callees.send(host, Locate(self._asked, name))

    def _on_timer(self, tag: Hashable) -> None:
        """Try again, because nobody has said where the group is, or because it had no room."""
        waiting = self._put_off.pop(str(tag), [])
        self._questions = {asked: name for asked, name in self._questions.items() if name in self._put_off}
        for awaited in waiting:
            self.call(awaited, str(tag))

    def _on_located(self, located: Located) -> None:
        name = self._questions.pop(located.frame, "")
        waiting = self._put_off.pop(name, [])
        if not waiting:
            return  # another host answered first
        self._named[name] = located
        for awaited in waiting:
            self._send(awaited, name, located)

    def _forget(self, group: GroupId) -> None:
        """Forget a removed group; another may have its name by now."""
        self._named = {name: each for name, each in self._named.items() if each.reference.group != group}
        self._called.forget(group, f"group {group} of {self._other.name} was removed")

    # --- sending

    def _send(self, awaited: OutboundCall, name: str, located: Located) -> None:
        record, left_ns = awaited.hosted.record, awaited.left_ns(self._stamps.time_ns)
        sent = sent_abroad(self._ports.domain, record.nonce, awaited.outgoing, self._other.name)
        try:
            self._called.call(located.reference, awaited, sent, left_ns, located.time_ns)
        except Overloaded:
            if self._is_put_off(awaited, name):
                self._timers.set(RETRY_NS, name)

    # --- connections

    def keep_connected_soon(self) -> None:
        self._ports.soon(self._keep_connected)

    def _keep_connected(self) -> None:
        known = self._known.addresses(self._called.references())
        self.callees.keep(dict.fromkeys((*self._other.addresses, *known)))
