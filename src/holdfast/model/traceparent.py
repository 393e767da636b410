"""The trace of a call: the W3C trace context of its caller, or one derived from the request id.

A call carries a trace context only if its caller has one. Otherwise everybody who has the call derives the
same context from its request id, and nothing needs to be sent. So all copies of a call belong to one trace,
wherever they arrive. Like the arguments, the context is the caller's claim. It is stored only in the record
of the call as it was sent, so that every replay sees the same.
"""

import hashlib
import re
from typing import Final, NamedTuple

from holdfast.model.ids import ClientId

TRACEPARENT_BYTES: Final = 25
"""The encoded size: trace id (16 bytes), span id (8), flags (1)."""
SAMPLED: Final = 0x01
"""The flag of a trace that its originator records."""

_HEADER: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NO_VERSION: Final = "ff"


class Traceparent(NamedTuple):
    """The content of a ``traceparent`` header: the trace, the span that made the call, and flags."""

    trace: bytes
    span: bytes
    flags: int = 0

    @property
    def trace_id(self) -> str:
        """The trace id as logs and trace viewers show it."""
        return self.trace.hex()

    @property
    def span_id(self) -> str:
        return self.span.hex()

    @property
    def is_valid(self) -> bool:
        """Whether the ids are valid; ids of zeros are not."""
        return any(self.trace) and any(self.span)

    def __str__(self) -> str:
        """The header text."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"

    def encoded(self) -> bytes:
        """The bytes that a call carries."""
        return self.trace + self.span + bytes((self.flags,))

    @classmethod
    def decoded(cls, carried: bytes) -> "Traceparent | None":
        """Decode what a call carries; None if it carries none, or nothing that can be read."""
        if len(carried) != TRACEPARENT_BYTES:
            return None
        found = cls(carried[:16], carried[16:24], carried[24])
        return found if found.is_valid else None

    @classmethod
    def parse(cls, header: str) -> "Traceparent | None":
        """Parse a header; None for one that must be ignored. A later version may have more text at the end;
        version 0 may not."""
        found = _HEADER.fullmatch(header.strip())
        if found is None:
            return None
        version, trace, span, flags, more = found.groups()
        if version == _NO_VERSION or (version == "00" and more):
            return None
        parsed = cls(bytes.fromhex(trace), bytes.fromhex(span), int(flags, 16))
        return parsed if parsed.is_valid else None

    @classmethod
    def derived(cls, group: str, client: ClientId, number: int) -> "Traceparent":
        """The context of a request to that group whose caller has no trace."""
        named = f"{group}/{client}/{number}".encode()
        digest = hashlib.blake2b(named, digest_size=TRACEPARENT_BYTES - 1, person=b"holdfast").digest()
        return cls(digest[:16], digest[16:])

    @classmethod
    def of(cls, carried: bytes, group: str, client: ClientId, number: int) -> "Traceparent":
        """The context that a request carries, or else the one derived from its id."""
        return cls.decoded(carried) or cls.derived(group, client, number)
