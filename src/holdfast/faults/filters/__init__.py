"""Filters: which fault events a consumer wants, in the Extended Trader Constraint Language.

A constraint is turned once from text into tokens (:mod:`.tokens`) and into a tree (:mod:`.parser`,
:mod:`.tree`). The tree is then evaluated for each event (:mod:`.evaluation`). :class:`.Filter` keeps the
constraints of one consumer. Letters, words and depth are bounded, and so are the steps of each evaluation. Of
the standard's language, unions and ``$curtime`` are refused: no event holds a union, and replicas do not
agree on the time.
"""

from holdfast.faults.filters.constraints import ConstraintExp, ConstraintId, ConstraintInfo
from holdfast.faults.filters.errors import (
    ConstraintNotFound,
    FilterDestroyed,
    InvalidConstraint,
    InvalidGrammar,
)
from holdfast.faults.filters.evaluation import Truth, Verdict, evaluate, matches
from holdfast.faults.filters.filter import EXTENDED_TCL, Filter, FilterState, create_filter
from holdfast.faults.filters.parser import parse

__all__ = [
    "EXTENDED_TCL",
    "ConstraintExp",
    "ConstraintId",
    "ConstraintInfo",
    "ConstraintNotFound",
    "Filter",
    "FilterDestroyed",
    "FilterState",
    "InvalidConstraint",
    "InvalidGrammar",
    "Truth",
    "Verdict",
    "create_filter",
    "evaluate",
    "matches",
    "parse",
]
