"""Sends requests to the endpoints of one etcd cluster, with rotation and deadlines.

A request that changes nothing is tried at other endpoints, after an error or a time-out, until its deadline.
A change is tried elsewhere only while it certainly was not accepted: the connection could not be made, the
endpoint answered that it has no leader (every call demands one and is refused before it is proposed), or the
endpoint has no gateway. Otherwise the change's outcome is unknown and it is never sent again (A1).

Requests go to the endpoint that serves a linearizable read soonest: every message between machines that a
claim has to wait for is a part of the failover that callers notice. A read travels as far as a change does,
but for the disks. So this is usually the member on the same machine, and without it the leader, wherever that
is, before a follower that is as near.
"""

import asyncio
import math
import ssl
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Final, TypeVar

import httpx
import msgspec

from holdfast.authority.etcd.wire import AuthRequest, AuthResponse, GatewayError, RangeRequest
from holdfast.model.errors import InvalidRequest

if find_spec("sniffio") is None:
    # httpcore tries to import sniffio at every request; the failing import costs a sixth of each request.
    sys.modules["sniffio"] = None  # type: ignore[assignment]  # that is how an import is told to fail at once

Response = TypeVar("Response")

VERSION_MIN: Final = (3, 4)
CONNECTIONS_MAX: Final = 128
"""The most calls in flight and open watches together."""
CALLS_MAX: Final = 16
"""The most calls in flight. httpx scans all calls and all connections at every step of each. With hundreds of
them, as when a host of a thousand groups dies, it does nothing else and answers none in time."""
ROUND_PAUSE_S: Final = 0.05
"""The pause between two rounds in which no endpoint took the request."""

NEAREST_EVERY_S: Final = 5.0
"""How often the endpoints are timed, by reads that no disk is asked for."""
RETURN_EVERY_S: Final = 0.5
"""How often this is done after an endpoint failed, until all serve: a claim may take a round trip more
meanwhile."""
RETURN_FOR_S: Final = 60.0
"""How long it is done so often: an endpoint may be gone for good."""
NEARER_S: Final = 0.002
"""How much sooner another endpoint must answer before it is preferred: less is chance."""
IDLE_S: Final = 60.0
"""How long an unused connection is kept: opening one again takes three round trips with TLS."""

REQUIRE_LEADER: Final = {"Grpc-Metadata-hasleader": "true"}
"""The gateway passes this on to etcd: a member without a leader refuses at once and ends its watches (A3)."""

NO_LEADER: Final = "etcdserver: no leader"
TOO_MANY: Final = "etcdserver: too many requests"
_NEVER_PROPOSED: Final = (NO_LEADER, TOO_MANY)
_TOKEN_REFUSED: Final = (
    "etcdserver: invalid auth token",
    "etcdserver: user name is empty",
    "etcdserver: revision of auth store is old",
)
"""etcd carried nothing out, because it does not know our token (any more)."""
COMMON_NAME: Final = b"CommonName of client sending a request against gateway will be ignored"
AUTH_NOT_ENABLED: Final = "etcdserver: authentication is not enabled"
# gRPC codes that mean "try later or elsewhere": cancelled, unknown, deadline exceeded, internal, unavailable.
_TROUBLE_CODES: Final = (1, 2, 4, 13, 14)


TRANSPORT_ERRORS: Final = (httpx.HTTPError, OSError, AttributeError)
"""The errors of a failing connection. httpx passes TLS alerts through unchanged, and time-outs are OSErrors
too. When a connection is reset at the wrong moment, uvloop has no socket left for anyio to ask for the peer's
name, which raises AttributeError."""


class Deadlines(msgspec.Struct, frozen=True, kw_only=True):
    """The waiting times for etcd."""

    call_s: float = 3.0
    """For a whole call, over all endpoints. Keep it below a third of the shortest lease."""
    attempt_s: float = 1.0
    """For one endpoint to answer a read before another endpoint is asked."""
    connect_s: float = 0.5
    """For one endpoint to accept a connection."""
    silence_s: float = 10.0
    """A watch silent for this long is reopened at another endpoint: a vanished peer does not end it."""


@dataclass(frozen=True, slots=True)
class EtcdUser:
    """Who we are for an etcd with authentication."""

    name: str
    password: str = field(repr=False)


class NoReply(Exception):
    """Raised when no endpoint answered in time; a change may have been applied."""


class Declined(Exception):
    """Raised when etcd answers with an error that every other endpoint would give as well."""

    def __init__(self, error: GatewayError) -> None:
        super().__init__(error.message)
        self.message = error.message


