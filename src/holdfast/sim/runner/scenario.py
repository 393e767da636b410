"""What a scenario is: some nodes running production cores, a workload, the faults it takes, and its demands.

A scenario is a module of :mod:`holdfast.sim.scenarios` that names its class ``SCENARIO``. One object of the
class lives for one run, so it may keep the run's history in its own fields.
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
    """How much of some kinds of faults, taken together, a run may hold: what the design claims to survive."""

    kinds: tuple[str, ...]
    per_run: int | None = None
    nodes: int | None = None
    """At most so many different nodes are hit."""


class Scenario(ABC):
    """Base of all scenarios; :meth:`build` and :meth:`finish` are the least that one must say."""

    name: ClassVar[str]
    nodes: ClassVar[tuple[str, ...]]
    """Names of the nodes that faults may hit; :meth:`build` adds them."""
    clients: ClassVar[tuple[str, ...]] = ()
    """Nodes that links may be cut from, and that suffer nothing else."""
    kinds: ClassVar[tuple[str, ...]]
    """The kinds of faults it takes."""
    own_kinds: ClassVar[tuple[FaultKind, ...]] = ()
    """Kinds that only this scenario has; it takes them too."""
    bounds: ClassVar[tuple[Bound, ...]] = ()
    fault_ns: ClassVar[int] = 10 * SECOND
    heal_ns: ClassVar[int] = 10 * SECOND

    @abstractmethod
    def build(self, world: World) -> None:
        """Add the nodes and start the workload."""

    def each_step(self, world: World) -> None:
        """A cheap invariant, checked after every event when overridden."""
        return

    def expects(self, node: SimNode, error: BaseException) -> bool:
        """Whether *node* may end by this exception (not of the HoldfastError family) without a violation."""
        return False

    def healed(self, world: World) -> None:
        """All faults have just ended."""
        return

    @abstractmethod
    def finish(self, world: World) -> None:
        """Final checks, and the demand for progress: each miss is a ``world.violation``,
        or ``world.unavailable`` when the scenario can say why nothing could be done."""


def scenario_names(*, hidden: bool = False) -> list[str]:
    """All scenarios there are, sorted."""
    found = sorted(module.name for module in pkgutil.iter_modules(scenarios.__path__))
    return [name for name in found if hidden or name not in scenarios.HIDDEN]


def scenario_class(name: str) -> type[Scenario]:
    """The scenario of that name; imports it only now."""
    if name not in scenario_names(hidden=True):
        raise InvalidRequest(f"no scenario {name!r}; there are: {', '.join(scenario_names())}")
    found: type[Scenario] = importlib.import_module(f"{scenarios.__name__}.{name}.scenario").SCENARIO
    return found
