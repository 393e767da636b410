"""A call that a group of this host makes, from when its style gave it out until it has an outcome (E3)."""

from dataclasses import dataclass

from holdfast.calling.ports import Ended
from holdfast.housing.housed import Housed
from holdfast.model.errors import HoldfastError, InvalidRequest, OutcomeUnknown
from holdfast.model.outcome import NestedNotExecuted, Outcome, Refused, Unknown, encode_outcome
from holdfast.sequence.retention import NEVER
from holdfast.styles.effects import Outgoing
from holdfast.styles.execution import REFUSALS


@dataclass(frozen=True, slots=True)
class Awaited:
    """One call."""

    housed: Housed
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