class EtcdGateway:
    """Sends POST requests to whichever endpoint answers."""

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        tls: ssl.SSLContext | None,
        deadlines: Deadlines,
        user: EtcdUser | None = None,
    ) -> None:
        if not endpoints:
            raise InvalidRequest("etcd needs at least one endpoint")
        self._endpoints = [endpoint.rstrip("/") for endpoint in endpoints]
        self._current = 0
        self._timing: asyncio.Task[None] | None = None
        self._left = asyncio.Event()
        self._user = user
        self._room = asyncio.Semaphore(CALLS_MAX)
        self.deadlines = deadlines
        self.client = httpx.AsyncClient(
            headers=REQUIRE_LEADER,
            # Without TLS nothing is verified, and loading the system's certificates would only take time.
            verify=tls if tls is not None else any(each.startswith("https") for each in endpoints),
            timeout=httpx.Timeout(None, connect=deadlines.connect_s),
            limits=httpx.Limits(max_connections=CONNECTIONS_MAX, keepalive_expiry=IDLE_S),
            trust_env=False,
        )

    @property
    def endpoint(self) -> str:
        """The endpoint that the next request tries first."""
        return self._endpoints[self._current]

    def leave(self, endpoint: str) -> None:
        """Move on from *endpoint*, which failed, to the next one, unless another call has done so already."""
        if endpoint == self.endpoint:
            self._current = self._endpoints.index(self.after(endpoint))
            self._left.set()

    def after(self, endpoint: str) -> str:
        """The endpoint to try when *endpoint* does not serve."""
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
        """Return the decoded answer; raises NoReply, Declined, or InvalidRequest without any gateway.

        Urgent requests do not wait for a free slot: a session must not end because its host is busy.
        """
        if self._timing is None and len(self._endpoints) > 1:
            self._timing = asyncio.create_task(self._stay_near())
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
        without_gateway: dict[str, None] = {}
        while (left := deadline - loop.time()) > 0:
            endpoint = self.endpoint
            try:
                await self.authenticate(endpoint, min(left, self.deadlines.attempt_s))
            except (*TRANSPORT_ERRORS, msgspec.DecodeError) as error:
                self.leave(endpoint)
                reason = _said(endpoint, error)
                await asyncio.sleep(ROUND_PAUSE_S)
                continue
            try:
                async with asyncio.timeout(min(left, self.deadlines.attempt_s) if is_repeatable else left):
                    response = await self.client.post(endpoint + path, content=content)
                if response.status_code == httpx.codes.OK:
                    return msgspec.json.decode(response.content, type=kind, strict=False)
                reason, was_proposed = self._trouble(endpoint, response, without_gateway)
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

    async def authenticate(self, endpoint: str, within_s: float) -> None:
        """Get a token for our user, unless we have one. etcd forgets tokens when it restarts, or in time.

        Raises ``InvalidRequest`` when etcd does not accept the user or the password.
        """
        if self._user is None or "Authorization" in self.client.headers:
            return
        asked = msgspec.json.encode(AuthRequest(self._user.name, self._user.password))
        async with asyncio.timeout(within_s):
            response = await self.client.post(endpoint + "/v3/auth/authenticate", content=asked)
        if response.status_code == httpx.codes.OK:
            answer = msgspec.json.decode(response.content, type=AuthResponse, strict=False)
            self.client.headers["Authorization"] = answer.token
            return
        if COMMON_NAME in response.content:
            raise InvalidRequest(
                f"{endpoint}: an etcd with users takes no client certificate with a common name (CN) through "
                "its gateway: give one without, or only the user"
            )
        said = msgspec.json.decode(response.content, type=GatewayError)
        if said.message == AUTH_NOT_ENABLED:
            self.client.headers["Authorization"] = ""
            return
        if said.code not in _TROUBLE_CODES:
            raise InvalidRequest(f"{endpoint} does not let the user {self._user.name!r} in: {said.message}")
        raise httpx.HTTPError(said.message)

    async def check(self, key: bytes = b"\0") -> None:
        """Raise ``InvalidRequest`` when an endpoint is too old, has its gateway switched off, or does not let
        us read *key*."""
        probed = msgspec.json.encode(RangeRequest(key))
        for endpoint in self._endpoints:
            try:
                async with asyncio.timeout(self.deadlines.attempt_s):
                    found = await self.client.get(endpoint + "/version")
                    # The version comes first: an etcd that is too old may answer nothing else.
                    _check_version(endpoint, found)
                    await self.authenticate(endpoint, self.deadlines.attempt_s)
                    probe = await self.client.post(endpoint + "/v3/kv/range", content=probed)
            except TRANSPORT_ERRORS:
                continue  # An endpoint that is down or slow is not an error: the others serve meanwhile.
            if probe.status_code == httpx.codes.NOT_FOUND:
                raise _no_gateway(endpoint)
            _check_permission(endpoint, probe)

    async def close(self) -> None:
        if self._timing is not None:
            self._timing.cancel()
            await asyncio.gather(self._timing, return_exceptions=True)
        await self.client.aclose()

    async def _stay_near(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._left.clear()
            eager_until = loop.time() + RETURN_FOR_S
            while not await self._prefer_nearest() and loop.time() < eager_until:
                await asyncio.sleep(RETURN_EVERY_S)
            while not await self._is_left_within(NEAREST_EVERY_S):
                await self._prefer_nearest()
            await asyncio.sleep(RETURN_EVERY_S)

    async def _is_left_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self._left.wait()
        return False

    async def _prefer_nearest(self) -> bool:
        """Move to the endpoint that serves soonest; return whether all of them serve."""
        times = await asyncio.gather(*(self._time(endpoint) for endpoint in self._endpoints))
        soonest = min(times)
        if soonest + NEARER_S < times[self._current]:
            self._current = times.index(soonest)
        return max(times) < math.inf

    async def _time(self, endpoint: str) -> float:
        """How long *endpoint* takes, on an open connection, to answer what it knows itself and then a
        linearizable read; infinity if it does not serve. The way to it counts twice, so that of two through
        which a change takes as long the one on the same machine is preferred."""
        loop = asyncio.get_running_loop()
        probe = msgspec.json.encode(RangeRequest(b"\0", count_only=True))
        took = math.inf
        try:
            async with asyncio.timeout(self.deadlines.attempt_s):
                for _ in range(2):  # the first may have to open the connection, or wait for another read
                    began = loop.time()
                    await self.client.get(endpoint + "/version")
                    answer = await self.client.post(endpoint + "/v3/kv/range", content=probe)
                    # Permission is looked at after the read: a refusal has seen the other members too.
                    if answer.status_code == httpx.codes.NOT_FOUND or answer.is_server_error:
                        return math.inf
                    took = min(took, loop.time() - began)
        except TRANSPORT_ERRORS:
            return math.inf
        return took

    def _trouble(
        self, endpoint: str, response: httpx.Response, without_gateway: dict[str, None]
    ) -> tuple[str, bool]:
        """Say what is wrong at this endpoint, and whether the request may still have been proposed.

        *without_gateway* collects the endpoints that lack one: such an endpoint is skipped, but when all lack
        it, raise InvalidRequest.
        """
        try:
            error = msgspec.json.decode(response.content, type=GatewayError)
        except msgspec.DecodeError:
            if response.status_code == httpx.codes.NOT_FOUND:
                without_gateway[endpoint] = None
                if len(without_gateway) == len(self._endpoints):
                    raise _no_gateway(endpoint) from None
                return str(_no_gateway(endpoint)), False
            return f"{endpoint}: HTTP {response.status_code}", True
        if error.message in _TOKEN_REFUSED and self._user is not None:
            self.client.headers.pop("Authorization", None)
            return f"{endpoint}: {error.message}", False
        if error.message in _NEVER_PROPOSED:
            return f"{endpoint}: {error.message}", False
        if error.code in _TROUBLE_CODES:
            return f"{endpoint}: {error.message}", True
        raise Declined(error)


def _check_version(endpoint: str, found: httpx.Response) -> None:
    version = msgspec.json.decode(found.content, type=dict[str, str]).get("etcdserver", "0")
    if tuple(int(part) for part in version.split(".")[:2]) < VERSION_MIN:
        raise InvalidRequest(f"{endpoint} runs etcd {version}; Holdfast needs 3.4 or newer")


def _check_permission(endpoint: str, probe: httpx.Response) -> None:
    if probe.status_code in (httpx.codes.OK, httpx.codes.SERVICE_UNAVAILABLE):
        return
    try:
        error = msgspec.json.decode(probe.content, type=GatewayError)
    except msgspec.DecodeError:
        return
    if error.code not in _TROUBLE_CODES and error.message not in _NEVER_PROPOSED:
        raise InvalidRequest(f"{endpoint} does not let us read our keys: {error.message}")


def _said(endpoint: str, error: Exception) -> str:
    return f"{endpoint}: {type(error).__name__} {error}".rstrip()


def _no_gateway(endpoint: str) -> InvalidRequest:
    return InvalidRequest(f"{endpoint} has no v3 JSON gateway: start etcd with --enable-grpc-gateway=true")
