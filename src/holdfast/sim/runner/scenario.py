"""What a scenario is: nodes that run production cores, a workload, the faults it takes, and its requirements.

A scenario is a module of :mod:`holdfast.sim.scenarios` that names its class ``SCENARIO``. One object of the
class exists for one run, so it may keep the run's history in its own fields.
"""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from typing import ClassVar

from msgspec import Struct

from holdfast.model.errors import InvalidRequest
from holdfast.sim import scenarios
from holdfast.sim.engine.node import SimNode
from holdfast.sim.engine.options import SECOND
from holdfast.sim.engine.world import World
from holdfast.sim.faults import FaultKind


class Bound(Struct, frozen=True, kw_only=True):
    """The most faults of some kinds, taken together, that a run may contain.

    It is what the design claims to survive.
    """

    kinds: tuple[str, ...]
    per_run: int | None = None
    nodes: int | None = None
    """The most different nodes that are hit."""


class Scenario(ABC):
    """Base class of all scenarios; every scenario defines at least :meth:`build` and :meth:`finish`."""

    name: ClassVar[str]
    nodes: ClassVar[tuple[str, ...]]
    """The names of the nodes that faults may hit; :meth:`build` adds them."""
    clients: ClassVar[tuple[str, ...]] = ()
    """Nodes whose links may be cut, and that no other fault hits."""
    kinds: ClassVar[tuple[str, ...]]
    """The kinds of faults that the scenario takes."""
    own_kinds: ClassVar[tuple[FaultKind, ...]] = ()
    """Kinds of faults that only this scenario has; it takes them too."""
    bounds: ClassVar[tuple[Bound, ...]] = ()
    fault_ns: ClassVar[int] = 10 * SECOND
    heal_ns: ClassVar[int] = 10 * SECOND

    @abstractmethod
    def build(self, world: World) -> None:
        """Add the nodes and start the workload."""

    def each_step(self, world: World) -> None:
        """Check a cheap invariant after every event, when overridden."""
        return

    def expects(self, node: SimNode, error: BaseException) -> bool:
        """Whether *node* may end with this exception (not a HoldfastError) without that being a violation."""
        return False

    def healed(self, world: World) -> None:
        """Called when all faults have just ended."""
        return

    @abstractmethod
    def finish(self, world: World) -> None:
        """Make the final checks and require progress.

        Each failed check is a ``world.violation``, or ``world.unavailable`` when the scenario can say why
        nothing could be done.
        """


def scenario_names(*, hidden: bool = False) -> list[str]:
    """Return the names of all scenarios, sorted."""
    found = sorted(module.name for module in pkgutil.iter_modules(scenarios.__path__))
    return [name for name in found if hidden or name not in scenarios.HIDDEN]


def scenario_class(name: str) -> type[Scenario]:
    """Return the class of the named scenario, importing its module on demand."""
    if name not in scenario_names(hidden=True):
        raise InvalidRequest(f"no scenario {name!r}; there are: {', '.join(scenario_names())}")
    found: type[Scenario] = importlib.import_module(f"{scenarios.__name__}.{name}.scenario").SCENARIO
    return found
