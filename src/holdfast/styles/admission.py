"""Checks a frame of calls before the primary does anything with it.

A call that is refused here has changed nothing. :class:`Repetitions` answers requests that are already known
from the retention table, without ordering them again (X).
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
from holdfast.model.ids import ClientId, HostId, Position
from holdfast.model.outcome import Refused, Unknown, encode_outcome
from holdfast.net.frame import UNDECODABLE
from holdfast.sequence.keyed_replies import caller_of
from holdfast.sequence.retention import FRESH, NEVER, TOO_LATE, InProgress, Repeated, Retention, Verdict
from holdfast.styles.config import StyleConfig
from holdfast.styles.ports import Token
from holdfast.styles.replies import WaitingReplies

CALLS_PER_RECORD_MAX: Final = 4096
"""The most calls that share a record, and so one turn that executes it."""


def calls_in(sent: Sent) -> list[Call]:
    """Decode the calls of a frame. Raises ``BadCall`` for an invalid frame."""
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
    """The refusal for calls to *group* that it would wait for itself, forever (E3)."""
    text = " -> ".join((*chain, group))
    return encode_outcome(Refused("call_cycle", f"the groups call each other in a circle: {text}"))


def nested_in_line_max(config: StyleConfig) -> int:
    """The length of the queue up to which calls of other groups are still accepted."""
    return config.in_line_max * 2


def nested_log_bytes_max(config: StyleConfig) -> float:
    """The log size up to which calls of other groups are still accepted."""
    return config.log_bytes_max * 1.25


def check_kept(group: str, retention: Retention, client: ClientId, config: StyleConfig) -> None:
    """Raises ``Overloaded`` if too much is kept for calls under keys, of this caller or of all (X2). The
    replies go when their keys expire; a repeated key is answered all the same."""
    caller, keyed = caller_of(client), retention.keyed
    if not caller:
        return
    for kept, most, whose in (
        (keyed.of(caller), config.keyed_caller_bytes_max, "this caller's"),
        (keyed.total, config.keyed_bytes_max, "all callers'"),
    ):
        if kept >= most:
            raise Overloaded(
                f"group {group}: {kept} bytes of replies are kept under {whose} idempotency keys, at most "
                f"{most}; wait until keys expire, or call without one"
            )


def check_length(sent: Sent, operations: list[Call]) -> None:
    """Raises ``InvalidRequest`` if the *operations* of the frame are too long for a record. Executing them
    first would cost the group its object, because they could not be ordered."""
    if len(sent.calls) <= ORDERED_BYTES_MAX:  # nearly always: not even the whole frame is too long
        return
    length = len(encode_calls(operations))
    if length > ORDERED_BYTES_MAX:
        raise InvalidRequest(f"operations of {length} bytes; at most {ORDERED_BYTES_MAX}")


FORGOTTEN: Final = encode_outcome(Unknown("the request has expired; whether it ran is no longer known"))

NOT_KEPT: Final = encode_outcome(Unknown(TOO_LATE.why))

Tell = Callable[[Position, Token, list[int], list[bytes]], None]
"""Sends an answer once that position is committed."""


class Repetitions:
    """Answers repeated requests at one member. A repetition of a call that has not ended waits for it in
    *waiting* (X1)."""

    def __init__(
        self,
        group: str,
        config: StyleConfig,
        waiting: WaitingReplies,
        tell: Tell,
    ) -> None:
        self._group = group
        self._config = config
        self.lacks_space: Callable[[], HostId | None]
        """Returns a host that must keep what is ordered and has too little disk space. The replica sets it
        once it has its sequence."""
        self._waiting = waiting
        self._tell = tell

    def sift(self, execution: Execution, token: Token, client: ClientId, calls: list[Call]) -> list[Call]:
        """Answer the calls of a frame that are already known, and return the others. A frame that starts with
        a new call is returned whole, as nearly all are: its repetitions are found when it is executed. Raises
        ``Overloaded`` for new calls if a disk lacks space, or if too much is kept for calls under keys."""
        first = calls[0]
        if execution.retention.judge(client, first.number, first.expiration_s) is FRESH:
            self._check_new(execution, client)
            return calls
        fresh = self.answer(execution, token, client, calls)
        if fresh:
            self._check_new(execution, client)
        return fresh

    def answer(self, execution: Execution, token: Token, client: ClientId, calls: list[Call]) -> list[Call]:
        """Answer those calls of a frame that are already known, and return the others."""
        judge = execution.retention.judge
        fresh: list[Call] = []
        for each in calls:
            verdict = judge(client, each.number, each.expiration_s)
            if verdict is FRESH:
                fresh.append(each)
                continue
            # A reply is final with its own position; a refusal depends on everything the table was built
            # from.
            rests_on = Position(0) if isinstance(verdict, Repeated) else execution.position
            self._answer_verdict(verdict, Request(client, each.number), token, rests_on)
        return fresh

    def check_space(self) -> None:
        """Raises ``Overloaded`` while a host that must keep what is ordered lacks disk space (D5)."""
        host = self.lacks_space()
        if host is not None:
            raise Overloaded(
                f"group {self._group}: the disk of {host} is nearly full; until it has space again "
                "nothing is changed, and queries are answered"
            )

    def _check_new(self, execution: Execution, client: ClientId) -> None:
        if self.lacks_space() is not None:
            self.check_space()
        if execution.retention.keyed.total:
            check_kept(self._group, execution.retention, client, self._config)

    def settled(self, effects: Effects, record: Settled, token: Token, position: Position) -> None:
        """Answer a client that asked what became of a request; *record*, ordered at *position*, settles it
        (X3)."""
        verdict = effects.settled
        if isinstance(verdict, Repeated | InProgress) or verdict == NEVER:
            self._answer_verdict(verdict, Request(record.client, record.number), token, position)
        else:
            said = NOT_KEPT if verdict == TOO_LATE else FORGOTTEN
            self._tell(position, token, [record.number], [said])

    def _answer_verdict(self, verdict: Verdict, request: Request, token: Token, position: Position) -> None:
        """Answer once *position*, and the position the verdict depends on, are committed."""
        if isinstance(verdict, InProgress):
            self._waiting.for_call(request, token)
        elif isinstance(verdict, Repeated):
            self._tell(max(position, verdict.position), token, [request.number], [verdict.reply])
        else:
            self._tell(position, token, [request.number], [REFUSALS[verdict]])
