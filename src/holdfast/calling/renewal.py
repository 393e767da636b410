"""Requests that a group refused for their expirations before their duration was over, and that are made anew
(X4).

A request's expiration is reckoned in the group's time, as far as that is known: until the group has replied
it is the guess of a host, and later a primary may take over whose clock is ahead. The reply that refuses a
request tells the time in which it should have been reckoned. It says either that the request has expired or
that it expires later than replies are kept (FTC-95); such a request is not executed, so if no copy of it was
ever lost the call can be made again, as another request.
*Without it:* B's clock is an hour behind, or years ahead, so B is no primary; a client finds the group
through B, and its first calls are refused.
"""

from collections.abc import Iterable

import msgspec

from holdfast.calling.numbering import Numbering
from holdfast.calling.pending import Pending
from holdfast.model.outcome import INVALID_POLICY, Refused, decode_outcome
from holdfast.model.traceparent import Traceparent
from holdfast.sequence.retention import KEPT_S_MAX


def mistrust(requests: Iterable[Pending], time_s: int) -> None:
    """The group's time has leapt to *time_s*: outcomes of those are looked at that it may refuse."""
    for request in requests:
        if _refusal(request, time_s) is not None:
            request.is_plain = False


def is_reckoned_wrong(request: Pending, outcome: bytes, time_s: int) -> bool:
    """Whether it is to be made anew: *outcome* refuses it for its expiration, by the group's time rightly,
    and no copy of it has run. A group's own call keeps its id (E3), a lane its order (X5)."""
    code = _refusal(request, time_s)
    if code is None or request.relayed is not None or request.asks_about is not None:
        return False
    if request.is_maybe and not request.is_query:
        return False
    if request.lane is not None and not request.lane.is_last(request):
        return False
    found = decode_outcome(outcome)
    return isinstance(found, Refused) and found.code == code


def _refusal(request: Pending, time_s: int) -> str | None:
    """As what a group refuses it at *time_s*."""
    expiration_s = request.call.expiration_s
    if expiration_s <= time_s:
        return "expired"
    return INVALID_POLICY if expiration_s > time_s + KEPT_S_MAX else None


def renewed(request: Pending, numbering: Numbering, trace: Traceparent) -> Pending:
    """The same call under another id, in the same trace. It ends no later."""
    over_ns = request.deadline_ns + request.outcome_ns
    call = numbering.call(request.call.method, request.call.arguments, over_ns, trace.encoded())
    return msgspec.structs.replace(request, call=call, flight=None, is_plain=False)
