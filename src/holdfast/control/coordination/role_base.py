"""The base of the roles. Work that was started in a role and ends after the role is over has no effect."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from holdfast.authority.recipe import Contended, InDoubt, NoAnswer, Recipe
from holdfast.control.coordination.config import ControlConfig
from holdfast.control.coordination.ports import Application, ControlPorts
from holdfast.control.coordination.state_file import StateFile
from holdfast.model.ids import HostId, Incarnation

Answer = TypeVar("Answer")


class OwnPart:
    """The identity and the tools of one process, shared by all its roles."""

    def __init__(
        self,
        host: HostId,
        incarnation: Incarnation,
        archive: StateFile,
        ports: ControlPorts,
        application: Application,
        config: ControlConfig,
    ) -> None:
        self.host, self.incarnation = host, incarnation
        self.archive = archive
        self.ports = ports
        self.application = application
        self.config = config


class RoleBase:
    """The base of the roles: its requests to the authority and its timers end with it."""

    def __init__(self, me: OwnPart) -> None:
        self.me = me
        self._is_over = False
        self._timers = me.ports.timers(self._on_timer)
        self._due: dict[int, Callable[[], None]] = {}
        self._tag = 0
        self._rng = me.ports.random.stream("control")
        self.answered_at = me.ports.clock.now()
        """When the authority last answered anything."""

    def close(self) -> None:
        self._is_over = True
        self._due.clear()

    def still(self, then: Callable[..., None]) -> Callable[..., None]:
        """Wrap *then* so that it does nothing once this role is over."""

        def guarded(*arguments: object) -> None:
            if not self._is_over:
                then(*arguments)

        return guarded

    def ask(self, recipe: Recipe[Answer], then: Callable[[Answer], None]) -> None:
        def answered(answer: Answer) -> None:
            if not isinstance(answer, NoAnswer | InDoubt):
                self.answered_at = self.me.ports.clock.now()
            then(answer)

        self.me.ports.recipes.start(recipe, self.still(answered))

    def insist(self, make: Callable[[], Recipe[Any]], then: Callable[[Any], None]) -> None:
        """Repeat a request until its answer is definite. *make* returns the recipe with the same nonce each
        time (A1)."""

        def answered(answer: object) -> None:
            if isinstance(answer, NoAnswer | InDoubt | Contended):
                self.later(self.me.config.retry_ns, lambda: self.insist(make, then))
            else:
                then(answer)

        self.ask(make(), answered)

    def later(self, delay_ns: int, work: Callable[[], None]) -> None:
        """Do *work* after about *delay_ns*. The time is random, so that waiting hosts do not come back in
        step."""
        self._tag += 1
        self._due[self._tag] = work
        self._timers.set(delay_ns // 2 + self._rng.randrange(delay_ns), self._tag)

    def _on_timer(self, tag: Hashable) -> None:
        work = self._due.pop(tag, None) if isinstance(tag, int) else None
        if work is not None:
            work()
