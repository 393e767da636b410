"""What may be wrong with filters, each said so that the one who wrote it can put it right."""

from typing import TYPE_CHECKING, Final

from holdfast.model.errors import InvalidRequest

if TYPE_CHECKING:
    from holdfast.faults.filters.constraints import ConstraintExp

EXCERPT_BEFORE: Final = 48
EXCERPT_AFTER: Final = 24
"""Letters shown around the place of a mistake."""


class InvalidGrammar(InvalidRequest):
    """Raised when a filter is asked for in a constraint language that is not offered."""

    code = "invalid_grammar"


class InvalidConstraint(InvalidRequest):
    """Raised when a constraint is not right as written; says where, and what would be right."""

    code = "invalid_constraint"

    def __init__(self, text: str, at: int, problem: str) -> None:
        problem = _printable(problem)  # it may quote the constraint
        super().__init__(f"constraint, letter {at + 1}: {problem}")
        self.text = text
        self.at = at
        """Where, counted from 0; the length of the text stands for its end."""
        self.problem = problem
        self.constraint: ConstraintExp | None = None
        """The constraint of a filter that it was, when it was one's."""

    def shown(self) -> str:
        """Three lines for people: the mistake, the constraint around it, and a caret below the place."""
        first = max(0, self.at - EXCERPT_BEFORE)
        last = self.at + EXCERPT_AFTER
        before = "... " if first else ""
        after = " ..." if last < len(self.text) else ""
        excerpt = _printable(self.text[first:last])
        return f"{self}\n  {before}{excerpt}{after}\n  {' ' * (len(before) + self.at - first)}^"


def _printable(text: str) -> str:
    """As one line that any terminal takes, letter by letter."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


class ConstraintNotFound(InvalidRequest):
    """Raised when a filter has no constraint of that id."""

    code = "constraint_not_found"

    def __init__(self, constraint_id: int) -> None:
        super().__init__(f"the filter has no constraint {constraint_id}")
        self.id = constraint_id


class FilterDestroyed(InvalidRequest):
    """Raised when a filter is used after it was destroyed."""

    code = "filter_destroyed"
