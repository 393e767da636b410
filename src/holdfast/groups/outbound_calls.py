"""The groups of one domain that this process calls for its groups: the calls to each, and who hears of what.

Where a called group is, and to which hosts there shall be connections, differs between this domain
(:mod:`.outbound_groups`) and others (:mod:`.outbound_domains`); what is common to both is here.

A call that a group of this host makes, from when its style gave it out until it has an outcome (E3).

A call to another group that has no answer in time: the called group is asked for its outcome, for good.

Its entry there outlives the wait for it (:mod:`holdfast.execution.queue`), so the answer is one of three:
the outcome; that it never runs, from now on, also if it stood in line; or none. Only the last leaves the
caller in doubt (X3).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.calling.ports import Ended, RequestPorts
from holdfast.calling.requests import Requests
from holdfast.execution.effects import Outgoing
from holdfast.execution.execution import REFUSALS
from holdfast.execution.records import Call, Sent
from holdfast.groups.hosted_group import HostedGroup
from holdfast.groups.ports import Callees, GroupsPorts, MakeTimers
from holdfast.model.calls import Redirected, Replies, RequestId, ToClient, Turned
from holdfast.model.errors import HoldfastError, InvalidRequest, OutcomeUnknown, Unavailable
from holdfast.model.ids import MILLISECOND, SECOND, ClientId, GroupId, HostId
from holdfast.model.outcome import (
    NestedNotExecuted,
    Outcome,
    Refused,
    Unknown,
    decode_outcome,
    encode_outcome,
)
from holdfast.model.reference import Reference
from holdfast.sequence.retention import NEVER
from holdfast.styles.call_log import CallLog


@dataclass(frozen=True, slots=True)
class OutboundCall:
    """One call."""

    housed: HostedGroup
    outgoing: Outgoing

    def left_ns(self, here_ns: int) -> int:
        """How long it is still waited for, by its group's time, where the host's is *here_ns*."""
        return self.outgoing.deadline_ns - self.housed.time_ns(here_ns)

    def end(self, how: Ended) -> None:
        """With the called group's own answer, or without any."""
        if how == REFUSALS[NEVER]:
            self.tell_of_never()
        else:
            self._hand_back(how if isinstance(how, bytes) else encode_outcome(_outcome_of(how)))

    def tell(self, outcome: Outcome) -> None:
        self._hand_back(encode_outcome(outcome))

    def tell_of_never(self) -> None:
        """The called group was asked for the outcome before it had executed the call, and says so."""
        text = f"{self.outgoing.group} did not execute the call in time, and never will"
        self.tell(Refused(NestedNotExecuted.code, text))

    def tell_of_nobody(self, text: str) -> None:
        """It was not sent from here in all the time it is waited for."""
        self.refuse(NestedNotExecuted.code, text)

    def tell_of_no_group(self) -> None:
        self.refuse("no_such_group", f"there is no group {self.outgoing.group!r}")

    def refuse(self, code: str, text: str) -> None:
        """It is not sent from here. An earlier copy may have been executed: before the group was removed, or
        by way of another host."""
        self.tell(Unknown(text) if self.outgoing.may_have_left else Refused(code, text))

    def _hand_back(self, outcome: bytes) -> None:
        outgoing = self.outgoing
        if outgoing.send:
            self.housed.replica.on_send_outcome(outgoing.send, outcome)
        else:
            self.housed.replica.on_nested_outcome(outgoing.caller, outgoing.call, outcome)
        self.housed.ask_turn()


def _outcome_of(error: HoldfastError) -> Outcome:
    if isinstance(error, OutcomeUnknown):
        return Unknown(f"the call has no answer: {error}")
    # Anything else says that no copy was executed: none has left, or all were turned away.
    return Refused(error.code if isinstance(error, InvalidRequest) else NestedNotExecuted.code, str(error))


SETTLE_NS: Final = 500 * MILLISECOND
"""How long the called group is asked what became of a call. Whoever is there answers in a fraction of it; the
calling group stands meanwhile."""


@dataclass(frozen=True, slots=True)
class SettlementAttempt:
    """One call on its way to the called group, whose requests are *invocations*."""

    awaited: OutboundCall
    sent: Sent
    invocations: Requests

    def end(self, how: Ended) -> None:
        """With the called group's own answer, or without any."""
        if not isinstance(how, OutcomeUnknown):
            self.awaited.end(how)
            return
        outgoing = self.awaited.outgoing
        group = self.invocations.reference.group
        about = RequestId(group, self.sent.client, outgoing.call, outgoing.expiration_s)
        policy = CallPolicy(duration_ns=SETTLE_NS, outcome_ns=0)
        try:
            self.invocations.ask_outcome(Settlement(self.awaited, how), about, policy, withdraws=True)
        except HoldfastError:
            self.awaited.end(how)


@dataclass(frozen=True, slots=True)
class Settlement:
    """The question what became of a call. *without*: the call's end if there is no answer to that either."""

    awaited: OutboundCall
    without: OutcomeUnknown

    def end(self, how: Ended) -> None:
        if not isinstance(how, bytes) or isinstance(decode_outcome(how), Unknown):
            self.awaited.end(self.without)
        else:
            self.awaited.end(how)


RETRY_NS: Final = 50 * MILLISECOND
"""After which a call is tried again that could not be sent."""
ATTEMPT_NS: Final = 1 * SECOND
"""How long a call is tried, even if it is too late, of which an earlier copy may have an outcome: that is to
be had for it."""


class OutboundGroups:
    """*me*: the name of this process, among the callers of groups. *on_moved* is told when a group is called
    for the first time, and when one is somewhere else: connections may be wanted elsewhere."""

    def __init__(
        self,
        me: ClientId,
        callees: Callees,
        ports: GroupsPorts,
        timers: MakeTimers,
        config: ClientConfig,
        lines: CallLog | None,
        on_moved: Callable[[], None],
    ) -> None:
        self.me = me
        self._callees = callees
        self._ports = ports
        self._timers = timers
        self._config = config
        self._lines = lines
        self._on_moved = on_moved
        self._groups: dict[GroupId, Requests] = {}
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

    def call(
        self, reference: Reference, awaited: OutboundCall, sent: Sent, left_ns: int, time_ns: int
    ) -> None:
        """Make the call in *sent*, which is waited for *left_ns*; *time_ns*: that group's time, if it was not
        called before. Raises ``Overloaded``."""
        if left_ns <= 0 and not awaited.outgoing.may_have_left:
            awaited.tell_of_nobody("its time was up before it could leave")
            return
        invocations, outgoing = self._to(reference, time_ns), awaited.outgoing
        shortest_ns = ATTEMPT_NS if outgoing.may_have_left else 0
        policy = CallPolicy(duration_ns=max(left_ns, shortest_ns), outcome_ns=0)
        invocations.relay(
            SettlementAttempt(awaited, sent, invocations),
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

    def _on_ended(self, handle: SettlementAttempt | Settlement, how: Ended, _: Call) -> None:
        if not self._is_closed:  # else the end is the host's alone
            end = partial(handle.end, how)
            # What has no answer is asked about, though not within the end of the call itself.
            self._ports.soon(end) if isinstance(how, OutcomeUnknown) else end()

    def _to(self, reference: Reference, time_ns: int) -> Requests:
        known = self._groups.get(reference.group)
        if known is not None:
            return known
        ports = RequestPorts(
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
        made = Requests(reference, self.me, time_ns, ports=ports, config=self._config)
        self._groups[reference.group] = made
        for host in self._callees.connected:
            made.on_connected(host)
        self._on_moved()
        return made
