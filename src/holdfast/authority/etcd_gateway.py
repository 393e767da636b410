"""Talking to several endpoints of one etcd: rotation, deadlines, and what may be sent twice.

A request that cannot change anything is tried elsewhere, after an error or a time-out, until its deadline. A
change is tried elsewhere only while it certainly has not been taken: the connection could not be made, or the
endpoint answered that it has no leader (every call demands one, and is refused before it is proposed), or
that it has no gateway.
Otherwise its outcome is not known and it is never re-sent (A1).
"""

import asyncio
import ssl
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final, TypeVar

import httpx
import msgspec

from holdfast.authority.etcd_wire import GatewayError
from holdfast.model.errors import InvalidRequest

if find_spec("sniffio") is None:
    # httpcore looks for it at every request, in vain: a sixth of what a request costs.
    sys.modules["sniffio"] = None  # type: ignore[assignment]  # that is how an import is told to fail at once

Response = TypeVar("Response")

VERSION_MIN: Final = (3, 4)
CONNECTIONS_MAX: Final = 128
"""Calls in flight and open watches together."""
CALLS_MAX: Final = 16
"""Calls in flight. httpx looks through all of them and all connections at every step of each: with hundreds,
as when a host of a thousand groups dies, it does nothing else, and none is answered in time."""
ROUND_PAUSE_S: Final = 0.05
"""Between two rounds in which no endpoint would take the request."""

REQUIRE_LEADER: Final = {"Grpc-Metadata-hasleader": "true"}
"""The gateway hands this to etcd: a member without a leader refuses at once and ends its watches (A3)."""

NO_LEADER: Final = "etcdserver: no leader"
TOO_MANY: Final = "etcdserver: too many requests"
_NEVER_PROPOSED: Final = (NO_LEADER, TOO_MANY)
# gRPC's codes for "later, or elsewhere": cancelled, unknown, deadline exceeded, internal, unavailable.
_TROUBLE_CODES: Final = (1, 2, 4, 13, 14)


TRANSPORT_ERRORS: Final = (httpx.HTTPError, OSError, AttributeError)
"""How a connection fails. httpx lets TLS alerts through as they are; time-outs are OSErrors too. Of one that
was reset at the wrong moment uvloop has no socket any more, and anyio asks that for its peer's name."""


