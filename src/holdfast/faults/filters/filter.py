"""Filters: the constraints by which one consumer says which events it wants (CosNotifyFilter, FTC 27.4.6).

An event passes when one constraint or more is true of it (FTC-275); a filter without constraints passes
nothing. Every method does all that it is asked, or raises and has done nothing.
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
"""Of one filter."""
LETTERS_MAX: Final = 65_536
"""Of all expressions of one filter together."""


class FilterState(Struct, frozen=True, array_like=True):
    """All that a filter is, to be kept and sent."""

    constraint_grammar: str
    next_id: ConstraintId
    constraints: tuple[ConstraintInfo, ...]


class Filter:
    """One consumer's filter. Made by :func:`create_filter`."""

    def __init__(self, constraint_grammar: str) -> None:
        self._grammar = constraint_grammar
        self._constraints: dict[ConstraintId, Compiled] | None = {}
        """None once it is destroyed."""
        self._next_id = ConstraintId(1)

    @property
    def constraint_grammar(self) -> str:
        self._alive()
        return self._grammar

    @property
    def letters(self) -> int:
        """Of all its constraints: what it takes to ask them all of an event grows with these."""
        return sum(each.letters for each in self._alive().values())

    def add_constraints(self, expressions: Sequence[ConstraintExp]) -> list[ConstraintInfo]:
        """Add them all, and tell their ids. InvalidConstraint names the first that is not right."""
        constraints = self._alive()
        ids = [ConstraintId(self._next_id + index) for index in range(len(expressions))]
        added = [ConstraintInfo(each, key) for each, key in zip(expressions, ids, strict=True)]
        self._constraints = _changed(constraints, added)
        self._next_id = ConstraintId(self._next_id + len(added))
        return added

    def modify_constraints(self, delete: Sequence[ConstraintId], modify: Sequence[ConstraintInfo]) -> None:
        """Remove those of the ids in *delete*, and put those of *modify* where their ids are."""
        constraints = self._alive()
        _find(constraints, delete)
        kept = {key: each for key, each in constraints.items() if key not in delete}
        _find(kept, [each.constraint_id for each in modify])
        self._constraints = _changed(kept, modify)

    def get_constraints(self, ids: Sequence[ConstraintId]) -> list[ConstraintInfo]:
        """Those of the ids, in the order of these."""
        return _find(self._alive(), ids)

    def get_all_constraints(self) -> list[ConstraintInfo]:
        """All, by id."""
        constraints = self._alive()
        return _find(constraints, constraints)

    def remove_all_constraints(self) -> None:
        self._alive().clear()

    def destroy(self) -> None:
        """Whoever uses it after this gets FilterDestroyed."""
        self._alive()
        self._constraints = None

    def match_structured(self, event: StructuredEvent) -> bool:
        """Whether the consumer wants the event."""
        return any(each.passes(event) for each in self._alive().values())

    def state(self) -> FilterState:
        return FilterState(self._grammar, self._next_id, tuple(self.get_all_constraints()))

    @classmethod
    def restored(cls, state: FilterState) -> "Filter":
        """A filter that goes on as the one did whose state it is."""
        restored = create_filter(state.constraint_grammar)
        restored._next_id = state.next_id
        restored._constraints = _changed({}, state.constraints)
        return restored

    def _alive(self) -> dict[ConstraintId, Compiled]:
        if self._constraints is None:
            raise FilterDestroyed("the filter was destroyed; create another")
        return self._constraints


def create_filter(constraint_grammar: str) -> Filter:
    """The filter factory: a filter without constraints. InvalidGrammar unless it is our language."""
    if constraint_grammar != EXTENDED_TCL:
        raise InvalidGrammar(f"no constraint language {constraint_grammar!r}; write {EXTENDED_TCL}")
    return Filter(constraint_grammar)


def _changed(
    constraints: dict[ConstraintId, Compiled], infos: Sequence[ConstraintInfo]
) -> dict[ConstraintId, Compiled]:
    """The constraints with *infos* put among them, within the bounds."""
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
