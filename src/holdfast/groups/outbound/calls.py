"""What calls to groups of this domain (:mod:`.groups`) and of others (:mod:`.domains`)
share.

The two differ in how they find a called group and which hosts they connect to. :class:`OutboundGroups` has
the called groups of one domain and the requests to each. An :class:`OutboundCall` is one call, from when the
style hands it out until it has an outcome (E3).

When a call is not answered in time, a :class:`Settlement` asks the called group for a final outcome. The
call's entry there outlives the wait for it (:mod:`holdfast.execution.queue`). So the answer is the outcome,
or that the call never runs from now on, even if it was queued, or there is no answer. Only the last leaves
the caller in doubt (X3).
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
    """A call that a group of this host makes to another group."""

    hosted: HostedGroup
    outgoing: Outgoing

    def left_ns(self, here_ns: Callable[[], int]) -> int:
        """Return how long the call is still waited for, in its group's time; *here_ns* returns the host's."""
        return self.outgoing.deadline_ns - self.hosted.time_ns(here_ns)

    def end(self, how: Ended) -> None:
        """End the call with the called group's own answer, or without one."""
        if how == REFUSALS[NEVER]:
            self.tell_of_never()
        else:
            self._hand_back(how if isinstance(how, bytes) else encode_outcome(_outcome_of(how)))

    def tell(self, outcome: Outcome) -> None:
        self._hand_back(encode_outcome(outcome))

    def tell_of_never(self) -> None:
        """Report that the call will never run. The called group had not executed it when it was asked for the
        outcome."""
        text = f"{self.outgoing.group} did not execute the call in time, and never will"
        self.tell(Refused(NestedNotExecuted.code, text))

    def tell_of_nobody(self, text: str) -> None:
        """Report that the call was not sent from here in all the time that it is waited for."""
        self.refuse(NestedNotExecuted.code, text)

    def tell_of_no_group(self) -> None:
        self.refuse("no_such_group", f"there is no group {self.outgoing.group!r}")

    def refuse(self, code: str, text: str) -> None:
        """Report that the call is not sent from here. If an earlier copy may have been executed, before the
        group was removed or through another host, the outcome is unknown."""
        self.tell(Unknown(text) if self.outgoing.may_have_left else Refused(code, text))

    def _hand_back(self, outcome: bytes) -> None:
        outgoing = self.outgoing
        if outgoing.send:
            self.hosted.replica.on_send_outcome(outgoing.send, outcome)
        else:
            self.hosted.replica.on_nested_outcome(outgoing.caller, outgoing.call, outcome)
        self.hosted.ask_turn()


def _outcome_of(error: HoldfastError) -> Outcome:
    if isinstance(error, OutcomeUnknown):
        return Unknown(f"the call has no answer: {error}")
    # Any other error says that no copy was executed: none has left, or all were turned away.
    return Refused(error.code if isinstance(error, InvalidRequest) else NestedNotExecuted.code, str(error))


SETTLE_NS: Final = 500 * MILLISECOND
"""How long the called group is asked what became of a call. A reachable group answers in a fraction of it;
the calling group waits meanwhile."""


@dataclass(frozen=True, slots=True)
class SettlementAttempt:
    """One call that is being sent to the called group, whose requests are *invocations*."""

    awaited: OutboundCall
    sent: Sent
    invocations: Requests

    def end(self, how: Ended) -> None:
        """End the call with the called group's own answer. If the outcome is unknown, ask the called group
        for it first."""
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
    """The question what became of a call. *without* is the call's outcome if this question has no answer
    either."""

    awaited: OutboundCall
    without: OutcomeUnknown

    def end(self, how: Ended) -> None:
        if not isinstance(how, bytes) or isinstance(decode_outcome(how), Unknown):
            self.awaited.end(self.without)
        else:
            self.awaited.end(how)


RETRY_NS: Final = 50 * MILLISECOND
"""The pause before a call that could not be sent is tried again."""
ATTEMPT_NS: Final = 1 * SECOND
"""How long a call is tried at least, even after its deadline, if an earlier copy may have an outcome that can
be fetched."""


class OutboundGroups:
    """The called groups of one domain, and the requests to each. *me* names this process among the callers of
    groups. *on_moved* is called when a group is called for the first time or has moved, because the
    connections may have to change."""

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
        """Yield the newest known reference of each called group."""
        for invocations in self._groups.values():
            yield invocations.reference

    def call(
        self, reference: Reference, awaited: OutboundCall, sent: Sent, left_ns: int, time_ns: int
    ) -> None:
        """Make the call in *sent*, which is waited for *left_ns*. *time_ns* is the called group's time, used
        if it was not called before. Raises ``Overloaded``."""
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
        """Give up the calls to a removed group; they stay unanswered."""
        invocations = self._groups.pop(group, None)
        if invocations is not None:
            invocations.close(Unavailable(why))

    def close(self) -> None:
        """Stop sending. Other primaries make the calls that have no outcome."""
        groups, self._groups, self._is_closed = self._groups, {}, True
        for invocations in groups.values():
            invocations.close(Unavailable("this host ends"))

    # --- events of the called hosts

    def on_up(self, host: HostId) -> None:
        for invocations in self._groups.values():
            invocations.on_connected(host)

    def on_down(self, host: HostId) -> None:
        for invocations in self._groups.values():
            invocations.on_disconnected(host)

    def on_message(self, host: HostId, message: ToClient) -> None:
        """Handle a message that concerns a called group; all others are ignored."""
        match message:
            case Replies(group=group) | Turned(group=group) if group in self._groups:
                self._groups[group].on_message(host, message)
            case Redirected(reference=reference) if reference.group in self._groups:
                self._groups[reference.group].on_message(host, message)

    def _on_ended(self, handle: SettlementAttempt | Settlement, how: Ended, _: Call) -> None:
        if not self._is_closed:  # else only this host ends, not the call
            end = partial(handle.end, how)
            # The settlement is started after the call's own end has been processed, not within it.
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
