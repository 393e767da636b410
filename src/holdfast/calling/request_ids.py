"""The ids of one client's requests to one group: a number that is never reused, and an expiration.

:class:`Floor` is the lowest number whose reply the members must still keep for this client (X2). It must
never pass a number that is awaited, because the members would refuse its next copy. It should not pass one
that ended without a known outcome either, as long as somebody may ask for it. But one such number must not
make the members keep the replies to everything after it, so it is given up when it lags too far behind.

:func:`renewed` makes a request again that the group refused because of its expiration, before its duration
was over (X4). An expiration counts in the group's time, as far as that is known: until the group has replied
it is the guess of a host, and later a primary may take over whose clock is ahead. The reply that refuses a
request tells the right time. It says that the request has expired, or that it expires later than replies are
kept (FTC-95). Such a request is not executed, so if no copy of it was ever lost, the call can be made again
as another request. *Without it:* B's clock is an hour behind, or years ahead, so B is no primary; a client
finds the group through B, and its first calls are refused.
"""

from collections.abc import Container, Iterable
from typing import Final

import msgspec

from holdfast.calling.config import CallPolicy
from holdfast.calling.deadline import GroupTime
from holdfast.calling.request import PendingRequest
from holdfast.execution.effects import RequestTrace
from holdfast.execution.records import Call, TracedCall
from holdfast.model.ids import SECOND
from holdfast.model.outcome import INVALID_POLICY, Refused, decode_outcome
from holdfast.model.traceparent import Traceparent
from holdfast.sequence.retention import KEPT_S_MAX


class RequestIds:
    """Issues request ids, in the group's time (FTC-93, X4)."""

    def __init__(self, time: GroupTime) -> None:
        self._time = time
        self.next_number = 1
        self.horizon_s = 0
        """The latest expiration issued so far (X2)."""

    def call(self, method: str, arguments: msgspec.Raw, over_ns: int, traceparent: bytes = b"") -> Call:
        """Return a call with its own id, which may be forgotten at *over_ns* of the local clock: its duration
        is over then, and so is the time to ask for its outcome."""
        number = self.next_number
        self.next_number = number + 1
        expiration_s = (over_ns + self._time.ahead_ns) // SECOND + 1
        if expiration_s > self.horizon_s:
            self.horizon_s = expiration_s
        if traceparent:
            return TracedCall(number, method, arguments, expiration_s, traceparent)
        return Call(number, method, arguments, expiration_s)

    def request(
        self,
        handle: object,
        method: str,
        arguments: bytes,
        policy: CallPolicy,
        now: int,
        story: RequestTrace | None = None,
    ) -> PendingRequest:
        """Return a request that begins *now*, with its own id. *story* traces it."""
        deadline_ns, outcome_ns = now + policy.duration_ns, policy.outcome_ns
        if story is not None:
            call = self.call(method, msgspec.Raw(arguments), deadline_ns + outcome_ns, story.traceparent)
            size = len(arguments) + len(story.traceparent)
            return PendingRequest(
                call, handle, size, now, deadline_ns, outcome_ns, is_plain=False, story=story
            )
        number = self.next_number  # as in `call`: one function less for nearly every call
        self.next_number = number + 1
        expiration_s = (deadline_ns + outcome_ns + self._time.ahead_ns) // SECOND + 1
        if expiration_s > self.horizon_s:
            self.horizon_s = expiration_s
        call = Call(number, method, msgspec.Raw(arguments), expiration_s)
        return PendingRequest(call, handle, len(arguments), now, deadline_ns, outcome_ns)


LAG_MAX: Final = 100_000
"""How many numbers members keep because of one whose outcome is unknown; more would cost them too much."""


class Floor:
    """The floor of one client at one group. Each ended number costs one step, when the floor is next asked
    for."""

    def __init__(self, *, lag_max: int = LAG_MAX) -> None:
        self._lowest = 1
        self._lag_max = lag_max
        self._unknown: dict[int, int] = {}

    def hold(self, number: int, expiration_s: int) -> None:
        """Note that *number* ended without a known outcome, which may be asked for until *expiration_s*."""
        self._unknown[number] = expiration_s

    def release(self, number: int) -> None:
        """Note that the outcome of *number* is known now."""
        self._unknown.pop(number, None)

    def value(self, awaited: Container[int], next_number: int, time_s: int) -> int:
        """Return the floor while *awaited* are awaited and all numbers below *next_number* have been
        issued."""
        lowest, unknown = self._lowest, self._unknown
        while lowest < next_number and lowest not in awaited:
            expiration_s = unknown.get(lowest)
            if expiration_s is not None:
                if expiration_s > time_s and next_number - lowest <= self._lag_max:
                    break
                del unknown[lowest]
            lowest += 1
        self._lowest = lowest
        return lowest


def mistrust(requests: Iterable[PendingRequest], time_s: int) -> None:
    """Mark the requests that the group may refuse because its time has leapt to *time_s*, so that their
    outcomes are checked."""
    for request in requests:
        if _refusal(request, time_s) is not None:
            request.is_plain = False


def is_reckoned_wrong(request: PendingRequest, outcome: bytes, time_s: int) -> bool:
    """Whether the call is to be made again with a new id: *outcome* refuses it for its expiration, correctly
    by the group's time, and no copy of it has run. A group's own call keeps its id (E3), and a lane keeps its
    order (X5)."""
    code = _refusal(request, time_s)
    if code is None or request.relayed is not None or request.asks_about is not None:
        return False
    if request.is_maybe and not request.is_query:
        return False
    if request.lane is not None and not request.lane.is_last(request):
        return False
    found = decode_outcome(outcome)
    return isinstance(found, Refused) and found.code == code


def _refusal(request: PendingRequest, time_s: int) -> str | None:
    """Return the code with which a group refuses the request at *time_s*, if it does."""
    expiration_s = request.call.expiration_s
    if expiration_s <= time_s:
        return "expired"
    return INVALID_POLICY if expiration_s > time_s + KEPT_S_MAX else None


def renewed(request: PendingRequest, numbering: RequestIds, trace: Traceparent) -> PendingRequest:
    """Return the same call under another id, in the same trace. It does not end later."""
    over_ns = request.deadline_ns + request.outcome_ns
    call = numbering.call(request.call.method, request.call.arguments, over_ns, trace.encoded())
    return msgspec.structs.replace(request, call=call, flight=None, is_plain=False)
