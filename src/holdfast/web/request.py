"""Reads a request's body within limits of size and time, and the request headers that endpoints share.

The body is decoded into the type that its endpoint takes.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec
from starlette.requests import Request

from holdfast.model.errors import InvalidRequest
from holdfast.model.traceparent import Traceparent
from holdfast.web.calls import KEEP_S
from holdfast.web.endpoint import Endpoint, Parameter
from holdfast.web.problems import Refusal, busy, refuse
from holdfast.web.settings import BODIES_BYTES_MAX, BODY_BYTES_MAX, BODY_S, KEY_CHARACTERS_MAX


class BodyBudget(Protocol):
    """Counts the bytes of all bodies that are being read."""

    body_bytes: int


async def read_body(request: Request, endpoint: Endpoint, budget: BodyBudget) -> Any:
    """The body, decoded. Raises :class:`.problems.Refusal`."""
    try:
        async with asyncio.timeout(BODY_S):
            body = await _bytes(request, budget)
    except TimeoutError:
        text = f"the body did not come within {BODY_S:g} s"
        raise refuse(408, "body_late", text, "Send it faster.", connection="close") from None
    if not body and endpoint.body_default is not None:
        body = endpoint.body_default
    elif request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        # Also required because a page of another site cannot send this type without the browser asking first.
        text = "the body's Content-Type is not application/json"
        raise refuse(415, "not_json", text, "Send JSON, and say so.")
    try:
        return msgspec.json.decode(body, type=endpoint.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = f"the body is not what this takes: {error}"
        raise refuse(400, "bad_body", text, "GET /openapi.json says what it takes.") from None


async def _bytes(request: Request, budget: BodyBudget) -> bytes:
    said = request.headers.get("content-length", "")
    if said.isascii() and said.isdigit() and int(said) > BODY_BYTES_MAX:
        raise _too_long()
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            budget.body_bytes += len(chunk)
            if len(body) > BODY_BYTES_MAX:
                raise _too_long()
            if budget.body_bytes > BODIES_BYTES_MAX:
                raise busy(f"{BODIES_BYTES_MAX} bytes of bodies are being read already", "overloaded")
        return bytes(body)
    finally:
        budget.body_bytes -= len(body)


def _too_long() -> Refusal:
    advice = "The native protocol takes longer arguments."
    text = f"a body has at most {BODY_BYTES_MAX} bytes"
    return refuse(413, "body_too_long", text, advice, connection="close")


_KEY: Final = re.compile(rf"[!-~]{{1,{KEY_CHARACTERS_MAX}}}")

KEY: Final = Parameter(
    "Idempotency-Key",
    "header",
    {"type": "string", "minLength": 1, "maxLength": KEY_CHARACTERS_MAX, "pattern": "^[!-~]+$"},
    f"The caller's own name of this request: repeated within {KEEP_S // 60} minutes, it is the same request.",
)


TRACEPARENT: Final = Parameter(
    "traceparent",
    "header",
    {"type": "string"},
    "The trace that the call belongs to, as W3C has it: its id stands in each line that the call leaves in a "
    "log. One that is no traceparent is passed over.",
)


def trace_of(headers: Mapping[str, str]) -> Traceparent | None:
    """The request's trace, if it has one."""
    return Traceparent.parse(headers.get("traceparent", ""))


def key_of(headers: Mapping[str, str]) -> str | None:
    """The request's key, if it has one. Raises ``InvalidRequest``."""
    key = headers.get("idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        raise InvalidRequest(f"an Idempotency-Key has 1 to {KEY_CHARACTERS_MAX} visible ASCII characters")
    return key
