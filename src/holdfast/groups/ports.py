"""What the housing asks of the host's process, or of the simulator.

The ports of a host as its groups use them: whatever they call, a failing disk ends the host (D1).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct

from holdfast.authority.contract import Result, WatchEvent
from holdfast.authority.groups import GroupRecord
from holdfast.authority.recipe import AuthorityPort
from holdfast.authority.views import View
from holdfast.calling.config import ClientConfig
from holdfast.execution.crash_attempts import Slot
from holdfast.execution.definition import Definition
from holdfast.faults.monitor import Relief, Suspicion
from holdfast.model.calls import ToClient
from holdfast.model.code import Code
from holdfast.model.errors import DISK_ERRORS, HoldfastError
from holdfast.model.ids import GroupId, HostId, Nonce, Opening, Revision, StoreId
from holdfast.model.ports import Clock, Network, Random, Timers, Trace
from holdfast.model.reference import OtherDomain
from holdfast.sequence.catchup_limiter import ASKING_MAX
from holdfast.sequence.config import LeaseConfig, SequenceConfig
from holdfast.sequence.lease_heartbeats import LeaseHeartbeats
from holdfast.sequence.ports import Kept
from holdfast.storage.checkpoint import Checkpoint, Framing
from holdfast.storage.checkpoints import CheckpointStore
from holdfast.storage.log import Log
from holdfast.storage.record import Record
from holdfast.styles.config import StyleConfig
from holdfast.styles.ports import CallObserver, NotCopied, Snapshot, Waits


class EndingTimers(Timers, Protocol):
    """Timers of something that may end before its process does."""

    def close(self) -> None:
        """None fires any more, and none can be set."""
        ...


MakeTimers = Callable[[Callable[[Hashable], None]], EndingTimers]


class Journal(Protocol):
    """What people read of a host: a structured log."""

    def info(self, event: str, **fields: object) -> object: ...

    def warning(self, event: str, **fields: object) -> object: ...

    def error(self, event: str, **fields: object) -> object: ...


Finding = Suspicion | Relief
"""What monitoring has found about a member."""

Watch = Callable[[str, Revision, Callable[[WatchEvent], None]], None]
"""Have the last one told of every change below a prefix from a revision on, until it hears ``Compacted``."""


class WatchPort(AuthorityPort, Protocol):
    """The authority, asked and watched. ``on_authority`` follows every request."""

    on_authority: Callable[[Hashable, Result], None]

    def watch(self, prefix: str, revision: Revision, then: Callable[[WatchEvent], None]) -> None:
        """See :data:`Watch`."""
        ...


class OpenStore(Protocol):
    """The host's store, open: numbered (V5), its log recovered."""

    on_durable: Callable[[int], None]
    """Told how many of the records appended in this opening survive a power cut."""

    @property
    def id(self) -> StoreId: ...

    @property
    def opening(self) -> Opening: ...

    @property
    def log(self) -> Log: ...

    @property
    def checkpoints(self) -> CheckpointStore: ...

    def fail(self, error: HoldfastError) -> None:
        """The disk cannot be used any more: the host ends (D1)."""
        ...


class ClientPort(Protocol):
    """One client's connection, as a frame came in on it; equal for all frames of that connection."""

    def __hash__(self) -> int: ...

    def send(self, message: ToClient) -> None: ...

    def hang_up(self, why: str) -> None:
        """End the connection: of what it asked and was not answered nothing can be said."""
        ...


class Callees(Network, Protocol):
    """The hosts of groups that are called from here, as a client reaches them: with the messages of
    :mod:`holdfast.model.calls`, on connections that end when they fail."""

    @property
    def connected(self) -> list[HostId]: ...

    def keep(self, addresses: Iterable[str]) -> None:
        """Be connected to these, and to no others."""
        ...


class CalleeEvents(Protocol):
    """Who is told what befalls the connections to callees."""

    def on_up(self, host: HostId) -> None: ...

    def on_down(self, host: HostId) -> None: ...

    def on_message(self, host: HostId, message: ToClient) -> None: ...


@dataclass(frozen=True, slots=True)
class Written:
    """A copy of the process has written a checkpoint, and synced it; its name is not its final one yet."""

    checkpoint: Checkpoint
    digest: bytes


class CopyPort(Protocol):
    """Copies of the process, one at a time for all groups."""

    def begin(
        self,
        name: str,
        framing: Framing,
        snapshot: Snapshot,
        then: Callable[[Written | NotCopied], None],
    ) -> bool:
        """Copy the process as it is now; the copy takes the state, and writes it framed to the file *name* of
        the store. *Then* its end is told, not before this has returned. False when another runs."""
        ...

    def cancel(self) -> None:
        """End the one that runs and remove its file; nothing is told."""
        ...


