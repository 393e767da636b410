"""What every replica is made of, and what each style has to say for itself.

A replica is one member's object and the calls that wait at it. Its parts are made here, and each knows the
others that it needs; what is done with them when something happens is :class:`.replica.Replica`'s.

When a primary lets no interleaved operation begin, so that its object comes to rest and can be captured
(E12).

It closes the gate by a record, for every member and every replay alike, as soon as somebody waits for a
moment of rest: a checkpoint that is due, an upgrade, an orderly stop. The object opens it itself when it has
been at rest (:mod:`holdfast.execution.queue`). Where that takes too long, as an operation waits for a group
that does not answer, another record opens it, and the rest is waited for again later.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

from holdfast.execution.context import Scope
from holdfast.execution.definition import Definition
from holdfast.execution.effects import Effects
from holdfast.execution.execution import Execution
from holdfast.execution.queue import OperationQueue
from holdfast.execution.records import Call, Marked, Record, Sent, Unmarked, Upgraded, encode_record
from holdfast.model.errors import BrokenInvariant, Unavailable
from holdfast.model.ids import Position
from holdfast.model.ports import Clock
from holdfast.styles.admission import Repetitions
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
from holdfast.styles.stamping import Stamper


class InterleavingGate:
    """Of one member, as its primary."""

    def __init__(self, clock: Clock, config: StyleConfig) -> None:
        self._clock = clock
        self._config = config
        self._not_before = 0
        """Until then nothing is ordered about it: the last record is on its way, or the pause is not over."""
        self._given_up_at: int | None = None
        """When a closed gate is opened though nothing came to rest."""

    def due(self, line: OperationQueue) -> Marked | Unmarked | None:
        """What to order now. What could not be ordered is due again in a while."""
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
        """When, by the clock, :meth:`due` should be asked though nothing comes in."""
        if line.is_gate_closed:
            return self._given_up_at
        return self._not_before if line.needs_gate else None


Then = Callable[[Effects, Position], None]
"""Takes what a record brought about, and the position at which that is final."""


class ReplicaBase(ABC):
    """The parts of one replica, and what is asked of them most."""

    def __init__(self, definition: Definition, ports: StylePorts, config: StyleConfig) -> None:
        self.definition = replace(definition, attempts=ports.attempts, on_raised=self._on_raised)
        self._audience = CallObservers(definition.group, ports, config.slow_ns)
        self._ports = ports
        self._config = config
        self._sequence: Sequence | None = None
        self._office = ServingState(ports, config)
        self._stamping = Stamper(ports.clock, ports.stamp, ports.time)
        self._waiting = WaitingReplies()
        self._queries = PendingQueries(ports)
        self._answering = Replies(
            definition.group, ports, self._audience, self._waiting, self._queries, self._final
        )
        self._repetitions = Repetitions(self._waiting, self._answering.tell)
        self._asking = QueryRunner(
            self.definition, ports, self._audience, self._queries, config.query_wait_ns, self.time_ns
        )
        self._checkpointing = Checkpointing(
            ports, config, self._log_bytes, self._on_digest, digests_state=self._digests_state
        )
        self._calling_out = OutgoingCalls()
        self._comparing = DigestComparison(self._checkpointing.equal)
        self._absence = Absence(ports.clock)
        self._succession = CodeReplay(
            self.definition,
            ports,
            config,
            keep=lambda captured: self._checkpointing.keep(captured),
            on_kept=lambda position, size: self._checkpointing.kept_elsewhere(position, size),
        )
        self._code_change = CodeChange(
            self.definition,
            ports,
            self._succession,
            self._stamping,
            self._calling_out,
            self._audience,
            sequence=lambda: self.sequence,
            begin=self._begin_with_code,
        )
        self.readiness = Readiness(
            ports,
            self._absence,
            self._office,
            self._succession,
            self._checkpointing,
            self._comparing,
            renounce=self._renounce,
        )
        self._gate = InterleavingGate(ports.clock, config)
        self._sending = Outbox(definition.group, ports.clock)

    def bind(self, sequence: Sequence) -> None:
        """The member this replica stands on; before any event."""
        self._sequence = sequence

    def tune(self, config: StyleConfig) -> None:
        """Execute as *config* says from now on, as far as that can change: when states are captured."""
        self._config = config
        self._checkpointing.tune(config)

    @property
    def sequence(self) -> Sequence:
        if self._sequence is None:
            raise BrokenInvariant("a replica is bound before it is used")
        return self._sequence

    @property
    def is_ready(self) -> bool:
        """The object has all that is committed, and takes calls."""
        return self._office.is_taken_up

    @property
    def awaits_turn(self) -> bool:
        """Whether a commit has brought on something that only a turn does."""
        return True

    @property
    @abstractmethod
    def execution(self) -> Execution | None:
        """The object, if this member holds one now."""

    def time_ns(self) -> int:
        """The group's time: that of a stamp given now; a backup knows only what it is at least (X4)."""
        if self._office.is_taken_up:
            return self._stamping.now_ns()
        execution = self.execution
        return max(self._ports.time(), execution.time_ns if execution is not None else 0)

    def _log_bytes(self) -> int:
        return self.sequence.log_bytes

    def _final(self) -> Position:
        return self.sequence.committed

    def _serving(self) -> Execution:
        execution = self.execution
        if not self._office.is_taken_up or execution is None or not self.sequence.is_serving:
            why = self._absence.why or self._office.why_not
            raise Unavailable(f"group {self.definition.group} is not served here{f': {why}' if why else ''}")
        return execution

    def _check_there(self) -> None:
        """Raises ``Unavailable`` with the reason where this member goes without its object."""
        if self._absence.is_absent:
            raise Unavailable(f"group {self.definition.group} has no object here: {self._absence.why}")

    def _submit(self, record: Record, count: int = 1) -> Position:
        body = encode_record(record)
        self._checkpointing.grew(len(body))
        return self.sequence.submit(body, count)

    def _on_raised(self, scope: Scope, error: BaseException) -> None:
        """Where it is executed for whoever called; replays and backups only find the same."""
        if self._office.is_taken_up:
            self._audience.raised(scope, error)

    # --- what the styles do differently

    @abstractmethod
    def _ready(self) -> Execution:
        """The object with everything committed applied to it."""

    def _begin_with_code(self) -> None:
        """The class as it is here may go on (E7)."""
        self._office.code_is_there()
        self._begin_from_kept()

    @abstractmethod
    def _begin_from_kept(self) -> None:
        """Have the object made of what this host keeps, whatever there was."""

    @abstractmethod
    def _order_upgrade(self, execution: Execution, record: Upgraded) -> Position:
        """Apply the record to the object, which has all that is committed, and order it. The object is given
        up if that fails. Raises :class:`holdfast.execution.definition.CannotUpgrade`."""

    @abstractmethod
    def _renounce(self) -> None:
        """Give up the object; calls are taken again when there is another."""

    @abstractmethod
    def _order_calls(self, execution: Execution, token: Token, sent: Sent, calls: list[Call]) -> None: ...

    @abstractmethod
    def _order(self, execution: Execution, record: Record, waits: tuple[Token, Then] | None = None) -> None:
        """Order a record of one position; who *waits* gets its effects when it has been executed."""

    @abstractmethod
    def _do_due(self) -> None:
        """What a serving primary does in each turn: checkpoints, and what else the style has to order."""

    @abstractmethod
    def _on_digest(self, position: Position, digest: bytes) -> None:
        """A state was captured, and this is its digest."""

    def _digests_state(self, execution: Execution) -> bool:
        """Whether digests cover the object's state, or only its replies and timers."""
        return True

    @abstractmethod
    def _is_fired(self, timer: int, due_ns: int) -> bool:
        """Whether this firing was ordered already and only waits to be executed."""
