"""Reads ordered records again, page by page, and executes them again.

:func:`replay` executes the records of a former primary. :class:`StepScanner` finds what advances a passive
backup without looking at every commit, or twice at a record: the primary orders *steps* (`State`, `Update`,
`Forward`, `Upgraded`) now and then among thousands of other records. A backup scans the new records from time
to time; only if there is a step among them does it read again the records between the object and that step.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Final

from holdfast.execution.crash_attempts import CrashSuspicions
from holdfast.execution.execution import Execution
from holdfast.execution.records import (
    Annexed,
    Digested,
    Executed,
    Forward,
    Ran,
    Record,
    State,
    Update,
    Upgraded,
    decode_calls,
    decode_record,
    encode_record,
)
from holdfast.model.code import UNKNOWN
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import Position
from holdfast.model.ports import Clock
from holdfast.storage.record import ORIGIN
from holdfast.storage.record import Record as Stored
from holdfast.styles.admission import CALLS_PER_RECORD_MAX
from holdfast.styles.checkpointing import AGAIN_NS
from holdfast.styles.config import StyleConfig
from holdfast.styles.divergence import Diverged
from holdfast.styles.poison import among_calls
from holdfast.styles.ports import Sequence, StylePorts
from holdfast.styles.slow_runs import SlowRuns

PAGE_POSITIONS: Final = 1024
"""How many positions are read from the log at a time."""


class CannotReplay(HoldfastError):
    """Raised when an acknowledged operation cannot be executed again: the object is lost here."""

    code = "cannot_replay"


def records_after(sequence: Sequence, position: Position, up_to: Position) -> list[Stored]:
    """The records after *position* that end at or before *up_to*. Raises ``Overloaded``."""
    if position >= up_to:
        return []
    return [
        record
        for record in sequence.read(Position(position + 1), up_to)
        if record.first > position and record.first + record.count - 1 <= up_to
    ]


def pages(sequence: Sequence, position: Position, up_to: Position) -> Iterator[list[Stored]]:
    """The same records, in pages."""
    while position < up_to:
        end = Position(min(up_to, position + PAGE_POSITIONS))
        records = records_after(sequence, position, end)
        if not records:
            end = Position(min(up_to, end + CALLS_PER_RECORD_MAX))  # one record, longer than a page
            records = records_after(sequence, position, end)
        if not records:
            return
        position = records[-1].last
        yield records


def replay(
    execution: Execution,
    records: list[Stored],
    ports: StylePorts,
    slow_runs: SlowRuns,
    forgiven: Position = ORIGIN.position,
) -> Iterator[None]:
    """Execute again what the former primary executed; the recorded outcomes remain valid (E1).

    Raises :class:`CannotReplay`, and ``Diverged`` at the first outcome that differs: the object is not the
    one that answered (E8). Differences up to *forgiven* are only reported, because an operator has accepted
    them (V4).
    """
    for each in records:
        record = decode_record(each.body)
        if ports.attempts.has_suspects and isinstance(record, Executed):
            _refuse_poisonous(execution, record, ports.attempts)
        slow = execution.line.slow if isinstance(record, Ran) else None
        while slow is not None and not slow_runs.is_done(slow, each.first):
            yield None
        while isinstance(record, Annexed) and not execution.may_apply(record):
            yield None
        effects = execution.apply(each.first, record)
        if effects.divergence and each.last > forgiven:
            raise Diverged(effects.divergence, each.last)
        if effects.divergence:
            ports.fault("divergence", effects.divergence)
        yield None


def _refuse_poisonous(execution: Execution, record: Executed, attempts: CrashSuspicions) -> None:
    """Raise :class:`CannotReplay` for a call that was answered but crashes the processes that execute it
    again. It can be neither given up nor skipped, so this member has no object, but the host survives to say
    so."""
    for found in among_calls(attempts, record.sent.client, decode_calls(record.sent.calls)):
        if execution.is_new(found.request, found.expiration_s):
            raise CannotReplay(f"executed again, {found.call} ended {found.attempts} processes")


_STEPS: Final = tuple(
    encode_record(each)[1:2] for each in (State(b""), Update(b"", b""), Forward(), Upgraded(UNKNOWN, UNKNOWN))
)
"""The tags of the steps, which are the second byte of a record: other records need not be decoded."""


_DIGESTED: Final = encode_record(Digested(Position(0), b""))[1:2]


def is_step(record: Stored) -> bool:
    return record.body[1:2] in _STEPS


class StepScanner:
    """Scans the records of one backup for steps. *grew* is called with the length of the records that were
    passed, because a checkpoint at one step does not cover the records between it and the next.
    *on_digested* is called for each digest of the primary as soon as it is seen, perhaps more than once."""

    def __init__(
        self,
        config: StyleConfig,
        clock: Clock,
        grew: Callable[[int], None],
        on_digested: Callable[[Digested], None],
    ) -> None:
        self.is_timed = False
        """Whether a scan is also due after as much time as a failover may spend on replaying, because the
        primary cannot have executed for longer (E5). *Without it:* with calls of 15 ms each, a warm backup
        that looks at every 512th has seven seconds to replay when it takes over."""
        self._config = config
        self._on_digested = on_digested
        self._clock = clock
        self._grew = grew
        self._at = Position(0)
        self._ended_at = clock.now()
        self._log_bytes = 0
        """The length of the log at the last scan."""
        self._ahead: deque[tuple[Position, int]] = deque()
        """Records that were scanned but not passed yet: where each ends, and its length."""
        self._noted = Position(0)
        """Records up to this position are in *_ahead* or have been passed."""
        self._seen = Position(0)
        self.without_steps = Position(0)
        """There is no step between the object, or the checkpoint it is to be loaded from, and this
        position."""

    def tune(self, config: StyleConfig) -> None:
        self._config = config

    def is_due(self, up_to: Position, log_bytes: int) -> bool:
        """Whether enough has been committed since the last scan: many positions, or few long ones; or
        anything at all, after some time and while the log is long. *Without that:* the log
        is full, so the primary takes no calls and only orders one mark after the other; these are never
        enough for a scan, and no checkpoint frees the log."""
        age_ns = self._clock.now() - self._ended_at
        if self.is_timed and age_ns >= self._config.replay_budget_ns:
            return True
        if log_bytes < self._log_bytes:
            self._log_bytes = log_bytes  # a checkpoint has made it shorter
        return (
            up_to - self._at >= self._config.scan_positions
            or log_bytes - self._log_bytes >= self._config.scan_bytes
            or (log_bytes >= self._config.long_log_bytes and up_to > self._at and age_ns >= AGAIN_NS)
        )

    def ended(self, up_to: Position, log_bytes: int) -> None:
        """Record that everything committed up to *up_to* has been scanned, whatever the result."""
        self._at, self._log_bytes, self._ended_at = up_to, log_bytes, self._clock.now()

    def last_step(self, pages: Iterable[list[Stored]]) -> Generator[None, None, Position]:
        """Scan *pages*. Returns where the last step in them ends, 0 if there is none."""
        found = Position(0)
        for records in pages:
            for record in records:
                last, tag = Position(record.first + record.count - 1), record.body[1:2]
                if record.first > self._noted:
                    self._noted = last
                    self._ahead.append((last, len(record.body)))
                if tag in _STEPS:
                    found = last
                elif tag == _DIGESTED:
                    self._tell_of(record)
            self._seen = last
            yield None
        return found

    def steps(
        self, sequence: Sequence, start: Callable[[], Position], up_to: Position
    ) -> Iterator[tuple[list[Stored], Record] | None]:
        """Yield every step between the object's position, *start*, and *up_to*: the records since the step
        before, including its own, and the decoded step. Yields None after each bit of work."""
        unseen = max(start(), self.without_steps)
        last_step = yield from self.last_step(pages(sequence, unseen, up_to))
        passed: list[Stored] = []
        # `start` is called again: scanning may have turned a copy into a checkpoint, and the log starts there
        # now.
        for records in pages(sequence, start(), last_step):
            for record in records:
                passed.append(record)
                if record.body[1:2] in _STEPS:
                    self.passed(record.last)
                    yield passed, decode_record(record.body)
                    passed = []
            yield None
        self.took_steps()

    def _tell_of(self, record: Stored) -> None:
        digested = decode_record(record.body)
        if isinstance(digested, Digested):
            self._on_digested(digested)

    def passed(self, position: Position) -> None:
        """Record that the object has advanced beyond the records up to *position*."""
        size = 0
        while self._ahead and self._ahead[0][0] <= position:
            size += self._ahead.popleft()[1]
        if size:
            self._grew(size)

    def took_steps(self) -> None:
        """Record that all steps found have been applied."""
        self.passed(self._seen)
        self.without_steps = self._seen

    def begin_anew(self) -> None:
        """Start over: the object was replaced or given up, and steps may have to be applied again."""
        self._seen = self.without_steps = Position(0)
