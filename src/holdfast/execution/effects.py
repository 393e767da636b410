"""What executing a record brings about, besides the change of the object.

Following one request from the call to its end, whichever hosts its copies reach.
"""

from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from holdfast.execution.records import Reply
from holdfast.model.calls import Request
from holdfast.model.deadlock import Root
from holdfast.model.ids import ClientId, HostId, Position
from holdfast.sequence.retention import Verdict


class RequestTrace(Protocol):
    """Follows one request."""

    @property
    def traceparent(self) -> bytes:
        """What the call carries (:class:`.records.Call`); may be empty."""
        ...

    def attempt(self, host: HostId, address: str, came_to: str) -> None:
        """A copy of it was sent to *host*, and this is what came of it. *address*: where that listens, as
        ``host:port``, if it is known."""
        ...


@dataclass(frozen=True, slots=True)
class Untraced:
    """The story of a request that only carries a trace."""

    traceparent: bytes

    def attempt(self, host: HostId, address: str, came_to: str) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A call to another group that an operation waits for. It may leave once everything up to *position* is
    committed, and from the primary only. Repeating it is harmless: its id is made of the operation's (E3)."""

    caller: Request
    call: int
    group: str
    method: str
    arguments: msgspec.Raw
    expiration_s: int
    chain: tuple[str, ...]
    position: Position
    may_have_left: bool = False
    """An earlier copy may have been sent, by this primary or one before it."""
    traceparent: bytes = b""
    """Of the operation: the call belongs to the same trace."""
    story: RequestTrace | None = field(default=None, compare=False)
    """Who follows it from here."""
    root: Root = field(kw_only=True)
    """The request for which the outermost operation of the chain is executed (E10)."""
    deadline_ns: int = field(kw_only=True)
    """Until when it is waited for, by the calling group's time; *expiration_s* is later (X3)."""
    send: int = field(default=0, kw_only=True)
    """The number in the outbox of one that no operation waits for; 0 for one that one does."""

    @property
    def followed(self) -> RequestTrace:
        """The story with which it is made: at least it carries its trace."""
        return self.story or Untraced(self.traceparent)


@dataclass(slots=True)
class Effects:
    """What became of one record."""

    outcomes: list[bytes | None] = field(default_factory=list)
    """One for each call of the record; None for one that has to wait."""
    later: list[Reply] = field(default_factory=list)
    """Outcomes of calls that were ordered before and had to wait."""
    divergence: str = ""
    """How the replay differs from what was recorded; empty when it does not."""
    settled: Verdict | None = None


class Job(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An operation that was ordered and waits for its turn."""

    client: ClientId
    number: int
    method: str
    arguments: msgspec.Raw
    expiration_s: int
    time_ns: int
    chain: tuple[str, ...] = ()
    is_timer: bool = False
    traceparent: bytes = b""
    """As the call carried it."""
    root: Root | None = None
    """As the call carried it; None for what nobody else's operation waits for."""

    @property
    def request(self) -> Request:
        return Request(self.client, self.number)

    def root_in(self, group: str) -> Root:
        """The request for which it is executed, by the group of that name."""
        return self.root or Root(self.time_ns, group, self.client, self.number)
