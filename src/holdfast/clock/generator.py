"""The generator of change sequence numbers.

Rules. Every CSN that the generator assigns is greater than every CSN that this server ever assigned (CSN-19)
and than every one that it has observed from others (CSN-20), across restarts and crashes (CSN-21).

How. Time never goes back (:mod:`.offsets`). A future timestamp is in stable storage (:mod:`.state`) and no
CSN reaches it, so everything that a crash forgets is below the timestamp at which the next run resumes. A new
future timestamp is stored about every ``store_interval_s``. If a store is late, the time waits just below the
stored timestamp and S goes on counting. When S is used up too, or a peer has pulled the time past it,
``take`` raises :class:`FutureNotStored`, and ``on_stored`` says when to ask again. A failed store stops the
generator for good (D1).

Threads. ``take``, ``commit``, ``abort`` and ``status`` may be called from any thread: they use no port but
the trace. Everything else belongs to the thread that drives the core. Callbacks run outside the lock, so two
threads' callbacks may overtake each other; ``oldest_in_flight`` is correct meanwhile (see :mod:`.vector`).

:class:`Sessions` records which peer is which replica; no two may share an id (CSN-40).
"""

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum
from typing import Final

from holdfast.clock.assignments import Assignments
from holdfast.clock.errors import (
    ClockConfig,
    ClockUnreadable,
    DuplicateReplica,
    FutureNotStored,
    GeneratorStopped,
    SkewTooLarge,
    TimeEnded,
)
from holdfast.clock.offsets import LogicalTime
from holdfast.clock.state import ClockState, FutureStore, Reservation, resumed
from holdfast.clock.vector import Vector
from holdfast.model.csn import REPLICA_MAX, SEQUENCE_MAX, SUB_SEQUENCE_MAX, TIMESTAMP_MAX, Csn
from holdfast.model.errors import HoldfastError, InvalidRequest
from holdfast.model.ids import SECOND, ReplicaId
from holdfast.model.ports import Clock, Disk, Timers, Token, Trace
from holdfast.model.validation import insist_valid


class Sessions:
    """The replica ids of the peers that have a session with this server."""

    def __init__(self, own: ReplicaId) -> None:
        self._own = own
        self._replicas: dict[str, ReplicaId] = {}

    def check(self, peer: str, replica: ReplicaId) -> None:
        """Raise :class:`DuplicateReplica` if *replica* is this server or another peer in session."""
        if replica == self._own:
            raise DuplicateReplica(peer, replica, "this server")
        for other, taken in self._replicas.items():
            if taken == replica and other != peer:
                raise DuplicateReplica(peer, replica, f"peer {other}")

    def begin(self, peer: str, replica: ReplicaId) -> None:
        self._replicas[peer] = replica

    def end(self, peer: str) -> None:
        self._replicas.pop(peer, None)


SAMPLE_NS: Final = SECOND
SAMPLE_TAG: Final = "clock.sample"
PARTS_MAX: Final = SUB_SEQUENCE_MAX + 1


@dataclass(frozen=True, slots=True)
class ClockPorts:
    """The ports of a generator. The disk may be shared: file names and tokens begin with "clock"."""

    clock: Clock
    timers: Timers
    disk: Disk
    trace: Trace


class Phase(Enum):
    """The phases in the life of a generator."""

    OPENING = "opening"  # until its first future timestamp is stored
    RUNNING = "running"
    CLOSING = "closing"
    CLOSED = "closed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ClockStatus:
    """The state of a generator at one moment, for monitoring."""

    phase: Phase
    state: ClockState
    until: int
    """The stored future timestamp: CSNs stay below it."""
    max_skew_s: int
    assigned: int
    committed: int
    aborted: int
    in_flight: int
    callback_failures: int


