"""The ASGI application: admits requests, reads them within limits, calls handlers and builds the answers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, Final
from urllib.parse import quote, unquote

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.admin import audit
from holdfast.model.errors import HoldfastError
from holdfast.web.access import Arrival, HttpCaller, require
from holdfast.web.context import WebContext
from holdfast.web.coordinator import require_leader
from holdfast.web.endpoint import Asked, Endpoint, Method, Reply, json_response, problem_response
from holdfast.web.problems import Refusal, busy, refusal_of, refuse
from holdfast.web.request import read_body
from holdfast.web.settings import REQUESTS_MAX, TARGET_CHARACTERS_MAX

CERTIFICATE: Final = "holdfast.certificate"
"""The key in a request's scope under which the connection's certified name is."""
ANYBODY: Final = HttpCaller("anybody", "client", {})

log = structlog.get_logger("holdfast.http")


def make_app(site: WebContext, endpoints: Sequence[Endpoint]) -> ASGIApp:
    """The ASGI application of *endpoints* on *site*."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for each in endpoints:
        by_path.setdefault(each.path, {})[each.method] = each
    routes = [Route(path, _Resource(site, methods)) for path, methods in by_path.items()]
    router = Router(routes, redirect_slashes=False, default=_nothing_there)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":  # no web sockets, no lifespan events
            # A name may contain a slash: routes match the path as it was sent, and names are decoded
            # afterwards.
            path = scope["raw_path"].decode("ascii", "replace")
            await router({**scope, "path": path}, receive, send)

    return app


async def _nothing_there(scope: Scope, receive: Receive, send: Send) -> None:
    refusal = refuse(404, "no_such_path", "there is nothing at this path", "GET /docs lists what there is.")
    await problem_response(refusal)(scope, receive, send)


class _Resource:
    """The endpoints of one path, by their methods."""

    def __init__(self, site: WebContext, methods: Mapping[str, Endpoint]) -> None:
        self._site = site
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        endpoint = self._methods.get("GET" if request.method == "HEAD" else request.method)
        try:
            response = await self._answered(request, endpoint)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def _answered(self, request: Request, endpoint: Endpoint | None) -> Response:
        began = monotonic()
        self._site.requests += 1
        try:
            response = await self._handled(request, endpoint)
        finally:
            self._site.requests -= 1
        name = endpoint.name if endpoint is not None else "none"
        self._site.metrics.on_answered(name, response.status_code, monotonic() - began)
        return response

    async def _handled(self, request: Request, endpoint: Endpoint | None) -> Response:
        try:
            if self._site.requests > REQUESTS_MAX:
                raise busy(f"this host answers {REQUESTS_MAX} requests already", "overloaded")
            if endpoint is None:
                allowed: list[Method] = [each.method for each in self._methods.values()]
                advice = f"Here one can {', '.join(allowed)}."
                raise refuse(405, "no_such_method", "not at this path", advice, allow=", ".join(allowed))
            return await self._admit(request, endpoint)
        except Refusal as refusal:
            return problem_response(refusal)
        except HoldfastError as error:
            return problem_response(refusal_of(error))
        except ClientDisconnect:
            raise
        except Exception:
            log.exception("a request failed", path=request.url.path, method=request.method)
            text, advice = "this host failed to answer; its log says why", "Report it, with the time."
            return problem_response(refuse(500, "internal", text, advice))

    async def _admit(self, request: Request, endpoint: Endpoint) -> Response:
        caller = ANYBODY if endpoint.grade is None else self._admitted(request)
        about: dict[str, str] = dict(request.path_params)
        try:
            response = await self._done(request, endpoint, caller, about)
        except (Refusal, HoldfastError) as error:
            _write_down(request, endpoint, caller, about, _code_of(error))
            raise
        _write_down(request, endpoint, caller, about, "done")
        return response

    async def _done(
        self, request: Request, endpoint: Endpoint, caller: HttpCaller, about: dict[str, str]
    ) -> Response:
        """Execute the request. *about* receives its subject as soon as that is known."""
        if endpoint.grade is not None:
            require(caller, endpoint.grade)
        if endpoint.is_led:
            require_leader(self._site.leadership, _target(request))
        body = await self._read(request, endpoint) if endpoint.body is not None else None
        if endpoint.subject is not None:
            about["name"] = quote(endpoint.subject(body))
        asked = Asked(caller, _path(request), dict(request.query_params), dict(request.headers), body)
        reply = await endpoint.handler(self._site, asked)
        if not isinstance(reply, Reply):
            return reply
        if endpoint.is_led or endpoint.tells_term:
            reply = replace(reply, headers={**reply.headers, **self._site.leadership.headers()})
        return json_response(reply)

    async def _read(self, request: Request, endpoint: Endpoint) -> Any:
        """Read the body. Meanwhile the request does not count as one that is being answered: slow clients
        must not keep the others from being answered."""
        self._site.requests -= 1
        try:
            return await read_body(request, endpoint, self._site)
        finally:
            self._site.requests += 1

    def _admitted(self, request: Request) -> HttpCaller:
        peer = request.client.host if request.client is not None else ""
        certificate, here = request.scope.get(CERTIFICATE), request.scope.get("server")
        ends = None
        if request.client is not None and here is not None:
            ends = (request.client.host, request.client.port), (here[0], here[1])
        arrival = Arrival(peer, dict(request.headers), certificate, ends)
        return self._site.policy.admit(arrival)


def _write_down(
    request: Request, endpoint: Endpoint, caller: HttpCaller, about: Mapping[str, str], how: str
) -> None:
    """Log each admin action, done or refused; names appear percent-encoded, as in a path."""
    if endpoint.is_audited:
        peer = request.client.host if request.client is not None else ""
        audit.write_down(endpoint.name, door="http", by=caller.name, peer=peer, how=how, **about)


def _code_of(error: Refusal | HoldfastError) -> str:
    return error.problem.code if isinstance(error, Refusal) else error.code


def _target(request: Request) -> str:
    query = request.scope["query_string"].decode("ascii", "replace")
    return request.url.path + (f"?{query}" if query else "")


def _path(request: Request) -> dict[str, str]:
    """The names in the path. Raises :class:`Refusal` for bytes that are not text."""
    if len(_target(request)) > TARGET_CHARACTERS_MAX:
        advice = f"It has at most {TARGET_CHARACTERS_MAX} characters."
        raise refuse(414, "target_too_long", "the request's path and query are too long", advice)
    params: Mapping[str, Any] = request.path_params
    try:
        return {name: unquote(value, errors="strict") for name, value in params.items()}
    except UnicodeDecodeError:
        advice = "Encode names as UTF-8, then percent-encode them."
        raise refuse(400, "bad_path", "a name in the path is no text", advice) from None
