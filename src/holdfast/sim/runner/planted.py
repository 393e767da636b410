"""Planted bugs: each breaks one rule of a production core, and the simulator must find it.

They are the evidence that "no violations" means something. A bug is planted by replacing a method or
attribute of a production class for as long as a run lasts; a module `planted` of a scenario lists its bugs as
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
"""Runs in which a planted bug must show, unless it names its own budget."""
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Planted:
    """One bug."""

    name: str
    rule: str
    """The rule it breaks, as docs/protocol.md or a checklist names it."""
    scenario: str
    summary: str
    plant: Callable[[], AbstractContextManager[None]]
    """While this context is entered, the bug is there."""
    profile: str | None = None
    """The fault profile that finds it soonest; None: the default mix."""
    runs_max: int = RUNS_MAX


@contextmanager
def replacing(owner: Any, attribute: str, broken: object) -> Iterator[None]:
    """Put *broken* in the place of ``owner.attribute``; fails loudly when there is no such attribute."""
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
    """Makes the bugs of one scenario that replace one attribute of production code each."""

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
        """*runs_max*: another budget than the scenario's."""
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
    """The planted bugs of one scenario, or all but those that test the simulator itself."""
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
