"""Groups whose application keeps its members consistent (CONS_APP_CTRL; FTC-13, FTC-137).

Only the primary executes, at once: nothing is ordered, logged or transferred, and a repeated call runs again.
A new primary calls the optional method ``recover`` of its class before it takes calls; where that finds the
state is up to the application. A member whose ``recover`` fails hands the group over.
"""

from typing import Final

from holdfast.execution.context import Scope
from holdfast.execution.definition import Definition
from holdfast.execution.queue import run_at_once
from holdfast.execution.records import Sent, encode_arguments
from holdfast.model.errors import Unavailable
from holdfast.model.ids import ClientId, Epoch
from holdfast.model.outcome import Returned, decode_outcome
from holdfast.styles.call_observers import CallObservers
from holdfast.styles.ports import StylePorts
from holdfast.styles.stateless import Stateless

RECOVER: Final = "recover"


class AppControlled(Stateless):
    """A member of an application-controlled group."""

    def __init__(
        self, definition: Definition, ports: StylePorts, observers: CallObservers | None = None
    ) -> None:
        super().__init__(definition, ports.clock, observers, ports.attempts, ports.fault)
        self._ports = ports
        self._is_primary = False
        self._is_ready = False

    @property
    def is_ready(self) -> bool:
        return self._is_ready

    def execute(self, sent: Sent) -> tuple[list[int], list[bytes]]:
        """Execute a frame on the primary. Raises ``Unavailable`` until the primary has recovered."""
        if not self._is_ready:
            raise Unavailable(f"{self.definition.group}: its primary has not recovered yet")
        return super().execute(sent)

    def turn(self) -> None:
        """Recover if necessary. This does not happen within the event that made this member primary."""
        if not self._is_primary or self._is_ready:
            return
        why = self._recover()
        self._is_ready = not why
        if why:
            self._ports.fault("object_failed", why)
            self._ports.pass_on(why)

    def make_anew(self, why: str) -> None:
        """Make another object, which recovers before it takes calls; a primary hands over meanwhile."""
        super().make_anew(why)
        if self._is_primary:
            self._is_ready = False
            self._ports.pass_on(why)

    def on_serving(self, epoch: Epoch) -> None:
        self._is_primary = True

    def on_following(self) -> None:
        self._is_primary = self._is_ready = False

    def _recover(self) -> str:
        """Run ``recover``. Returns why it failed; empty if it succeeded."""
        interface = self.definition.interface
        if RECOVER not in interface.operations:
            return ""
        scope = Scope(self.definition.group, interface, None)
        scope.begin(ClientId(""), 0, self._clock.wall())
        encoded = run_at_once(self._instance, interface, scope, RECOVER, encode_arguments((), {}))
        outcome = decode_outcome(encoded)
        return "" if isinstance(outcome, Returned) else f"{RECOVER} came to {outcome}"
