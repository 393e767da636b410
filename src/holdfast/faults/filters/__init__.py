"""Filters: which fault events a consumer wants, in the Extended Trader Constraint Language.

A constraint goes from text to tokens (:mod:`.tokens`) to a tree (:mod:`.parser`, :mod:`.tree`), once; the
tree is then asked of each event (:mod:`.evaluation`). :class:`.Filter` keeps the constraints of one consumer.
Everything is bounded: letters, words, depth, and so the steps of each answer. Of the standard's language,
unions and ``$curtime`` are refused: no event holds the one, and replicas do not agree on the other.
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
