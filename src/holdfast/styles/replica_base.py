"""The parts that every replica is made of, and the methods that each style must implement.

A replica is one member's object and the calls that wait for it. Its parts are created here, each with the
other parts it needs; :class:`.replica.Replica` uses them when something happens.

:class:`InterleavingGate` decides when a primary lets no interleaved operation start, so that its object comes
to rest and can be captured (E12). The primary closes the gate by a record, so that every member and every
replay does the same, as soon as something waits for the object to be at rest: a due checkpoint, an upgrade,
or an orderly stop. The queue opens the gate itself once the object has been at rest
(:mod:`holdfast.execution.queue`). If that takes too long, because an operation waits for a group that does
not answer, another record opens the gate, and it is tried again later.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

from holdfast.execution.context import Scope
from holdfast.execution.definition import Definition
from holdfast.execution.effects import Effects
from holdfast.execution.execution import Execution
from holdfast.execution.queue import OperationQueue
from holdfast.execution.records import (
    Annexed,
    Call,
    Marked,
    Ran,
    Record,
    Sent,
    Unmarked,
    Upgraded,
    encode_record,
)
from holdfast.execution.slow_run import SlowRun
from holdfast.model.errors import Overloaded, Rejected, Unavailable
from holdfast.model.ids import HostId, Position
from holdfast.model.ports import Clock
from holdfast.sequence.messages import PeerMessage
from holdfast.styles.admission import Repetitions, nested_in_line_max, nested_log_bytes_max
from holdfast.styles.annexes import MemberAnnexes
from holdfast.styles.call_observers import CallObservers
from holdfast.styles.checkpointing import Checkpointing
from holdfast.styles.code_change import CodeChange
from holdfast.styles.code_replay import CodeReplay
from holdfast.styles.config import StyleConfig
from holdfast.styles.divergence import Absence, DigestComparison
from holdfast.styles.outgoing import Outbox, OutgoingCalls
from holdfast.styles.ports import Sequence, StylePorts, Token
from holdfast.styles.queries import PendingQueries, QueryRunner
from holdfast.styles.readiness import Readiness
from holdfast.styles.replies import Replies, WaitingReplies
from holdfast.styles.serving_state import ServingState
from holdfast.styles.slow_runs import SlowRuns
from holdfast.styles.stamping import Stamper


class InterleavingGate:
    """The gate of one member, used while it is primary."""

    def __init__(self, clock: Clock, config: StyleConfig) -> None:
        self._clock = clock
        self._config = config
        self._not_before = 0
        """Until then no record is ordered: the last one is under way, or the pause is not over."""
        self._given_up_at: int | None = None
        """When a closed gate is opened although the object did not come to rest."""

    def tune(self, config: StyleConfig) -> None:
        self._config = config

    def due(self, line: OperationQueue) -> Marked | Unmarked | None:
        """The record to order now, if any. A record that could not be ordered is due again after a while."""
        if not line.is_gate_closed:
            self._given_up_at = None
            if not line.needs_gate or self._clock.now() < self._not_before:
                return None
            self._not_before = self._clock.now() + self._config.gate_again_ns
            return Marked()
        now = self._clock.now()
        if self._given_up_at is None:
            self._given_up_at = now + self._config.gate_ns
        if now < self._given_up_at:
            return None
        self._given_up_at = None
        self._not_before = now + self._config.gate_pause_ns
        return Unmarked()

    def next_ns(self, line: OperationQueue) -> int | None:
        """When, by the clock, :meth:`due` should be called even if nothing arrives."""
        if line.is_gate_closed:
            return self._given_up_at
        return self._not_before if line.needs_gate else None


Then = Callable[[Effects, Position], None]
"""Gets the effects of a record, and the position at which they are final."""


class ReplicaBase(ABC):
    """The parts of one replica, and the questions asked of them most often."""

    def __init__(self, definition: Definition, ports: StylePorts, config: StyleConfig) -> None:
        self.definition = replace(definition, attempts=ports.attempts, on_raised=self._on_raised)
        self._observers = CallObservers(definition.group, ports, config.slow_ns)
        self._ports = ports
        self._config = config
        self.sequence: Sequence
        """The member of the sequence that this replica belongs to; set by :meth:`bind` before any event."""
        self._serving_state = ServingState(ports, config)
        self._stamping = Stamper(ports.clock, ports.stamp, ports.time)
        self._waiting = WaitingReplies()
        self._queries = PendingQueries(ports)
        self._answering = Replies(
            definition.group, ports, self._observers, self._waiting, self._queries, self._final
        )
        self._repetitions = Repetitions(definition.group, config, self._waiting, self._answering.tell)
        self._asking = QueryRunner(
            self.definition, ports, self._observers, self._queries, config.query_wait_ns, self.time_ns
        )
        self._checkpointing = Checkpointing(
            ports, config, self._log_bytes, self._on_digest, digests_state=self._digests_state
        )
        self._calling_out = OutgoingCalls()
        self._comparing = DigestComparison(self._checkpointing.equal)
        self._absence = Absence(ports.clock)
        self._code_replay = CodeReplay(
            self.definition,
            ports,
            config,
            keep=lambda captured: self._checkpointing.keep(captured),
            on_kept=lambda position, size: self._checkpointing.kept_elsewhere(position, size),
        )
        self._code_change = CodeChange(
            self.definition,
            ports,
            self._code_replay,
            self._stamping,
            self._calling_out,
            self._observers,
            sequence=lambda: self.sequence,
            begin=self._begin_with_code,
            submit=lambda record: self._submit(record),
        )
        self.readiness = Readiness(
            ports,
            self._absence,
            self._serving_state,
            self._code_replay,
            self._checkpointing,
            self._comparing,
            give_up_object=self._give_up_object,
        )
        self._gate = InterleavingGate(ports.clock, config)
        self._slow_runs = SlowRuns(ports, self._slow_run)
        self._sending = Outbox(definition.group, ports.clock)
        self.annexes = MemberAnnexes(
            definition.annexes,
            ports,
            sequence=lambda: self.sequence,
            execution=lambda: self.execution,
            leads=lambda: self._serving_state.takes_calls and self.sequence.is_serving,
            term=lambda: self._serving_state.terms,
            order=self._order_annexed,
            renew=self._renew,
        )

    def bind(self, sequence: Sequence) -> None:
        """Set the member of the sequence that this replica belongs to, before any event."""
        self.sequence = sequence
        self._repetitions.lacks_space = sequence.lacks_space

    def on_peer_message(self, peer: HostId, message: PeerMessage) -> None:
        """Handle what another member told this one (W1)."""
        self.annexes.on_message(peer, message)

    def on_claiming(self) -> None:
        """Handle that this member wants to lead: advance its object meanwhile, if this style does that."""
        return

    def tune(self, config: StyleConfig) -> None:
        """Apply *config* from now on, as far as it can change (:mod:`holdfast.settings.sections`)."""
        self._config = config
        for part in (self._checkpointing, self._code_replay, self._gate):
            part.tune(config)

    @property
    def is_ready(self) -> bool:
        """Whether the object contains everything committed, and calls are taken."""
        return self._serving_state.takes_calls

    @property
    def awaits_turn(self) -> bool:
        """Whether the last commit caused work that only a turn does."""
        return True

    @property
    @abstractmethod
    def execution(self) -> Execution | None:
        """The object, if this member has one now."""

    def time_ns(self) -> int:
        """The group's time. On a primary, that of a stamp made now; a backup knows only a lower bound
        (X4)."""
        if self._serving_state.takes_calls:
            return self._stamping.now_ns()
        execution = self.execution
        return max(self._ports.time(), execution.time_ns if execution is not None else 0)

    def _log_bytes(self) -> int:
        return self.sequence.log_bytes

    def _check_load(self, in_line: int, *, is_nested: bool) -> None:
        """Raises ``Overloaded`` if too many calls are queued, or if the log waits for checkpoints. Calls of
        other groups have some extra room. *Without it:* the queue or the log is full and waits for a group
        that calls this one; that call is refused again and again (E10)."""
        config, group = self._config, self.definition.group
        if in_line >= (nested_in_line_max(config) if is_nested else config.in_line_max):
            raise Overloaded(f"group {group}: {in_line} calls stand in line")
        if self.sequence.log_bytes > (nested_log_bytes_max(config) if is_nested else config.log_bytes_max):
            why_none = self._checkpointing.why_none
            why = f", and the last one failed: {why_none}" if why_none else ""
            raise Overloaded(f"group {group}: its log waits for checkpoints{why}")

    @property
    def has_room(self) -> bool:
        """Whether calls of other groups are accepted: neither the queue nor the log is too full for them
        (E10)."""
        execution = self.execution
        in_line = execution.line.waiting if execution is not None else 0
        return in_line < nested_in_line_max(self._config) and self._has_room_in_log

    @property
    def _has_room_in_log(self) -> bool:
        return self._log_bytes() <= nested_log_bytes_max(self._config)

    @property
    def why_no_checkpoint(self) -> str:
        """Why this member's last checkpoint failed (E9); empty if it did not."""
        return self._checkpointing.why_none

    def is_unreadable(self, position: Position) -> bool:
        """Whether the state at *position* or a later one is known not to be readable."""
        return self._checkpointing.is_unreadable(position)

    def is_near(self) -> bool:
        """Whether it could serve almost at once: its object waits for no annex, or is loaded quickly."""
        execution = self.execution
        return not (self._checkpointing.is_kept_large if execution is None else execution.is_paused)

    def _final(self) -> Position:
        return self.sequence.committed

    def _serving(self) -> Execution:
        execution = self.execution
        if not self._serving_state.takes_calls or execution is None or not self.sequence.is_serving:
            why = self._absence.why or self._serving_state.why_not
            raise Unavailable(f"group {self.definition.group} is not served here{f': {why}' if why else ''}")
        return execution

    def _check_there(self) -> None:
        """Raises ``Unavailable`` with the reason if this member has no object."""
        if self._absence.is_absent:
            raise Unavailable(f"group {self.definition.group} has no object here: {self._absence.why}")

    def _submit(self, record: Record, count: int = 1) -> Position:
        body = encode_record(record)
        self._checkpointing.grew(len(body))
        return self.sequence.submit(body, count)

    def _order_annexed(self, annex: str, positions: int, body: bytes) -> Position:
        """Order a record of an annex (W10). Raises ``Unavailable``, ``Overloaded``."""
        execution = self._serving()
        self._check_load(execution.line.waiting, is_nested=False)
        self._repetitions.check_space()
        record = Annexed(self._stamping.next(positions), annex, positions, body)
        if not execution.annexes.is_ready(record):
            raise Overloaded(f"group {self.definition.group}: {annex} is not ready for what it orders")
        self._order(execution, record)
        return self.sequence.tail

    def _renew(self, why: str) -> None:
        """Give up the object of a backup, and take the primary's state in its place."""
        if not self._absence.is_absent and not self._serving_state.is_primary:
            execution = self.execution
            reached = execution.position if execution is not None else self._checkpointing.kept
            self.readiness.renew(why, Position(reached + 1))

    def _slow_run(self) -> SlowRun | None:
        execution = self.execution
        return execution.line.slow if execution is not None else None

    def _run_slow(self, execution: Execution) -> None:
        """As primary, have the slow operation that has started computed, and order its end (E15)."""
        slow = execution.line.slow
        if slow is not None and not slow.is_ordered and self._slow_runs.is_done(slow):
            slow.is_ordered = True
            try:
                self._order(execution, Ran(self._stamping.next(), *slow.request))
            except (Rejected, Unavailable):
                slow.is_ordered = False  # it is due again in the next turn, if the object is still there
                raise

    def _on_raised(self, scope: Scope, error: BaseException) -> None:
        """Report an exception of a method, but only where it runs for its caller, not in replays or on
        backups."""
        if self._serving_state.takes_calls:
            self._observers.raised(scope, error)

    # --- what the styles do differently

    @abstractmethod
    def _ready(self) -> Execution | None:
        """Return the object with everything committed applied to it; None if a record waits for something
        that has a turn follow. Raises ``Overloaded`` if the next turn goes on with it."""

    def _begin_with_code(self) -> None:
        """Make the object: the class loaded here may continue (E7)."""
        self._serving_state.code_is_there()
        self._begin_from_kept()

    @abstractmethod
    def _begin_from_kept(self) -> None:
        """Make the object from what this host keeps, replacing any existing one."""

    @abstractmethod
    def _order_upgrade(self, execution: Execution, record: Upgraded) -> Position:
        """Apply the record to the object, which contains everything committed, and order it. If that fails,
        the object is given up. Raises :class:`holdfast.execution.definition.CannotUpgrade`."""

    @abstractmethod
    def _give_up_object(self) -> None:
        """Give up the object; calls are taken again when there is another."""

    @abstractmethod
    def _order_calls(self, execution: Execution, token: Token, sent: Sent, calls: list[Call]) -> None: ...

    @abstractmethod
    def _order(self, execution: Execution, record: Record, waits: tuple[Token, Then] | None = None) -> None:
        """Order a record that is not of calls; *waits* gets its effects once it has been executed."""

    @abstractmethod
    def _do_due(self) -> None:
        """Do what a serving primary does in each turn: checkpoints, and whatever else the style has to
        order."""

    @abstractmethod
    def _on_digest(self, position: Position, digest: bytes) -> None:
        """Handle the digest of a state that was captured."""

    def _digests_state(self, execution: Execution) -> bool:
        """Whether digests cover the object's state, or only replies and timers."""
        return True

    @abstractmethod
    def _is_fired(self, timer: int, due_ns: int) -> bool:
        """Whether this firing was ordered already and only waits to be executed."""
