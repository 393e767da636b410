"""What a filter means for an entry: true, false or undefined (RFC 4511, 4.5.1.7).

A filter is prepared once per search (:func:`matcher`): what the client compares with is normalised then, and
so are mistakes found, which make a part *undefined* (None) and not an error. The prepared filter is then
asked of each entry. Only entries for which it is true are returned.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from holdfast.directory import matching, syntaxes
from holdfast.directory.dn import ROOT, Dn
from holdfast.directory.filters.filter import (
    And,
    Approximate,
    Equality,
    Extensible,
    Filter,
    GreaterOrEqual,
    LessOrEqual,
    Not,
    Or,
    Present,
    Substrings,
)
from holdfast.directory.matching import MatchingRule, NotComparable, RuleKind, prepared_pieces
from holdfast.directory.schema.checking import OBJECT_CLASS
from holdfast.directory.schema.schema import AttributeType, Described, Schema

Entry = Mapping[str, Sequence[bytes]]
"""Attribute descriptions, in any spelling, with values."""

Verdict = bool | None
"""Whether a filter holds; None is undefined."""

Matcher = Callable[[Entry, Dn], Verdict]

Test = Callable[[bytes], bool]
"""Whether one value matches."""


def matches(filter_: Filter, entry: Entry, schema: Schema, dn: Dn = ROOT) -> Verdict:
    """Ask one filter of one entry. For many entries, make a :func:`matcher` once."""
    return matcher(filter_, schema)(entry, dn)


def matcher(filter_: Filter, schema: Schema) -> Matcher:
    """Prepare a filter. The schema's bounds on depth and parts are the tree's own."""
    match filter_:
        case And(operands):
            return _and([matcher(each, schema) for each in operands])
        case Or(operands):
            return _or([matcher(each, schema) for each in operands])
        case Not(operand):
            return _not(matcher(operand, schema))
        case Extensible():
            return _extensible(filter_, schema)
    described = schema.find(filter_.description)
    if described is None:
        return _undefined
    if isinstance(filter_, Present):
        return _present(described, schema)
    try:
        test = _test(filter_, described.type, schema)
    except NotComparable:
        return _undefined
    return _undefined if test is None else _any_value(described, schema, test)


def _undefined(entry: Entry, dn: Dn) -> Verdict:
    return None


def _and(parts: list[Matcher]) -> Matcher:
    def verdict(entry: Entry, dn: Dn) -> Verdict:
        found: Verdict = True
        for each in parts:
            one = each(entry, dn)
            if one is False:
                return False
            if one is None:
                found = None
        return found

    return verdict


def _or(parts: list[Matcher]) -> Matcher:
    def verdict(entry: Entry, dn: Dn) -> Verdict:
        found: Verdict = False
        for each in parts:
            one = each(entry, dn)
            if one is True:
                return True
            if one is None:
                found = None
        return found

    return verdict


def _not(part: Matcher) -> Matcher:
    def verdict(entry: Entry, dn: Dn) -> Verdict:
        found = part(entry, dn)
        return None if found is None else not found

    return verdict


def _present(described: Described, schema: Schema) -> Matcher:
    def verdict(entry: Entry, dn: Dn) -> Verdict:
        return any(True for values in _covered(entry, described, schema) if values)

    return verdict


def _covered(entry: Entry, described: Described, schema: Schema) -> Iterator[Sequence[bytes]]:
    """The values of every attribute of the entry that *described* covers: subtypes, and any options."""
    for description, values in entry.items():
        found = schema.find(description)
        if found is not None and described.covers(found):
            yield values


def _any_value(described: Described, schema: Schema, test: Test) -> Matcher:
    def verdict(entry: Entry, dn: Dn) -> Verdict:
        return any(test(value) for values in _covered(entry, described, schema) for value in values)

    return verdict


def _test(
    filter_: Equality | Substrings | GreaterOrEqual | LessOrEqual | Approximate,
    attribute: AttributeType,
    schema: Schema,
) -> Test | None:
    """How one value is compared; None if the attribute has no rule for it."""
    match filter_:
        case Equality(value=value) | Approximate(value=value):
            if attribute.oid == OBJECT_CLASS:
                return _is_of_class(value, schema)
            return None if attribute.equality is None else _equals(attribute.equality, value, schema)
        case Substrings(initial=initial, any=anywhere, final=final):
            rule = attribute.substrings
            if rule is None:
                return None
            pieces = prepared_pieces(rule, initial, anywhere, final)
            return _comparable(rule, schema, pieces.are_in)
        case GreaterOrEqual(value=value):
            if attribute.ordering is None:
                return None
            low = attribute.ordering.key(value, schema)
            return _comparable(attribute.ordering, schema, lambda key: key >= low)
        case LessOrEqual(value=value):
            if attribute.ordering is None:
                return None
            high = attribute.ordering.key(value, schema)
            return _comparable(attribute.ordering, schema, lambda key: key <= high)


def _equals(rule: MatchingRule, value: bytes, schema: Schema) -> Test:
    wanted = rule.key(value, schema)
    return _comparable(rule, schema, lambda key: key == wanted)


def _is_of_class(value: bytes, schema: Schema) -> Test:
    """An entry of a class is one of all that the class descends from, whether or not it lists them."""
    wanted = matching.BY_NAME["objectidentifiermatch"].key(value, schema)

    def test(stored: bytes) -> bool:
        found = schema.find_class(stored.decode("utf-8", "replace"))
        return stored.lower() == wanted if found is None else wanted.decode() in found.lineage

    return test


def _comparable(rule: MatchingRule, schema: Schema, holds: Callable[[bytes], bool]) -> Test:
    """A stored value that the rule cannot read does not match."""
    key = rule.key

    def test(value: bytes) -> bool:
        try:
            return holds(key(value, schema))
        except NotComparable:
            return False

    return test


# --- extensible match

_TEXTUAL: Final = frozenset(
    {
        syntaxes.DIRECTORY_STRING,
        syntaxes.IA5_STRING,
        syntaxes.NUMERIC_STRING,
        syntaxes.TELEPHONE_NUMBER,
        syntaxes.POSTAL_ADDRESS,
        syntaxes.SUBSTRING_ASSERTION,
        "1.3.6.1.4.1.1466.115.121.1.11",
        "1.3.6.1.4.1.1466.115.121.1.44",
    }
)
"""Syntaxes whose values are strings: any rule for one makes sense for another."""


def is_applicable(rule: MatchingRule, attribute: AttributeType) -> bool:
    """Whether a rule that the client names makes sense for the values of an attribute."""
    return (
        rule in (attribute.equality, attribute.ordering, attribute.substrings)
        or rule.syntax == attribute.syntax.oid
        or rule.syntax == syntaxes.OCTET_STRING
        or (rule.syntax in _TEXTUAL and attribute.syntax.oid in _TEXTUAL)
    )


def _extensible(filter_: Extensible, schema: Schema) -> Matcher:
    described = None if filter_.description is None else schema.find(filter_.description)
    if filter_.description is not None and described is None:
        return _undefined
    if filter_.rule is not None:
        rule = matching.BY_NAME.get(filter_.rule.lower())
    else:
        rule = described.type.equality if described is not None else None
    if rule is None or (described is not None and not is_applicable(rule, described.type)):
        return _undefined
    try:
        test = _named_test(rule, filter_.value, schema)
    except NotComparable:
        return _undefined

    def is_meant(found: Described) -> bool:
        return described.covers(found) if described is not None else is_applicable(rule, found.type)

    def verdict(entry: Entry, dn: Dn) -> Verdict:
        for description, values in entry.items():
            found = schema.find(description)
            if found is not None and is_meant(found) and any(map(test, values)):
                return True
        if not filter_.in_dn:
            return False
        avas = (ava for rdn in dn.rdns for ava in rdn)
        return any(
            (found := schema.find(ava.attribute)) is not None and is_meant(found) and test(ava.value)
            for ava in avas
        )

    return verdict


def _named_test(rule: MatchingRule, value: bytes, schema: Schema) -> Test:
    if rule.kind is RuleKind.EQUALITY:
        return _equals(rule, value, schema)
    if rule.kind is RuleKind.ORDERING:
        # RFC 4517: by an ordering rule alone, a value matches that comes earlier.
        bound = rule.key(value, schema)
        return _comparable(rule, schema, lambda key: key < bound)
    pieces = prepared_pieces(rule, *matching.substring_assertion(value))
    return _comparable(rule, schema, pieces.are_in)
