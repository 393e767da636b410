"""Answers as bytes: JSON, and nothing that caches or guesses."""

from typing import Final

import msgspec
from starlette.responses import Response

from holdfast.web.endpoint import Reply
from holdfast.web.problems import Refusal

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
