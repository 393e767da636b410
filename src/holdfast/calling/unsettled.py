"""Requests that ended without a known outcome: what must wait until somebody has asked for it (X3, X5)."""

from holdfast.calling.floor import Floor
from holdfast.calling.lane import Lane
from holdfast.calling.pending import Pending
from holdfast.model.calls import RequestId
from holdfast.model.ids import ClientId


class Unsettled:
    """Of one client at one group: members keep their replies, and their lanes stand still."""

    def __init__(self, client: ClientId, floor: Floor) -> None:
        self._client = client
        self._floor = floor
        self._blocked: dict[RequestId, Lane] = {}

    def add(self, request: Pending, named: RequestId, time_s: int) -> list[Pending]:
        """It ended and may yet run; *time_s* is the group's time. Answers those of its lane that wait."""
        self._floor.hold(request.number, request.call.expiration_s)
        if request.lane is None:
            return []
        self._blocked = {each: held for each, held in self._blocked.items() if each.expiration_s > time_s}
        self._blocked[named] = request.lane
        return request.lane.block(named)

    def settle(self, about: RequestId) -> None:
        """Whatever its outcome is, that request will not run from now on."""
        if about.client == self._client:
            self._floor.release(about.number)
        lane = self._blocked.pop(about, None)
        if lane is not None:
            lane.on_settled(about)
