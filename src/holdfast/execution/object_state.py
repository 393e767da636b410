"""One member's object, everything that belongs to it, and the position up to which both are current.

The object, the retention table, the timers, the outbox, the annexes and the queue are saved together. A
suspended method cannot be saved, because its frame is not data. So no state is captured while a method waits;
:meth:`ObjectState.when_at_rest` reports the next moment between two operations, which comes even if the queue
never empties. A member that loads an older state finds the waiting call in the records that follow, runs it
again, and resumes it with the recorded outcomes of its nested calls.

:class:`.execution.Execution` is the subclass that changes the state.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Self

import msgspec

from holdfast.execution import saved_state
from holdfast.execution.annex import AnnexStates
from holdfast.execution.database import ObjectDatabase
from holdfast.execution.definition import Definition
from holdfast.execution.effects import Outgoing
from holdfast.execution.outputs import Outputs
from holdfast.execution.queue import OperationQueue
from holdfast.execution.records import Annexed, Update
from holdfast.execution.saved_state import Saved
from holdfast.execution.sends import Sends
from holdfast.execution.state_pieces import weighs_over
from holdfast.execution.stored import attach
from holdfast.execution.timers import Timers
from holdfast.model.calls import Request
from holdfast.model.code import UNKNOWN, Code
from holdfast.model.csn import ZERO
from holdfast.model.errors import invariant
from holdfast.model.ids import Position
from holdfast.sequence.retention import FRESH, Retention


class ObjectState:
    """The state that records act on: how it is made, read, saved, loaded and compared."""

    def __init__(
        self,
        definition: Definition,
        instance: object | None = None,
        database: ObjectDatabase | None = None,
    ) -> None:
        """Start as a new group. Raises :class:`.capture.NotCapturable`, :class:`.definition.NotMade`."""
        self.definition = definition
        self.position = Position(0)
        """The position up to which everything has been applied."""
        self.csn = ZERO
        self.time_ns = 0
        self._take_code(UNKNOWN)
        self.retention = Retention()
        self.timers = Timers()
        self.sends = Sends()
        self.annexes = AnnexStates(definition.annexes)
        self.is_paused = False
        """Whether the next record waits until its annex is ready (W10)."""
        if instance is None:
            instance = definition.make_first(self.timers)
        self.line = OperationQueue(definition, instance, self.timers, self.sends)
        self.outputs = self.line.scope.outputs = Outputs(lambda: self.position)
        """What the object gave to the outside lately (O5); no part of its state."""
        self.database = database
        """The database of a stored object."""
        if database is None and definition.files is not None:
            self.database = definition.files.fresh()
        if self.database is not None:
            attach(instance, self.database)
        self.behind: Saved | None = None
        """What the database of a stored object holds beyond ``position``: records up to there have taken
        effect, and are only passed over (W7)."""
        self.is_line_held = False
        """Whether the calls that stand in line where the database's position is reached do not run before it
        is known that they may (E4)."""

    @property
    def is_at_rest(self) -> bool:
        """Whether no method waits, so that the state can be captured."""
        return self.line.is_at_rest

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits at all: every applied call has its outcome."""
        return self.line.is_at_rest and not self.line.queue

    def when_at_rest(self, then: Callable[[], object]) -> None:
        """Call *then* at the next moment between two operations."""
        self.line.when_at_rest(then)

    def outgoing(self) -> Outgoing | None:
        """The call to another group that an operation has been waiting for longest."""
        return self.line.outgoing()

    @property
    def may_be_asked(self) -> bool:
        """Whether ``is_alive`` may be called now: the object is at rest, or its class is interleaved."""
        return self.line.is_at_rest or self.definition.interface.is_interleaved

    @property
    def may_be_read(self) -> bool:
        """Whether there is a state that all queries, strict ones included, may read."""
        return self.line.seen_by("") is not None

    def sees(self, method: str) -> Position | None:
        """The position of the state that a query of *method* would see now; None if it would see an operation
        half done."""
        sight = self.line.seen_by(method)
        if sight is None:
            return None
        return self.position if sight.position is None else sight.position

    def is_new(self, request: Request, expiration_s: int) -> bool:
        """Whether the request would run if it were applied now."""
        return self.retention.judge(*request, expiration_s) is FRESH

    @property
    def is_held_up(self) -> bool:
        """Whether the object cannot go on: a slow operation is being computed, or an annex is not ready."""
        return self.is_paused or self.line.is_computing

    def may_apply(self, record: Annexed) -> bool:
        """Whether the next record, *record*, may be applied now (W10). One that is only passed over waits for
        nothing."""
        self.is_paused = self.behind is None and not self.annexes.is_ready(record)
        return not self.is_paused

    @property
    def is_unbegun(self) -> bool:
        """Whether the object is as at creation, with no record applied."""
        return self.position == 0

    def _take_code(self, code: Code) -> None:
        self.code = code
        """The version of the code that made the state."""
        self.is_own = code.is_same(self.definition.code)
        """Whether the class loaded here is that code, so that the next records may be executed."""

    @property
    def is_whole(self) -> bool:
        """Whether the class loaded here made the state, and the state is that of ``position``."""
        return self.is_own and self.behind is None

    # --- saving and loading

    def save(self) -> bytes:
        """Save everything as of ``position``, and check that it can be read back (E9). Raises
        ``NotCapturable``, and what ``get_state`` raises."""
        invariant(self.database is None or not self.position, "a stored object is saved with its files")
        return self._encoded()

    def _encoded(self) -> bytes:
        definition = self.definition
        state = definition.capture.state_of(self.line.instance, definition.spare, self.code.version)
        return saved_state.encoded(self._saved(state), definition.interface)

    def flush(self) -> bytes:
        """Let the database of a stored object hold everything up to ``position``; returns what was saved with
        it, as :meth:`save` would. Raises ``NotCapturable``."""
        invariant(self.database is not None and self.behind is None, "the object has its database")
        assert self.database is not None  # for the type checker: the invariant has stopped us otherwise
        head = self._encoded()
        self.database.flush(self.position, head)
        return head

    def pieces(self) -> Iterator[bytes]:
        """Save a large state, as consecutive pieces. The database of a stored object is flushed instead."""
        if self.database is not None:
            return iter([self.flush()])
        return saved_state.pieces(self._saved(b""), self.definition, self.line.instance)

    @classmethod
    def load(cls, definition: Definition, saved: bytes) -> Self:
        """Load what :meth:`save` returned; call :meth:`.execution.Execution.go_on` next. Raises what
        ``set_state`` raises, and ``msgspec.DecodeError`` for bytes that are not a saved state."""
        (loaded,) = (each for each in cls.loading(definition, iter([saved])) if each is not None)
        return loaded

    @classmethod
    def loading(cls, definition: Definition, chunks: Iterator[bytes]) -> Iterator[Self | None]:
        """Load a state from its chunks in small steps: yields None after each step, and finally what was
        saved."""

        def fresh() -> object:
            # The timers that `__init__` sets were set once, when the group was created.
            return definition.make(Timers())

        for found in saved_state.read(chunks, definition.capture, fresh):
            yield cls._of(definition, *found) if found is not None else None

    @classmethod
    def _of(cls, definition: Definition, found: Saved, instance: object) -> Self:
        files = definition.files
        database = files.opened(found.state, found.position) if files is not None else None
        loaded = cls(definition, instance, database)
        loaded._take(found)
        if database is not None and database.position > found.position:
            loaded.behind = msgspec.msgpack.decode(database.head, type=Saved)
        return loaded

    def _take(self, found: Saved) -> None:
        self.position, self.csn, self.time_ns = found.position, found.csn, found.time_ns
        self._take_code(found.code)
        self.line.time_ns = found.time_ns
        self.retention = Retention.load(found.retention)
        self.replace_timers(found.timers)
        self.replace_sends(found.sends)
        self.annexes.load(found.annexes)
        self.outputs.begin_at(found.position)
        self.line.queue.extend(found.queue)
        self.line.poisoned = {Request(client, number): end for client, number, end in found.poisoned}

    def _reach_own_position(self) -> None:
        """Go on as the database says, since its position is reached: with the attributes, replies, timers and
        calls in line that were flushed with it."""
        found, self.behind = self.behind, None
        assert found is not None
        assert self.database is not None
        definition = self.definition
        instance = definition.capture.restored(
            found.state, lambda: definition.make(Timers()), found.code.version
        )
        attach(instance, self.database)
        self.line = OperationQueue(definition, instance, self.timers, self.sends)
        self.line.scope.outputs = self.outputs
        self._take(found)

    def _saved(self, state: bytes) -> Saved:
        invariant(self.is_at_rest, "a method that waits cannot be saved")
        return Saved(
            saved_state.OF_FILES if self.definition.is_stored else saved_state.WHOLE,
            self.code,
            self.position,
            self.time_ns,
            self.csn,
            state,
            self.retention.save(),
            self.timers.save(),
            list(self.line.queue),
            [(*request, outcome) for request, outcome in self.line.poisoned.items()],
            self.sends.save(),
            self.annexes.save(),
        )

    def weighs_over(self, limit: int) -> bool:
        """Whether the object's state takes more than *limit* bytes, by a quick estimate."""
        return weighs_over(self.line.instance, limit)

    def digest(self, saved: bytes | None = None, *, with_state: bool = True) -> bytes:
        """Return a digest that is equal for members with equal states. *saved* is what :meth:`save` just
        returned, so that the object is not asked for its state twice (FTC-309). Without the state the digest
        covers only replies, timers, sends and annexes. It is empty if an annex knows that its part differs:
        what is empty is not compared."""
        if not self.annexes.are_comparable:
            return b""
        capture = self.definition.capture
        if not with_state:
            state = b""
        elif saved is not None and capture.is_checkpointable:
            state = msgspec.msgpack.decode(saved, type=Saved).state
        else:
            state = capture.digest_of(self.line.instance)
        parts = (state, self.retention.save(), self.timers.save(), self.sends.save())
        return _digest(*parts, *self.annexes.digests())

    def get_update(self) -> bytes:
        return self.definition.capture.update_of(self.line.instance)

    def set_update(self, record: Update) -> None:
        """Apply what changed since the last update. Raises what ``set_update`` raises."""
        self.definition.capture.apply_update(self.line.instance, record.update)
        self.replace_timers(record.timers)
        self.replace_sends(record.sends)
        self.annexes.load(record.annexes)

    def replace_timers(self, saved: bytes) -> None:
        self.timers = Timers.load(saved)
        self.line.scope.timers = self.timers

    def replace_sends(self, saved: bytes) -> None:
        self.sends = Sends.load(saved)
        self.line.scope.sends = self.sends

    def discard(self) -> None:
        """Give up the object and the method that waits in it (E1). A large one does not stay in memory beside
        the one that is loaded in its place."""
        self.line.discard()
        self.line.instance = None
        if self.database is not None:
            self.database.close()


def _digest(*parts: bytes) -> bytes:
    total = hashlib.blake2b(digest_size=16)
    for part in parts:
        total.update(len(part).to_bytes(8, "big"))
        total.update(part)
    return total.digest()
