"""Results in an order that the client chooses (RFC 2891)."""

from dataclasses import dataclass
from typing import Final

from holdfast.directory import matching
from holdfast.directory.matching import MatchingRule, NotComparable, RuleKind
from holdfast.directory.replica.view import EntryView
from holdfast.directory.results import ResultCode
from holdfast.directory.schema.schema import Described, Schema
from holdfast.ldap.controls import SortKey, SortResult

MISSING: Final = (1, b"")
"""Entries without the attribute come last, as if theirs were the largest value."""


@dataclass(frozen=True, slots=True)
class Order:
    """One key, made ready."""

    described: Described
    rule: MatchingRule
    is_reverse: bool


def orders(keys: tuple[SortKey, ...], schema: Schema) -> list[Order] | SortResult:
    """The keys as rules, or which of them cannot be sorted by."""
    found = []
    for each in keys:
        described = schema.find(each.description)
        if described is None:
            return SortResult(ResultCode.NO_SUCH_ATTRIBUTE, each.description)
        kind = described.type
        rule = kind.ordering or kind.equality
        if each.rule is not None:
            rule = matching.BY_NAME.get(each.rule.lower())
        if rule is None or rule.kind is RuleKind.SUBSTRINGS:
            return SortResult(ResultCode.INAPPROPRIATE_MATCHING, each.description)
        found.append(Order(described, rule, each.is_reverse))
    return found


SortKeys = tuple[tuple[int, bytes], ...]
"""By which values an entry is sorted."""


def sort_keys(view: EntryView, wanted: list[Order], schema: Schema) -> SortKeys:
    """Made entry by entry as they are found, so that sorting itself is short."""
    return tuple(_least(view, order, schema) for order in wanted)


def in_order(found: list[tuple[EntryView, SortKeys]], wanted: list[Order]) -> list[EntryView]:
    """The entries sorted; those that are equal stay as they were."""
    for at, order in reversed(list(enumerate(wanted))):
        found = sorted(found, key=lambda each: each[1][at], reverse=order.is_reverse)
    return [view for view, _ in found]


def _least(view: EntryView, order: Order, schema: Schema) -> tuple[int, bytes]:
    """By which value an entry is sorted: the least of its attribute."""
    attributes = view.everything() if order.described.type.is_operational else view.attributes
    keys = []
    for name, values in attributes.items():
        found = schema.find(name)
        if found is None or not order.described.covers(found):
            continue
        for value in values:
            try:
                keys.append((0, order.rule.key(value, schema)))
            except NotComparable:
                continue
    return min(keys, default=MISSING)
