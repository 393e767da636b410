"""Reading a request's body: within bounds of size and time, and into the type that its endpoint takes."""

import asyncio
from typing import Any

import msgspec
from starlette.requests import Request

from holdfast.web.bounds import BODY_BYTES_MAX, BODY_S
from holdfast.web.endpoint import Endpoint
from holdfast.web.problems import Refusal, refuse


async def read_body(request: Request, endpoint: Endpoint) -> Any:
    """The body, decoded. Raises :class:`.problems.Refusal`."""
    try:
        async with asyncio.timeout(BODY_S):
            body = await _bytes(request)
    except TimeoutError:
        text = f"the body did not come within {BODY_S:g} s"
        raise refuse(408, "body_late", text, "Send it faster.", connection="close") from None
    if not body and endpoint.body_default is not None:
        body = endpoint.body_default
    elif request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        # Demanded also because no page of another site can send it without being asked first.
        text = "the body's Content-Type is not application/json"
        raise refuse(415, "not_json", text, "Send JSON, and say so.")
    try:
        return msgspec.json.decode(body, type=endpoint.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = f"the body is not what this takes: {error}"
        raise refuse(400, "bad_body", text, "GET /openapi.json says what it takes.") from None


async def _bytes(request: Request) -> bytes:
    said = request.headers.get("content-length", "")
    if said.isascii() and said.isdigit() and int(said) > BODY_BYTES_MAX:
        raise _too_long()
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise _too_long()
    return bytes(body)


def _too_long() -> Refusal:
    advice = "The native protocol takes longer arguments."
    text = f"a body has at most {BODY_BYTES_MAX} bytes"
    return refuse(413, "body_too_long", text, advice, connection="close")
