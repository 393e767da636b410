"""The state that all components of one member share, and the member's timers.

:class:`MemberState` says who the member is, what it holds and which epoch it knows of. :class:`MemberTimers`
keeps at most one timer of each kind, and none while there is nothing to do.
"""

import enum
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

from holdfast.authority.contract import Compare
from holdfast.authority.views import Cause, ViewChange, ViewMember, Why, successor
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation, Position
from holdfast.model.ports import TimerId, Timers
from holdfast.sequence.config import SequenceConfig
from holdfast.sequence.messages import GroupMessage
from holdfast.sequence.ports import Application, HostPorts, Me
from holdfast.sequence.store import GroupStore
from holdfast.sequence.view_state import ViewState
from holdfast.storage.record import ORIGIN


@dataclass(slots=True)
class MemberState:
    """The state that the components of one member share. Each field has one owner, which its comment
    names."""

    group: GroupId
    me: Me
    config: SequenceConfig
    ports: HostPorts
    application: Application
    store: GroupStore
    standing: ViewState
    """The view as this member knows it, which owns it; membership or claim owns the change under way in
    it."""
    committed: Position
    """Everything up to this position is final. Only :meth:`advance` raises it."""
    epoch: Epoch = ORIGIN.epoch
    """The highest epoch that this member knows of, which owns it; older messages are refused (S2)."""
    epoch_since: int = 0
    """When this process first learned of that epoch; the grace starts here at the earliest (V3)."""
    is_doubtful: bool = False
    """The log's tail was cut when the store was opened, and has not been compared with other members since
    (D2)."""
    is_settled: bool = False
    """A primary has seen what this process holds, and brought it up to what was committed then (V5)."""
    confirmed_to: tuple[HostId, Incarnation] | None = None
    """The primary to which this process last confirmed its epoch, and whose reads may rest on that (R1). None
    once that primary is known to have left the epoch."""
    confirmed_in: Epoch = ORIGIN.epoch
    overtaken_in: Epoch = ORIGIN.epoch
    """The highest epoch in a Compare from another member; in an older epoch this member answers no more
    reads."""

    stopping: dict[HostId, Incarnation] = field(default_factory=dict)
    """The latest process of each host that said that it is about to end (K5). Owned by the member."""
    leaving: dict[HostId, Incarnation] = field(default_factory=dict)
    """Those of them that asked to be dropped. Owned by the member."""

    @property
    def now(self) -> int:
        return self.ports.clock.now()

    @property
    def heard_epoch(self) -> Epoch:
        """The highest epoch that this member was told of; a peer may have told it falsely (K7)."""
        return max(self.epoch, self.overtaken_in)

    def send(self, host: HostId, message: GroupMessage) -> None:
        self.ports.network.send(host, message)

    def note(self, kind: str, **fields: object) -> None:
        self.ports.trace.note(kind, group=self.group, **fields)

    def confirm(self, primary: HostId, incarnation: Incarnation, epoch: Epoch) -> None:
        """Record that this member is about to confirm to that process that it is in *epoch*."""
        self.confirmed_to, self.confirmed_in = (primary, incarnation), epoch

    def heard_of(self, host: HostId, epoch: Epoch) -> None:
        """Note that the member on *host* knows of *epoch*: it no longer reads by confirmations of an older
        epoch."""
        if self.confirmed_to is not None and self.confirmed_to[0] == host and epoch > self.confirmed_in:
            self.confirmed_to = None

    def is_dead(self, member: ViewMember) -> bool:
        """Whether there is proof that exactly this process is gone (K2)."""
        return self.ports.leases.proven_dead.is_dead(member.host, member.incarnation)

    def note_stopping(self, host: HostId, incarnation: Incarnation, *, is_leaving: bool) -> None:
        """Note that a process is about to end, and whether it asks to be dropped before (K5)."""
        # The last word counts, not the highest number: a false one would hide all true ones (K7).
        self.stopping[host] = incarnation
        if is_leaving:
            self.leaving[host] = incarnation

    def is_stopping(self, member: ViewMember) -> bool:
        """Whether exactly this process has said that it is about to end (K5)."""
        return self.stopping.get(member.host) == member.incarnation

    def is_leaving(self, member: ViewMember) -> bool:
        """Whether exactly this process has asked to be dropped before it ends (K5)."""
        return self.leaving.get(member.host) == member.incarnation

    def propose(
        self,
        members: tuple[ViewMember, ...],
        why: Why,
        about: HostId,
        text: str = "",
        *,
        given: Compare | None = None,
    ) -> ViewChange:
        """Create the change to a view with *members* and this member as primary, and mark it as pending
        (M2)."""
        seen = self.standing.seen
        assert seen is not None
        new = successor(
            seen.value,
            self.ports.identity().value,
            primary=self.me.host,
            members=members,
            nonce=self.ports.nonce(),
            cause=Cause(why=why, host=about, at_ns=self.ports.clock.wall(), text=text),
        )
        self.standing.pending = ViewChange(seen, new, given)
        return self.standing.pending

    def advance(self, committed: Position) -> None:
        """Mark the positions up to *committed* as final, and tell the application."""
        if committed > self.committed:
            self.committed = committed
            self.application.on_committed(committed)

    def settle(self) -> None:
        """Note that what this member holds has been compared and includes everything acknowledged (D2,
        V5)."""
        self.is_settled = True
        if self.is_doubtful:
            self.is_doubtful = False
            self.note("doubt_settled")
            self.ports.on_doubt_settled()


class MemberTimer(enum.StrEnum):  # a StrEnum hashes like text; a plain Enum is hashed by slower Python code
    SWEEP = "sweep"
    NOTIFY = "notify"
    CLAIM = "claim"
    ASK = "ask"
    READ = "read"
    CHANGE = "change"
    LACK = "lack"


_TAG_OF: Final = {each: each.value for each in MemberTimer}
_WITH_TAG: Final[dict[Hashable, MemberTimer]] = {each.value: each for each in MemberTimer}


class MemberTimers:
    """The timers of one member; calls *on_alarm* when one is due."""

    def __init__(
        self,
        timers: Callable[[Callable[[Hashable], None]], Timers],
        on_alarm: Callable[[MemberTimer], None],
    ) -> None:
        self._timers = timers(self._on_timer)
        self._on_alarm = on_alarm
        self.are_set: dict[MemberTimer, TimerId] = {}
        """Those that are set. Only read elsewhere; a call asks for it nine times."""

    def set(self, alarm: MemberTimer, delay_ns: int) -> None:
        """Set the timer, and replace it if it is set already."""
        if alarm in self.are_set:
            self._timers.cancel(self.are_set[alarm])
        self.are_set[alarm] = self._timers.set(delay_ns, _TAG_OF[alarm])

    def ensure(self, alarm: MemberTimer, delay_ns: int) -> None:
        """Set the timer unless it is set already."""
        if alarm not in self.are_set:
            self.set(alarm, delay_ns)

    def _on_timer(self, tag: Hashable) -> None:
        alarm = _WITH_TAG[tag]
        del self.are_set[alarm]
        self._on_alarm(alarm)
