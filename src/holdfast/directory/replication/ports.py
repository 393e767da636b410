"""What replication stands on, and its settings."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct

from holdfast.clock.vector import Vector
from holdfast.directory.replica.seam import ReplicaSeam
from holdfast.directory.replication.messages import Message
from holdfast.model.ids import SECOND, ReplicaId
from holdfast.model.ports import Clock, Timers, Trace
from holdfast.model.validation import Problem

MILLISECOND = SECOND // 1000


class Links(Protocol):
    """One connection to each peer: in order, nothing twice, and nothing after a loss."""

    def send(self, peer: str, message: Message) -> None:
        """To a peer that is not connected nothing is sent."""
        ...

    def close(self, peer: str) -> None:
        """End the connection; the driver connects again after a pause. ``on_down`` does not follow."""
        ...


class ShippedCopies(Protocol):
    """Copies of the store's file that others fetch, where the machine can ship files."""

    def offer(self, replica: ReplicaId, then: Callable[[bytes | None], None]) -> None:
        """Have a copy made for *replica*, which is counted already, or find the one that it was offered
        before; *then* gets its manifest, or None if there can be none."""
        ...

    def taken(self, replica: ReplicaId) -> None:
        """*replica* has its data: its copy is not needed any more."""
        ...


class SessionClock(Protocol):
    """The part of a CSN generator that guards against peers (:class:`holdfast.clock.generator.Generator`)."""

    def begin_session(self, peer: str, replica: ReplicaId, vector: Vector) -> bool: ...

    def end_session(self, peer: str) -> None: ...

    def csnstate(self) -> str: ...

    def current_time(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ReplicationPorts:
    replica: ReplicaSeam
    sessions: SessionClock
    links: Links
    clock: Clock
    timers: Timers
    trace: Trace
    copies: ShippedCopies | None = None


class ReplicationConfig(Struct, frozen=True, kw_only=True):
    """How much is on its way, how often replicas speak, and for how long others are waited for."""

    window_updates: int = 2_000
    """How many updates a peer may have sent that are not committed here. More hides a longer way, and costs
    memory on each link."""
    window_bytes: int = 4 << 20
    """The same in bytes. One update is always let through, however long it is."""
    batch_updates: int = 500
    """How many updates travel in one message."""
    batch_bytes: int = 256 << 10
    """How many bytes travel in one message, if it has more than one update."""
    relay_ns: int = 20 * MILLISECOND
    """How long others' changes wait before they are sent on. Who has a link to their issuer has them by then,
    and says so: what is sent twice shrinks, and the way over two links takes longer by this."""
    have_ns: int = 5 * MILLISECOND
    """How long a replica waits before it tells everybody what it has."""
    tick_ns: int = SECOND
    """How often links are looked at: a silent one is told what is here."""
    silence_ns: int = 10 * SECOND
    """After this a link on which nothing came is given up."""
    statement_ns: int = 10 * SECOND
    """How often a replica makes a statement. Vectors of idle masters, trimming and purging lag by this."""
    purge_ns: int = 600 * SECOND
    """How often a master looks for old state to purge. Each purge walks over all entries."""
    hear_first_ns: int = 5 * SECOND
    """For how long a replica that was opened waits to hear all its peers before it issues changes: they know
    if its store was put back since it was last opened (G3). When the time has passed it goes on without
    them."""
    log_age_s: int = 7 * 86_400
    """How old an update of the changelog may become because a known replica lacks it. Then that replica is
    marked and needs initialisation."""
    log_updates: int = 1_000_000
    """How many updates the changelog may keep for such a replica."""
    acknowledge_stores: int = 1
    """On how many disks a change is before its client hears of it: 1, or 2 for the disk of another master as
    well. With 2 every change takes a way to that master and back, and one that it does not confirm in time
    is answered with an error that says *committed here only*. A client may ask for either with a control."""
    acknowledge_ns: int = 2 * SECOND
    """How long ``acknowledge=2`` waits for a second store."""
    waiting_max: int = 10_000
    """How many operations may wait for a second store."""
    copies_max: int = 2
    """How many full copies are given at a time: each keeps a snapshot of the store open."""
    piece_bytes: int = 256 << 10
    """How long a piece of a copy is, unless a single row is longer."""
    copy_window: int = 8
    """How many pieces may be on their way."""

    def validate(self) -> list[Problem]:
        limits = {
            "window_updates": 1 << 20,
            "window_bytes": 1 << 30,
            "batch_updates": 4096,
            "batch_bytes": 8 << 20,
            "copy_window": 1 << 10,
            "copies_max": 16,
            "piece_bytes": 8 << 20,
            "acknowledge_stores": 2,
        }
        problems = []
        for name in self.__struct_fields__:
            most = limits.get(name, 1 << 62)
            if not 1 <= getattr(self, name) <= most:
                problems.append((name, f"must be within 1..{most}, not {getattr(self, name)}"))
        if self.silence_ns < 2 * self.tick_ns:
            problems.append(("silence_ns", "must be at least two ticks, or links end for nothing"))
        return problems
