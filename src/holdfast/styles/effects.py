"""What executing a record brings about, besides the change of the object."""

from dataclasses import dataclass, field

import msgspec

from holdfast.model.calls import Request
from holdfast.model.ids import ClientId, Position
from holdfast.sequence.retention import Verdict
from holdfast.styles.operation import Reply
from holdfast.styles.story import Story, Unfollowed


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
    story: Story | None = field(default=None, compare=False)
    """Who follows it from here."""

    @property
    def followed(self) -> Story:
        """The story with which it is made: at least it carries its trace."""
        return self.story or Unfollowed(self.traceparent)


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

    @property
    def request(self) -> Request:
        return Request(self.client, self.number)
