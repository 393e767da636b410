"""Requests of which something is known already: answered from the table, and not ordered again (X)."""

from collections.abc import Callable
from typing import Final

from holdfast.model.calls import Request
from holdfast.model.ids import ClientId, Position
from holdfast.model.outcome import Unknown, encode_outcome
from holdfast.sequence.retention import FRESH, NEVER, TOO_LATE, InProgress, Repeated, Verdict
from holdfast.styles.effects import Effects
from holdfast.styles.execution import REFUSALS, Execution
from holdfast.styles.operation import Call, Settled
from holdfast.styles.ports import Token
from holdfast.styles.waiting import Waiting

FORGOTTEN: Final = encode_outcome(Unknown("the request has expired; whether it ran is no longer known"))

NOT_KEPT: Final = encode_outcome(Unknown(TOO_LATE.why))

Tell = Callable[[Position, Token, list[int], list[bytes]], None]
"""Answer, once that position is committed."""


class Repetitions:
    """At one member. A repetition of a call that has not ended waits for it in *waiting* (X1)."""

    def __init__(self, waiting: Waiting, tell: Tell) -> None:
        self._waiting = waiting
        self._tell = tell

    def sift(self, execution: Execution, token: Token, client: ClientId, calls: list[Call]) -> list[Call]:
        """Answer those calls of a frame that are known, and leave the others. A frame that begins with a new
        one is left whole, as nearly all are: what is known of the others is found when it is executed."""
        judge = execution.retention.judge
        if judge(client, calls[0].number, calls[0].expiration_s) is FRESH:
            return calls
        fresh: list[Call] = []
        for each in calls:
            verdict = judge(client, each.number, each.expiration_s)
            if verdict is FRESH:
                fresh.append(each)
                continue
            # A reply is final with its own position; a refusal rests on all that the table was made of.
            rests_on = Position(0) if isinstance(verdict, Repeated) else execution.position
            self._answer_verdict(verdict, Request(client, each.number), token, rests_on)
        return fresh

    def settled(self, effects: Effects, record: Settled, token: Token, position: Position) -> None:
        """Somebody asked what became of a request; *record*, ordered at *position*, says so for good (X3)."""
        verdict = effects.settled
        if isinstance(verdict, Repeated | InProgress) or verdict == NEVER:
            self._answer_verdict(verdict, Request(record.client, record.number), token, position)
        else:
            said = NOT_KEPT if verdict == TOO_LATE else FORGOTTEN
            self._tell(position, token, [record.number], [said])

    def _answer_verdict(self, verdict: Verdict, request: Request, token: Token, position: Position) -> None:
        """Answer, once *position* is committed and what the verdict rests on."""
        if isinstance(verdict, InProgress):
            self._waiting.for_call(request, token)
        elif isinstance(verdict, Repeated):
            self._tell(max(position, verdict.position), token, [request.number], [verdict.reply])
        else:
            self._tell(position, token, [request.number], [REFUSALS[verdict]])
