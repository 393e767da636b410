"""What a primary looks at before it does anything with a frame of calls: whatever is refused here has changed
nothing.

Requests of which something is known already: answered from the table, and not ordered again (X).
"""

from collections.abc import Callable
from typing import Final

from holdfast.execution.effects import Effects
from holdfast.execution.execution import REFUSALS, Execution
from holdfast.execution.interface import BadCall
from holdfast.execution.method import ORDERED_BYTES_MAX
from holdfast.execution.records import Call, Sent, Settled, decode_sent_calls, encode_calls
from holdfast.model.calls import CHAIN_CHARACTERS_MAX, Request
from holdfast.model.errors import InvalidRequest, Overloaded
from holdfast.model.ids import ClientId, Position
from holdfast.model.outcome import Refused, Unknown, encode_outcome
from holdfast.net.frame import UNDECODABLE
from holdfast.sequence.retention import FRESH, NEVER, TOO_LATE, InProgress, Repeated, Verdict
from holdfast.styles.config import StyleConfig
from holdfast.styles.ports import Token
from holdfast.styles.replies import WaitingReplies

CALLS_PER_RECORD_MAX: Final = 4096
"""So many calls share a record, and the turn that executes it."""


def calls_in(sent: Sent) -> list[Call]:
    """The calls of a frame. Raises ``BadCall`` for what is no frame."""
    try:
        calls = decode_sent_calls(sent.calls)
    except UNDECODABLE as error:
        raise BadCall(f"the calls cannot be read: {error}") from None
    if not 1 <= len(calls) <= CALLS_PER_RECORD_MAX:
        raise BadCall(f"a frame has 1 to {CALLS_PER_RECORD_MAX} calls, not {len(calls)}")
    if sum(map(len, sent.chain), len(sent.chain)) > CHAIN_CHARACTERS_MAX:
        raise BadCall(f"the names of the {len(sent.chain)} groups that wait for the calls are too long")
    return calls


def in_circle(group: str, chain: tuple[str, ...]) -> bytes:
    """The outcome of calls to *group* that it waits for itself: it would wait for ever (E3)."""
    text = " -> ".join((*chain, group))
    return encode_outcome(Refused("call_cycle", f"the groups call each other in a circle: {text}"))


def nested_log_bytes_max(config: StyleConfig) -> float:
    """How long a log may be that takes calls of other groups."""
    return config.log_bytes_max * 1.25


def check_room(
    group: str, in_line: int, log_bytes: int, config: StyleConfig, *, is_nested: bool, why_none: str = ""
) -> None:
    """Raises ``Overloaded`` when too much waits already: calls in line, or a log for its checkpoints, the
    last of which may have failed: *why_none*. Calls of other groups have some room of their own. *Without
    it:* a line or a log is full and waits for a group that calls this one; its call is turned away again and
    again, stands in no line, and nobody sees the circle (E10)."""
    if in_line >= config.in_line_max * (2 if is_nested else 1):
        raise Overloaded(f"group {group}: {in_line} calls stand in line")
    if log_bytes > (nested_log_bytes_max(config) if is_nested else config.log_bytes_max):
        why = f", and the last one failed: {why_none}" if why_none else ""
        raise Overloaded(f"group {group}: its log waits for checkpoints{why}")


def check_length(sent: Sent, operations: list[Call]) -> None:
    """What no record takes would cost the group its object, once it is executed. Raises ``InvalidRequest``
    if the *operations* of the frame are that long."""
    if len(sent.calls) <= ORDERED_BYTES_MAX:  # as nearly always: all of it is not
        return
    length = len(encode_calls(operations))
    if length > ORDERED_BYTES_MAX:
        raise InvalidRequest(f"operations of {length} bytes; at most {ORDERED_BYTES_MAX}")


FORGOTTEN: Final = encode_outcome(Unknown("the request has expired; whether it ran is no longer known"))

NOT_KEPT: Final = encode_outcome(Unknown(TOO_LATE.why))

Tell = Callable[[Position, Token, list[int], list[bytes]], None]
"""Answer, once that position is committed."""


class Repetitions:
    """At one member. A repetition of a call that has not ended waits for it in *waiting* (X1)."""

    def __init__(self, waiting: WaitingReplies, tell: Tell) -> None:
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
