"""What is told of a request that is not simply answered: to people, in lines, and to whoever follows it."""

from collections.abc import Sequence

from holdfast.calling.addresses import Addresses
from holdfast.calling.pending import Pending
from holdfast.calling.ports import Ended, InvocationPorts
from holdfast.model.ids import ClientId, HostId
from holdfast.model.traceparent import Traceparent
from holdfast.model.units import MILLISECOND


class Telling:
    """Of one client's requests to the group that *addresses* are of."""

    def __init__(self, addresses: Addresses, client: ClientId, ports: InvocationPorts) -> None:
        self._addresses = addresses
        self._client = client
        self._clock = ports.clock
        self._lines = ports.lines

    def trace_of(self, request: Pending) -> Traceparent:
        call, name = request.call, self._addresses.reference.name
        return Traceparent.of(call.traceparent, name, self._client, call.number)

    def failed(self, event: str, host: HostId, requests: Sequence[Pending], why: str) -> None:
        """The copies of these at *host* came to nothing."""
        for each in requests:
            each.tries += 1
            each.is_plain = False
            if each.story is not None:
                each.story.attempt(host, self._address_of(host), why)
        if requests and self._lines is not None:
            calls, name = [each.call for each in requests], self._addresses.reference.name
            self._lines.tell(event, name, self._client, calls, host=host, why=why)

    def ended(self, request: Pending, how: Ended) -> None:
        """It has ended, if not at the first try then at a later one, or not at all."""
        host = request.flight.host if request.flight is not None else None
        is_answered = isinstance(how, bytes)
        if request.story is not None and host is not None:
            request.story.attempt(host, self._address_of(host), "answered" if is_answered else "no answer")
        if self._lines is not None and (request.tries or not is_answered):
            self._lines.tell(
                "a call was answered" if is_answered else "a call has no answer",
                self._addresses.reference.name,
                self._client,
                [request.call],
                host=host,
                tries=request.tries + (host is not None),
                took_ms=(self._clock.now() - request.began_ns) // MILLISECOND,
                **({} if isinstance(how, bytes) else {"why": how.code}),
            )

    def _address_of(self, host: HostId) -> str:
        """Where it listens, if the reference says so."""
        members = self._addresses.reference.members
        return next((each.address for each in members if each.host == host), "")