class OldCodePort(Protocol):
    """Classes as they once were: their sources, kept by digest, and processes that execute them, one at a
    time for all groups (E7)."""

    def is_kept(self, code: Code) -> bool:
        """Whether the sources with that digest are here, so that a group of that code can be executed."""
        ...

    def begin(
        self,
        record: GroupRecord,
        code: Code,
        kept: Kept | None,
        records: Iterator[Record],
        name: str,
        framing: Framing,
        then: Callable[[Written | NotCopied | Waits], None],
        by: Code | None = None,
    ) -> bool:
        """Have a process with that code, or with *by* in its place, do
        :func:`holdfast.styles.code_change.continued`, and write the pieces
        of what comes of it framed to the file *name* of the store, synced. *Then* its end is told, not before
        this has returned, and *records* has been read to its end by then. False when another runs."""
        ...

    def cancel(self) -> None:
        """End the one that runs and remove its file; nothing is told."""
        ...


@dataclass(frozen=True, slots=True)
class GroupsPorts:
    """The host, as its groups use it."""

    clock: Clock
    timers: MakeTimers
    network: Network
    """To the other hosts, which know each other's messages of :mod:`holdfast.sequence.messages`."""
    callees: Callees
    """What they say goes to the ``nesting`` of :class:`.host_groups.Groups`."""
    random: Random
    trace: Trace
    journal: Journal
    authority: WatchPort
    soon: Callable[[Callable[[], None]], None]
    """Have this called at the end of the turn: everything that came in together before it."""
    define: Callable[[GroupRecord], Definition]
    """Load a group's class. Raises ``BadClass``, ``NotCapturable``."""
    nonce: Callable[[], Nonce]
    """A mark that no other change ever carries (A1)."""
    on_fault: Callable[[GroupId, str, str], None]
    """An object has a fault: its group, the kind (:class:`holdfast.styles.ports.StylePorts`), and what is
    known of it."""
    slot: Slot
    """Where it is noted what is being executed, for those who see this process die (E4)."""
    on_halted: Callable[[GroupId, str], None]
    """A member has stopped for good, and says why (A5)."""
    on_view: Callable[[View], None] = lambda _: None
    """A group of the domain has a new view."""
    on_skew: Callable[[int], None] = lambda _: None
    """This host's time is so many nanoseconds ahead of the others'; 0: no longer."""
    beats: LeaseHeartbeats | None = None
    """The heartbeats of leases, when a thread of their own drives them (R4); None: the host's loop does."""
    on_finding: Callable[[Finding], None] = lambda finding: None
    """A member was found faulty, or well again after it had been (FTC-248)."""
    domain: str = ""
    """The name of this domain, by which others know it."""
    abroad: Callable[[OtherDomain, CalleeEvents], Callees] | None = None
    """The hosts of another domain, as its clients reach them. Raises ``InvalidRequest`` for what is no
    address. None: no other domain is called."""
    onlooker: Callable[[str], CallObserver | None] = lambda _: None
    """Who follows the calls of the group of that name here, if anybody does; asked when its class has been
    loaded."""
    copies: CopyPort | None = None
    """None: every state is captured between two calls, however large."""
    old_code: OldCodePort | None = None
    """None: only what the classes as they are here have made can be replayed."""


class GroupsConfig(Struct, frozen=True, kw_only=True):
    """What may be set about the groups of a host."""

    leases: LeaseConfig = LeaseConfig()
    sequence: SequenceConfig = SequenceConfig()
    """``min_in_sync`` comes with each group's record."""
    style: StyleConfig = StyleConfig()
    calling: ClientConfig = ClientConfig()
    """Of groups by groups."""
    asking_max: int = ASKING_MAX
    """Members that ask one other host to be fed, at a time."""


class DiskGuard:
    """Over all that a host does for its groups, which stand on *store*."""

    def __init__(self, store: OpenStore, ports: GroupsPorts) -> None:
        self._store = store
        self._house = ports

    def guarded(self, work: Callable[..., None]) -> Callable[..., None]:
        """*work*, of which a failing disk ends the host."""

        def guarded(*arguments: object) -> None:
            try:
                work(*arguments)
            except DISK_ERRORS as error:
                self._store.fail(error)

        return guarded

    def watch(self, prefix: str, revision: Revision, then: Callable[[WatchEvent], None]) -> None:
        """See :data:`holdfast.groups.ports.Watch`."""
        self._house.authority.watch(prefix, revision, self.guarded(then))

    def timers(self, on_timer: Callable[[Hashable], None]) -> EndingTimers:
        return self._house.timers(self.guarded(on_timer))

    def soon(self, work: Callable[[], None]) -> None:
        """Have this called at the end of the turn."""
        self._house.soon(self.guarded(work))
