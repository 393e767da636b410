"""Which trace a call belongs to: the W3C trace context of whoever made it, or one that follows from its id.

A call carries its own only if its maker has one; else everybody who has the call derives the same one from
its request id, and nothing is sent for it. So it is one trace for all copies of a call, whoever they reach.
It is the maker's word, as the arguments are: it stands in the record of the call as it was sent, so that
every replay sees the same, and nowhere else in what members keep.
"""

import hashlib
import re
from typing import Final, NamedTuple

from holdfast.model.ids import ClientId

TRACEPARENT_BYTES: Final = 25
"""Trace id, span id, flags: 16 bytes, 8 and one."""
SAMPLED: Final = 0x01
"""The flag of a trace that is being recorded by whoever began it."""

_HEADER: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NO_VERSION: Final = "ff"


class Traceparent(NamedTuple):
    """The trace, the span in it that made the call, and flags: what a ``traceparent`` header says."""

    trace: bytes
    span: bytes
    flags: int = 0

    @property
    def trace_id(self) -> str:
        """As it stands in logs, and in whatever shows traces."""
        return self.trace.hex()

    @property
    def span_id(self) -> str:
        return self.span.hex()

    @property
    def is_valid(self) -> bool:
        """Whether it names anything: ids of zeros name nothing."""
        return any(self.trace) and any(self.span)

    def __str__(self) -> str:
        """As a header has it."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"

    def encoded(self) -> bytes:
        """As a call carries it."""
        return self.trace + self.span + bytes((self.flags,))

    @classmethod
    def decoded(cls, carried: bytes) -> "Traceparent | None":
        """What a call carries; None when it carries none, or nothing that can be read."""
        if len(carried) != TRACEPARENT_BYTES:
            return None
        found = cls(carried[:16], carried[16:24], carried[24])
        return found if found.is_valid else None

    @classmethod
    def parse(cls, header: str) -> "Traceparent | None":
        """The header's; None for one that is to be passed over as if it were not there. A later version may
        say more at its end; version 0 may not."""
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
        """Of a request to the group of that name whose maker has no trace."""
        named = f"{group}/{client}/{number}".encode()
        digest = hashlib.blake2b(named, digest_size=TRACEPARENT_BYTES - 1, person=b"holdfast").digest()
        return cls(digest[:16], digest[16:])

    @classmethod
    def of(cls, carried: bytes, group: str, client: ClientId, number: int) -> "Traceparent":
        """The one a request carries, else the one that follows from its id."""
        return cls.decoded(carried) or cls.derived(group, client, number)
