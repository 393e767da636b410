"""Bugs planted in the client: each breaks one rule by which every call ends once, with its true outcome."""

from typing import Any

import msgspec

from holdfast.calling.config import CallPolicy
from holdfast.calling.ordered_lane import OrderedLane
from holdfast.calling.outcomes import Outcomes
from holdfast.calling.ports import Ended
from holdfast.calling.request import PendingRequest, frame_of
from holdfast.calling.request_ids import Floor, RequestIds
from holdfast.calling.requests import Requests
from holdfast.calling.retry import Failure, RetryPause
from holdfast.calling.targets import Targets
from holdfast.model.calls import Replies, Seen
from holdfast.model.ids import HostId
from holdfast.model.outcome import Raised, decode_outcome
from holdfast.model.reference import Reference
from holdfast.sim.runner.planted import Planted, replacing

NUMBERS = 40

_call = Requests.call
_wait_again = Requests._wait_again
_lose = Requests._lose
_on_replies = Requests.on_replies


def _renumber(invocations: Requests, request: PendingRequest) -> None:
    """Sends the request again under a new number."""
    invocations._awaited.pop(request.number)
    number = invocations._numbering.next_number
    invocations._numbering.next_number += 1
    request.call = msgspec.structs.replace(request.call, number=number)
    invocations._awaited[request.number] = request
    request.handle.number = request.number  # type: ignore[attr-defined]  # so that only the group can notice


def _wait_again_renumbered(invocations: Requests, request: PendingRequest) -> None:
    _renumber(invocations, request)
    _wait_again(invocations, request)


def _call_under_a_used_number(invocations: Requests, *arguments: Any, **options: Any) -> int:
    numbering, real = invocations._numbering, invocations._numbering.next_number
    number = real % NUMBERS + 1
    while number in invocations._awaited:
        number = number % NUMBERS + 1
    numbering.next_number = number
    try:
        return _call(invocations, *arguments, **options)
    finally:
        numbering.next_number = real + 1


def _lose_for_certain(invocations: Requests, host: HostId, failure: Failure) -> None:
    """Takes requests that were lost for requests that were not executed."""
    lost = [request for request in invocations._awaited.values() if request.flight is not None]
    _lose(invocations, host, failure)
    for request in lost:
        request.is_maybe = False


def _repeat_what_raised(invocations: Requests, replies: Replies) -> None:
    """Repeats a call that raised an exception, although the method has run."""
    numbers, outcomes = [], []
    for number, outcome in zip(replies.numbers, replies.outcomes, strict=True):
        request = invocations._awaited.get(number)
        if request is not None and request.is_plain and isinstance(decode_outcome(outcome), Raised):
            request.is_plain = False  # once is enough
            _renumber(invocations, request)
            invocations._outbox.add(request)
            invocations._ask_flush()
        else:
            numbers.append(number)
            outcomes.append(outcome)
    _on_replies(invocations, msgspec.structs.replace(replies, numbers=numbers, outcomes=outcomes))


def _see_nothing(invocations: Requests, replies: Replies) -> None:
    _on_replies(invocations, replies)
    invocations._seen = Seen()


_request = RequestIds.request


def _by_own_clock(
    ids: RequestIds, handle: object, method: str, arguments: bytes, policy: CallPolicy, now: int, *more: Any
) -> PendingRequest:
    over_ns = now + policy.duration_ns + policy.outcome_ns
    ids._time.ahead_ns = ids._time._clock.wall() - over_ns
    return _request(ids, handle, method, arguments, policy, now, *more)


def _floor_at_newest(floor: Floor, awaited: object, next_number: int, time_s: int) -> int:
    return next_number - 1


def _take_outcome_as_it_is(endings: Outcomes, request: PendingRequest, outcome: bytes) -> Ended:
    return outcome


def _take_any_reference(addresses: Targets, reference: Reference) -> bool:
    return reference.version != addresses.reference.version


def _send_all(lane: OrderedLane, bytes_max: int, time_s: int) -> list[PendingRequest]:
    """Sends the next frame without waiting for the one before."""
    frame = frame_of(lane._queue, bytes_max)
    lane._queue = lane._queue[len(frame) :]
    lane._under_way |= {request.number: request for request in frame}
    return frame


def _end_overdue_once(invocations: Requests) -> None:
    invocations._deadline.rang()


PLANTED = (
    Planted(
        name="calls-new-number-on-retry",
        rule="X2",
        scenario="calls",
        summary="a call is sent again under a new number",
        plant=lambda: replacing(Requests, "_wait_again", _wait_again_renumbered),
    ),
    Planted(
        name="calls-floor-too-high",
        rule="X2",
        scenario="calls",
        summary="the floor passes numbers that are awaited",
        plant=lambda: replacing(Floor, "value", _floor_at_newest),
    ),
    Planted(
        name="calls-number-given-twice",
        rule="FTC-92",
        scenario="calls",
        summary="numbers are used again, so that a late reply is taken for another call's",
        plant=lambda: replacing(Requests, "call", _call_under_a_used_number),
    ),
    Planted(
        name="calls-retry-after-completed-yes",
        rule="FTC-68",
        scenario="calls",
        summary="a call whose method raised is tried again",
        plant=lambda: replacing(Requests, "on_replies", _repeat_what_raised),
    ),
    Planted(
        name="calls-expiration-by-own-clock",
        rule="X4",
        scenario="calls",
        summary="expirations are reckoned by the client's own date",
        plant=lambda: replacing(RequestIds, "request", _by_own_clock),
    ),
    Planted(
        name="calls-lost-taken-for-not-executed",
        rule="FTC-64",
        scenario="calls",
        summary="a call on a broken connection ends as not executed",
        plant=lambda: replacing(Requests, "_lose", _lose_for_certain),
    ),
    Planted(
        name="calls-forgotten-taken-for-refused",
        rule="X2",
        scenario="calls",
        summary="the refusal of a late copy is taken for the fate of the call",
        plant=lambda: replacing(Outcomes, "judged", _take_outcome_as_it_is),
    ),
    Planted(
        name="calls-older-reference-adopted",
        rule="FTC-78",
        scenario="calls",
        summary="any other reference is adopted, also an older one",
        plant=lambda: replacing(Targets, "is_news", _take_any_reference),
        profile="pauses",
    ),
    Planted(
        name="calls-never-rest",
        rule="FTC-71",
        scenario="calls",
        summary="after nobody could serve, everybody is asked again at once",
        plant=lambda: replacing(RetryPause, "begin", lambda invocations: None),
        profile="kills",
    ),
    Planted(
        name="calls-lane-does-not-wait",
        rule="X5",
        scenario="calls",
        summary="ordered calls leave before the frame before them has ended",
        plant=lambda: replacing(OrderedLane, "take", _send_all),
    ),
    Planted(
        name="calls-seen-not-told",
        rule="S7",
        scenario="calls",
        summary="the client does not say what it has seen",
        plant=lambda: replacing(Requests, "on_replies", _see_nothing),
    ),
    Planted(
        name="calls-deadlines-forgotten",
        rule="FTC-71",
        scenario="calls",
        summary="a call outlives its duration",
        plant=lambda: replacing(Requests, "_end_overdue", _end_overdue_once),
    ),
)
