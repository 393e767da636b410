"""What a style asks of its surroundings: the sequence it stands on, and the host."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

from holdfast.model.csn import Csn
from holdfast.model.ids import Position
from holdfast.model.ports import Clock, Trace
from holdfast.sequence.ports import Captured
from holdfast.storage.record import Record
from holdfast.styles.effects import Outgoing

Token = Hashable
"""What the host gave with a call, to know whom to answer: a connection, and whatever else it needs."""


class Sequence(Protocol):
    """The member of a group's sequence, as far as a style uses it."""

    @property
    def committed(self) -> Position: ...

    @property
    def tail(self) -> Position: ...

    @property
    def is_serving(self) -> bool: ...

    def submit(self, body: bytes, count: int = 1) -> Position:
        """Answers the last position. Raises ``Unavailable``, ``Overloaded``."""
        ...

    def flush(self) -> None: ...

    def read(self, first: Position, last: Position) -> list[Record]:
        """The records that hold these positions. Raises ``Overloaded`` when they cannot be had just now."""
        ...

    def may_read(self) -> bool: ...

    def confirm_read(self, then: Callable[[bool], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class StylePorts:
    """The host, as one group's style uses it."""

    clock: Clock
    trace: Trace
    stamp: Callable[[Csn], Csn]
    """A CSN later than the given one (S1). May raise ``Unavailable``."""
    answer: Callable[[Token, list[int], list[bytes]], None]
    """Tell a client the outcomes of these numbers of its requests; they are final."""
    forsake: Callable[[Token], None]
    """This member can no longer answer what the token asked: the client must ask the primary again, with
    the same request ids."""
    wake: Callable[[], None]
    """Have ``turn`` called in a moment, though nothing comes in."""
    call_out: Callable[[Outgoing], None]
    """Call another group, at most once per process and call; ``on_nested_outcome`` follows, at the latest
    when the call has expired, then with ``Unknown`` (E3)."""
    checkpoint: Callable[[], Captured | None]
    """The newest checkpoint this host keeps of the group."""
    save_checkpoint: Callable[[Captured], None]
    """Keep this one; afterwards what lies before it may be pruned."""
    fault: Callable[[str, str], None]
    """Report a fault of the object: its kind (``divergence``, ``object_failed``, ``poisoned``, ``timer``) and
    what is known of it."""
