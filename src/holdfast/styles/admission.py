"""What a primary looks at before it does anything with a frame of calls: whatever is refused here has changed
nothing."""

from typing import Final

from holdfast.model.calls import CHAIN_CHARACTERS_MAX
from holdfast.model.errors import InvalidRequest, Overloaded
from holdfast.model.outcome import Refused, encode_outcome
from holdfast.net.frame import UNDECODABLE
from holdfast.styles.config import StyleConfig
from holdfast.styles.interface import BadCall
from holdfast.styles.operation import Call, Sent, decode_sent_calls, encode_calls
from holdfast.styles.stepping import ORDERED_BYTES_MAX

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
