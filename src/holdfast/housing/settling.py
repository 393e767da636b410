"""A call to another group that has no answer in time: the called group is asked for its outcome, for good.

Its entry there outlives the wait for it (:mod:`holdfast.styles.deadlines`), so the answer is one of three:
the outcome; that it never runs, from now on, also if it stood in line; or none. Only the last leaves the
caller in doubt (X3).
"""

from dataclasses import dataclass
from typing import Final

from holdfast.calling.config import CallPolicy
from holdfast.calling.invocation import Invocations
from holdfast.calling.ports import Ended
from holdfast.housing.awaited import Awaited
from holdfast.model.calls import RequestId
from holdfast.model.errors import HoldfastError, OutcomeUnknown
from holdfast.model.outcome import Unknown, decode_outcome
from holdfast.model.units import MILLISECOND
from holdfast.styles.operation import Sent

SETTLE_NS: Final = 500 * MILLISECOND
"""How long the called group is asked what became of a call. Whoever is there answers in a fraction of it; the
calling group stands meanwhile."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call on its way to the called group, whose requests are *invocations*."""

    awaited: Awaited
    sent: Sent
    invocations: Invocations

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
            self.invocations.ask_outcome(Settling(self.awaited, how), about, policy, withdraws=True)
        except HoldfastError:
            self.awaited.end(how)


@dataclass(frozen=True, slots=True)
class Settling:
    """The question what became of a call. *without*: the call's end if there is no answer to that either."""

    awaited: Awaited
    without: OutcomeUnknown

    def end(self, how: Ended) -> None:
        if not isinstance(how, bytes) or isinstance(decode_outcome(how), Unknown):
            self.awaited.end(self.without)
        else:
            self.awaited.end(how)
