"""The interfaces that a style uses: the sequence of its group, and the host."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.authority.views import ViewMember
from holdfast.execution.crash_attempts import CrashSuspicions
from holdfast.execution.effects import Outgoing
from holdfast.execution.records import Call
from holdfast.model.calls import Request
from holdfast.model.code import Code
from holdfast.model.csn import Csn
from holdfast.model.ids import ClientId, Epoch, HostId, Position
from holdfast.model.ports import Clock, Trace
from holdfast.sequence.peer_messages import Peer
from holdfast.sequence.ports import Captured, Kept
from holdfast.storage.record import Record
from holdfast.styles.call_log import CallLog

Token = Hashable
"""An opaque value that the host passes with a call to know whom to answer, for example a connection."""


class PeerPort(Protocol):
    """What members tell each other beside the sequence (W1); see
    :class:`holdfast.sequence.peer_messages.PeerMessages`."""

    @property
    def me(self) -> ViewMember: ...

    @property
    def epoch(self) -> Epoch: ...

    def peers(self) -> tuple[Peer, ...]: ...

    def tell(self, host: HostId, part: str, body: bytes) -> bool: ...


class Sequence(Protocol):
    """The member of a group's sequence, as far as a style uses it."""

    @property
    def committed(self) -> Position: ...

    @property
    def tail(self) -> Position: ...

    @property
    def log_bytes(self) -> int:
        """The size of the records that no checkpoint covers yet (D4). On a primary, the largest of all
        members."""
        ...

    @property
    def own_log_bytes(self) -> int:
        """The size of the records on this host that no checkpoint covers yet."""
        ...

    def successors(self, log_below: int | None = None) -> list[HostId]:
        """Return the members to which a primary could hand over whose log is shorter than *log_below*."""
        ...

    def lacks_space(self) -> HostId | None:
        """The host of a required member that has too little disk space for more (D5); None if all have
        enough."""
        ...

    @property
    def is_serving(self) -> bool: ...

    def submit(self, body: bytes, count: int = 1) -> Position:
        """Order a record. Returns its last position. Raises ``Unavailable``, ``Overloaded``."""
        ...

    def flush(self) -> None: ...

    def read(self, first: Position, last: Position) -> list[Record]:
        """The records at these positions. Raises ``Overloaded`` if they cannot be read now."""
        ...

    def may_read(self) -> bool: ...

    def confirm_read(self, then: Callable[[bool], None]) -> None: ...

    def hand_over(self, to: HostId, why: str = "") -> None:
        """As primary: hand the group over to the in-sync backup on *to* (K5). Raises ``Unavailable``,
        ``InvalidRequest``."""
        ...

    @property
    def peer_messages(self) -> PeerPort: ...


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How to capture an object's state in a process that holds a copy of the object: a forked process."""

    position: Position
    pieces: Callable[[], Iterator[bytes]]
    """Yields the state in consecutive pieces, each of which was read back. Raises ``NotCapturable``, and what
    the class's own code raises."""
    digest: Callable[[], bytes]
    """Returns the digest of that state; called after the pieces."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A state has been written to a temporary file and waits to be kept."""

    size: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class NotCopied:
    """A state was not written: *why*, or empty if the object had no state available then (FTC-311)."""

    why: str
    is_of_state: bool = False
    """Whether the state itself is at fault, because it cannot be captured or read back (E9), not the
    copying."""


class Copies(Protocol):
    """Captures states that are too large to be captured between two calls, in a copy of the process as of the
    moment it starts. One group has one copy at a time."""

    def begin(self, snapshot: Snapshot, then: Callable[[Copied | NotCopied], None]) -> bool:
        """Capture and write the state, and call *then* with the result, after this method has returned.
        Returns False if no copy can be started now."""
        ...

    def keep(self, then: Callable[[bool], None]) -> None:
        """Make the copy, which is committed now, the group's newest checkpoint, and call *then* with whether
        that succeeded. It fails if the log was replaced by another member's meanwhile."""
        ...

    def drop(self) -> None:
        """Drop what was started or copied; *then* is not called."""
        ...


@dataclass(frozen=True, slots=True)
class Waits:
    """A method waits for another group where the records end, so there is no state to write. The primary
    makes that call and tries again with its outcome as one more record."""

    outgoing: Outgoing | None
    """None for a slow method that has started: the primary orders its end, and the old code computes it where
    that is replayed (E15)."""
    csn: Csn
    """The CSN of the last record that has one."""
    time_ns: int
    slow: Request | None = None
    """The request of that slow method."""


