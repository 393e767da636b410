"""Filters: the constraints by which one consumer says which events it wants (CosNotifyFilter, FTC 27.4.6).

An event passes if at least one constraint is true for it (FTC-275); a filter without constraints passes
nothing. Every method either does everything it is asked, or raises and changes nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from holdfast.faults.events import StructuredEvent
from holdfast.faults.filters.constraints import Compiled, ConstraintExp, ConstraintId, ConstraintInfo
from holdfast.faults.filters.errors import ConstraintNotFound, FilterDestroyed, InvalidGrammar
from holdfast.model.errors import InvalidRequest

EXTENDED_TCL: Final = "EXTENDED_TCL"
"""The Extended Trader Constraint Language."""
CONSTRAINTS_MAX: Final = 256
"""The most constraints in one filter."""
LETTERS_MAX: Final = 65_536
"""The most letters of all expressions of one filter together."""


class FilterState(Struct, frozen=True, array_like=True):
    """The whole state of a filter, to be stored and sent."""

    constraint_grammar: str
    next_id: ConstraintId
    constraints: tuple[ConstraintInfo, ...]


class Filter:
    """One consumer's filter, made by :func:`create_filter`."""

    def __init__(self, constraint_grammar: str) -> None:
        self._grammar = constraint_grammar
        self._constraints: dict[ConstraintId, Compiled] | None = {}
        """None once the filter is destroyed."""
        self._next_id = ConstraintId(1)

    @property
    def constraint_grammar(self) -> str:
        self._alive()
        return self._grammar

    @property
    def letters(self) -> int:
        """The number of letters of all its constraints, which determines the cost of matching one event."""
        return sum(each.letters for each in self._alive().values())

    def add_constraints(self, expressions: Sequence[ConstraintExp]) -> list[ConstraintInfo]:
        """Add all constraints and return their ids. InvalidConstraint names the first that is not valid."""
        constraints = self._alive()
        ids = [ConstraintId(self._next_id + index) for index in range(len(expressions))]
        added = [ConstraintInfo(each, key) for each, key in zip(expressions, ids, strict=True)]
        self._constraints = _changed(constraints, added)
        self._next_id = ConstraintId(self._next_id + len(added))
        return added

    def modify_constraints(self, delete: Sequence[ConstraintId], modify: Sequence[ConstraintInfo]) -> None:
        """Remove the constraints with ids in *delete*, and replace those with the ids in *modify*."""
        constraints = self._alive()
        _find(constraints, delete)
        kept = {key: each for key, each in constraints.items() if key not in delete}
        _find(kept, [each.constraint_id for each in modify])
        self._constraints = _changed(kept, modify)

    def get_constraints(self, ids: Sequence[ConstraintId]) -> list[ConstraintInfo]:
        """Return the constraints with these ids, in that order."""
        return _find(self._alive(), ids)

    def get_all_constraints(self) -> list[ConstraintInfo]:
        """Return all constraints, by id."""
        constraints = self._alive()
        return _find(constraints, constraints)

    def remove_all_constraints(self) -> None:
        self._alive().clear()

    def destroy(self) -> None:
        """Destroy the filter. Any later use raises FilterDestroyed."""
        self._alive()
        self._constraints = None

    def match_structured(self, event: StructuredEvent) -> bool:
        """Whether the consumer wants the event."""
        return any(each.passes(event) for each in self._alive().values())

    def state(self) -> FilterState:
        return FilterState(self._grammar, self._next_id, tuple(self.get_all_constraints()))

    @classmethod
    def restored(cls, state: FilterState) -> "Filter":
        """Return a filter that continues from *state*."""
        restored = create_filter(state.constraint_grammar)
        restored._next_id = state.next_id
        restored._constraints = _changed({}, state.constraints)
        return restored

    def _alive(self) -> dict[ConstraintId, Compiled]:
        if self._constraints is None:
            raise FilterDestroyed("the filter was destroyed; create another")
        return self._constraints


def create_filter(constraint_grammar: str) -> Filter:
    """Create a filter without constraints. Raises InvalidGrammar unless the language is EXTENDED_TCL."""
    if constraint_grammar != EXTENDED_TCL:
        raise InvalidGrammar(f"no constraint language {constraint_grammar!r}; write {EXTENDED_TCL}")
    return Filter(constraint_grammar)


def _changed(
    constraints: dict[ConstraintId, Compiled], infos: Sequence[ConstraintInfo]
) -> dict[ConstraintId, Compiled]:
    """Return *constraints* with *infos* added or replaced, within the bounds."""
    count = len(dict.fromkeys((*constraints, *(each.constraint_id for each in infos))))
    if count > CONSTRAINTS_MAX:
        raise InvalidRequest(f"a filter has at most {CONSTRAINTS_MAX} constraints")
    changed = {
        **constraints,
        **{each.constraint_id: Compiled.of(each.constraint_expression) for each in infos},
    }
    if sum(len(each.expression.constraint_expr) for each in changed.values()) > LETTERS_MAX:
        raise InvalidRequest(f"the constraints of a filter have at most {LETTERS_MAX} letters together")
    return changed


def _find(constraints: dict[ConstraintId, Compiled], ids: Iterable[ConstraintId]) -> list[ConstraintInfo]:
    found: list[ConstraintInfo] = []
    for each in ids:
        if each not in constraints:
            raise ConstraintNotFound(each)
        found.append(ConstraintInfo(constraints[each].expression, each))
    return found
