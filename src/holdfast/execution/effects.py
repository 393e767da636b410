"""What executing a record produces besides the change of the object: outcomes, jobs and outgoing calls.

:class:`Effects` are the outcomes of one record, :class:`Job` is an operation that waits to run, and
:class:`Outgoing` is a call to another group. :class:`RequestTrace` follows such a call from its start to its
end, across all hosts its copies reach.
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
    """Follows one request across its attempts."""

    @property
    def traceparent(self) -> bytes:
        """The trace that the call carries (:class:`.records.Call`); may be empty."""
        ...

    def attempt(self, host: HostId, address: str, came_to: str) -> None:
        """Record that a copy of the request was sent to *host* and how that ended. *address* is where the
        host listens, as ``host:port``, if known."""
        ...


@dataclass(frozen=True, slots=True)
class Untraced:
    """The trace of a request that carries a trace id but is not followed."""

    traceparent: bytes

    def attempt(self, host: HostId, address: str, came_to: str) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A call to another group that an operation waits for. It may be sent once everything up to *position* is
    committed, and only by the primary. Sending it again is harmless: its id is derived from the operation's
    (E3)."""

    caller: Request
    call: int
    group: str
    method: str
    arguments: msgspec.Raw
    expiration_s: int
    chain: tuple[str, ...]
    position: Position
    may_have_left: bool = False
    """Whether an earlier copy may have been sent, by this primary or an earlier one."""
    traceparent: bytes = b""
    """The operation's trace: the call belongs to it, too."""
    story: RequestTrace | None = field(default=None, compare=False)
    """Follows the call from here on; None if nothing does."""
    root: Root = field(kw_only=True)
    """The request for which the outermost operation of the chain is executed (E10)."""
    deadline_ns: int = field(kw_only=True)
    """Until when the operation waits for it, by the calling group's time; *expiration_s* is later (X3)."""
    send: int = field(default=0, kw_only=True)
    """The number in the outbox of a one-way send; 0 for a call that an operation waits for."""

    @property
    def followed(self) -> RequestTrace:
        """The trace to pass on with the call. It always carries at least the trace id."""
        return self.story or Untraced(self.traceparent)


class Effects(msgspec.Struct):
    """The results of executing one record."""

    outcomes: list[bytes | None] = msgspec.field(default_factory=list)
    """One outcome for each call of the record; None for a call that has to wait."""
    later: list[Reply] = msgspec.field(default_factory=list)
    """Outcomes of calls that were ordered earlier and had to wait."""
    divergence: str = ""
    """How the replay differs from what was recorded; empty if it does not."""
    settled: Verdict | None = None


class Job(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An operation that is ordered and waits for its turn."""

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
    """As the call carried it; None if no operation of another group waits for this one."""

    @property
    def request(self) -> Request:
        return Request(self.client, self.number)

    def root_in(self, group: str) -> Root:
        """The request for which this operation is executed; the operation itself, in *group*, if it has no
        root."""
        return self.root or Root(self.time_ns, group, self.client, self.number)
