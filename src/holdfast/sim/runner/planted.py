"""Planted bugs: each breaks one rule of a production core, and the simulator must find it.

They are the evidence that a result of "no violations" means something. A bug is planted by replacing a method
or attribute of a production class for the length of a run. A module `planted` of a scenario lists its bugs as
``PLANTED``, a tuple of :class:`Planted`.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from holdfast.model.errors import InvalidRequest
from holdfast.sim import scenarios

RUNS_MAX: Final = 200
"""The number of runs within which a planted bug must be found, unless it names its own budget."""
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Planted:
    """One planted bug."""

    name: str
    rule: str
    """The rule that the bug breaks, as docs/protocol.md or a checklist names it."""
    scenario: str
    summary: str
    plant: Callable[[], AbstractContextManager[None]]
    """The bug is present while this context is entered."""
    profile: str | None = None
    """The fault profile that finds the bug soonest; None stands for the default mix."""
    runs_max: int = RUNS_MAX


@contextmanager
def replacing(owner: Any, attribute: str, broken: object) -> Iterator[None]:
    """Replace ``owner.attribute`` by *broken* within the context; raises when there is no such attribute."""
    try:
        inspect.getattr_static(owner, attribute)
    except AttributeError:
        raise LookupError(f"nothing to break: {owner!r} has no {attribute!r}") from None
    own = vars(owner).get(attribute, _ABSENT)
    setattr(owner, attribute, broken)
    try:
        yield
    finally:
        if own is _ABSENT:
            delattr(owner, attribute)
        else:
            setattr(owner, attribute, own)


@dataclass(frozen=True, slots=True)
class Planting:
    """Makes the planted bugs of one scenario that replace one attribute of production code each."""

    scenario: str
    runs_max: int = RUNS_MAX

    def __call__(
        self,
        name: str,
        rule: str,
        summary: str,
        owner: Any,
        attribute: str,
        broken: object,
        profile: str | None = None,
        *,
        runs_max: int | None = None,
    ) -> Planted:
        """Make one bug. *runs_max* replaces the scenario's budget of runs."""
        return Planted(
            name=f"{self.scenario}-{name}",
            rule=rule,
            scenario=self.scenario,
            summary=summary,
            plant=partial(replacing, owner, attribute, broken),
            profile=profile,
            runs_max=runs_max or self.runs_max,
        )


def planted_bugs(scenario: str | None = None) -> list[Planted]:
    """Return the planted bugs of one scenario, or all of them except those that test the simulator itself."""
    if scenario is None:
        return [bug for bug in _all_planted() if bug.scenario not in scenarios.HIDDEN]
    return [bug for bug in _all_planted() if bug.scenario == scenario]


def planted_bug(name: str) -> Planted:
    for bug in _all_planted():
        if bug.name == name:
            return bug
    known = ", ".join(bug.name for bug in planted_bugs())
    raise InvalidRequest(f"no planted bug {name!r}; there are: {known}")


def _all_planted() -> list[Planted]:
    found: list[Planted] = []
    modules = pkgutil.walk_packages(scenarios.__path__, f"{scenarios.__name__}.")
    for name in sorted(module.name for module in modules):
        if name.rpartition(".")[2].startswith("planted"):
            found.extend(importlib.import_module(name).PLANTED)
    return found
