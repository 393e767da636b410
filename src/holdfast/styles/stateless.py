"""Stateless groups: the result of a call does not depend on earlier calls (FTC-126).

Any member executes a call at once, without ordering it; nothing is kept or replayed. A repeated call runs
again, which the class promises to be harmless. Timers and calls to other groups need a record so that they
happen once, so they are refused.
"""

from collections.abc import Callable
from typing import Final

from holdfast.execution.context import Scope
from holdfast.execution.crash_attempts import CrashSuspicions
from holdfast.execution.definition import Definition
from holdfast.execution.method import ASKED_BY, why_not_alive
from holdfast.execution.queue import run_at_once
from holdfast.execution.records import Call, Sent, decode_sent_calls
from holdfast.execution.timers import Timers
from holdfast.model.ids import ClientId, Epoch, HostId, Position
from holdfast.model.outcome import Poisoned, encode_outcome
from holdfast.model.ports import Clock
from holdfast.sequence.messages import PeerMessage
from holdfast.sequence.ports import Captured, Kept
from holdfast.sequence.role import NEAR, Fitness
from holdfast.storage.record import ORIGIN
from holdfast.styles.call_observers import CallObservers
from holdfast.styles.poison import Poisonous, among_calls


class Stateless:
    """A member of a stateless group. Its sequence, if it has one, stays empty."""

    def __init__(
        self,
        definition: Definition,
        clock: Clock,
        observers: CallObservers | None = None,
        attempts: CrashSuspicions | None = None,
        fault: Callable[[str, str], None] | None = None,
    ) -> None:
        self.definition = definition
        self._clock = clock
        self._attempts = attempts or definition.attempts
        self._observers = observers
        self._fault = fault
        self._on_raised = observers.raised if observers is not None else None
        self._instance = definition.make(Timers())

    @property
    def is_ready(self) -> bool:
        """Whether calls can be taken here."""
        return True

    awaits_turn: Final = True
    """A turn follows a commit, as in every other style; it does nothing."""

    def turn(self) -> None:
        """Do nothing: nothing is ever due."""
        return

    def execute(self, sent: Sent) -> tuple[list[int], list[bytes]]:
        """Execute the calls of one frame, on any member. Returns their numbers and outcomes. Raises
        ``msgspec.DecodeError``."""
        calls = decode_sent_calls(sent.calls)
        scope = Scope(self.definition.group, self.definition.interface, None, self._on_raised)
        outcomes = []
        began_ns = self._clock.now()
        for each in calls:
            scope.begin(ClientId(sent.client), each.number, self._clock.wall(), each.traceparent)
            outcomes.append(self._run(each, sent.client, scope))
        if self._observers is not None:
            self._observers.took(self._clock.now() - began_ns, sent.client, calls)
        return [each.number for each in calls], outcomes

    def _run(self, each: Call, client: ClientId, scope: Scope) -> bytes:
        if self._observers is None:
            return self._execute(each, client, scope)
        return self._observers.asked(self._execute, each, client, scope)

    def _execute(self, each: Call, client: ClientId, scope: Scope) -> bytes:
        for found in among_calls(self._attempts, client, (each,)):
            return self._give_up(found)
        self._attempts.enter_one(client, each.number)
        try:
            return run_at_once(self._instance, self.definition.interface, scope, each.method, each.arguments)
        finally:
            self._attempts.leave_one()

    def _give_up(self, found: Poisonous) -> bytes:
        """Refuse a call that crashed too many processes (E4). It needs no record: every member was told of
        the crashes."""
        if self._observers is not None:
            self._observers.given_up(found)
        if self._fault is not None:
            self._fault("poisoned", found.fault)
        return encode_outcome(Poisoned(found.attempts, found.call))

    def why_not_alive(self) -> str:
        """Ask the object's ``is_alive`` why it is not alive (FTC-247); empty if it is alive."""
        scope = Scope(self.definition.group, self.definition.interface, None)
        scope.begin(ASKED_BY, 0, self._clock.wall())
        self._attempts.enter_one(ASKED_BY, 0)
        try:
            return why_not_alive(self._instance, scope)
        finally:
            self._attempts.leave_one()

    def make_anew(self, why: str) -> None:
        """Replace a faulty object by a new one. Raises ``NotMade``."""
        self._instance = self.definition.make(Timers())

    # --- the sequence's events, none of which matters here

    def on_serving(self, epoch: Epoch) -> None:
        return None

    def on_claiming(self) -> None:
        return None

    def on_following(self) -> None:
        return None

    def on_committed(self, up_to: Position) -> None:
        return None

    def capture(self, at_least: Position = ORIGIN.position) -> Kept | None:
        return Captured(Position(0), b"")

    def install(self, kept: Kept) -> None:
        return None

    def keeps(self, kept: Kept) -> None:
        return None

    def fitness(self) -> Fitness:
        return NEAR

    def on_forced(self) -> None:
        return None

    def on_peer_message(self, peer: HostId, message: PeerMessage) -> None:
        return None
