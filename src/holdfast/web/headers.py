"""The request headers that endpoints share."""

import re
from collections.abc import Mapping
from typing import Final

from holdfast.model.errors import InvalidRequest
from holdfast.model.traceparent import Traceparent
from holdfast.web.bounds import KEY_CHARACTERS_MAX
from holdfast.web.endpoint import Parameter
from holdfast.web.keying import KEEP_S

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
