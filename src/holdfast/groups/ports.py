"""The ports through which the groups of a host use the host's process, or the simulator in its place.

:class:`DiskGuard` wraps everything that runs on behalf of a group, so that a failing disk ends the host (D1).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from holdfast.authority.contract import Result, WatchEvent
from holdfast.authority.groups import GroupRecord
from holdfast.authority.recipe import AuthorityPort
from holdfast.authority.views import View
from holdfast.execution.crash_attempts import Slot
from holdfast.execution.database import ObjectDatabase, Place, StorageFailed
from holdfast.execution.definition import Definition
from holdfast.faults.monitor import Relief, Suspicion
from holdfast.groups.object_file import Scratch
from holdfast.model.calls import ToClient
from holdfast.model.code import Code
from holdfast.model.errors import DISK_ERRORS, HoldfastError
from holdfast.model.ids import GroupId, HostId, Nonce, Opening, Revision, StoreId
from holdfast.model.ports import Clock, Network, Random, Timers, Trace
from holdfast.model.reference import OtherDomain
from holdfast.sequence.lease_heartbeats import LeaseHeartbeats
from holdfast.sequence.leases import LeaseNote
from holdfast.sequence.ports import Kept
from holdfast.shipping.manifest import Contents, ManifestId
from holdfast.storage.checkpoint import Checkpoint, Framing
from holdfast.storage.checkpoints import CheckpointStore
from holdfast.storage.free_space import FreeSpace
from holdfast.storage.log import Log
from holdfast.storage.record import Record
from holdfast.storage.scratch import ScratchStore
from holdfast.storage.segments import Readable
from holdfast.styles.ports import CallObserver, NotCopied, SlowPort, Snapshot, Waits


class EndingTimers(Timers, Protocol):
    """Timers of something that may end before its process does."""

    def close(self) -> None:
        """Cancel all timers; no more can be set."""
        ...


MakeTimers = Callable[[Callable[[Hashable], None]], EndingTimers]


class Journal(Protocol):
    """The structured log of a host, written for people."""

    def info(self, event: str, **fields: object) -> object: ...

    def warning(self, event: str, **fields: object) -> object: ...

    def error(self, event: str, **fields: object) -> object: ...


Finding = Suspicion | Relief
"""The result of monitoring a member: it is suspected to be faulty, or well again."""

Watch = Callable[[str, Revision, Callable[[WatchEvent], None]], None]
"""Calls the third argument for every change below a prefix, from a revision on, until it passes on
``Compacted``."""


class WatchPort(AuthorityPort, Protocol):
    """The authority, with requests and watches. Every request ends with a call of ``on_authority``."""

    on_authority: Callable[[Hashable, Result], None]

    def watch(self, prefix: str, revision: Revision, then: Callable[[WatchEvent], None]) -> None:
        """Watch a prefix; see :data:`Watch`."""
        ...


class OpenStore(Protocol):
    """The host's open store. Its opening is numbered (V5) and its log is recovered."""

    on_durable: Callable[[int], None]
    """Called with the number of records appended in this opening that survive a power cut."""

    @property
    def id(self) -> StoreId: ...

    @property
    def opening(self) -> Opening: ...

    @property
    def log(self) -> Log: ...

    @property
    def checkpoints(self) -> CheckpointStore: ...

    @property
    def scratch(self) -> ScratchStore:
        """The large states of groups in memory."""
        ...

    def space(self) -> FreeSpace | None:
        """The space on the disk, as last looked up; None if it is unknown (D5)."""
        ...

    def fail(self, error: HoldfastError) -> None:
        """End the host, because its disk cannot be used any more (D1)."""
        ...


class ClientPort(Protocol):
    """The connection of one client. The ports of all frames that arrived on one connection are equal."""

    def __hash__(self) -> int: ...

    def send(self, message: ToClient) -> None: ...

    def hang_up(self, why: str) -> None:
        """End the connection. The client cannot tell what became of its unanswered requests."""
        ...


class Callees(Network, Protocol):
    """The hosts of the groups that are called from here, reached the way clients reach them: with the
    messages of :mod:`holdfast.model.calls`, on connections that close when they fail."""

    @property
    def connected(self) -> list[HostId]: ...

    def keep(self, addresses: Iterable[str]) -> None:
        """Connect to these addresses, and close the connections to all others."""
        ...


