"""How requests end that have no plain outcome: with an error that says exactly what is known.

:class:`UnsettledRequests` has the requests that ended without a known outcome, and what must wait until
somebody has asked for it (X3, X5).
"""

from typing import Final

from holdfast.calling.ordered_lane import OrderedLane
from holdfast.calling.ports import Ended
from holdfast.calling.request import PendingRequest
from holdfast.calling.request_ids import Floor
from holdfast.calling.targets import Targets
from holdfast.model.calls import CallOutcomeUnknown, RefusalCode, RequestId, Turned
from holdfast.model.errors import (
    HoldfastError,
    InvalidRequest,
    NoSuchGroup,
    Overloaded,
    Rejected,
    Unavailable,
)
from holdfast.model.ids import SECOND, ClientId
from holdfast.model.outcome import INVALID_POLICY, Refused, Unknown, decode_outcome
from holdfast.model.ports import Clock

FORGOTTEN: Final = ("expired", "abandoned", INVALID_POLICY)
"""Refusals by which a group says that it does not know, or no longer knows, whether a request has run (X2),
or that this copy of it does not run (FTC-95)."""


class Outcomes:
    """Chooses how one client's requests to the group of *addresses* end."""

    def __init__(self, addresses: Targets, client: ClientId, clock: Clock) -> None:
        self._addresses = addresses
        self._client = client
        self._clock = clock

    def judged(self, request: PendingRequest, outcome: bytes) -> Ended:
        """Return what the group's answer to an unusual request means."""
        about = request.asks_about
        if about is None and (request.is_query or not request.is_maybe):
            return outcome
        found = decode_outcome(outcome)
        is_forgotten = isinstance(found, Unknown) or (isinstance(found, Refused) and found.code in FORGOTTEN)
        if not is_forgotten:
            return outcome
        # This copy will not run, but the group no longer knows whether an earlier one did.
        return self.unknown(request) if about is None else self._unknown_of(request, about)

    def unserved(self, request: PendingRequest, error: HoldfastError) -> HoldfastError:
        """Return *error* if it is certain that no copy was executed, else an unknown outcome."""
        return self.unknown(request) if request.may_have_run else error

    def unknown(self, request: PendingRequest) -> CallOutcomeUnknown:
        call = request.call
        named = RequestId(self._addresses.reference.group, self._client, call.number, call.expiration_s)
        return self._unknown_of(request, named)

    def not_sent(self, request: PendingRequest, blocked_by: RequestId) -> HoldfastError:
        """Return the error of a request that waited in a lane behind one whose outcome is unknown."""
        text = f"not executed: the outcome of request {blocked_by}, which it follows, is unknown"
        return self.unserved(request, Rejected(text))

    def nobody(self, request: PendingRequest) -> HoldfastError:
        """Return the error of a request whose duration has passed without any host taking it."""
        name = self._addresses.reference.name
        waited = f"within {self._waited_s(request):g} s; it was not executed"
        said = f"; it was told: {request.turned_text}" if request.turned_text else ""
        if request.turned_by is RefusalCode.OVERLOADED:
            return self.unserved(request, Overloaded(f"{name} could not take it {waited}{said}"))
        return self.unserved(request, Unavailable(f"{name}: nobody could serve it {waited}{said}"))

    def turned_away(self, request: PendingRequest, turned: Turned) -> HoldfastError:
        """Return the error of a request that a host refused and that any other would refuse too."""
        text = turned.text or turned.code
        if turned.code is RefusalCode.BAD_REFERENCE:
            return self.unserved(request, Rejected(text))
        if turned.code is RefusalCode.NO_SUCH_GROUP:
            return self.unserved(request, NoSuchGroup(text))
        if request.relayed is not None and turned.code is RefusalCode.INVALID:
            # the same holds for every copy, because all copies have the same bytes
            return InvalidRequest(text)
        return self.unserved(request, InvalidRequest(text))

    def _unknown_of(self, request: PendingRequest, named: RequestId) -> CallOutcomeUnknown:
        return CallOutcomeUnknown(named, waited_s=self._waited_s(request))

    def _waited_s(self, request: PendingRequest) -> float:
        return round((self._clock.now() - request.began_ns) / SECOND, 3)


class UnsettledRequests:
    """The unsettled requests of one client to one group. Members keep their replies, and their lanes stand
    still."""

    def __init__(self, client: ClientId, floor: Floor) -> None:
        self._client = client
        self._floor = floor
        self._blocked: dict[RequestId, OrderedLane] = {}

    def add(self, request: PendingRequest, named: RequestId, time_s: int) -> list[PendingRequest]:
        """Add a request that ended but may yet run; *time_s* is the group's time. Returns the waiting
        requests of its lane."""
        self._floor.hold(request.number, request.call.expiration_s)
        if request.lane is None:
            return []
        self._blocked = {each: held for each, held in self._blocked.items() if each.expiration_s > time_s}
        self._blocked[named] = request.lane
        return request.lane.block(named)

    def settle(self, about: RequestId) -> None:
        """Note that the request will not run from now on, whatever its outcome is."""
        if about.client == self._client:
            self._floor.release(about.number)
        lane = self._blocked.pop(about, None)
        if lane is not None:
            lane.on_settled(about)
