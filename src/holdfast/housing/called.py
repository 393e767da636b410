"""The groups of one domain that this process calls for its groups: the calls to each, and who hears of what.

Where a called group is, and to which hosts there shall be connections, differs between this domain
(:mod:`.nesting`) and others (:mod:`.abroad`); what is common to both is here.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.calling.invocation import Invocations
from holdfast.calling.ports import Ended, InvocationPorts
from holdfast.housing.awaited import Awaited
from holdfast.housing.ports import Callees, HousePorts, MakeTimers
from holdfast.housing.settling import Attempt, Settling
from holdfast.model.calls import Redirected, Replies, ToClient, Turned
from holdfast.model.errors import OutcomeUnknown, Unavailable
from holdfast.model.ids import ClientId, GroupId, HostId
from holdfast.model.reference import Reference
from holdfast.model.units import MILLISECOND, SECOND
from holdfast.styles.lines import CallLines
from holdfast.styles.operation import Call, Sent

RETRY_NS: Final = 50 * MILLISECOND
"""After which a call is tried again that could not be sent."""
ATTEMPT_NS: Final = 1 * SECOND
"""How long a call is tried, even if it is too late, of which an earlier copy may have an outcome: that is to
be had for it."""


class Called:
    """*me*: the name of this process, among the callers of groups. *on_moved* is told when a group is called
    for the first time, and when one is somewhere else: connections may be wanted elsewhere."""

    def __init__(
        self,
        me: ClientId,
        callees: Callees,
        ports: HousePorts,
        timers: MakeTimers,
        config: ClientConfig,
        lines: CallLines | None,
        on_moved: Callable[[], None],
    ) -> None:
        self.me = me
        self._callees = callees
        self._ports = ports
        self._timers = timers
        self._config = config
        self._lines = lines
        self._on_moved = on_moved
        self._groups: dict[GroupId, Invocations] = {}
        self._is_closed = False

    def __iter__(self) -> Iterator[GroupId]:
        return iter(self._groups)

    def __contains__(self, group: GroupId) -> bool:
        return group in self._groups

    def __len__(self) -> int:
        return len(self._groups)

    def references(self) -> Iterator[Reference]:
        """Of each called group the newest that is known."""
        for invocations in self._groups.values():
            yield invocations.reference

    def call(self, reference: Reference, awaited: Awaited, sent: Sent, left_ns: int, time_ns: int) -> None:
        """Make the call in *sent*, which is waited for *left_ns*; *time_ns*: that group's time, if it was not
        called before. Raises ``Overloaded``."""
        if left_ns <= 0 and not awaited.outgoing.may_have_left:
            awaited.tell_of_nobody("its time was up before it could leave")
            return
        invocations, outgoing = self._to(reference, time_ns), awaited.outgoing
        shortest_ns = ATTEMPT_NS if outgoing.may_have_left else 0
        policy = CallPolicy(duration_ns=max(left_ns, shortest_ns), outcome_ns=0)
        invocations.relay(
            Attempt(awaited, sent, invocations),
            sent,
            policy,
            outgoing.method,
            outgoing.followed,
            may_have_left=outgoing.may_have_left,
        )

    def forget(self, group: GroupId, why: str) -> None:
        """It was removed: what was asked of it stays unanswered."""
        invocations = self._groups.pop(group, None)
        if invocations is not None:
            invocations.close(Unavailable(why))

    def close(self) -> None:
        """Nothing is sent any more; other primaries make the calls that have no outcome."""
        groups, self._groups, self._is_closed = self._groups, {}, True
        for invocations in groups.values():
            invocations.close(Unavailable("this host ends"))

    # --- events of the hosts that are called

    def on_up(self, host: HostId) -> None:
        for invocations in self._groups.values():
            invocations.on_connected(host)

    def on_down(self, host: HostId) -> None:
        for invocations in self._groups.values():
            invocations.on_disconnected(host)

    def on_message(self, host: HostId, message: ToClient) -> None:
        """Whatever concerns a called group; anything else is passed over."""
        match message:
            case Replies(group=group) | Turned(group=group) if group in self._groups:
                self._groups[group].on_message(host, message)
            case Redirected(reference=reference) if reference.group in self._groups:
                self._groups[reference.group].on_message(host, message)

    def _on_ended(self, handle: Attempt | Settling, how: Ended, _: Call) -> None:
        if not self._is_closed:  # else the end is the host's alone
            end = partial(handle.end, how)
            # What has no answer is asked about, though not within the end of the call itself.
            self._ports.soon(end) if isinstance(how, OutcomeUnknown) else end()

    def _to(self, reference: Reference, time_ns: int) -> Invocations:
        known = self._groups.get(reference.group)
        if known is not None:
            return known
        ports = InvocationPorts(
            clock=self._ports.clock,
            timers=self._timers,
            network=self._callees,
            random=self._ports.random,
            trace=self._ports.trace,
            on_ended=self._on_ended,
            later=lambda: self._ports.soon(made.flush),
            on_reference=lambda _: self._on_moved(),
            lines=self._lines,
        )
        made = Invocations(reference, self.me, time_ns, ports=ports, config=self._config)
        self._groups[reference.group] = made
        for host in self._callees.connected:
            made.on_connected(host)
        self._on_moved()
        return made