class CalleeEvents(Protocol):
    """Receives the events of the connections to called hosts."""

    def on_up(self, host: HostId) -> None: ...

    def on_down(self, host: HostId) -> None: ...

    def on_message(self, host: HostId, message: ToClient) -> None: ...


@dataclass(frozen=True, slots=True)
class Written:
    """A checkpoint that a copy of the process has written and synced. The file does not have its final name
    yet."""

    checkpoint: Checkpoint
    digest: bytes


class CopyPort(Protocol):
    """Makes copies of the process, one at a time for all groups."""

    def begin(
        self,
        name: str,
        framing: Framing,
        snapshot: Snapshot,
        then: Callable[[Written | NotCopied], None],
    ) -> bool:
        """Copy the process as it is now. The copy captures the state and writes it, framed, to the file
        *name* of the store. Calls *then* with the result, but not before this method has returned. Returns
        False if another copy is running."""
        ...

    def cancel(self) -> None:
        """End the running copy and remove its file. Its callback is not called."""
        ...


class FilesPort(Protocol):
    """The directory in which a host keeps the databases of stored objects, and shipping (W7, W8). What takes
    long is done beside the loop; callbacks come on the loop, after the method has returned. A failing disk
    ends the host (D1)."""

    @property
    def chunk_bytes(self) -> int:
        """The size of the chunks in which files travel."""
        ...

    def place(self, name: str) -> Place: ...

    def list(self) -> list[str]: ...

    def remove(self, names: Iterable[str]) -> None:
        """Remove databases with all that SQLite keeps beside them. Nothing has them open."""
        ...

    @property
    def directory(self) -> Scratch:
        """The directory itself."""
        ...

    def settle(
        self,
        database: ObjectDatabase,
        before: Callable[[], None],
        after: Callable[[int], Contents],
        then: Callable[[Contents | HoldfastError], None],
    ) -> None:
        """Do *before*, bring everything that was flushed into the database's main file, sync it, and do
        *after* with the number of frames of its WAL that are there."""
        ...

    def describe(
        self, work: Callable[[], Contents], then: Callable[[Contents | HoldfastError], None]
    ) -> None:
        """Do *work*, which reads the directory."""
        ...

    def write(self, name: str, data: Iterable[bytes], then: Callable[[], None]) -> None:
        """Write and sync the file *name* of the store, replacing one that is there."""
        ...

    def discard(self, name: str) -> None:
        """Remove the file *name* of the store, if it is there."""
        ...

    def offer(self, contents: Contents, source: Readable) -> None:
        """Let other hosts fetch the manifest's files from *source*."""
        ...

    def withdraw(self, manifest: ManifestId) -> None: ...

    def is_asked(self, manifest: ManifestId) -> bool:
        """Whether somebody has asked for a chunk of that offer lately."""
        ...

    def fetch(
        self,
        contents: Contents,
        file: str,
        sources: Sequence[HostId],
        name: str,
        then: Callable[[HoldfastError | None], None],
        *,
        removed: Sequence[str] = (),
        instead_of: Contents | None = None,
    ) -> None:
        """Fetch the manifest from one of these hosts, check it, and put its *file* here as *name*, durably.
        Calls *then* with None, or with why it did not come.

        The databases *removed* are removed before, durably. What the shelf has of *instead_of* may then be
        overwritten: nobody else has it any more."""
        ...

    def take(self, contents: Contents) -> None:
        """Let the shelf have nothing of that manifest any more, durably, before its file, which is in its
        place here, changes. Called on whatever thread settles. Raises ``Unavailable``."""
        ...

    def unshelve(self, contents: Contents) -> None:
        """Let go of what fetching the manifest has left: its file is in use."""
        ...


class OldCodePort(Protocol):
    """Runs older versions of classes. The port keeps their sources by digest and executes them in separate
    processes, one at a time for all groups (E7)."""

    def is_kept(self, code: Code) -> bool:
        """Whether this host has the sources with that digest, so that it can execute a group of that code."""
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
        """Run :func:`holdfast.styles.code_change.continued` in a process with *code*, or with *by* in its
        place. The process writes the resulting pieces, framed, to the file *name* of the store and syncs it.
        Calls *then* with the result, but not before this method has returned; *records* has been read to its
        end by then. Returns False if another such process is running."""
        ...

    def cancel(self) -> None:
        """End the running process and remove its file. Its callback is not called."""
        ...


