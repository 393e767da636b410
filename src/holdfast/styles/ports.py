"""What a style asks of its surroundings: the sequence it stands on, and the host."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.execution.crash_attempts import CrashSuspicions
from holdfast.execution.effects import Outgoing
from holdfast.execution.records import Call
from holdfast.model.calls import Request
from holdfast.model.code import Code
from holdfast.model.csn import Csn
from holdfast.model.ids import ClientId, Position
from holdfast.model.ports import Clock, Trace
from holdfast.sequence.ports import Captured, Kept
from holdfast.storage.record import Record
from holdfast.styles.call_log import CallLog

Token = Hashable
"""What the host gave with a call, to know whom to answer: a connection, and whatever else it needs."""


class Sequence(Protocol):
    """The member of a group's sequence, as far as a style uses it."""

    @property
    def committed(self) -> Position: ...

    @property
    def tail(self) -> Position: ...

    @property
    def log_bytes(self) -> int:
        """What the records take that no checkpoint stands for yet (D4)."""
        ...

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
class Snapshot:
    """How to take an object's state, by whoever holds a copy of the object: a forked process."""

    position: Position
    pieces: Callable[[], Iterator[bytes]]
    """The state, in pieces that follow each other, each of which was read back. Raises ``NotCapturable``,
    and what the class's own code raises."""
    digest: Callable[[], bytes]
    """Of that state; asked after the pieces."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A state has been written aside and waits to be kept."""

    size: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class NotCopied:
    """It was not: *why*, or nothing when the object had no state to give just then (FTC-311)."""

    why: str
    is_of_state: bool = False
    """It was the state, which cannot be captured or read back as it is (E9); not the copy."""


class Copies(Protocol):
    """Where states that are too large to be captured between two calls are captured: in a copy of the
    process, as of the moment it is begun. One group has one copy at a time."""

    def begin(self, snapshot: Snapshot, then: Callable[[Copied | NotCopied], None]) -> bool:
        """Take and write it aside, *then* say what became of it; not before this has returned. False: not
        now, nothing was begun."""
        ...

    def keep(self, then: Callable[[bool], None]) -> None:
        """What was copied is final: make it the group's newest checkpoint, *then* say whether it is. It is
        not, when the log was replaced by another's meanwhile."""
        ...

    def drop(self) -> None:
        """What was begun or copied is not wanted any more; nothing is said of it."""
        ...


@dataclass(frozen=True, slots=True)
class Waits:
    """At the end of the records a method waits for another group, so there is no state to write. The primary
    makes that call; with its outcome as one more record it is tried again."""

    outgoing: Outgoing
    csn: Csn
    """Of the last record that has one."""
    time_ns: int


class OldCode(Protocol):
    """The sources of classes as they once were, and processes of their own that execute them (E7). One group
    has one of these at a time."""

    def is_kept(self, code: Code) -> bool:
        """Whether the host has the sources with that digest."""
        ...

    def begin(
        self,
        code: Code,
        kept: Kept | None,
        records: Iterator[Record],
        up_to: Position,
        then: Callable[[Copied | NotCopied | Waits], None],
        by: Code | None = None,
    ) -> bool:
        """Load that state with that code (None: the object as at creation), replay the records, which end
        with *up_to*, and write the state that comes of it aside (:func:`.code_change.continued` is all of
        that but the process); *then* say what became of it; not before this has returned. The state may be of
        other code if the first record is an `Upgraded` to this one. *by*: the code that does it in its place,
        since nobody has that any more (:attr:`StylePorts.may_replay`). False: not now, nothing was begun."""
        ...

    def keep(self, then: Callable[[bool], None]) -> None:
        """Make what was written the group's newest checkpoint, *then* say whether it is. It is not, when the
        log was replaced by another's meanwhile."""
        ...

    def drop(self) -> None:
        """What was begun or written is not wanted any more; nothing is said of it."""
        ...


class CallObserver(Protocol):
    """Follows the calls of one group that are executed here for whoever made them; no replays."""

    def run(
        self, start: Callable[..., bytes | None], each: Call, client: ClientId, *more: Any
    ) -> bytes | None:
        """What *start* gives for the rest; None: it has to wait, and ``ended`` follows."""
        ...

    def ended(self, request: Request, outcome: bytes) -> None:
        """One that had to wait has ended."""
        ...

    def calls_out(self, outgoing: Outgoing) -> Outgoing:
        """One calls another group: with what, and followed by whom. ``came_back`` follows."""
        ...

    def came_back(self, caller: Request, outcome: bytes) -> None:
        """The call that *caller* made last has an outcome."""
        ...

    def forsake(self) -> None:
        """What waits is not executed here any more."""
        ...


@dataclass(frozen=True, slots=True)
class StylePorts:
    """The host, as one group's style uses it."""

    clock: Clock
    trace: Trace
    stamp: Callable[[Csn, int], Csn]
    """A CSN later than the given one (S1), for a group in whose time it is now that many seconds. May raise
    ``Unavailable``."""
    time: Callable[[], int]
    """The time that the next one would have, in nanoseconds (X4)."""
    answer: Callable[[Token, list[int], list[bytes]], None]
    """Tell a client the outcomes of these numbers of its requests; they are final."""
    forsake: Callable[[Token], None]
    """This member can no longer answer what the token asked: the client must ask the primary again, with
    the same request ids."""
    wake: Callable[[], None]
    """Have ``turn`` called in a moment, though nothing comes in."""
    again: Callable[[], None]
    """Have ``turn`` called again as soon as everything else that waits has had its turn: there is more."""
    call_out: Callable[[Outgoing], None]
    """Call another group, at most once per process and call; ``on_nested_outcome`` follows, at the latest
    when the call has expired, then with ``Unknown`` (E3)."""
    checkpoint: Callable[[], Kept | None]
    """The newest checkpoint this host keeps of the group."""
    save_checkpoint: Callable[[Captured], None]
    """Keep this one; afterwards what lies before it may be pruned."""
    pass_on: Callable[[str], None]
    """This member cannot serve, and says why: hand the group over to another that may be able, if there is
    one (K5). Not within an event of the sequence."""
    fault: Callable[[str, str], None]
    """Report a fault of the object: its kind (``divergence``, ``object_failed``, ``checkpoint_failed``,
    ``poisoned``, ``timer``) and what is known of it."""
    copies: Copies | None = None
    """None: every state is captured between two calls, however large."""
    attempts: CrashSuspicions = field(default_factory=CrashSuspicions)
    """Calls of the group that have ended processes (E4)."""
    lines: CallLog | None = None
    """Where people read of single calls; None: nobody does."""
    onlooker: CallObserver | None = None
    old_code: OldCode | None = None
    """None: only what the class as it is here has made can be replayed (E7)."""
    why_not_upgrade: Callable[[Code], str] = lambda _: ""
    """Why this member, with the class as it is here, may not go on from a group whose code is that; empty: it
    may."""
    may_replay: Callable[[Code], bool] = lambda _: False
    """Whether a person has ordered that the class as it is here replay what that code made."""
    void_checkpoints: Callable[[Position], None] = lambda _: None
    """What was kept beyond this position is of an object that was not the group's: no process loads it any
    more (E8)."""
