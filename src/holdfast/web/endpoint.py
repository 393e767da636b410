"""Endpoints: each said once, for the router, for `/openapi.json` and for `/docs`.

Answers as bytes: JSON, and nothing that caches or guesses.
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
    """One that is in the query or in a header; those of the path are in the path."""

    name: str
    where: Literal["query", "header"]
    schema: Mapping[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was let in, read and decoded."""

    caller: HttpCaller
    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered, as JSON."""

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
    """The type of a good answer; None when it is not JSON."""
    grade: Grade | None
    """What one must be for it; None lets everybody in. Handlers look closer where it depends on a group."""
    body: Any = None
    """The type of the body, where there is one; it decodes from JSON."""
    body_default: bytes | None = None
    """What an empty body stands for; None refuses it."""
    status: int = 200
    media: str = "application/json"
    parameters: tuple[Parameter, ...] = ()
    path_schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    is_audited: bool = False
    """An action of an admin: it is written down, whether it was done or refused."""
    subject: Callable[[Any], str] | None = None
    """What the action is about, by its body, where the path does not say it."""
    is_led: bool = False
    """Only the coordinator can answer (see `leading`)."""
    tells_term: bool = False
    """Its answer carries the term and the CAS of the domain's state; so do all that are led."""
    is_stream: bool = False
    """It goes on for as long as somebody listens."""


ALWAYS: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_encode: Final = msgspec.json.Encoder().encode


def json_response(reply: Reply) -> Response:
    headers = {**ALWAYS, **reply.headers}
    return Response(_encode(reply.value), reply.status, headers, media_type="application/json")


def problem_response(refusal: Refusal) -> Response:
    return json_response(Reply(refusal.body, refusal.status, refusal.headers))


def problem_bytes(refusal: Refusal) -> bytes:
    """A whole HTTP answer, for where no application has got a request; the connection ends with it."""
    body = _encode(refusal.body)
    head = (
        f"HTTP/1.1 {refusal.status} \r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