class OldCode(Protocol):
    """Keeps the sources of earlier versions of classes, and executes them in separate processes (E7). One
    group has one such process at a time."""

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
        """Load a state with *code*, replay *records* and write the resulting state to a temporary file.

        *kept* is None for the object as at creation; it may be of other code if the first record is an
        `Upgraded` to *code*. The records end at *up_to*. *by* is code that executes them instead, because
        *code* is not available any more (:attr:`StylePorts.may_replay`). :func:`.code_change.continued` does
        all of this except for the process. *then* is called with the result, after this method has returned.
        Returns False if no process can be started now.
        """
        ...

    def keep(self, then: Callable[[bool], None]) -> None:
        """Make what was written the group's newest checkpoint, and call *then* with whether that succeeded.
        It fails if the log was replaced by another member's meanwhile."""
        ...

    def drop(self) -> None:
        """Drop what was started or written; *then* is not called."""
        ...


class SlowPort(Protocol):
    """Runs slow methods of one group beside the loop, one at a time (E15)."""

    def run(self, work: Callable[[], bytes], then: Callable[[bytes], None]) -> None:
        """Call *work* where it holds up nobody, and *then* with its result as an event of its own, after this
        method has returned. What *work* raises ends the process."""
        ...


class CallObserver(Protocol):
    """Observes the calls that one group executes here for clients, but not replays."""

    def run(
        self, start: Callable[..., bytes | None], each: Call, client: ClientId, *more: Any
    ) -> bytes | None:
        """Run a call by calling *start* with the other arguments. None means that the call has to wait, and
        ``ended`` follows."""
        ...

    def ended(self, request: Request, outcome: bytes) -> None:
        """A call that had to wait has ended."""
        ...

    def calls_out(self, outgoing: Outgoing) -> Outgoing:
        """An operation calls another group. Returns the call to send, with its trace; ``came_back``
        follows."""
        ...

    def came_back(self, caller: Request, outcome: bytes) -> None:
        """The call that *caller* made last has an outcome."""
        ...

    def forsake(self) -> None:
        """The waiting calls are no longer executed here."""
        ...


class PassOn(Protocol):
    """Hands a group over to another member that may be able to serve, if there is one (K5)."""

    def __call__(self, why: str, /, *, log_below: int | None = None, is_trial: bool = False) -> None:
        """Hand over because this member cannot serve, for the reason *why*. *log_below*: only to a member
        whose log is shorter than this. *is_trial*: if no member has its object, to one that may be able to
        make it of what it holds. Do not call this within an event of the sequence."""
        ...


@dataclass(frozen=True, slots=True)
class StylePorts:
    """The host, as one group's style uses it."""

    clock: Clock
    trace: Trace
    stamp: Callable[[Csn, int], Csn]
    """Returns a CSN later than the given one (S1); the second argument is the group's time in seconds. May
    raise ``Unavailable``."""
    time: Callable[[], int]
    """Returns the time in nanoseconds that the next CSN would have (X4)."""
    answer: Callable[[Token, list[int], list[bytes]], None]
    """Tells a client the final outcomes of its requests with these numbers."""
    forsake: Callable[[Token], None]
    """Tells the token's client that this member can no longer answer: the client must ask the primary again,
    with the same request ids."""
    wake: Callable[[], None]
    """Requests a call of ``turn`` soon, even if nothing arrives."""
    again: Callable[[], None]
    """Requests another call of ``turn`` as soon as all other waiting work has had its turn, because there is
    more to do."""
    call_out: Callable[[Outgoing], None]
    """Calls another group, at most once per process and call; ``on_nested_outcome`` follows, at the latest
    when the call has expired, then with ``Unknown`` (E3)."""
    checkpoint: Callable[[], Kept | None]
    """Returns the newest checkpoint that this host keeps of the group."""
    save_checkpoint: Callable[[Captured], None]
    """Keeps a checkpoint; afterwards the log before it may be pruned."""
    pass_on: PassOn
    fault: Callable[[str, str], None]
    """Reports a fault of the object: its kind (``divergence``, ``object_failed``, ``checkpoint_failed``,
    ``poisoned``, ``timer``) and a text."""
    copies: Copies | None = None
    """None: every state is captured between two calls, however large."""
    attempts: CrashSuspicions = field(default_factory=CrashSuspicions)
    """The group's calls that have crashed processes (E4)."""
    lines: CallLog | None = None
    """Writes log lines about individual calls; None if nobody reads them."""
    onlooker: CallObserver | None = None
    old_code: OldCode | None = None
    """None: only records made by the class loaded here can be replayed (E7)."""
    why_not_upgrade: Callable[[Code], str] = lambda _: ""
    """Returns why this member, with the class loaded here, may not continue a group with that code; empty if
    it may."""
    may_replay: Callable[[Code], bool] = lambda _: False
    """Whether an operator has ordered that the class loaded here replays what that code made."""
    slow: SlowPort | None = None
    """None: slow methods run like others, on the loop."""
    lacks_space: Callable[[], bool] = lambda: False
    """Whether this host has too little disk space for another checkpoint (D5)."""
    has_files: Callable[[Kept | None], bool] = lambda _: True
    """Whether others can fetch the files that this checkpoint of a stored object stands on (W8)."""
    void_checkpoints: Callable[[Position], None] = lambda _: None
    """Voids what was kept beyond this position, because it is of an object that was not the group's: no
    process loads it any more (E8)."""
