"""What all machines of one member stand on: who it is, what it holds, which epoch it knows of.

A member's timers: at most one of each kind, and none at all while nothing is to be done.
"""

import enum
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

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
    """Shared by the machines of one member; each field has one owner, named with it."""

    group: GroupId
    me: Me
    config: SequenceConfig
    ports: HostPorts
    application: Application
    store: GroupStore
    standing: ViewState
    """The member's; the change under way in it belongs to membership or claim."""
    committed: Position
    """Final up to here. Raised only by :meth:`advance`."""
    epoch: Epoch = ORIGIN.epoch
    """The highest epoch this member knows of; older messages are refused (S2). The member's."""
    epoch_since: int = 0
    """When this process first knew of that epoch: grace counts from here at the earliest (V3)."""
    is_doubtful: bool = False
    """The log's tail was cut at this opening and not compared since (D2)."""
    is_settled: bool = False
    """A primary has seen what this process holds and brought it up to what was committed then (V5)."""
    confirmed_to: tuple[HostId, Incarnation] | None = None
    """The primary that this process last told that it is in its epoch: its reads may rest on that (R1). None
    once that one is known to have left the epoch."""
    confirmed_in: Epoch = ORIGIN.epoch
    overtaken_in: Epoch = ORIGIN.epoch
    """The highest epoch that somebody has compared with: in an older one nothing is read any more."""

    dead: dict[HostId, Incarnation] = field(default_factory=dict)
    """The latest process of each host of whose death there is proof (K2). The member's."""

    @property
    def now(self) -> int:
        return self.ports.clock.now()

    def send(self, host: HostId, message: GroupMessage) -> None:
        self.ports.network.send(host, message)

    def note(self, kind: str, **fields: object) -> None:
        self.ports.trace.note(kind, group=self.group, **fields)

    def confirm(self, primary: HostId, incarnation: Incarnation, epoch: Epoch) -> None:
        """That process is about to be told that this member is in *epoch*."""
        self.confirmed_to, self.confirmed_in = (primary, incarnation), epoch

    def heard_of(self, host: HostId, epoch: Epoch) -> None:
        """The member on *host* knows of *epoch*: it reads no more by what it was told of an older one."""
        if self.confirmed_to is not None and self.confirmed_to[0] == host and epoch > self.confirmed_in:
            self.confirmed_to = None

    def is_dead(self, member: ViewMember) -> bool:
        """Whether there is proof that exactly this process is gone (K2)."""
        return self.dead.get(member.host) == member.incarnation

    def wish(
        self,
        members: tuple[ViewMember, ...],
        why: Why,
        about: HostId,
        text: str = "",
        *,
        given: Compare | None = None,
    ) -> ViewChange:
        """The change to these members with this one as primary: under way from now on (M2)."""
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
        """Positions up to here are final."""
        if committed > self.committed:
            self.committed = committed
            self.application.on_committed(committed)

    def settle(self) -> None:
        """What this member holds has been compared: nothing acknowledged is missing (D2, V5)."""
        self.is_settled = True
        if self.is_doubtful:
            self.is_doubtful = False
            self.note("doubt_settled")
            self.ports.on_doubt_settled()


class MemberTimer(enum.StrEnum):  # hashed as text is: an Enum is hashed by Python code
    SWEEP = "sweep"
    NOTIFY = "notify"
    CLAIM = "claim"
    ASK = "ask"
    READ = "read"
    CHANGE = "change"
    LACK = "lack"


class MemberTimers:
    """Calls *on_alarm* when one is due."""

    def __init__(
        self,
        timers: Callable[[Callable[[Hashable], None]], Timers],
        on_alarm: Callable[[MemberTimer], None],
    ) -> None:
        self._timers = timers(self._on_timer)
        self._on_alarm = on_alarm
        self._set: dict[MemberTimer, TimerId] = {}

    def set(self, alarm: MemberTimer, delay_ns: int) -> None:
        """Let it be due then, and not when it was before."""
        if alarm in self._set:
            self._timers.cancel(self._set[alarm])
        self._set[alarm] = self._timers.set(delay_ns, alarm.value)

    def is_set(self, alarm: MemberTimer) -> bool:
        return alarm in self._set

    def ensure(self, alarm: MemberTimer, delay_ns: int) -> None:
        """Let it be due then, unless it is set already."""
        if alarm not in self._set:
            self.set(alarm, delay_ns)

    def _on_timer(self, tag: Hashable) -> None:
        alarm = MemberTimer(str(tag))
        del self._set[alarm]
        self._on_alarm(alarm)