@dataclass(frozen=True, slots=True)
class GroupsPorts:
    """The ports of a host, as its groups use them."""

    clock: Clock
    timers: MakeTimers
    network: Network
    """Sends messages of :mod:`holdfast.sequence.messages` to the other hosts."""
    callees: Callees
    """Their events go to the ``outbound_calls`` attribute of :class:`.host_groups.HostGroups`."""
    random: Random
    trace: Trace
    journal: Journal
    authority: WatchPort
    soon: Callable[[Callable[[], None]], object]
    """Calls a function at the end of the turn, after everything that arrived together."""
    define: Callable[[GroupRecord], Definition]
    """Loads a group's class. Raises ``BadClass``, ``NotCapturable``."""
    nonce: Callable[[], Nonce]
    """Makes a nonce that no other change ever carries (A1)."""
    on_fault: Callable[[GroupId, str, str], None]
    """Reports a fault of an object: its group, the kind of fault (:class:`holdfast.styles.ports.StylePorts`),
    and a description."""
    slot: Slot
    """Records what is being executed, for those who find out that this process died (E4)."""
    on_halted: Callable[[GroupId, str], None]
    """Called when a member has stopped for good, with the reason (A5)."""
    on_view: Callable[[View], None] = lambda _: None
    """Called when a group of the domain has a new view."""
    on_skew: Callable[[int], None] = lambda _: None
    """Called with the number of nanoseconds by which this host's time is ahead of the others', and with 0
    when it no longer is."""
    beats: LeaseHeartbeats | None = None
    """The lease heartbeats, if a separate thread drives them (R4). None if the host's loop does."""
    lease_note: LeaseNote | None = None
    """What earlier processes of the host may have granted; None if it begins without any (R5)."""
    on_finding: Callable[[Finding], None] = lambda finding: None
    """Called when monitoring finds a member faulty, or well again after a fault (FTC-248)."""
    domain: str = ""
    """The name by which other domains know this one."""
    abroad: Callable[[OtherDomain, CalleeEvents], Callees] | None = None
    """Makes the connections to the hosts of another domain, as its clients have them. Raises
    ``InvalidRequest`` for an invalid address. None if other domains cannot be called."""
    onlooker: Callable[[str], CallObserver | None] = lambda _: None
    """Returns the observer of the calls to the group with that name on this host, if there is one. It is
    called after the group's class has been loaded."""
    copies: CopyPort | None = None
    """Makes copies of the process; None if every state is captured between two calls, however large it is."""
    slow: Callable[[str], SlowPort] | None = None
    """Returns what runs the slow methods of the group with that name (E15). None: they run on the loop."""
    files: FilesPort | None = None
    """Keeps the databases of stored objects; None if this host can have none."""
    old_code: OldCodePort | None = None
    """Runs older code; None if only records made by the current version of a class can be replayed."""


FAILURES: Final = (*DISK_ERRORS, StorageFailed)
"""What a failing disk raises."""


class DiskGuard:
    """Ends the host when anything it does for its groups, which are kept on *store*, meets a failing disk."""

    def __init__(self, store: OpenStore, ports: GroupsPorts) -> None:
        self._store = store
        self._ports = ports

    def guarded(self, work: Callable[..., None]) -> Callable[..., None]:
        """Wrap *work* so that a disk error raised by it ends the host."""

        def guarded(*arguments: object) -> None:
            try:
                work(*arguments)
            except FAILURES as failure:
                self.end_host(failure)

        return guarded

    def end_host(self, failure: HoldfastError | StorageFailed) -> None:
        """End the host because of one of ``FAILURES``, which a handler that runs for every call catches
        itself."""
        self._store.fail(failure.error if isinstance(failure, StorageFailed) else failure)

    def watch(self, prefix: str, revision: Revision, then: Callable[[WatchEvent], None]) -> None:
        """Watch a prefix with a guarded callback; see :data:`holdfast.groups.ports.Watch`."""
        self._ports.authority.watch(prefix, revision, self.guarded(then))

    def timers(self, on_timer: Callable[[Hashable], None]) -> EndingTimers:
        return self._ports.timers(self.guarded(on_timer))

    def soon(self, work: Callable[[], None]) -> None:
        """Call *work* at the end of the turn, guarded."""
        self._ports.soon(self.guarded(work))
