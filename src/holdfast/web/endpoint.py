"""Endpoints: each is described once, for the router, for `/openapi.json` and for `/docs`.

The module also builds responses: JSON, with headers that forbid caching and content guessing.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

import msgspec
from starlette.responses import Response

from holdfast.web.access import HttpCaller
from holdfast.web.context import WebContext
from holdfast.web.problems import Refusal
from holdfast.web.settings import Grade

Method = Literal["GET", "POST", "DELETE"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the query or in a header; those of the path are in the path."""

    name: str
    where: Literal["query", "header"]
    schema: Mapping[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was admitted, read and decoded."""

    caller: HttpCaller
    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, sent as JSON."""

    value: object
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class Handler(Protocol):
    def __call__(self, site: WebContext, asked: Asked, /) -> Awaitable[Reply | Response]: ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: Method
    path: str
    name: str
    summary: str
    text: str
    handler: Handler
    answers: Any
    """The type of a successful answer; None if it is not JSON."""
    grade: Grade | None
    """The grade that a caller needs; None admits everybody. Handlers check rights to a group further."""
    body: Any = None
    """The type that the body is decoded into from JSON, if there is a body."""
    body_default: bytes | None = None
    """What an empty body stands for; None refuses it."""
    status: int = 200
    media: str = "application/json"
    parameters: tuple[Parameter, ...] = ()
    path_schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    is_audited: bool = False
    """Whether it is an admin's action, which is logged whether it was done or refused."""
    subject: Callable[[Any], str] | None = None
    """The action's subject, taken from the body if the path does not name it."""
    is_led: bool = False
    """Whether only the coordinator can answer (see `coordinator`)."""
    tells_term: bool = False
    """Whether its answer carries the term and the CAS of the domain's state; with `is_led` it always does."""
    is_stream: bool = False
    """Whether it goes on for as long as somebody listens."""


ALWAYS: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_encode: Final = msgspec.json.Encoder().encode


def json_response(reply: Reply) -> Response:
    headers = {**ALWAYS, **reply.headers}
    return Response(_encode(reply.value), reply.status, headers, media_type="application/json")


def problem_response(refusal: Refusal) -> Response:
    return json_response(Reply(refusal.body, refusal.status, refusal.headers))


def problem_bytes(refusal: Refusal) -> bytes:
    """A complete HTTP answer for when no application has received a request; the connection ends with it."""
    body = _encode(refusal.body)
    head = (
        f"HTTP/1.1 {refusal.status} \r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