class Deadlines(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait for etcd."""

    call_s: float = 3.0
    """For a whole call, all endpoints together. Keep it below a third of the shortest lease."""
    attempt_s: float = 1.0
    """For one endpoint to answer a read before another is asked."""
    connect_s: float = 0.5
    """For one endpoint to take a connection."""
    silence_s: float = 10.0
    """A watch that says nothing for so long is opened again elsewhere: a silent peer does not end it."""


class NoReply(Exception):
    """Nobody answered in time; a change may have been applied."""


class Declined(Exception):
    """etcd answered with an error that no other endpoint would answer differently."""

    def __init__(self, error: GatewayError) -> None:
        super().__init__(error.message)
        self.message = error.message


class EtcdGateway:
    """POSTs to whichever endpoint answers."""

    def __init__(self, endpoints: Sequence[str], *, tls: ssl.SSLContext | None, deadlines: Deadlines) -> None:
        if not endpoints:
            raise InvalidRequest("etcd needs at least one endpoint")
        self._endpoints = [endpoint.rstrip("/") for endpoint in endpoints]
        self._current = 0
        self._room = asyncio.Semaphore(CALLS_MAX)
        self.deadlines = deadlines
        self.client = httpx.AsyncClient(
            headers=REQUIRE_LEADER,
            # Without TLS nothing is verified; loading the system's certificates would only cost time.
            verify=tls if tls is not None else any(each.startswith("https") for each in endpoints),
            timeout=httpx.Timeout(None, connect=deadlines.connect_s),
            limits=httpx.Limits(max_connections=CONNECTIONS_MAX),
            trust_env=False,
        )

    @property
    def endpoint(self) -> str:
        """Where the next request goes first."""
        return self._endpoints[self._current]

    def leave(self, endpoint: str) -> None:
        """*endpoint* failed: ask the next one, unless somebody has moved on already."""
        if endpoint == self.endpoint:
            self._current = self._endpoints.index(self.after(endpoint))

    def after(self, endpoint: str) -> str:
        """The one to try when *endpoint* does not serve."""
        return self._endpoints[(self._endpoints.index(endpoint) + 1) % len(self._endpoints)]

    async def post(
        self,
        path: str,
        body: msgspec.Struct,
        kind: type[Response],
        *,
        is_repeatable: bool,
        is_urgent: bool = False,
    ) -> Response:
        """The decoded answer. Raises NoReply or Declined, and InvalidRequest when no endpoint has a gateway.

        What is urgent does not wait for room: a session would end while its host is merely busy.
        """
        if is_urgent:
            return await self._post(path, body, kind, is_repeatable=is_repeatable)
        async with self._room:
            return await self._post(path, body, kind, is_repeatable=is_repeatable)

    async def _post(
        self, path: str, body: msgspec.Struct, kind: type[Response], *, is_repeatable: bool
    ) -> Response:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.deadlines.call_s
        content = msgspec.json.encode(body)
        reason, tries = "", 0
        deaf: dict[str, None] = {}
        while (left := deadline - loop.time()) > 0:
            endpoint = self.endpoint
            try:
                async with asyncio.timeout(min(left, self.deadlines.attempt_s) if is_repeatable else left):
                    response = await self.client.post(endpoint + path, content=content)
                if response.status_code == httpx.codes.OK:
                    return msgspec.json.decode(response.content, type=kind, strict=False)
                reason, was_proposed = self._trouble(endpoint, response, deaf)
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
                reason, was_proposed = _said(endpoint, error), False
            except (*TRANSPORT_ERRORS, msgspec.DecodeError) as error:
                reason, was_proposed = _said(endpoint, error), True
            self.leave(endpoint)
            if was_proposed and not is_repeatable:
                raise NoReply(reason)
            tries += 1
            if tries % len(self._endpoints) == 0:
                await asyncio.sleep(ROUND_PAUSE_S)
        raise NoReply(f"{reason} (waited {self.deadlines.call_s:g} s)")

    async def check(self) -> None:
        """Raise ``InvalidRequest`` when an endpoint is too old or has its gateway switched off."""
        for endpoint in self._endpoints:
            try:
                async with asyncio.timeout(self.deadlines.attempt_s):
                    found = await self.client.get(endpoint + "/version")
                    # First: one that is too old may answer nothing else.
                    _check_version(endpoint, found)
                    probe = await self.client.post(endpoint + "/v3/kv/range", content=b'{"key":"AA=="}')
            except TRANSPORT_ERRORS:
                continue  # Down or slow is not wrong: the others serve meanwhile.
            if probe.status_code == httpx.codes.NOT_FOUND:
                raise _no_gateway(endpoint)

    async def close(self) -> None:
        await self.client.aclose()

    def _trouble(self, endpoint: str, response: httpx.Response, deaf: dict[str, None]) -> tuple[str, bool]:
        """What is wrong at this endpoint, and whether the request may have been proposed all the same. *deaf*
        gathers those without a gateway: one is passed over, all of them serve nobody."""
        try:
            error = msgspec.json.decode(response.content, type=GatewayError)
        except msgspec.DecodeError:
            if response.status_code == httpx.codes.NOT_FOUND:
                deaf[endpoint] = None
                if len(deaf) == len(self._endpoints):
                    raise _no_gateway(endpoint) from None
                return str(_no_gateway(endpoint)), False
            return f"{endpoint}: HTTP {response.status_code}", True
        if error.message in _NEVER_PROPOSED:
            return f"{endpoint}: {error.message}", False
        if error.code in _TROUBLE_CODES:
            return f"{endpoint}: {error.message}", True
        raise Declined(error)


def _check_version(endpoint: str, found: httpx.Response) -> None:
    version = msgspec.json.decode(found.content, type=dict[str, str]).get("etcdserver", "0")
    if tuple(int(part) for part in version.split(".")[:2]) < VERSION_MIN:
        raise InvalidRequest(f"{endpoint} runs etcd {version}; Holdfast needs 3.4 or newer")


def _said(endpoint: str, error: Exception) -> str:
    return f"{endpoint}: {type(error).__name__} {error}".rstrip()


def _no_gateway(endpoint: str) -> InvalidRequest:
    return InvalidRequest(f"{endpoint} has no v3 JSON gateway: start etcd with --enable-grpc-gateway=true")