class Generator:
    """Assigns CSNs for one replica id. The host calls ``on_timer`` and ``on_synced``."""

    def __init__(
        self,
        ports: ClockPorts,
        replica: ReplicaId,
        config: ClockConfig | None = None,
        *,
        lock: AbstractContextManager[object] | None = None,
        on_stored: Callable[[], None] = lambda: None,
        on_failed: Callable[[str], None] = lambda why: None,
    ) -> None:
        """*lock*: a ``threading.Lock()`` if several threads take CSNs. *on_stored* is called after every
        store. *on_failed* is called once, whichever event made the store fail, and the host must then stop
        (D1)."""
        self._config = config or ClockConfig()
        insist_valid(self._config, "clock")
        if not 0 <= replica <= REPLICA_MAX:
            raise InvalidRequest(f"replica id {replica} is not within 0..{REPLICA_MAX}")
        self.replica = replica
        self._ports = ports
        self._lock = lock or nullcontext()
        self._on_stored = on_stored
        self._on_failed = on_failed
        self.assignments = Assignments(ports.trace, lock=self._lock, in_flight_max=self._config.in_flight_max)
        self._sessions = Sessions(replica)
        self._future = FutureStore(ports.disk)
        self._time = LogicalTime(0)
        self._phase = Phase.OPENING
        self._max_skew_s = self._config.csn_max_skew_s
        self._sampled_ns = 0
        self._is_clock_readable = True
        self._until = 0
        self._limit = 0
        """Only a T below this may be assigned: the stored future timestamp, or 0 while no CSN may be
        assigned."""

    # --- opening and closing

    def open(self, *, is_new: bool, csnstate: str | None = None) -> None:
        """Resume where an earlier run left off, and store the first future timestamp.

        *is_new*: this store has never been open; otherwise a missing clock file raises :class:`Corruption`.
        *csnstate*: the text kept in the directory tree, if any; the later of it and the file counts (CSN-45).
        CSNs can be taken after the first ``on_stored``. Raises :class:`GeneratorStopped` if writing to the
        disk fails.
        """
        file = self._future.load(is_new=is_new)
        tree = None if csnstate is None else ClockState.parse(csnstate)
        self._sampled_ns = self._read_clock()
        self._time = resumed(self._sampled_ns, file=file, csnstate=tree)
        self._ports.trace.note("clock_opened", state=self._state().text())
        self._ports.timers.set(SAMPLE_NS, SAMPLE_TAG)
        self._store_if_due()
        if self._phase is Phase.FAILED:
            raise self._refusal()

    def close(self) -> None:
        """Stop assigning CSNs, and store exactly where the next run may continue; then ``is_closed``."""
        if self._phase in (Phase.RUNNING, Phase.OPENING):
            self._become(Phase.CLOSING)
            self._store_if_due()

    @property
    def is_closed(self) -> bool:
        return self._phase is Phase.CLOSED

    @property
    def failure(self) -> str | None:
        """Why the store failed, None while it works; after a failure the host must stop (D1)."""
        return self._future.failure

    # --- CSNs (from any thread)

    def take(self, parts: int = 1, *, ends_at_once: bool = False) -> Csn:
        """Assign the next CSN, for one operation of *parts* parts or one batch of as many operations.

        Part i has the CSN ``csn.part(i)``. Every CSN taken must end in one :meth:`commit` or :meth:`abort`;
        with *ends_at_once* it counts as committed already, because nobody keeps a vector of it. Raises
        :class:`Unavailable` (wait for ``on_stored``, or for the clock) or :class:`Overloaded`.
        """
        if not 0 < parts <= PARTS_MAX:
            raise InvalidRequest(f"one CSN has 1 to {PARTS_MAX} parts, not {parts}")
        with self._lock:
            time = self._time
            if time.timestamp >= self._limit:
                raise self._refusal()
            sequence = time.sequence
            csn = Csn(time.timestamp, sequence, self.replica)
            if not ends_at_once:
                self.assignments.add(csn)
            if sequence == SEQUENCE_MAX:
                time.roll_over()
            else:
                time.sequence = sequence + 1
        (self.assignments.note_committed if ends_at_once else self.assignments.announce)(csn)
        return csn

    def commit(self, csn: Csn) -> None:
        """Record that the operation of *csn* is durable. Raises :class:`InvalidRequest` unless *csn* is in
        flight."""
        self.assignments.commit(csn)

    def abort(self, csn: Csn) -> None:
        """Record that *csn* will never be committed. Raises :class:`InvalidRequest` unless it is in
        flight."""
        self.assignments.abort(csn)

    # --- CSNs of peers

    def observe(self, peer: str, csn: Csn, *, override_reason: str | None = None) -> bool:
        """Make every later CSN greater than *csn*; True if that already survives a crash.

        If False, a caller that promises anything based on it must ask again after ``on_stored``. Raises
        :class:`SkewTooLarge` with nothing changed. *override_reason* lifts the limit for this call, for
        recovery, and is logged.
        """
        time = self._time
        with self._lock:
            if (csn.timestamp, csn.sequence) < (time.timestamp, time.sequence):
                return csn.timestamp < self._until
        system_ns = self._read_clock()
        with self._lock:
            if self._phase not in (Phase.OPENING, Phase.RUNNING):
                raise self._refusal()
            limit_s = self._max_skew_s if override_reason is None else None
            try:
                ahead_ns = self._time.observe(peer, csn, system_ns=system_ns, max_skew_s=limit_s)
            except SkewTooLarge as error:
                self._ports.trace.note("clock_peer_refused", peer=peer, reason=str(error))
                raise
            self._sampled_ns = system_ns
        if ahead_ns:
            self._ports.trace.note(
                "clock_pulled", peer=peer, ahead_ns=ahead_ns, max_skew_s=limit_s, override=override_reason
            )
        self._store_if_due()
        return csn.timestamp < self._until

    def begin_session(self, peer: str, replica: ReplicaId, vector: Vector) -> bool:
        """Begin a replication session: check the peer's id, and observe the newest CSN of its *vector*.

        Returns the same as :meth:`observe`. Raises :class:`DuplicateReplica` or :class:`SkewTooLarge`; then
        the session is refused and nothing here has changed.
        """
        self._sessions.check(peer, replica)
        newest = vector.newest()
        is_durable = newest is None or self.observe(peer, newest)
        self._sessions.begin(peer, replica)
        return is_durable

    def end_session(self, peer: str) -> None:
        self._sessions.end(peer)

    def absorb_network_offset(self, reason: str) -> int:
        """Let peers pull this clock by ``csn_max_skew`` anew; returns by how many nanoseconds they had.

        For people, after clocks were wrong. The logical time stays where it is and goes on from there, so no
        CSN is given twice; *reason* is logged.
        """
        with self._lock:
            absorbed_ns = self._time.absorb()
        self._ports.trace.note("clock_absorbed", network_offset_ns=absorbed_ns, reason=reason)
        self._store_if_due()
        return absorbed_ns

    def set_max_skew(self, seconds: int) -> None:
        """Change ``csn_max_skew`` while running. Offsets that have already grown stay: they never
        decrease."""
        insist_valid(ClockConfig(csn_max_skew_s=seconds), "clock")
        self._ports.trace.note("clock_max_skew", before_s=self._max_skew_s, after_s=seconds)
        self._max_skew_s = seconds

    # --- time and status

    def current_time(self) -> int:
        """The system clock in whole seconds, as sampled within the last second."""
        return self._sampled_ns // SECOND

    def time_ns(self) -> int:
        """The logical time by a fresh reading of the system clock; never behind the last sample."""
        wall_ns, time = self._ports.clock.wall(), self._time
        with self._lock:
            return max(wall_ns, time.system_ns) + time.local_ns + time.network_ns

    def csnstate(self) -> str:
        """The value of the attribute ``csnstate`` of the generator's entry (CSN-42)."""
        with self._lock:
            return self._state().text()

    def status(self) -> ClockStatus:
        with self._lock:
            return ClockStatus(
                phase=self._phase,
                state=self._state(),
                until=self._until,
                max_skew_s=self._max_skew_s,
                assigned=self.assignments.assigned,
                committed=self.assignments.committed,
                aborted=self.assignments.aborted,
                in_flight=self.assignments.in_flight,
                callback_failures=self.assignments.callback_failures,
            )

    # --- events

    def on_timer(self, tag: Hashable) -> None:
        if tag == SAMPLE_TAG and self._phase in (Phase.OPENING, Phase.RUNNING):
            self._ports.timers.set(SAMPLE_NS, SAMPLE_TAG)
            self._sample()
            self._store_if_due()

    def on_synced(self, token: Token, ok: bool) -> None:
        is_complete = self._future.on_synced(token, ok)
        if self._future.failure is not None:
            self._fail()
        elif is_complete:
            self._stored()

    # --- internal

    def _read_clock(self) -> int:
        try:
            wall_ns = self._ports.clock.wall()
        except HoldfastError as error:
            raise ClockUnreadable(f"the system clock cannot be read: {error}") from error
        if wall_ns < SECOND:
            raise ClockUnreadable(f"the system clock shows {wall_ns} ns since 1970, which is no time")
        return wall_ns

    def _sample(self) -> None:
        try:
            system_ns = self._read_clock()
        except ClockUnreadable as error:
            self._ports.trace.note("clock_unreadable", reason=str(error))
            with self._lock:
                self._is_clock_readable = False
                self._set_limit()
            return
        with self._lock:
            before_ns = self._time.local_ns
            self._sampled_ns = system_ns
            self._is_clock_readable = True
            self._time.sample(system_ns, until=self._until)
            grown_ns = self._time.local_ns - before_ns
            self._set_limit()
        if grown_ns:
            self._ports.trace.note("clock_set_back", local_offset_grew_ns=grown_ns)

    def _store_if_due(self) -> None:
        """Store the next future timestamp, if it is time and no store is under way."""
        if self._future.is_storing:
            return
        with self._lock:
            reservation = self._due_reservation()
        if reservation is None:
            return
        self._future.store(reservation)
        if self._future.failure is not None:
            self._fail()

    def _due_reservation(self) -> Reservation | None:
        state = self._state()
        if self._phase is Phase.CLOSING:
            return Reservation(*state.position, state)
        if self._phase not in (Phase.OPENING, Phase.RUNNING):
            return None
        logical_s = (self._sampled_ns + state.local_ns + state.network_ns) // SECOND
        wanted = max(logical_s, self._time.timestamp)
        ahead_s = self._config.store_interval_s + self._config.store_spare_s
        future = max(wanted + ahead_s, self._until)
        if future - self._until >= self._config.store_interval_s or self._offsets_grew():
            return Reservation(future, 0, state)
        return None

    def _offsets_grew(self) -> bool:
        stored = self._future.stored
        return stored is None or (
            (stored.state.local_ns, stored.state.network_ns) != (self._time.local_ns, self._time.network_ns)
        )

    def _stored(self) -> None:
        stored = self._future.stored
        if self._phase is Phase.CLOSING:
            if stored is not None and stored.position == self._state().position:
                self._become(Phase.CLOSED)
        elif stored is not None:
            self._until = stored.timestamp
            self._become(Phase.RUNNING)
        self._store_if_due()
        self._on_stored()

    def _become(self, phase: Phase) -> None:
        with self._lock:
            self._phase = phase
            self._set_limit()

    def _set_limit(self) -> None:
        is_open = self._phase is Phase.RUNNING and self._is_clock_readable
        self._limit = min(self._until, TIMESTAMP_MAX + 1) if is_open else 0

    def _fail(self) -> None:
        if self._phase is not Phase.FAILED:
            self._become(Phase.FAILED)
            self._ports.trace.note("clock_store_failed", reason=self._future.failure)
            self._on_failed(self._future.failure or "")

    def _state(self) -> ClockState:
        return ClockState.of(self._time)

    def _refusal(self) -> HoldfastError:
        """The error that says why no CSN can be assigned now."""
        if self._phase is Phase.FAILED:
            return GeneratorStopped(f"the clock's store failed: {self._future.failure}")
        if self._phase in (Phase.CLOSING, Phase.CLOSED):
            return GeneratorStopped("the generator is closed")
        if not self._is_clock_readable:
            return ClockUnreadable("the last reading of the system clock failed")
        if self._time.timestamp > TIMESTAMP_MAX:
            return TimeEnded(f"the logical time, {self._time.timestamp}, is past the end of CSN timestamps")
        return FutureNotStored(
            f"the time, {self._time.timestamp}, has reached the stored future timestamp, {self._until}"
        )
